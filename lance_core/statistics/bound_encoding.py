"""Encoding of bounds of any type as bytes, so that one table can hold bounds of all types.

A bound is stored as the bytes of its value in an Arrow buffer: little-endian integers and floats of their
width, a byte 0 or 1 for a boolean, the text of a string.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core import kernels
from lance_core.encodings.values import as_buffer, fixed_bits, offset_bits
from lance_core.schema.arrow_values import validity_of


def encode_bounds(bounds: pa.Array) -> pa.Array:
    """Return the bounds as binary values."""
    kind, count = bounds.type, len(bounds)
    if pa.types.is_null(kind) or offset_bits(kind):
        return bounds.cast(pa.binary())
    if pa.types.is_boolean(kind):
        bounds, width = bounds.cast(pa.uint8()), 1
    else:
        width = fixed_bits(kind) // 8
    offsets = np.arange(count + 1, dtype=np.int32) * width
    data = bounds.buffers()[1].slice(bounds.offset * width)
    every = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), data])
    return pc.if_else(bounds.is_valid(), every, pa.scalar(None, pa.binary()))


def encode_bound(bound: pa.Array) -> bytes | None:
    """Return the only bound of an array, encoded as by `encode_bounds`; faster for the single page of many
    columns.
    """
    if bound.null_count:
        return None
    if offset_bits(bound.type):
        return bytes(bound[0].as_buffer())
    if pa.types.is_boolean(bound.type):
        return bytes([bound[0].as_py()])
    width = fixed_bits(bound.type) // 8
    return bytes(memoryview(bound.buffers()[1])[bound.offset * width : (bound.offset + 1) * width])


def decode_bounds(stored: pa.Array, value_type: pa.DataType) -> pa.Array | None:
    """Decode stored bounds, one per page, to an array of type `value_type`. Nulls stay nulls.

    Returns None if any bound is no value of this type: the caller then has no bounds at all.
    """
    if stored.null_count == len(stored):
        return pa.nulls(len(stored), value_type)
    if offset_bits(value_type):
        try:
            return stored.cast(value_type)
        except pa.ArrowInvalid:  # the bytes are not UTF-8
            return None
    bits = fixed_bits(value_type)
    width = max(bits // 8, 1)
    dense = pc.fill_null(stored, bytes(width)) if stored.null_count else stored
    if not bits or pc.min_max(pc.binary_length(dense)).as_py() != {"min": width, "max": width}:
        return None
    _, offsets, data = dense.buffers()
    first = int(np.frombuffer(offsets, np.int32)[dense.offset])
    data = data.slice(first, width * len(dense))
    if pa.types.is_boolean(value_type):
        data = as_buffer(kernels.bytes_to_bits(data))
    validity = validity_of(stored)
    return pa.Array.from_buffers(value_type, len(dense), [validity, data])
