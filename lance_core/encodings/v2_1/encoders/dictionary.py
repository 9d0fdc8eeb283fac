"""Encoder of dictionary pages: distinct values stored once, and an index for each value.

Source: docs/format.md, "Dictionary pages".
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core import kernels
from lance_core.encodings.v2_1.bitpacking import out_of_line_bitpacking_message
from lance_core.encodings.v2_1.encoders.encoded_page import EncodedPage, LeafColumn
from lance_core.encodings.v2_1.encoders.field_options import EncodingOptions
from lance_core.encodings.v2_1.encoders.fixed_width import encode_words
from lance_core.encodings.v2_1.encoders.general import compress_block
from lance_core.encodings.v2_1.encoders.miniblock import mini_block_page
from lance_core.encodings.v2_1.encoders.page_levels import Structure
from lance_core.encodings.v2_1.encoders.variable_width import text_of
from lance_core.encodings.v2_1.flat import flat_message
from lance_core.encodings.v2_1.general import general_message
from lance_core.encodings.v2_1.variable import variable_message
from lance_core.encodings.values import as_buffer, fixed_bits, offset_bits
from lance_core.proto import encodings_v2_1_pb2 as proto
from lance_core.schema.arrow_values import array_of
from lance_core.storage.base import Bytes

_LEAST_VALUES = 100
_MOST_ITEMS = 100_000
_SAMPLE = 4096
_MOST_UNIQUE = 0.98
"""Largest share of distinct values in a sample. Above it, no dictionary is tried."""


def dictionary_page(structure: Structure, values: pa.Array, column: LeafColumn) -> EncodedPage | None:
    """Encode a page of a plain column as dictionary and indices; return None if it would not be smaller."""
    raw_bytes = _raw_bytes(values, column.is_2_2)
    if raw_bytes is None or not _promising(values, raw_bytes, column):
        return None
    found = _find_distinct(values, min(len(values) // column.options.dictionary_divisor, _MOST_ITEMS))
    if found is None:
        return None
    indices, items = found
    index_bytes = len(values) * max(len(items) - 1, 1).bit_length() / 8
    if index_bytes + items.nbytes > column.options.dictionary_ratio * raw_bytes:
        return None
    return replace(_page(structure, indices, items, column), items=items)


def encoded_column_page(structure: Structure, values: pa.DictionaryArray, column: LeafColumn) -> EncodedPage:
    """Encode a page of a dictionary column. Its nulls are already in the levels."""
    items = values.dictionary
    if len(items) > len(values):
        # The array is a slice of a larger array: keep only the items that it uses.
        used = pc.unique(values.indices.drop_null())
        values = pa.DictionaryArray.from_arrays(
            pc.index_in(values.indices, used).cast(values.type.index_type), items.take(used)
        )
        items = values.dictionary
    return _page(structure, values.indices, items, column)


def without_null_items(values: pa.DictionaryArray) -> pa.DictionaryArray:
    """Return a dictionary array without null items: the indices of its nulls are null."""
    items = values.dictionary
    if not items.null_count:
        return values
    valid = pc.is_valid(items)
    number = pc.subtract(pc.cumulative_sum(valid.cast(pa.int64())), 1)
    renumbered = pc.if_else(valid, number, None).take(values.indices)
    indices = renumbered.cast(values.type.index_type)
    return pa.DictionaryArray.from_arrays(indices, items.filter(valid))


def _find_distinct(values: pa.Array, most: int) -> tuple[pa.Array, pa.Array] | None:
    """Return indices and items; None if there are more than `most` items."""
    found = kernels.find_distinct(*_source(values), most)
    if found is None:
        return None
    indices, first = found
    numbers = pa.Array.from_buffers(pa.uint32(), len(values), [None, as_buffer(indices)])
    return numbers, values.take(array_of(np.array(first, np.int64)))


def _source(values: pa.Array) -> tuple[pa.Buffer | None, pa.Buffer, int, int, int, pa.Buffer | None, int]:
    """Return the values as arguments of the kernels that find distinct values."""
    validity = values.buffers()[0] if values.null_count else None
    if offset_bits(values.type):
        text = text_of(values)
        return text.offsets, text.data, text.offset_bits, 0, len(values), validity, values.offset
    width = fixed_bits(values.type) // 8
    data = values.buffers()[1].slice(values.offset * width, len(values) * width)
    return None, data, 0, width, len(values), validity, values.offset


def _raw_bytes(values: pa.Array, is_2_2: bool) -> int | None:
    """Return the size in bytes of the plain values; None if a page of these values gets no dictionary."""
    if len(values) < _LEAST_VALUES:
        return None
    if offset_bits(values.type):
        text = text_of(values)
        return text.num_bytes + len(values) * text.offset_bits // 8
    bits = fixed_bits(values.type)
    if bits == 128 or (bits == 64 and is_2_2):
        return len(values) * bits // 8
    return None


def _promising(values: pa.Array, raw_bytes: int, column: LeafColumn) -> bool:
    """Return whether a sample has repeated values, and bit packing or runs would not be smaller."""
    step = max(1, len(values) // _SAMPLE)
    num_valid, distinct = kernels.sample_distinct(*_source(values), step, _SAMPLE)
    if distinct > _MOST_UNIQUE * num_valid:
        return False
    if fixed_bits(values.type) != 64 or column.options.compression is not None:
        return True  # nothing else packs the values, or packed values are compressed as well
    data = values.buffers()[1].slice(values.offset * 8, len(values) * 8)
    packed_bytes, num_runs, *_ = kernels.survey_words(data, 64)
    index_bytes = min(len(values) * max(distinct - 1, 1).bit_length() / 8, num_runs * 5)
    in_dictionary = index_bytes + distinct * 8
    if num_runs < column.options.run_threshold * len(values):
        packed_bytes = min(packed_bytes, num_runs * 9)
    return bool(packed_bytes > in_dictionary)


def _page(structure: Structure, indices: pa.Array, items: pa.Array, column: LeafColumn) -> EncodedPage:
    bits = indices.type.bit_width
    # A null repeats the index before it, so that it ends no run.
    filled = pc.fill_null_forward(indices).fill_null(0) if indices.null_count else indices
    data = filled.buffers()[1].slice(filled.offset * bits // 8, len(filled) * bits // 8)
    chunks = encode_words(data, bits, len(filled), EncodingOptions())
    if column.options.compression in ("lz4", "zstd"):
        compressed = encode_words(data, bits, len(filled), column.options)
        chunks = min(chunks, compressed, key=lambda made: sum(each.num_bytes for each in made.streams))
    block, encoding = _items_block(items, column)
    return mini_block_page(structure, chunks, column.is_2_2, (block, encoding, len(items)))


def _items_block(items: pa.Array, column: LeafColumn) -> tuple[Bytes, proto.CompressiveEncoding]:
    """Return the items as a block, and their encoding. In 2.2 they are compressed by default."""
    block: Bytes
    if offset_bits(items.type):
        text = text_of(items)
        width = text.offset_bits // 8
        offsets = kernels.rebase_offsets(text.offsets, text.num_values, text.offset_bits)
        start = 2 * width + len(offsets)
        header = text.offset_bits.to_bytes(width, "little") + start.to_bytes(width, "little")
        first = int.from_bytes(text.offsets[:width], "little")
        block = b"".join([header, memoryview(offsets), text.data.slice(first, text.num_bytes)])
        encoding = variable_message(text.offset_bits)
    elif pa.types.is_boolean(items.type):
        block = pa.concat_arrays([items]).buffers()[1].slice(0, (len(items) + 7) // 8)
        encoding = flat_message(1)
    else:
        bits = fixed_bits(items.type)
        block = items.buffers()[1].slice(items.offset * bits // 8, len(items) * bits // 8)
        encoding = flat_message(bits)
        if bits in (8, 16, 32, 64):
            packed_bits = kernels.survey_words(block, bits)[2]
            if packed_bits < bits and len(items) > 1024 // bits * packed_bits * 8 // bits:
                packed = kernels.pack_out_of_line(block, bits, packed_bits)
                if len(packed) < memoryview(block).nbytes:
                    return as_buffer(packed), out_of_line_bitpacking_message(bits, packed_bits)
    return _compressed(block, encoding, column)


def _compressed(
    block: Bytes, encoding: proto.CompressiveEncoding, column: LeafColumn
) -> tuple[Bytes, proto.CompressiveEncoding]:
    asked, level = column.options.dictionary_compression, column.options.dictionary_level
    if asked is None and column.is_2_2:
        asked = "lz4"
    size = memoryview(block).nbytes
    if asked in (None, "none"):
        return block, encoding
    frame = compress_block(block, asked, level)
    if len(frame) >= size:
        return block, encoding
    return frame, general_message(asked, level, encoding)
