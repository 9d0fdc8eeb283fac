"""Sizes of the values of arrays, from a few of their offsets.

Sizes are in bits, so that their sums do not depend on where arrays begin. `pyarrow.Array.nbytes` returns
nearly the same, but takes many microseconds to find overlapping buffers, for every batch of a stream.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Counts = npt.NDArray[np.int64]


def value_bits(data_type: pa.DataType) -> int | None:
    """Return the size of each value in bits, without its validity; None if values differ in size."""
    if isinstance(data_type, pa.BaseExtensionType):
        return value_bits(data_type.storage_type)
    if pa.types.is_null(data_type):
        return 0
    if pa.types.is_fixed_size_list(data_type):
        item = value_bits(data_type.value_type)
        return None if item is None else (item + 1) * data_type.list_size
    if pa.types.is_struct(data_type):
        bits = [value_bits(field.type) for field in data_type]
        return None if None in bits else sum(width + 1 for width in bits if width is not None)
    if pa.types.is_dictionary(data_type):
        return None
    try:
        return int(data_type.bit_width)
    except ValueError:
        return None


def bits_before(array: pa.Array, rows: Counts) -> Counts:
    """Return the size in bits of the values before each of `rows`, plus an unknown constant: use differences.

    Validity counts one bit per value, with or without a bitmap. The values of a dictionary do not count.
    """
    bits = value_bits(array.type)
    if bits is not None:
        return rows * (bits + 1)
    if isinstance(array, pa.ExtensionArray):
        return bits_before(array.storage, rows)
    if isinstance(array, pa.DictionaryArray):
        return bits_before(array.indices, rows)
    if isinstance(array, pa.StructArray):
        return sum((bits_before(child, rows) for child in _children(array)), rows)
    if isinstance(array, pa.FixedSizeListArray):
        return bits_before(array.values, (rows + array.offset) * array.type.list_size)
    width = _offset_width(array)
    if len(array) == 0:
        return np.zeros_like(rows)
    offsets = np.frombuffer(array.buffers()[1], f"<i{width}", len(array) + 1, array.offset * width)
    below = offsets[rows].astype(np.int64)
    if isinstance(array, pa.MapArray):
        bits_below = bits_before(array.keys, below) + bits_before(array.items, below)
    elif isinstance(array, (pa.ListArray, pa.LargeListArray)):
        bits_below = bits_before(array.values, below)
    else:
        bits_below = 8 * below
    return bits_below + 8 * width * rows


def _children(array: pa.StructArray) -> list[pa.Array]:
    return [array.field(position) for position in range(array.type.num_fields)]


def _offset_width(array: pa.Array) -> int:
    return 8 if isinstance(array, (pa.LargeStringArray, pa.LargeBinaryArray, pa.LargeListArray)) else 4
