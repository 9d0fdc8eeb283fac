"""Encoder of fixed-size lists of primitives: flattened items, and a bitmap if items are null."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.v2_1.chunks import Chunks, even_counts, even_stream, flat_chunk_values
from lance_core.encodings.v2_1.fixed_size_list import fixed_size_list_message
from lance_core.encodings.v2_1.flat import flat_message
from lance_core.encodings.values import as_buffer, fixed_bits
from lance_core.errors import UnsupportedFeatureError
from lance_core.kernels import Counts
from lance_core.proto import encodings_v2_1_pb2 as proto


@dataclass(frozen=True, slots=True)
class Bits:
    """An Arrow bitmap that begins at bit `offset` of its buffer."""

    data: pa.Buffer
    offset: int


@dataclass(frozen=True, slots=True)
class ListLevel:
    """One level of nested fixed-size lists."""

    dimension: int
    num_items: int
    """Number of items of this level per value of the column."""
    validity: Bits | None
    """Validity of the items; None if no item of a valid list is null."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """The values of a column of fixed-size lists."""

    levels: tuple[ListLevel, ...]
    """Levels of lists, outermost first."""
    items: Bits | pa.Buffer
    """The innermost items; a bitmap if they are bools."""
    item_bits: int
    num_values: int

    @property
    def num_items(self) -> int:
        """Number of innermost items per value."""
        return self.levels[-1].num_items

    @property
    def item_bytes(self) -> int:
        """Bytes of the items of a value. Bools count as 0, as in the reference's choice of layouts."""
        return self.num_items * (self.item_bits // 8)

    @property
    def encoding(self) -> proto.CompressiveEncoding:
        """Description of the values."""
        encoding = flat_message(self.item_bits)
        for level in reversed(self.levels):
            has_validity = level.validity is not None
            encoding = fixed_size_list_message(level.dimension, encoding, has_validity=has_validity)
        return encoding


def vectors_of(array: pa.FixedSizeListArray) -> Vectors:
    """Flatten an array of nested fixed-size lists.

    Raises:
        UnsupportedFeatureError: the items are neither bools nor values of whole bytes.
    """
    levels: list[ListLevel] = []
    num_items, num_values = 1, len(array)
    while pa.types.is_fixed_size_list(array.type):
        size = array.type.list_size
        items = array.values.slice(array.offset * size, len(array) * size)
        num_items *= size
        validity = None
        # Most writers leave nulls below null lists. They do not count.
        if items.null_count and array.flatten().null_count:
            validity = Bits(items.buffers()[0], items.offset)
        levels.append(ListLevel(size, num_items, validity))
        array = items
    bits = fixed_bits(array.type)
    if bits != 1 and (bits == 0 or bits % 8):
        raise UnsupportedFeatureError("fixed-size lists of items", found=array.type)
    data = array.buffers()[1]
    if bits == 1:
        return Vectors(tuple(levels), Bits(data, array.offset), 1, num_values)
    width = bits // 8
    return Vectors(tuple(levels), data.slice(array.offset * width, len(array) * width), bits, num_values)


def encode_vectors(vectors: Vectors) -> Chunks:
    """Encode lists as mini-block chunks: the bitmaps, outermost first, then the items."""
    counts = even_counts(vectors.num_values, flat_chunk_values(vectors.num_items * vectors.item_bits))
    streams = [
        _cut(level.validity, counts * level.num_items)
        for level in vectors.levels
        if level.validity is not None
    ]
    items = vectors.items
    if isinstance(items, Bits):
        streams.append(_cut(items, counts * vectors.num_items))
    else:
        streams.append(even_stream(items, counts * vectors.item_bytes))
    return Chunks(streams, Counts(counts.data), vectors.encoding)


def zip_vectors(vectors: Vectors) -> tuple[pa.Buffer, int]:
    """Return the bitmaps and items of each row as full-zip entries store them, and the bytes of a row."""
    columns: list[pa.Buffer] = []
    widths: list[int] = []
    for level in vectors.levels:
        if level.validity is not None:
            columns.append(_row_bits(level.validity, vectors.num_values, level.num_items))
            widths.append((level.num_items + 7) // 8)
    items = vectors.items
    if isinstance(items, Bits):
        columns.append(_row_bits(items, vectors.num_values, vectors.num_items))
        widths.append((vectors.num_items + 7) // 8)
    else:
        columns.append(items)
        widths.append(vectors.item_bytes)
    if len(columns) == 1:
        return columns[0], widths[0]
    return as_buffer(kernels.interleave_rows(columns, widths, vectors.num_values)), sum(widths)


def _cut(bits: Bits, counts: npt.NDArray[np.int64]) -> kernels.Stream:
    data = kernels.cut_bits(bits.data, bits.offset, Counts(counts.data))
    return even_stream(as_buffer(data), (counts + 7) // 8)


def _row_bits(bits: Bits, num_rows: int, bits_per_row: int) -> pa.Buffer:
    counts = np.full(num_rows, bits_per_row, np.int64)
    return as_buffer(kernels.cut_bits(bits.data, bits.offset, Counts(counts.data)))
