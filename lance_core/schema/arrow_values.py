"""Arrow values without pandas: arrays over numbers of NumPy, numbers of arrays, and constants.

`pyarrow.array`, `pyarrow.scalar`, `to_numpy` and compute functions with Python values ask whether they were
given objects of pandas. For that they import pandas if it is installed, which takes longer than a first read.
So what reads, writes and commits uses these functions.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as types

_PLAIN: dict[type, tuple[pa.DataType, ...]] = {
    bool: (pa.bool_(),),
    int: tuple(pa.from_numpy_dtype(kind) for kind in ["i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1"]),
    float: (pa.float64(), pa.float32(), pa.float16()),
    str: (pa.string(), pa.large_string()),
    bytes: (pa.binary(), pa.large_binary()),
}
"""Types of constants that are made without pandas. The first is that of a value without a type."""


def array_of(numbers: npt.NDArray[Any], valid: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Return an array of numbers or booleans, which shares the memory of numbers.

    Args:
        numbers: the values, in one dimension.
        valid: False where a value is null; None if there are no nulls.
    """
    validity = None if valid is None else _bits(valid)
    data = _bits(numbers) if numbers.dtype == np.bool_ else pa.py_buffer(np.ascontiguousarray(numbers))
    return pa.Array.from_buffers(pa.from_numpy_dtype(numbers.dtype), len(numbers), [validity, data])


def numbers_of(array: pa.Array | pa.ChunkedArray) -> npt.NDArray[Any]:
    """Return the numbers or booleans of an array, read-only where they share its memory.

    Raises:
        pa.ArrowInvalid: a value is null.
    """
    if array.null_count:
        raise pa.ArrowInvalid(f"{array.null_count} of {len(array)} numbers are null")
    if isinstance(array, pa.ChunkedArray):
        return np.concatenate([numbers_of(chunk) for chunk in array.chunks or [pa.nulls(0, array.type)]])
    if not types.is_boolean(array.type):
        return np.from_dlpack(array)
    if not len(array):
        return np.zeros(0, np.bool_)
    skipped, first = divmod(array.offset, 8)
    data = np.frombuffer(array.buffers()[1], np.uint8, offset=skipped)
    return np.unpackbits(data, count=first + len(array), bitorder="little")[first:].view(np.bool_)


def bytes_of(array: pa.Array) -> pa.Buffer:
    """Return the bytes of values of a fixed width; a null has some, too."""
    width = array.type.bit_width // 8
    data = array.buffers()[1] or pa.py_buffer(b"")
    return data.slice(array.offset * width, len(array) * width)


_HAVE_LARGE_OFFSETS = (types.is_large_string, types.is_large_binary, types.is_large_list)


def offsets_of(array: pa.Array) -> npt.NDArray[np.integer]:
    """Return the offsets of the values of a type of texts, bytes or lists with offsets."""
    is_large = any(is_kind(array.type) for is_kind in _HAVE_LARGE_OFFSETS)
    offsets = array.buffers()[1]
    if offsets is None or not len(array):
        return np.zeros(len(array) + 1, np.int32)
    found: npt.NDArray[np.integer] = np.frombuffer(offsets, np.int64 if is_large else np.int32)
    return found[array.offset : array.offset + len(array) + 1]


def validity_of(array: pa.Array) -> pa.Buffer | None:
    """Return the bits of the values that are not null, without an offset; None if none is null."""
    return array.is_valid().buffers()[1] if array.null_count else None


def from_zero(text: pa.Array) -> pa.Array:
    """Return texts whose offsets start at 0.

    Arrow's kernels for ASCII write the bytes of the result from 0 on, but may keep the offsets.
    """
    offsets = offsets_of(text)
    if not offsets[0]:
        return text
    validity = validity_of(text)
    data = text.buffers()[2].slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    return pa.Array.from_buffers(text.type, len(text), [validity, pa.py_buffer(offsets - offsets[0]), data])


def scalar_of(value: object, data_type: pa.DataType | None = None) -> pa.Scalar:
    """Return what `pyarrow.scalar` returns. Booleans, numbers and texts of the usual types need no pandas."""
    if value is None and data_type is not None:
        return pa.nulls(1, data_type)[0]
    plain = _PLAIN.get(type(value), ())
    kind = plain[0] if plain and data_type is None else data_type
    if kind is not None and kind in plain:
        if isinstance(value, str | bytes):
            return array_of_texts([value], kind)[0]
        with suppress(OverflowError):
            if type(value) is int:
                return stored_integer(value, kind)
            with np.errstate(over="ignore"):
                return array_of(np.array([value], kind.to_pandas_dtype()))[0]
    return pa.scalar(value, data_type)


def stored_integer(number: int, data_type: pa.DataType) -> pa.Scalar:
    """Return the value of a type of fixed width that Arrow stores as an integer.

    Raises:
        OverflowError: the type has no such value.
    """
    is_signed = not types.is_unsigned_integer(data_type)
    data = number.to_bytes(data_type.bit_width // 8, sys.byteorder, signed=is_signed)
    return pa.Array.from_buffers(data_type, 1, [None, pa.py_buffer(data)])[0]


def array_of_texts(texts: Sequence[str | bytes], data_type: pa.DataType) -> pa.Array:
    """Return an array of a type of texts or bytes with offsets; none of the values is None."""
    data = [text.encode() if isinstance(text, str) else text for text in texts]
    is_large = types.is_large_string(data_type) or types.is_large_binary(data_type)
    ends = np.fromiter(accumulate(map(len, data), initial=0), np.int64 if is_large else np.int32)
    return pa.Array.from_buffers(
        data_type, len(data), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(data))]
    )


def array_of_scalars(scalars: Sequence[pa.Scalar], data_type: pa.DataType) -> pa.Array:
    """Return an array of scalars of `data_type`, none of which is null. Numbers and texts need no pandas."""
    if types.is_integer(data_type) or types.is_floating(data_type):
        return array_of(np.array([scalar.as_py() for scalar in scalars], data_type.to_pandas_dtype()))
    if data_type in _PLAIN[str]:
        return array_of_texts([scalar.as_py() for scalar in scalars], data_type)
    return pa.array(scalars, data_type)


def _bits(flags: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))
