"""The full-zip layout: large values, each stored together with its levels.

    buffer 0    entries:
                control word | value                       fixed width
                control word | length | value              variable width; a null entry is the word alone
    buffer 1    repetition index, for lists or variable width: the position of each row (of each slot,
                below fixed-size lists of structs), and the end of the last one

A control word is `rep << bits_def | def` in 0, 1, 2 or 4 bytes. An entry without a value slot is the control
word alone. Entries of a fixed width without levels are the plain array, which is used without a copy. Source:
docs/format.md, "Full-zip pages".
"""

from functools import cached_property

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError

from lance_core import kernels
from lance_core.encodings.file_pages import FilePages, check_size, joined_buffer
from lance_core.encodings.picking import Int64s, Picking
from lance_core.encodings.v2_1.layouts.joined_page import JoinedPage, nothing_to_fetch
from lance_core.encodings.v2_1.layouts.levels import Layer, Structure
from lance_core.encodings.v2_1.layouts.page import (
    ByteRange,
    Fetch,
    LeafSlice,
    LeafType,
    Page,
    PageDescription,
    PageRead,
)
from lance_core.encodings.v2_1.registry import parse_encoding
from lance_core.encodings.values import Values, VariableValues, as_buffer, least_bytes
from lance_core.errors import UnsupportedFeatureError
from lance_core.kernels import CorruptData
from lance_core.proto import encodings_v2_1_pb2 as proto

_INDEX_WIDTHS = (1, 2, 4, 8)


