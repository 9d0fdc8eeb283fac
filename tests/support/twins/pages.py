"""Pages of 2.1 and 2.2 files made by hand: descriptions, buffers, and a file around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_core.encodings.picking import ByteRanges, pick
from lance_core.encodings.v2_1.layouts.layout import PAGE_LAYOUT, open_page
from lance_core.encodings.v2_1.layouts.levels import Node
from lance_core.encodings.v2_1.layouts.page import ByteRange, LeafSlice, LeafType, Page
from lance_core.errors import CorruptFileError
from lance_core.kernels import CorruptData
from lance_core.proto import encodings_v2_1_pb2 as pb
from support.twins import fsst, nested, values

LZ4, ZSTD = pb.COMPRESSION_ALGORITHM_LZ4, pb.COMPRESSION_ALGORITHM_ZSTD
Encoding = pb.CompressiveEncoding
LIST = Node(offset_bits=32)
ITEM = Node()


def flat(bits: int) -> Encoding:
    return Encoding(flat=pb.Flat(bits_per_value=bits))


def variable(bits: int) -> Encoding:
    return Encoding(variable=pb.Variable(offsets=flat(bits)))


def inline(bits: int) -> Encoding:
    return Encoding(inline_bitpacking=pb.InlineBitpacking(uncompressed_bits_per_value=bits))


def packed(bits: int, width: int) -> Encoding:
    message = pb.OutOfLineBitpacking(uncompressed_bits_per_value=bits, values=flat(width))
    return Encoding(out_of_line_bitpacking=message)


def runs(bits: int) -> Encoding:
    return Encoding(rle=pb.Rle(values=flat(bits), run_lengths=flat(8)))


def symbols(table: Sequence[bytes], bits: int = 32) -> Encoding:
    return Encoding(fsst=pb.Fsst(symbol_table=fsst.symbol_table(table), values=variable(bits)))


def general(scheme: int, inner: Encoding) -> Encoding:
    return Encoding(general=pb.General(compression=pb.BufferCompression(scheme=scheme), values=inner))


def lists_of(dimension: int, inner: Encoding, *, has_validity: bool = False) -> Encoding:
    message = pb.FixedSizeList(items_per_value=dimension, values=inner, has_validity=has_validity)
    return Encoding(fixed_size_list=message)


@dataclass(frozen=True)
class HandmadePage:
    """A page and the file that holds its buffers."""

    layout: pb.PageLayout
    buffers: tuple[bytes, ...]
    num_rows: int
    arrow_type: pa.DataType
    nesting: tuple[Node, ...] = (ITEM,)

    encoding_type: str = PAGE_LAYOUT
    encoding_bytes: bytes | None = None

    def open(self) -> Page:
        """Return the page over its description."""
        positions = [sum(map(len, self.buffers[:i])) for i in range(len(self.buffers))]
        description = _Description(
            tuple((at, len(buffer)) for at, buffer in zip(positions, self.buffers, strict=True)),
            self.num_rows,
            self.encoding_type,
            self.layout.SerializeToString() if self.encoding_bytes is None else self.encoding_bytes,
        )

        return open_page(description, LeafType(self.arrow_type, self.nesting))

    def read(self, start: int = 0, end: int | None = None) -> LeafSlice:
        """Rows of the page, through the planner and the decoder."""
        page = self.open()
        plan = page.plan(self._fetch, start, page.num_rows if end is None else end)
        assert page.decoded_bytes >= 0
        return plan.decode(self._fetch(plan.ranges))

    def _fetch(self, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        file = b"".join(self.buffers)
        if any(not 0 <= offset <= offset + length <= len(file) for offset, length in ranges):
            raise CorruptFileError("a read outside the file")
        return [pa.py_buffer(file[offset : offset + length]) for offset, length in ranges]

    def array(self, start: int = 0, end: int | None = None) -> pa.Array:
        """Return the array with lists and structs around the leaf; every struct has one child."""
        return self._assembled(self.read(start, end), None if end is None else end - start)

    def picked(self, rows: Sequence[int]) -> pa.Array:
        """Single rows in the same form."""

        def read_joined(parts: Sequence[ByteRanges]) -> list[pa.Buffer]:
            return [pa.py_buffer(b"".join(map(memoryview, self._fetch(ranges_of(part))))) for part in parts]

        leaf = pick(self.open().pick(self._fetch, np.array(rows, np.int64)), read_joined)
        return self._assembled(leaf, len(rows))

    def _assembled(self, leaf: LeafSlice, num_rows: int | None) -> pa.Array:
        array = leaf.array
        for layer, node in zip(leaf.layers, self.nesting[1:], strict=True):
            if layer.offsets is not None:
                kind, buffers = pa.list_(array.type), [layer.validity, layer.offsets]
            elif node.dimension != 1:
                kind, buffers = pa.list_(array.type, node.dimension), [layer.validity]
            else:
                kind, buffers = pa.struct([("c", array.type)]), [layer.validity]
            array = pa.Array.from_buffers(kind, layer.length, buffers, children=[array])
        if num_rows is not None and len(array) != num_rows:  # the column reader checks the same
            raise CorruptData(f"{len(array)} rows instead of {num_rows}")
        require_sound(array)
        return array


def ranges_of(pieces: ByteRanges) -> list[ByteRange]:
    """Offset and length of each piece."""
    offsets, lengths = (np.frombuffer(memoryview(part), np.int64).tolist() for part in pieces)
    return list(zip(offsets, lengths, strict=True))


def require_sound(array: pa.Array) -> None:
    """Fail unless the array is valid in all but the encoding of its text, which pages do not promise."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        assert "UTF8" in str(error), error  # noqa: PT017


