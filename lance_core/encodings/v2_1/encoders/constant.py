"""Encoder of the constant layout: pages without valid values, and in 2.2 pages of one value.

Source: docs/format.md, "Constant pages".
"""

import struct

import pyarrow as pa
import pyarrow.compute as pc

from lance_core import kernels
from lance_core.encodings.v2_1.encoders.encoded_page import EncodedPage
from lance_core.encodings.v2_1.encoders.field_options import EncodingOptions
from lance_core.encodings.v2_1.encoders.page_levels import Levels, Structure
from lance_core.encodings.values import fixed_bits, is_empty_binary, offset_bits
from lance_core.proto import encodings_v2_1_pb2 as proto
from lance_core.storage.base import Bytes

_MAX_INLINE_BYTES = 32
_MOST_PLAIN_LEVELS = 4096
"""Largest number of levels that are stored plainly beside a value. With more levels, another layout may be
smaller.
"""

_FIRST = 1024
"""Number of values that are compared first. If they differ, the other values are not compared."""

_FEW = 100
"""In a page with few valid values, at most one of this many values is valid."""


def null_page(structure: Structure, is_2_2: bool) -> EncodedPage:
    """Encode a page in which no value is valid, or which has no values."""
    layout = proto.ConstantLayout(layers=structure.layers)
    buffers: list[Bytes] = []
    if not (structure.is_flat and structure.num_values == structure.num_entries):
        buffers = [
            _levels(structure.rep, layout, "rep", is_2_2),
            _levels(structure.def_, layout, "def", is_2_2),
        ]
    elif structure.is_flat:
        layout = proto.ConstantLayout(layers=[proto.REPDEF_NULLABLE_ITEM])
    return _page(layout, structure, buffers)


def constant_page(structure: Structure, values: pa.Array, options: EncodingOptions) -> EncodedPage | None:
    """Encode a page whose valid values are all equal; return None if they differ or another layout is
    smaller.
    """
    arrow_type = values.type
    if pa.types.is_dictionary(arrow_type):
        return None
    is_empty = is_empty_binary(arrow_type)  # no other layout holds such values
    if not (fixed_bits(arrow_type) or offset_bits(arrow_type) or is_empty):
        return None
    has_levels = structure.rep is not None or structure.def_ is not None
    if not is_empty and (_is_smaller_elsewhere(structure, values, options) or not _all_equal(values)):
        return None
    value = values.drop_null().slice(0, 1) if values.null_count else values.slice(0, 1)
    value = pa.concat_arrays([value])  # copied, so that the buffers hold only this value
    layout = proto.ConstantLayout(layers=structure.layers)
    buffers: list[Bytes] = []
    if pa.types.is_boolean(arrow_type):
        layout.inline_value = bytes([value[0].as_py()])
    elif is_empty:
        layout.inline_value = b""
    elif 0 < fixed_bits(arrow_type) <= 8 * _MAX_INLINE_BYTES:
        layout.inline_value = bytes(value.buffers()[1][: fixed_bits(arrow_type) // 8])
    else:
        buffers.append(_scalar(value))
    if has_levels:
        buffers += [levels.data if levels else b"" for levels in (structure.rep, structure.def_)]
    return _page(layout, structure, buffers)


def _is_smaller_elsewhere(structure: Structure, values: pa.Array, options: EncodingOptions) -> bool:
    """Return whether another layout is expected to be smaller than the plain levels of this layout."""
    num_kinds = (structure.rep is not None) + (structure.def_ is not None)
    if structure.num_entries <= _MOST_PLAIN_LEVELS or not num_kinds:
        return False
    bits = fixed_bits(values.type)
    plain = EncodingOptions()
    if bits in (8, 16, 32, 64):  # bit packing and runs
        shrinks = options.compression not in ("none", "fsst") and options.run_threshold >= plain.run_threshold
    else:  # text and 128 bits get a dictionary, except if few values are valid
        shrinks = bits in (0, 128) and structure.num_valid * _FEW > len(values)
        shrinks &= options.dictionary_divisor <= plain.dictionary_divisor
        shrinks &= options.dictionary_ratio >= plain.dictionary_ratio
    if bits == 0:
        bits = offset_bits(values.type)
    return shrinks or 2 * num_kinds * structure.num_entries > len(values) * bits // 8


def _all_equal(values: pa.Array) -> bool:
    """Return whether all valid values are equal. Floats are compared by their bits."""
    if pa.types.is_floating(values.type) or pa.types.is_decimal(values.type):
        bits = fixed_bits(values.type)
        values = values.view(pa.binary(bits // 8))
    if not values.null_count:  # compare each value with the next one
        return bool(values.slice(1).equals(values.slice(0, len(values) - 1)))
    if len(values) > _FIRST and _num_distinct(values.slice(0, _FIRST)) > 1:
        return False
    return _num_distinct(values) == 1


def _num_distinct(values: pa.Array) -> int:
    """Return the number of distinct valid values."""
    return int(pc.count_distinct(values, mode="only_valid").as_py())


def _scalar(value: pa.Array) -> bytes:
    """Return the buffers of an array of one value, after their number and lengths."""
    bits = fixed_bits(value.type)
    if bits:
        parts = [bytes(value.buffers()[1][: bits // 8])]
    else:
        width = offset_bits(value.type) // 8
        data = bytes(value.buffers()[2] or b"")
        parts = [struct.pack("<II" if width == 4 else "<QQ", 0, len(data)), data]
    return struct.pack(f"<{len(parts) + 1}I", len(parts), *map(len, parts)) + b"".join(parts)


def _levels(levels: Levels | None, layout: proto.ConstantLayout, kind: str, is_2_2: bool) -> Bytes:
    """Return the buffer of levels: plain in 2.1, in the smallest coding in 2.2."""
    if levels is None:
        return b""
    if not is_2_2:
        return levels.data
    coding, encoding = levels.coding(is_2_2, 1)
    getattr(layout, f"{kind}_compression").CopyFrom(encoding)
    setattr(layout, f"num_{kind}_values", memoryview(levels.data).nbytes // 2)
    return memoryview(kernels.encode_levels(levels.data, coding))


def _page(layout: proto.ConstantLayout, structure: Structure, buffers: list[Bytes]) -> EncodedPage:
    return EncodedPage(
        proto.PageLayout(constant_layout=layout), buffers, structure.page_length, structure.num_rows
    )