class FullZipPage(Page):
    """A page in the full-zip layout."""

    def __init__(self, layout: proto.FullZipLayout, metadata: PageDescription, leaf: LeafType) -> None:
        self._leaf = leaf
        self._buffers = metadata.buffers
        self._structure = structure = Structure(layout.layers, leaf.nesting)
        self._bits_rep, self._bits_def = layout.bits_rep, layout.bits_def
        if (
            layout.bits_rep > structure.max_rep.bit_length()
            or layout.bits_def > structure.max_def.bit_length()
        ):
            raise CorruptData(
                f"levels of {layout.bits_rep} and {layout.bits_def} bits where {structure.max_rep} and "
                f"{structure.max_def} are the highest"
            )
        self._control_bytes = _control_bytes(layout.bits_rep + layout.bits_def)
        self._values = parse_encoding(layout.value_compression)
        self._length_bits = layout.bits_per_offset if layout.WhichOneof("details") == "bits_per_offset" else 0
        if self._length_bits not in (0, 32, 64):
            raise CorruptData(f"lengths of {self._length_bits} bits")
        slots = structure.num_slots_per_row
        if metadata.num_rows % slots:
            raise CorruptData(f"{metadata.num_rows} slots in fixed-size lists of structs")
        self.num_rows = metadata.num_rows // slots
        if not self._buffers or (self._has_index and len(self._buffers) < 2):
            raise CorruptData(f"{len(self._buffers)} page buffers")
        self._entry_bytes = 0
        """Bytes of an entry, if all entries have the same size."""
        if not self._has_index:
            self._entry_bytes = self._control_bytes + self._values.row_bytes
            if self._entry_bytes * metadata.num_rows != self._buffers[0][1]:
                raise CorruptData(
                    f"{self._buffers[0][1]} bytes for {metadata.num_rows} entries of {self._entry_bytes}"
                )

    @classmethod
    def decode_files(cls, layout: bytes, leaf: LeafType, pages: FilePages, most_bytes: int) -> LeafSlice:
        """Decode pages of several files as one page; see `MiniBlockPage.decode_files`."""
        try:
            shared = proto.FullZipLayout.FromString(layout)
        except DecodeError:
            raise CorruptData("the page's description cannot be parsed") from None
        if (pages.num_buffers < 1).any():
            raise CorruptData("a page without buffers")
        entries = joined_buffer(pages, 0)
        buffers = ((0, entries.size), (0, 0))
        page = cls(shared, JoinedPage(buffers, int(pages.num_rows.sum())), leaf)
        if page._has_index:
            raise UnsupportedFeatureError("full-zip pages with an index as one page")
        if (pages.num_rows * page._entry_bytes != pages.buffers(0)[:, 1]).any():
            raise CorruptData(f"other numbers of entries of {page._entry_bytes} bytes than of rows")
        check_size(page.decoded_bytes, most_bytes)
        return page.plan(nothing_to_fetch, 0, page.num_rows).decode([entries])

    @property
    def _has_index(self) -> bool:
        return self._structure.has_lists or self._length_bits != 0

    @cached_property
    def decoded_bytes(self) -> int:
        stored = self._buffers[0][1] * self._values.expansion
        # A null of variable width is stored as its control word alone, but takes `least_bytes` when decoded.
        least = int(self.num_rows * self._structure.num_slots_per_row * least_bytes(self._leaf.arrow_type))
        return stored + least if self._has_index else max(stored, least)

    def plan(self, fetch: Fetch, start: int, end: int) -> PageRead:
        def decode(buffers: list[pa.Buffer]) -> LeafSlice:
            return self._decode(buffers[0], end - start)

        return PageRead([self._byte_range(fetch, start, end)], decode)

    def _byte_range(self, fetch: Fetch, start: int, end: int) -> ByteRange:
        offset, size = self._buffers[0]
        if start == 0 and end == self.num_rows:
            return offset, size
        slots = self._structure.num_slots_per_row
        if not self._has_index:
            return offset + start * slots * self._entry_bytes, (end - start) * slots * self._entry_bytes
        index_offset, width = self._buffers[1][0], self._index_width
        ends = fetch([(index_offset + row * slots * width, width) for row in (start, end)])
        begin, stop = (int.from_bytes(entry, "little") for entry in ends)
        if not begin <= stop <= size:
            raise CorruptData(f"rows at [{begin}, {stop}) of {size} bytes")
        return offset + begin, stop - begin

    def plain_bytes(self, start: int, end: int) -> ByteRange | None:
        is_plain = not self._has_index and not self._control_bytes and self._values.has_plain_rows
        if not is_plain or self._structure.num_slots_per_row != 1:
            return None
        offset, _ = self._buffers[0]
        return offset + start * self._entry_bytes, (end - start) * self._entry_bytes

    def pick(self, fetch: Fetch, rows: Int64s) -> Picking[LeafSlice]:
        offset, size = self._buffers[0]
        slots = self._structure.num_slots_per_row
        if self._has_index:
            width = self._index_width
            row_width = (slots + 1) * width  # the index has an entry per slot, and one for the end
            places = self._buffers[1][0] + rows * (slots * width)
            (entries,) = yield [(places.data, np.full(len(rows), row_width).data)]
            ends = np.frombuffer(entries, f"<u{width}").reshape(len(rows), slots + 1)[:, [0, -1]]
            if (ends[:, 0] > ends[:, 1]).any() or ends[:, 1].max() > size:
                raise CorruptData(f"a row that is not within {size} bytes")
            begins, stops = ends.astype(np.int64).T
        else:
            row_bytes = slots * self._entry_bytes
            begins = rows * row_bytes
            stops = begins + row_bytes
        (data,) = yield [((offset + begins).data, (stops - begins).data)]
        return self._decode(data, len(rows))

    @property
    def _index_width(self) -> int:
        """Bytes of one entry of the repetition index."""
        index_size = self._buffers[1][1]
        entries = self.num_rows * self._structure.num_slots_per_row + 1
        width = index_size // entries
        if width not in _INDEX_WIDTHS or width * entries != index_size:
            raise CorruptData(f"a repetition index of {index_size} bytes for {entries - 1} slots")
        return width

    def _decode(self, data: pa.Buffer, num_rows: int) -> LeafSlice:
        structure = self._structure
        rep: pa.Buffer | None = None
        def_: pa.Buffer | None = None
        values: Values
        if self._length_bits:
            rep_block, def_block, num_entries, offsets, payloads, num_values = kernels.unzip_variable(
                data, self._bits_rep, self._bits_def, structure.max_visible, self._length_bits
            )
            zipped = VariableValues(as_buffer(offsets), as_buffer(payloads), self._length_bits)
            values = self._values.decode_payloads(zipped, num_values)
        elif self._control_bytes == 0:
            num_entries = num_values = num_rows * structure.num_slots_per_row
            values = self._values.decode_rows(data, num_values)
        else:
            rep_block, def_block, num_entries, rows, num_values = kernels.unzip_fixed(
                data, self._bits_rep, self._bits_def, structure.max_visible, self._values.row_bytes
            )
            values = self._values.decode_rows(as_buffer(rows), num_values)
        if self._bits_rep:
            rep = as_buffer(rep_block)
        if self._bits_def:
            def_ = as_buffer(def_block)
        if structure.has_lists and rep is None:
            raise CorruptData("a list page without repetition levels")
        layers: list[Layer]
        if rep is None and def_ is None:
            layers = structure.without_levels(num_values)
        else:
            layers = structure.unravel(rep, def_, num_values)
        if layers[-1].length != num_rows:
            raise CorruptData(f"{num_entries} entries hold {layers[-1].length} rows instead of {num_rows}")
        array = values.to_arrow(num_values, self._leaf.arrow_type, layers[0].validity)
        return LeafSlice(array, layers[1:])


def _control_bytes(bits: int) -> int:
    if bits == 0:
        return 0
    return 1 if bits <= 8 else 2 if bits <= 16 else 4
