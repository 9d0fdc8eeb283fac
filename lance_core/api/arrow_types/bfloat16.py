"""Arrays of bfloat16: floats of 16 bits with the exponents of float32, in Arrow, NumPy and pandas.

A value is the upper half of the float32. Arrow stores it as two bytes, little-endian, under the extension
name `lance.bfloat16`. Arrays of NumPy need the package `ml_dtypes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pandas.api.extensions import ExtensionArray, ExtensionDtype, register_extension_dtype, take
from pandas.api.indexers import check_array_indexer

from lance_core.api.arrow_types.bfloat16_values import BFloat16, round_to_bfloat16, widen
from lance_core.errors import InvalidInputError
from lance_core.schema.logical_types import BFLOAT16

__all__ = [
    "BFloat16Array",
    "BFloat16Scalar",
    "BFloat16Type",
    "PandasBFloat16Array",
    "PandasBFloat16Type",
    "bfloat16_array",
]

_SHOWN_VALUES = 10
"""Values that the text of a long array shows at each end."""


class BFloat16Type(pa.ExtensionType):  # type: ignore[misc]
    """Extension type of a column of bfloat16."""

    def __init__(self) -> None:
        super().__init__(pa.binary(2), BFLOAT16)

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> BFloat16Type:
        if storage_type != pa.binary(2):
            raise pa.ArrowInvalid(f"{BFLOAT16} is stored as fixed_size_binary[2], not as {storage_type}")
        return cls()

    def __arrow_ext_class__(self) -> type[BFloat16Array]:
        return BFloat16Array

    def __arrow_ext_scalar_class__(self) -> type[BFloat16Scalar]:
        return BFloat16Scalar

    def to_pandas_dtype(self) -> Any:
        """Return the type of columns in pandas."""
        return PandasBFloat16Type()


class BFloat16Scalar(pa.ExtensionScalar):  # type: ignore[misc]
    """A value of a `BFloat16Array`."""

    def as_py(self, **arguments: Any) -> BFloat16 | None:
        """Return the value, None for a null."""
        return None if self.value is None else BFloat16.from_bytes(self.value.as_py(**arguments))

    def __eq__(self, other: object) -> bool:
        value = self.as_py()
        if isinstance(other, BFloat16Scalar):
            return value == other.as_py()
        if isinstance(other, np.generic):  # of NumPy itself or of ml_dtypes
            return value is not None and bool(value.as_float() == other)
        return value is not None and value == other

    def __hash__(self) -> int:
        return hash(self.as_py())


class BFloat16Array(pa.ExtensionArray):  # type: ignore[misc]
    """Array of bfloat16."""

    def __repr__(self) -> str:
        return f"<lance.arrow.BFloat16Array object at 0x{id(self):016x}>\n{self}"

    def __str__(self) -> str:
        if len(self) < 2 * _SHOWN_VALUES + 2:
            return f"[\n{_lines(self)}\n]"
        return f"[\n{_lines(self[:_SHOWN_VALUES])},\n...\n{_lines(self[-_SHOWN_VALUES:])}\n]"

    def to_numpy(self, zero_copy_only: bool = False) -> npt.NDArray[Any]:
        """Return the values as an array of `ml_dtypes.bfloat16`, without a copy.

        Raises:
            InvalidInputError: There are nulls.
            ModuleNotFoundError: `ml_dtypes` is not installed.
        """
        from ml_dtypes import bfloat16  # late: no requirement

        if self.null_count:
            raise InvalidInputError("NumPy has no nulls for bfloat16", found=f"{self.null_count} nulls")
        return words_of(self).view(bfloat16)

    @classmethod
    def from_numpy(cls, array: npt.NDArray[Any]) -> BFloat16Array:
        """Return a copy of an array of `ml_dtypes.bfloat16` with one dimension.

        Raises:
            InvalidInputError: The array has another type, or more dimensions.
        """
        if array.dtype.name != "bfloat16":
            raise InvalidInputError("array", expected="type bfloat16", found=array.dtype)
        if array.ndim != 1:
            raise InvalidInputError("array", expected="one dimension", found=array.ndim)
        return array_of(array.view(np.uint16))


def bfloat16_array(values: Sequence[float | BFloat16 | None]) -> BFloat16Array:
    """Return an array of numbers, each rounded to the nearest bfloat16. None is a null.

    Raises:
        TypeError: A value is no number.
    """
    if not isinstance(values, np.ndarray):  # Arrow does not know the class BFloat16
        values = [value.as_float() if isinstance(value, BFloat16) else value for value in values]
    try:
        floats = pa.array(values, pa.float64())
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise TypeError(f"bfloat16_array takes numbers and None: {error}") from None
    return from_floats(floats)


def is_bfloat16(arrow_type: object) -> bool:
    """Return whether a type is bfloat16, whichever library defines the class of the type."""
    return isinstance(arrow_type, pa.BaseExtensionType) and arrow_type.extension_name == BFLOAT16


def from_floats(floats: pa.Array) -> BFloat16Array:
    """Return an array of floats of any width as bfloat16."""
    words = round_to_bfloat16(floats.fill_null(0).to_numpy(zero_copy_only=False))
    return array_of(words, floats.is_null() if floats.null_count else None)


def to_floats(array: pa.Array, float_type: pa.DataType) -> pa.Array:
    """Return an array of bfloat16 as floats. What is too large for float16 becomes infinite."""
    with np.errstate(over="ignore"):
        floats = widen(words_of(array)).astype(float_type.to_pandas_dtype())
    nulls = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    return pa.array(floats, float_type, mask=nulls)


def words_of(array: pa.Array) -> npt.NDArray[np.uint16]:
    """Return the 16 bits of each value; those of nulls are undefined."""
    return np.frombuffer(array.storage.buffers()[1], "<u2", len(array), 2 * array.storage.offset)


def array_of(words: npt.NDArray[np.uint16], nulls: pa.Array | None = None) -> BFloat16Array:
    """Return the array with these 16 bits per value."""
    valid = None if nulls is None else pc.invert(nulls).buffers()[1]
    storage = pa.Array.from_buffers(pa.binary(2), len(words), [valid, pa.py_buffer(words.tobytes())])
    return cast(BFloat16Array, pa.ExtensionArray.from_storage(BFloat16Type(), storage))


def _lines(values: BFloat16Array) -> str:
    return ",\n".join(f"  {value}" for value in values.to_pylist())


@register_extension_dtype
class PandasBFloat16Type(ExtensionDtype):  # type: ignore[misc]
    """Type of a column of bfloat16 in pandas, also by the name `lance.bfloat16`."""

    name = BFLOAT16
    type = BFloat16
    kind = "f"
    na_value = None
    _is_numeric = True

    @classmethod
    def construct_array_type(cls) -> Any:
        """Return the class of columns."""
        return PandasBFloat16Array

    def __from_arrow__(self, array: pa.Array | pa.ChunkedArray) -> PandasBFloat16Array:
        return PandasBFloat16Array(array)


class PandasBFloat16Array(ExtensionArray):  # type: ignore[misc]
    """Column of bfloat16 in pandas over an Arrow array. Values are `BFloat16`, or None for nulls."""

    def __init__(self, data: pa.Array | pa.ChunkedArray) -> None:
        """Wrap an Arrow array of bfloat16."""
        self.data = data.combine_chunks() if isinstance(data, pa.ChunkedArray) else data

    @classmethod
    def from_numpy(cls, array: npt.NDArray[Any]) -> PandasBFloat16Array:
        """Return a column with the values of an array of `ml_dtypes.bfloat16`."""
        return cls(BFloat16Array.from_numpy(array))

    @classmethod
    def _from_sequence(
        cls, scalars: Sequence[Any], *, dtype: Any = None, copy: bool = False
    ) -> PandasBFloat16Array:
        return cls(scalars.data if isinstance(scalars, PandasBFloat16Array) else bfloat16_array(scalars))

    @classmethod
    def _concat_same_type(cls, to_concat: Sequence[PandasBFloat16Array]) -> PandasBFloat16Array:
        return cls(pa.chunked_array([part.data for part in to_concat]))

    @property
    def dtype(self) -> PandasBFloat16Type:
        """The type of the column."""
        return PandasBFloat16Type()

    @property
    def nbytes(self) -> int:
        """Bytes of the values."""
        return int(self.data.nbytes)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, item: Any) -> Any:
        item = check_array_indexer(self, item)
        if isinstance(item, int | np.integer):
            return self.data[int(item)].as_py()
        if isinstance(item, slice):
            return PandasBFloat16Array(self.data[item])
        return self.take(np.flatnonzero(item) if item.dtype == bool else item)

    def __eq__(self, other: object) -> Any:
        if isinstance(other, pd.Series | pd.DataFrame | pd.Index):
            return NotImplemented
        return self.to_numpy(dtype=object) == (
            other.to_numpy(dtype=object) if isinstance(other, PandasBFloat16Array) else other
        )

    def isna(self) -> npt.NDArray[np.bool_]:
        """Return which values are null."""
        found: npt.NDArray[np.bool_] = self.data.is_null().to_numpy(zero_copy_only=False)
        return found

    def take(
        self,
        indices: Sequence[int] | npt.NDArray[np.integer[Any]],
        *,
        allow_fill: bool = False,
        fill_value: Any = None,
    ) -> PandasBFloat16Array:
        """Return the values at `indices`; with `allow_fill`, -1 is a null or `fill_value`.

        Raises:
            IndexError: An index is out of range.
        """
        words = take(words_of(self.data), indices, allow_fill=allow_fill, fill_value=0)
        nulls = take(self.isna(), indices, allow_fill=allow_fill, fill_value=True)
        if allow_fill and fill_value is not None and not pd.isna(fill_value):
            filled = np.asarray(indices) == -1
            words, nulls = words.copy(), nulls & ~filled
            words[filled] = words_of(bfloat16_array([fill_value]))[0]
        return PandasBFloat16Array(array_of(words.astype(np.uint16), pa.array(nulls.astype(bool))))

    def copy(self) -> PandasBFloat16Array:
        """Return the column itself over the same values, which never change."""
        return PandasBFloat16Array(self.data)

    def to_numpy(self, dtype: Any = None, copy: bool = False, na_value: Any = None) -> npt.NDArray[Any]:
        """Return the values as `ml_dtypes.bfloat16`, as another type of floats, or as objects.

        Raises:
            InvalidInputError: There are nulls, and no `dtype`.
        """
        if dtype is None:
            return self.data.to_numpy()  # type: ignore[no-any-return]
        if np.dtype(dtype) != object:
            return to_floats(self.data, pa.float32()).to_numpy(zero_copy_only=False).astype(dtype)  # type: ignore[no-any-return]
        found = np.empty(len(self), dtype=object)
        found[:] = self.data.to_pylist()
        if na_value is not None:
            found[self.isna()] = na_value
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return self.to_numpy(dtype=object if dtype is None else dtype)

    def __arrow_array__(self, type: pa.DataType | None = None) -> pa.Array:
        return self.data

    def _values_for_argsort(self) -> npt.NDArray[np.float32]:
        return self.to_numpy(dtype=np.float32)