@dataclass(frozen=True)
class _Description:
    buffers: tuple[ByteRange, ...]
    num_rows: int
    encoding_type: str
    encoding: bytes


def mini_block(
    buffers: Sequence[bytes],
    num_rows: int,
    arrow_type: pa.DataType,
    nesting: Sequence[Node] = (ITEM,),
    **layout: object,
) -> HandmadePage:
    """Return a page in the mini-block layout; every field of the layout that is not given has its default."""
    fields = {"num_items": num_rows, "num_buffers": 1, "layers": [nested.ALL_VALID_ITEM]} | layout
    message = pb.PageLayout(mini_block_layout=pb.MiniBlockLayout(**fields))
    return HandmadePage(message, tuple(buffers), num_rows, arrow_type, tuple(nesting))


def full_zip(
    buffers: Sequence[bytes],
    num_rows: int,
    arrow_type: pa.DataType,
    nesting: Sequence[Node] = (ITEM,),
    **layout: object,
) -> HandmadePage:
    """Return a page in the full-zip layout."""
    fields = {"layers": [nested.ALL_VALID_ITEM]} | layout
    message = pb.PageLayout(full_zip_layout=pb.FullZipLayout(**fields))
    return HandmadePage(message, tuple(buffers), num_rows, arrow_type, tuple(nesting))


def constant(
    buffers: Sequence[bytes],
    num_rows: int,
    arrow_type: pa.DataType,
    nesting: Sequence[Node] = (ITEM,),
    **layout: object,
) -> HandmadePage:
    """Return a page in the constant layout."""
    fields = {"layers": [nested.NULLABLE_ITEM]} | layout
    message = pb.PageLayout(constant_layout=pb.ConstantLayout(**fields))
    return HandmadePage(message, tuple(buffers), num_rows, arrow_type, tuple(nesting))


def nesting_of(column: nested.Column) -> tuple[Node, ...]:
    """Return the nodes of a column, innermost first."""
    return tuple(LIST if node == nested.LIST else ITEM for node in reversed(column.nodes))


