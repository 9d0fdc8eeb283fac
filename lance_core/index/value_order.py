"""The order of values in indices, as sort keys that are compared as numbers or as bytes.

Floats have the total order of IEEE 754: -NaN, -infinity, ..., -0.0, 0.0, ..., infinity, NaN. Texts are
compared by their bytes in UTF-8.

Source: docs/format.md, "Index files".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_core import kernels
from lance_core.encodings.values import as_buffer, fixed_bits, offset_bits

Rows = npt.NDArray[np.uint64]
"""Row keys."""
Chunk = tuple[pa.Array, Rows]
"""Sort keys, and the keys of their rows."""

_SIGN = np.uint64(1 << 63)


class ValueOrder(Protocol):
    """Order of the values of one type. Sort keys are Arrow arrays without nulls."""

    def encode(self, values: pa.Array) -> pa.Array:
        """Return the sort keys of values, none of which is null."""

    def decode(self, keys: pa.Array) -> pa.Array:
        """Return the values of sort keys."""

    def sort(self, chunks: Sequence[Chunk]) -> Chunk:
        """Return all sort keys in order, with their rows. Rows with equal values keep their order."""

    def num_at_most(self, keys: pa.Array, bound: Any) -> int:
        """Return how many of the sort keys, which are in order, are at most `bound`, a key of `last`."""

    def last(self, keys: pa.Array) -> Any:
        """Return the last key, for `num_at_most`. Keys of this form are compared with `<`."""

    def starts(self, keys: pa.Array) -> npt.NDArray[np.int64]:
        """Return the position of the first key of each value, of one or more keys in order."""


def value_order(value_type: pa.DataType) -> ValueOrder:
    """Return the order of a type.

    Raises:
        TypeError: Values of this type have no order in indices: nested types and dictionaries.
    """
    is_plain = offset_bits(value_type) or pa.types.is_fixed_size_binary(value_type)
    if pa.types.is_nested(value_type) or pa.types.is_dictionary(value_type):
        raise TypeError("values of this type have no order")
    if is_plain or pa.types.is_decimal(value_type):
        return _Strings(value_type)
    if not fixed_bits(value_type):
        raise TypeError("values of this type have no order")
    return _Numbers(value_type)


class _Numbers:
    """Booleans, integers, floats and times: keys are 64-bit numbers without sign."""

    def __init__(self, value_type: pa.DataType) -> None:
        self._type = value_type
        self._bits = fixed_bits(value_type)
        self._is_float = pa.types.is_floating(value_type)
        self._is_unsigned = pa.types.is_unsigned_integer(value_type) or pa.types.is_boolean(value_type)

    def encode(self, values: pa.Array) -> pa.Array:
        return pa.array(self._encoded(values))

    def _encoded(self, values: pa.Array) -> Rows:
        if pa.types.is_boolean(self._type):
            return np.asarray(values.cast(pa.uint8())).astype(np.uint64)
        bits = self._bits
        words = np.frombuffer(values.buffers()[1], f"<i{bits // 8}", len(values), values.offset * bits // 8)
        if self._is_float:  # the other bits of negative numbers sort the other way round
            words = words ^ ((words >> (bits - 1)) & ((1 << (bits - 1)) - 1))
        if self._is_unsigned:
            return words.view(f"<u{bits // 8}").astype(np.uint64)
        return words.astype(np.int64).view(np.uint64) ^ _SIGN

    def decode(self, keys: pa.Array) -> pa.Array:
        encoded = np.asarray(keys)
        if pa.types.is_boolean(self._type):
            return pa.array(encoded.astype(np.uint8)).cast(pa.bool_())
        bits = self._bits
        if self._is_unsigned:
            words = encoded.astype(f"<u{bits // 8}")
        else:
            words = (encoded ^ _SIGN).view(np.int64).astype(f"<i{bits // 8}")
        if self._is_float:
            words = words ^ ((words >> (bits - 1)) & ((1 << (bits - 1)) - 1))
        return pa.Array.from_buffers(self._type, len(words), [None, pa.py_buffer(words)], 0)

    def sort(self, chunks: Sequence[Chunk]) -> Chunk:
        values = [np.ascontiguousarray(keys).data for keys, _ in chunks]
        found = as_buffer(kernels.sort_rows(values, [np.ascontiguousarray(rows).data for _, rows in chunks]))
        count = found.size // 16
        return (
            pa.Array.from_buffers(pa.uint64(), count, [None, found.slice(0, 8 * count)], 0),
            np.frombuffer(found, np.uint64, count, 8 * count),
        )

    def num_at_most(self, keys: pa.Array, bound: Any) -> int:
        return int(np.searchsorted(np.asarray(keys), np.uint64(bound), side="right"))

    def last(self, keys: pa.Array) -> Any:
        return int(np.asarray(keys)[-1])

    def starts(self, keys: pa.Array) -> npt.NDArray[np.int64]:
        numbers = np.asarray(keys)
        return np.concatenate(([0], np.flatnonzero(numbers[1:] != numbers[:-1]) + 1))


class _Strings:
    """Texts, bytes and decimals: keys are bytes."""

    def __init__(self, value_type: pa.DataType) -> None:
        self._type = value_type
        self._width = 0 if offset_bits(value_type) else fixed_bits(value_type) // 8
        self._is_decimal = pa.types.is_decimal(value_type)
        is_large = offset_bits(value_type) == 64
        self._key_type = pa.large_binary() if is_large else pa.binary()

    def encode(self, values: pa.Array) -> pa.Array:
        if not self._width:
            return values.view(self._key_type)
        start, width = values.offset, self._width
        data = np.frombuffer(values.buffers()[1], np.uint8, len(values) * width, start * width)
        if self._is_decimal:  # the highest byte first, and negative numbers before positive ones
            data = data.reshape(-1, width)[:, ::-1].copy()
            data[:, 0] ^= 0x80
        return self._fixed_keys(data.ravel(), len(values))

    def _fixed_keys(self, data: npt.NDArray[np.uint8], count: int) -> pa.Array:
        ends = np.arange(0, (count + 1) * self._width, self._width or 1, dtype=np.int32)
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(data)]
        return pa.Array.from_buffers(self._key_type, count, buffers, 0)

    def decode(self, keys: pa.Array) -> pa.Array:
        if not self._width:
            return keys.view(self._type)
        start, width = keys.offset, self._width
        data = np.frombuffer(keys.buffers()[2] or b"", np.uint8)
        first = int(np.frombuffer(keys.buffers()[1], np.int32)[start]) if len(keys) else 0
        data = data[first : first + len(keys) * width]
        if self._is_decimal:
            data = data.reshape(-1, width).copy()
            data[:, 0] ^= 0x80
            data = data[:, ::-1].ravel()
        return pa.Array.from_buffers(
            self._type, len(keys), [None, pa.py_buffer(np.ascontiguousarray(data))], 0
        )

    def sort(self, chunks: Sequence[Chunk]) -> Chunk:
        keys = pa.concat_arrays([keys for keys, _ in chunks])
        rows = np.concatenate([rows for _, rows in chunks])
        bits = offset_bits(keys.type)
        offsets = keys.buffers()[1].slice(keys.offset * bits // 8)
        *found, found_rows = map(
            as_buffer, kernels.sort_variable(offsets, keys.buffers()[2] or b"", rows.data, len(keys), bits)
        )
        in_order = pa.Array.from_buffers(keys.type, len(keys), [None, *found], 0)
        return in_order, np.frombuffer(found_rows, np.uint64)

    def num_at_most(self, keys: pa.Array, bound: Any) -> int:
        low, high = 0, len(keys)
        while low < high:
            middle = (low + high) // 2
            if keys[middle].as_py() <= bound:
                low = middle + 1
            else:
                high = middle
        return low

    def last(self, keys: pa.Array) -> Any:
        return keys[len(keys) - 1].as_py()

    def starts(self, keys: pa.Array) -> npt.NDArray[np.int64]:
        changes = pc.not_equal(keys.slice(1), keys.slice(0, len(keys) - 1))
        return np.concatenate(([0], np.flatnonzero(np.asarray(changes)) + 1))
