"""Pages of one column in many small 2.0 files, one page per file, which are decoded as one page.

Flat values stand behind each other. Ends of strings and lists, and indices of dictionaries, count from the
beginning of their page, so they are moved. The tree of encodings is the same in all pages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError

from lance_core import kernels
from lance_core.encodings.file_pages import FilePages, Room, joined_buffer
from lance_core.encodings.picking import Int64s
from lance_core.encodings.v2_0 import dictionary, fsst, packed_struct
from lance_core.encodings.v2_0.encoding import Decoded, both_valid
from lance_core.encodings.v2_0.flat import scheme_of
from lance_core.encodings.v2_0.registry import unknown_name
from lance_core.encodings.values import (
    FixedValues,
    ListValues,
    NoValues,
    VariableValues,
    as_buffer,
    least_bytes,
    offset_bits,
)
from lance_core.errors import UnsupportedFeatureError
from lance_core.kernels import CorruptData, Counts, Stream, SymbolTable
from lance_core.proto import encodings_v2_0_pb2 as proto

_MOST_VALUES = 1 << 48
_PREFIX_BYTES = {"zstd": 8, "lz4": 4}
"""Bytes of the size before compressed bytes."""
_INDEX_BITS = (8, 16, 32, 64)


@dataclass(frozen=True, slots=True)
class JoinedEnds:
    """Values of any length, of several pages.

    Attributes:
        offsets: Arrow offsets, which count from the first page on.
        sizes: Bytes or items of each page.
    """

    offsets: pa.Buffer
    validity: pa.Buffer | None
    sizes: Int64s


class PagesDecoder:
    """Decoder of pages with one layout, of several files. It decodes once.

    The methods raise:
        UnsupportedFeatureError: the pages have to be decoded one by one.
        CorruptData: a page contradicts the format.
        TooManyBytes: the estimated size of the decoded values is above the room.
    """

    def __init__(self, layout: bytes, pages: FilePages, room: Room) -> None:
        """Parse the layout that a kernel found. Decoded values take their bytes from `room`."""
        try:
            self._message = proto.ArrayEncoding.FromString(layout)
        except DecodeError:
            raise CorruptData("the page's description cannot be parsed") from None
        self._pages = pages
        self._room = room
        # The decoder takes the counts of an encoding before those of the encodings in it, as the kernel did.
        self._counts = iter([np.ascontiguousarray(pages.counts(number)) for number in (0, 1)])

    def array(self, arrow_type: pa.DataType) -> pa.Array:
        """Return the values of all pages as one array."""
        num_rows = np.ascontiguousarray(self._pages.num_rows)
        decoded = self._values(self._message, arrow_type, num_rows)
        return decoded.values.to_arrow(int(num_rows.sum()), arrow_type, decoded.validity)

    def list_ends(self, offset_bits: int) -> JoinedEnds:
        """Return the ends of the lists of all pages, and the number of items of each page."""
        self._check_kind("list")
        adjustments, num_items = next(self._counts), next(self._counts)
        num_rows = np.ascontiguousarray(self._pages.num_rows)
        if ((num_rows > 0) & (adjustments <= num_items)).any():
            raise CorruptData("an adjustment for nulls that is a number of items")
        ends = self._ends(self._message.list.offsets, adjustments, num_items, num_rows, offset_bits)
        if (ends.sizes != num_items).any():
            raise UnsupportedFeatureError("items behind those of the last list")
        return ends

    def check_struct(self) -> None:
        """Check that the pages are those of structs, which hold nothing."""
        self._check_kind("struct")

    def _check_kind(self, kind: str) -> None:
        if self._message.WhichOneof("array_encoding") != kind:
            raise UnsupportedFeatureError(f"a page of another encoding than {kind!r}")

    def _values(self, message: proto.ArrayEncoding, arrow_type: pa.DataType, num_values: Int64s) -> Decoded:
        """Return the values of an encoding, of which the pages have `num_values` each."""
        kind = message.WhichOneof("array_encoding")
        decode = _DECODERS.get(kind or "")
        if decode is None:
            raise UnsupportedFeatureError(
                f"encoding {kind or unknown_name(message)!r} in pages of several files"
            )
        if int(num_values.sum()) > _MOST_VALUES:
            raise CorruptData(f"{num_values.sum()} values")
        return decode(self, getattr(message, kind), arrow_type, num_values)

    def _flat(self, message: proto.Flat, _: pa.DataType, num_values: Int64s) -> Decoded:
        bits = message.bits_per_value
        stream, _ = self._stored(message)
        self._room.take(int(num_values.sum()) * bits // 8)
        counts = Counts(num_values.data)
        joined = (
            kernels.join_bits(stream, counts) if bits == 1 else kernels.join_fixed(stream, counts, bits // 8)
        )
        return Decoded(FixedValues(as_buffer(joined), bits))

    def _nullable(self, message: proto.Nullable, arrow_type: pa.DataType, num_values: Int64s) -> Decoded:
        match message.WhichOneof("nullability"):
            case "no_nulls":
                return self._values(message.no_nulls.values, arrow_type, num_values)
            case "some_nulls":
                bitmap = self._values(message.some_nulls.validity, pa.bool_(), num_values)
                decoded = self._values(message.some_nulls.values, arrow_type, num_values)
                bits = bitmap.numbers("validity bits")
                if bits.bits != 1:
                    raise CorruptData(f"validity in values of {bits.bits} bits")
                total = int(num_values.sum())
                return Decoded(decoded.values, both_valid(bits.data, decoded.validity, total))
            case "all_nulls":
                self._room.take(int(int(num_values.sum()) * least_bytes(arrow_type)))
                return Decoded(NoValues())
        raise UnsupportedFeatureError(f"nullability {unknown_name(message)!r}")

    def _fixed_size_list(
        self, message: proto.FixedSizeList, arrow_type: pa.DataType, num_values: Int64s
    ) -> Decoded:
        dimension = message.dimension
        if not pa.types.is_fixed_size_list(arrow_type) or arrow_type.list_size != dimension:
            raise CorruptData(f"lists of {dimension} items in a column of type {arrow_type}")
        if int(num_values.sum()) * dimension > _MOST_VALUES:
            raise CorruptData(f"{num_values.sum()} lists of {dimension} items")
        items = self._values(message.items, arrow_type.value_type, num_values * dimension)
        return Decoded(ListValues(items.values, dimension, items.validity))

    def _binary(self, message: proto.Binary, arrow_type: pa.DataType, num_values: Int64s) -> Decoded:
        bits = offset_bits(arrow_type)
        if not bits:
            raise CorruptData(f"strings in a column of type {arrow_type}")
        adjustments = next(self._counts)
        flat = message.bytes.flat  # an empty message if the bytes have another encoding
        if flat.bits_per_value != 8:
            raise UnsupportedFeatureError("strings over something that is no flat bytes")
        stream, limits = self._stored(flat)
        ends = self._ends(message.indices, adjustments, limits, num_values, bits)
        self._room.take(int(ends.sizes.sum()))
        data = kernels.join_fixed(stream, Counts(ends.sizes.data), 1)
        return Decoded(VariableValues(ends.offsets, as_buffer(data), bits), ends.validity)

    def _dictionary(self, message: proto.Dictionary, arrow_type: pa.DataType, num_values: Int64s) -> Decoded:
        if not offset_bits(arrow_type):
            raise UnsupportedFeatureError("dictionaries of several pages in one array")
        num_items = next(self._counts)
        decoded = self._values(message.indices, pa.uint8(), num_values)
        items = self._values(message.items, arrow_type, num_items)
        indices = decoded.values
        if not isinstance(indices, FixedValues) or indices.bits not in _INDEX_BITS:
            raise CorruptData("dictionary indices that are no numbers")
        total, all_items = int(num_values.sum()), int(num_items.sum())
        self._room.take(total * (offset_bits(arrow_type) // 8 + 8))  # before places of 64 bits are made
        numbers = np.frombuffer(indices.data, f"<u{indices.bits // 8}", total)
        if (numbers > np.repeat(num_items, num_values).astype(np.uint64)).any():
            raise CorruptData("an index that names no item of its page")
        firsts = np.repeat(np.cumsum(num_items) - num_items, num_values)
        among_all = np.where(numbers == 0, 0, numbers.astype(np.int64) + firsts)
        if isinstance(items.values, VariableValues):
            ends = np.frombuffer(items.values.offsets, f"<i{items.values.offset_bits // 8}", all_items + 1)
            lengths = np.concatenate([[0], np.diff(ends)])
            self._room.take(int(lengths[among_all].sum()))
        moved = FixedValues(pa.py_buffer(among_all), 64)
        return dictionary.look_up(moved, decoded.validity, items, all_items, total)

    def _fsst(self, message: proto.Fsst, arrow_type: pa.DataType, num_values: Int64s) -> Decoded:
        if message.binary.WhichOneof("array_encoding") != "binary":
            raise CorruptData("FSST over something that is no strings")
        table = SymbolTable(message.symbol_table)
        decoded = self._binary(message.binary.binary, arrow_type, num_values)
        if table.codes and isinstance(decoded.values, VariableValues):
            self._room.take(decoded.values.data.size * fsst.EXPANSION)
        return fsst.expand(table, decoded, int(num_values.sum()))

    def _packed_struct(
        self, message: proto.PackedStruct, arrow_type: pa.DataType, num_values: Int64s
    ) -> Decoded:
        types, widths = packed_struct.members(message, arrow_type)
        places = self._buffer(message.buffer)
        total = int(num_values.sum())
        self._room.take(2 * total * sum(widths))
        stream = _stream(self._pages.data, places)
        rows = kernels.join_fixed(stream, Counts(num_values.data), sum(widths))
        return Decoded(packed_struct.split(as_buffer(rows), total, types, widths))

    def _ends(
        self,
        message: proto.ArrayEncoding,
        adjustments: Int64s,
        limits: Int64s,
        num_values: Int64s,
        bits: int,
    ) -> JoinedEnds:
        """Return the ends of strings or lists. `limits` has the number of bytes or items of each page."""
        numbers = self._values(message, pa.uint64(), num_values).numbers("ends of values")
        if numbers.bits != 64:
            raise CorruptData(f"ends of values in {numbers.bits} bits")
        offsets, validity, num_nulls, sizes = kernels.join_null_ends(
            numbers.data, num_values, adjustments, np.ascontiguousarray(limits), bits
        )
        bitmap = as_buffer(validity) if num_nulls else None
        return JoinedEnds(as_buffer(offsets), bitmap, np.frombuffer(memoryview(sizes), np.int64))

    def _stored(self, message: proto.Flat) -> tuple[Stream, Int64s]:
        """Return the bytes of flat values, decompressed, and their number in each page."""
        scheme = scheme_of(message)
        places = self._buffer(message.buffer)
        if not scheme:
            return _stream(self._pages.data, places), places[:, 1]
        self._room.take(_inflated_bytes(self._pages.data, places, scheme))
        ends = np.concatenate([[0], np.cumsum(places[:, 1])])
        number = message.buffer.buffer_index
        offsets, data = kernels.inflate_values(
            ends.data, joined_buffer(self._pages, number), len(places), 64, scheme
        )
        ends = np.frombuffer(memoryview(offsets), np.int64)
        lengths = np.diff(ends)
        return Stream(data, ends[:-1].copy().data, lengths.data), lengths

    def _buffer(self, message: proto.Buffer) -> Int64s:
        """Return position in memory and size of the buffer of each page."""
        if message.buffer_type != proto.Buffer.page:
            raise UnsupportedFeatureError(f"buffer type {message.buffer_type}")
        if (self._pages.num_buffers <= message.buffer_index).any():
            raise CorruptData(f"no buffer {message.buffer_index}")
        return self._pages.buffers(message.buffer_index)


def _stream(data: bytes, places: Int64s) -> Stream:
    offsets, lengths = places.T.copy()
    return Stream(data, offsets.data, lengths.data)


def _inflated_bytes(data: bytes, places: Int64s, scheme: str) -> int:
    """Return the size that compressed buffers claim to have, before memory is allocated for it."""
    width = _PREFIX_BYTES[scheme]
    offsets, lengths = places[places[:, 1] > 0].T
    if (lengths <= width).any():
        raise UnsupportedFeatureError("compressed bytes without a size")
    prefixes = np.frombuffer(data, np.uint8)[offsets[:, np.newaxis] + np.arange(width)].view(f"<u{width}")
    if (prefixes.astype(np.uint64) > _MOST_VALUES).any():  # also the beginning of a frame without a size
        raise UnsupportedFeatureError("compressed bytes of an unusual size")
    return int(prefixes.sum())


_DECODERS: Mapping[str, Callable[[PagesDecoder, Any, pa.DataType, Int64s], Decoded]] = {
    "flat": PagesDecoder._flat,
    "nullable": PagesDecoder._nullable,
    "fixed_size_list": PagesDecoder._fixed_size_list,
    "binary": PagesDecoder._binary,
    "dictionary": PagesDecoder._dictionary,
    "fsst": PagesDecoder._fsst,
    "packed_struct": PagesDecoder._packed_struct,
}
