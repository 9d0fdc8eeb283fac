"""The constant layout: pages whose values are all null, or (2.2) all equal.

The number of page buffers tells the form:

    value inline    buffers                 meaning
    no              none                    every row is null; for the null type and structs without members,
                                            every row is valid
    no              rep, def                no value that is not null
    yes             none, or rep, def       one value of up to 32 bytes, in the description
    no              scalar [, rep, def]     one value of any size, as the Arrow buffers of an array of one
                                            value: u32 n, n lengths (u32), then the buffers

Levels are u16. In 2.2 pages of nulls, the description may name an encoding for them. An empty buffer counts
as absent. Source: docs/format.md, "Constant pages".
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError

from lance_core import kernels
from lance_core.encodings.file_pages import FilePages, check_size, joined_buffer
from lance_core.encodings.picking import Int64s, Picking
from lance_core.encodings.v2_1.encoding import one_block, one_count
from lance_core.encodings.v2_1.layouts.joined_page import JoinedPage
from lance_core.encodings.v2_1.layouts.levels import Layer, Structure, parse_levels
from lance_core.encodings.v2_1.layouts.page import (
    ByteRange,
    Fetch,
    LeafSlice,
    LeafType,
    Page,
    PageDescription,
    PageRead,
)
from lance_core.encodings.v2_1.level_coding import LevelCoding
from lance_core.encodings.values import (
    FixedValues,
    NoValues,
    Values,
    VariableValues,
    as_buffer,
    fixed_bits,
    is_empty_binary,
    least_bytes,
    offset_bits,
)
from lance_core.errors import UnsupportedFeatureError
from lance_core.kernels import CorruptData
from lance_core.proto import encodings_v2_1_pb2 as proto


class ConstantPage(Page):
    """A page in the constant layout."""

    def __init__(self, layout: proto.ConstantLayout, metadata: PageDescription, leaf: LeafType) -> None:
        self._leaf = leaf
        self._structure = Structure(layout.layers, leaf.nesting)
        slots = self._structure.num_slots_per_row
        if metadata.num_rows % slots:
            raise CorruptData(f"{metadata.num_rows} slots in fixed-size lists of structs")
        self.num_rows = metadata.num_rows // slots
        buffers = list(metadata.buffers)
        if len(buffers) > 3:
            raise CorruptData(f"a constant page of {len(buffers)} buffers")
        self._scalar: ByteRange | None = buffers.pop(0) if len(buffers) in (1, 3) else None
        self._inline = layout.inline_value if layout.HasField("inline_value") else None
        if self._inline is not None and self._scalar is not None:
            raise CorruptData("a constant page with two values")
        self._rep = self._level_source(
            buffers[0] if buffers else None, layout, "rep_compression", layout.num_rep_values
        )
        self._def = self._level_source(
            buffers[1] if buffers else None, layout, "def_compression", layout.num_def_values
        )
        if self._structure.has_lists != (self._rep is not None):
            raise CorruptData("repetition levels in a page without lists, or lists without them")
        if self._def is not None:
            expected = metadata.num_rows if self._rep is None else self._rep.num_levels
            if self._def.num_levels != expected:
                raise CorruptData(f"{self._def.num_levels} definition levels where there are {expected}")
        self._levels: tuple[pa.Buffer | None, pa.Buffer | None] | None = None
        self._value: Values | None = None

    @classmethod
    def decode_files(cls, layout: bytes, leaf: LeafType, pages: FilePages, most_bytes: int) -> LeafSlice:
        """Decode pages of several files as one page; see `MiniBlockPage.decode_files`."""
        try:
            shared = proto.ConstantLayout.FromString(layout)
        except DecodeError:
            raise CorruptData("the page's description cannot be parsed") from None
        levels = _joined_levels(shared, pages)
        buffers = ((0, 0), (0, levels.size)) if levels.size else ()
        page = cls(shared, JoinedPage(buffers, int(pages.num_rows.sum())), leaf)
        check_size(page.decoded_bytes, most_bytes)
        return page.plan(lambda ranges: [levels for _ in ranges], 0, page.num_rows).decode([])

    @property
    def _has_value(self) -> bool:
        return self._inline is not None or self._scalar is not None

    @cached_property
    def decoded_bytes(self) -> int:
        slots = self.num_rows * self._structure.num_slots_per_row
        if self._rep is not None:
            slots = max(slots, self._rep.num_levels)
        width = least_bytes(self._leaf.arrow_type)
        if self._has_value and offset_bits(self._leaf.arrow_type):
            width += self._scalar[1] if self._scalar else len(self._inline or b"")
        return int(slots * max(width, 1))

    def plan(self, fetch: Fetch, start: int, end: int) -> PageRead:
        rep, def_ = self._read_levels(fetch)
        ranges = [self._scalar] if self._scalar is not None else []

        def decode(buffers: list[pa.Buffer]) -> LeafSlice:
            return self._decode(rep, def_, buffers[0] if buffers else None, start, end)

        return PageRead(ranges, decode)

    def pick(self, fetch: Fetch, rows: Int64s) -> Picking[LeafSlice]:
        structure = self._structure
        rep, def_ = self._read_levels(fetch)
        scalar: pa.Buffer | None = None
        if self._scalar is not None:
            offset, size = self._scalar
            (scalar,) = yield [(np.array([offset]).data, np.array([size]).data)]
        if rep is not None:
            num_levels = one_count(rep.size // 2)
            visible = num_levels if def_ is None else one_count(self._count_visible(def_))
            places = np.zeros((len(rows), 3), np.int64)
            places[:, 2] = rows
            rep_block, def_block, _, num_values = kernels.pick_rows(
                rep,
                def_,
                num_levels,
                visible,
                one_count(self.num_rows),
                places.data,
                structure.max_rep,
                structure.max_visible,
            )
            def_ = None if def_ is None else as_buffer(def_block)
            layers = structure.unravel(as_buffer(rep_block), def_, num_values)
        else:
            slots = structure.num_slots_per_row
            num_values = len(rows) * slots
            if def_ is not None:
                levels = np.frombuffer(def_, "<u2").reshape(-1, slots)[rows]
                layers = structure.unravel(None, pa.py_buffer(levels), num_values)
            else:
                layers = structure.without_levels(num_values)
        return self._assemble(layers, num_values, scalar)

    def _count_visible(self, def_: pa.Buffer) -> int:
        return int(np.count_nonzero(np.frombuffer(def_, "<u2") <= self._structure.max_visible))

    def _read_levels(self, fetch: Fetch) -> tuple[pa.Buffer | None, pa.Buffer | None]:
        if self._levels is None:
            sources = [source for source in (self._rep, self._def) if source is not None]
            read = iter(fetch([source.range for source in sources]))
            self._levels = (
                self._rep.decode(next(read)) if self._rep is not None else None,
                self._def.decode(next(read)) if self._def is not None else None,
            )
        return self._levels

    def _level_source(
        self, where: ByteRange | None, layout: proto.ConstantLayout, coding: str, num_levels: int
    ) -> "_LevelSource | None":
        if where is None or where[1] == 0:
            return None
        if layout.HasField(coding):
            encoding = parse_levels(getattr(layout, coding))
            return None if encoding.all_zero else _LevelSource(where, encoding, num_levels)
        if where[1] % 2:
            raise CorruptData(f"{where[1]} bytes of levels of 2 bytes")
        return _LevelSource(where, LevelCoding("flat"), where[1] // 2)

    def _decode(
        self, rep: pa.Buffer | None, def_: pa.Buffer | None, scalar: pa.Buffer | None, start: int, end: int
    ) -> LeafSlice:
        structure = self._structure
        num_rows = end - start
        if rep is not None:
            entry, entry_end, value, value_end, _ = kernels.find_rows(
                rep, def_, structure.max_rep, structure.max_visible, start, num_rows
            )
            num_values = value_end - value
            rep = rep.slice(2 * entry, 2 * (entry_end - entry))
            def_ = None if def_ is None else def_.slice(2 * entry, 2 * (entry_end - entry))
            layers = structure.unravel(rep, def_, num_values)
        else:
            slots = structure.num_slots_per_row
            num_values = num_rows * slots
            if def_ is not None:
                layers = structure.unravel(None, def_.slice(2 * start * slots, 2 * num_values), num_values)
            else:
                layers = structure.without_levels(num_values)
        return self._assemble(layers, num_values, scalar)

    def _assemble(self, layers: Sequence[Layer], num_values: int, scalar: pa.Buffer | None) -> LeafSlice:
        arrow_type = self._leaf.arrow_type
        if not self._has_value:
            if pa.types.is_struct(arrow_type) and arrow_type.num_fields == 0:
                array = NoValues().to_arrow(num_values, arrow_type, layers[0].validity)
            else:
                # The levels of the leaf do not matter: no value is valid.
                array = pa.nulls(num_values, arrow_type)
        else:
            value_bytes = self._inline if self._inline is not None else scalar
            assert value_bytes is not None
            values = self._repeat(value_bytes, num_values)
            array = values.to_arrow(num_values, arrow_type, layers[0].validity)
        return LeafSlice(array, layers[1:])

    def _repeat(self, value: "bytes | pa.Buffer", num_values: int) -> Values:
        """Return the value of the page `num_values` times."""
        arrow_type = self._leaf.arrow_type
        bits, offsets = fixed_bits(arrow_type), offset_bits(arrow_type)
        if self._scalar is not None:
            value = _scalar_value(value, offsets)
        if offsets:
            block, data = kernels.repeat_variable(value, num_values, offsets)
            return VariableValues(as_buffer(block), as_buffer(data), offsets)
        has_width = bits or is_empty_binary(arrow_type)
        if not has_width or len(value) != (bits + 7) // 8:
            raise CorruptData(f"a constant of {len(value)} bytes in a column of type {arrow_type}")
        if bits == 1:
            bitmap = b"\xff" if value[0] else b"\x00"
            return FixedValues(as_buffer(kernels.repeat_value(bitmap, (num_values + 7) // 8)), 1)
        data = as_buffer(kernels.repeat_value(value, num_values)) if bits else pa.py_buffer(b"")
        return FixedValues(data, bits)


def _joined_levels(layout: proto.ConstantLayout, pages: FilePages) -> pa.Buffer:
    """Return the definition levels of several pages, u16 one behind the other; empty if they have none."""
    if not pages.num_buffers.any():
        return pa.py_buffer(b"")
    is_coded = layout.HasField("rep_compression") or layout.HasField("def_compression")
    if is_coded or (pages.num_buffers != 2).any() or pages.buffers(0)[:, 1].any():
        raise UnsupportedFeatureError("constant pages of lists, or with values in buffers, as one page")
    levels = joined_buffer(pages, 1)
    if levels.size and (pages.buffers(1)[:, 1] != 2 * pages.num_rows).any():
        raise CorruptData("another number of definition levels than of rows")
    return levels


class _LevelSource:
    """The byte range of the levels of a page, and the coding of the levels."""

    def __init__(self, where: ByteRange, coding: LevelCoding, num_levels: int) -> None:
        self.range = where
        self.num_levels = num_levels
        self._coding = coding

    def decode(self, block: pa.Buffer) -> pa.Buffer:
        return self._coding.decode(one_block(block), one_count(self.num_levels))


def _scalar_value(scalar: "bytes | pa.Buffer", offset_bits: int) -> bytes:
    """Return the bytes of the value in a scalar buffer."""
    data = bytes(scalar)
    num_buffers = int.from_bytes(data[:4], "little")
    expected = 2 if offset_bits else 1
    header = 4 + 4 * expected
    if num_buffers != expected or len(data) < header:
        raise CorruptData(f"a scalar of {num_buffers} buffers in {len(data)} bytes instead of {expected}")
    sizes = np.frombuffer(data, "<u4", expected, 4).astype(np.int64)
    if header + int(sizes.sum()) > len(data):
        raise CorruptData(f"a scalar of {len(data)} bytes with buffers of {sizes.tolist()}")
    first = data[header : header + int(sizes[0])]
    if not offset_bits:
        return first
    width = offset_bits // 8
    if len(first) != 2 * width:
        raise CorruptData(f"a scalar with {len(first)} bytes of offsets")
    begin, end = (int.from_bytes(first[i * width : (i + 1) * width], "little") for i in range(2))
    text = data[header + len(first) : header + int(sizes.sum())]
    if not begin <= end <= len(text):
        raise CorruptData(f"a scalar at [{begin}, {end}) of {len(text)} bytes")
    return text[begin:end]