def mini_block_page(column: nested.Column, exponents: Sequence[int], *, large: bool = False) -> HandmadePage:
    """Return a column of int64 in chunks of 2^k values, k taken from `exponents` as long as values are
    left.

    The last chunk takes what is left, invisible entries at its end included.
    """
    levels = nested.shred(column)
    visible = nested.max_visible(column.nodes, column.layers)
    has_rep, has_def = column.max_rep > 0, max(column.layers) > nested.ALL_VALID_LIST
    starts, entry, left = [0], 0, len(levels.values)
    words = []
    for exponent in exponents:
        if left <= 1 << exponent:
            break
        found = 0
        while found < 1 << exponent:
            found += levels.def_[entry] <= visible
            entry += 1
        left -= found
        starts.append(entry)
        words.append(exponent)
    words.append(0)
    bounds = [*starts, len(levels.rep)]
    chunks, index, value = [], [], 0
    for i, exponent in enumerate(words):
        begin, end = bounds[i], bounds[i + 1]
        last = i == len(words) - 1
        count = len(levels.values) - value if last else 1 << exponent
        data = b"".join((v or 0).to_bytes(8, "little") for v in levels.values[value : value + count])
        value += count
        rep, def_ = levels.rep[begin:end], levels.def_[begin:end]
        chunk = values.chunk(
            [data],
            num_levels=end - begin if has_rep or has_def else 0,
            rep=values.integers(rep, 16) if has_rep else None,
            def_=values.integers(def_, 16) if has_def else None,
            large=large,
        )
        words[i] |= (len(chunk) // 8 - 1) << 4
        chunks.append(chunk)
        following = [*levels.rep[begin + 1 : end + 1], *([column.max_rep] if last else [])]
        ends = [k for k, level in enumerate(following) if level == column.max_rep]
        index += [len(ends), end - begin - (ends[-1] + 1 if ends else 0)]
    buffers = [values.integers(words, 32 if large else 16), b"".join(chunks)]
    layout: dict[str, object] = {"layers": column.layers, "value_compression": flat(64)}
    layout |= {"num_items": len(levels.values), "has_large_chunk": large}
    if has_rep:
        buffers.append(values.integers(index, 64))
        layout |= {"rep_compression": flat(16), "repetition_index_depth": 1}
    if has_def:
        layout["def_compression"] = flat(16)
    return mini_block(buffers, len(column.rows), pa.int64(), nesting_of(column), **layout)


def full_zip_page(column: nested.Column, *, as_text: bool, index_width: int = 4) -> HandmadePage:
    """Return a column of int64, or of its numbers as text, in the full-zip layout."""
    levels = nested.shred(column)
    visible = nested.max_visible(column.nodes, column.layers)
    max_def = sum(nested.LEVELS_OF[kind] for kind in column.layers)
    bits = column.max_rep.bit_length(), max_def.bit_length()
    slots = iter(levels.values)
    data, index = b"", []
    for rep, def_ in zip(levels.rep, levels.def_, strict=True):
        value = next(slots) if def_ <= visible else None
        if as_text:
            stored = None if value is None else str(value).encode()
        else:
            stored = (value or 0).to_bytes(8, "little") if def_ <= visible else None
        if rep == column.max_rep:
            index.append(len(data))
        data += values.zip_entries([(rep, def_, stored)], *bits, 32 if as_text else 0)
    index.append(len(data))
    buffers = [data]
    if as_text or column.max_rep:
        buffers.append(values.integers(index, 8 * index_width))
    details = {"bits_per_offset": 32} if as_text else {"bits_per_value": 64}
    return full_zip(
        buffers,
        len(column.rows),
        pa.string() if as_text else pa.int64(),
        nesting_of(column),
        bits_rep=bits[0],
        bits_def=bits[1],
        value_compression=variable(32) if as_text else flat(64),
        layers=column.layers,
        num_items=len(levels.rep),
        num_visible_items=len(levels.values),
        **details,
    )


def as_arrow(value: object) -> object:
    """Return a row of a twin column as `pyarrow` spells it: a struct is a dictionary with the field `c`."""
    if isinstance(value, list):
        return [as_arrow(item) for item in value]
    return {"c": as_arrow(value[0])} if isinstance(value, tuple) else value
