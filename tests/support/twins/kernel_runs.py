"""Kernels of several arguments as functions of the bytes that a file would hold, and such bytes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyroaring
from google.protobuf import any_pb2

from lance_core import kernels
from lance_core.index.row_sets import TreeMap
from lance_core.kernels import Stream, SymbolTable
from lance_core.proto import encodings_v2_0_pb2, encodings_v2_1_pb2, file2_pb2
from support.processes.descriptors import kept_open
from support.twins import fsst, inputs, nested, values

ARRAY, OBJECT, SCALAR = 8, 4, 2
SYMBOLS = [bytes([i]) * (i % 8 + 1) for i in range(255)]
TEXT = [b"lance", b"", b"columns of text " * 3, b"\xff\xfe", b"x" * 40]
CODES = [fsst.encode(text, SYMBOLS) for text in TEXT]


def one(data: memoryview) -> Stream:
    """Return a row of one chunk."""
    return Stream(data, inputs.int64s([0]), inputs.int64s([len(data)]))


def row_sets() -> bytes:
    """Two tree maps that share a container, behind their offsets."""
    few, many = ({1: pyroaring.BitMap(keys)} for keys in ([5, 9, 1 << 16], [*range(0, 9998, 2)]))
    sets = [TreeMap().write(each) for each in (few, many)]
    return np.cumsum([0, *map(len, sets)]).astype(np.int32).tobytes() + b"".join(sets)


def small_file() -> bytes:
    """Metadata of a column with one mini-block page of two buffers, behind 128 bytes of pages."""
    layout = encodings_v2_1_pb2.PageLayout()
    layout.mini_block_layout.num_items = 9
    layout.mini_block_layout.num_buffers = 1
    layout.mini_block_layout.value_compression.flat.bits_per_value = 32
    any_layout, any_column = any_pb2.Any(), any_pb2.Any()
    any_layout.Pack(layout)
    any_column.type_url = "/lance.encodings.ColumnEncoding"
    column = file2_pb2.ColumnMetadata()
    column.encoding.direct.encoding = any_column.SerializeToString()
    page = column.pages.add(buffer_offsets=[0, 64], buffer_sizes=[2, 44], length=9)
    page.encoding.direct.encoding = any_layout.SerializeToString()
    return column.SerializeToString() + bytes(128)


def small_file_of_arrays() -> bytes:
    """Metadata of a column of 2.0 with one page of strings with a dictionary, behind 128 bytes of pages."""
    encoding = encodings_v2_0_pb2.ArrayEncoding()
    encoding.dictionary.num_dictionary_items = 3
    encoding.dictionary.indices.nullable.no_nulls.values.flat.bits_per_value = 8
    items = encoding.dictionary.items.binary
    items.null_adjustment = 30
    items.indices.nullable.some_nulls.values.flat.bits_per_value = 64
    items.bytes.flat.buffer.buffer_index = 1
    any_encoding, any_column = any_pb2.Any(), any_pb2.Any()
    any_encoding.Pack(encoding)
    any_column.Pack(encodings_v2_0_pb2.ColumnEncoding.FromString(b"\x0a\x00"))
    column = file2_pb2.ColumnMetadata()
    column.encoding.direct.encoding = any_column.SerializeToString()
    page = column.pages.add(buffer_offsets=[0, 64], buffer_sizes=[2, 44], length=9)
    page.encoding.direct.encoding = any_encoding.SerializeToString()
    return column.SerializeToString() + bytes(128)


def two_files(parse: Callable[..., object], data: memoryview) -> object:
    """Pages of one column of two files, each half of the bytes."""
    size = len(data) // 2
    metadata = max(size - 128, 0)
    places = inputs.int64s([0, size])
    return parse(data, places, inputs.int64s([size, size]), places, inputs.int64s([metadata, metadata]))


def two(data: memoryview) -> Stream:
    """Return a row of two chunks, cut in the middle."""
    middle = len(data) // 2
    return Stream(data, inputs.int64s([0, middle]), inputs.int64s([middle, len(data) - middle]))


def count(*values_per_chunk: int) -> kernels.Counts:
    return inputs.counts(values_per_chunk)


def chunks(data: memoryview, has_rep: bool, large: bool) -> object:
    """Headers, then the levels and values that they point at."""
    num_levels, rep, def_, buffers = kernels.parse_chunks(
        data, inputs.int64s([0, len(data)]), count(4), has_rep, True, 2, large
    )
    levels = kernels.decode_levels(def_, num_levels, "flat", 0)
    if has_rep:
        kernels.find_rows(kernels.decode_levels(rep, num_levels, "flat", 0), levels, 1, 1, 0, 1)
    return kernels.join_fixed(buffers[0], count(4), 4), kernels.join_variable(buffers[1], count(4), 32)


def block(data: memoryview, offset_bits: int) -> object:
    """Return values of a block of strings that a dictionary page would look its values up in."""
    offsets, text = kernels.join_variable_blocks(one(data), count(len(TEXT)), offset_bits)
    return kernels.gather_variable(bytes([4, 0, 2]), 3, 8, offsets, text, len(TEXT), offset_bits)


def coded(data: memoryview, offset_bits: int) -> object:
    """Codes of full-zip entries."""
    width = (len(TEXT) + 1) * offset_bits // 8
    table = SymbolTable(fsst.symbol_table(SYMBOLS))
    return kernels.expand_symbol_values(table, data[:width], data[width:], len(TEXT), offset_bits)


def lists(data: memoryview) -> object:
    """Levels of list<list<int>>, unravelled."""
    middle = len(data) // 4 * 2
    rep, def_ = data[:middle], data[middle : 2 * middle]
    kernels.item_validity(def_, bytes([0, 0, 1, 1, 2]), 0, 0)
    layer = kernels.list_layer(rep, def_, 2, 3, 3, 3, 2, 32, True)
    return kernels.list_layer(layer[5], layer[6], -1, 4, 4, 4, 1, 64, False)


def json_container(kind: int, *members: tuple[int, bytes]) -> bytes:
    """Binary JSON: a header, one entry per member, their bytes."""
    num_members = len(members) // 2 if kind == OBJECT else len(members)
    entries = [kind << 28 | num_members, *(type_ << 28 | len(data) for type_, data in members)]
    return b"".join(entry.to_bytes(4, "big") for entry in entries) + b"".join(data for _, data in members)


def json_values() -> bytes:
    """Offsets and bytes of three values."""
    numbers = [b"\x40\x80", b"\x50\1\2", b"\x60\x40\x09" + bytes(6), b"\0"]
    array = json_container(ARRAY, *((2, number) for number in numbers), (1, b"a\n\1"), (0, b""), (4, b""))
    rows = [
        json_container(OBJECT, (1, b"k"), (1, b"m"), (5, array), (3, b"")),
        b"",
        json_container(SCALAR, (1, b"s")),
    ]
    return values.arrow_offsets(rows, 64) + b"".join(rows)


def json_scalars() -> bytes:
    """Offsets and bytes of four numbers and texts of numbers."""
    numbers = [(2, b"\x40\x80"), (2, b"\x60\x40\x09" + bytes(6)), (1, b"-1.5e3"), (4, b"")]
    rows = [json_container(SCALAR, number) for number in numbers]
    return values.arrow_offsets(rows, 64) + b"".join(rows)


JSON_TRUTHS = [json_container(SCALAR, (4, b"")), json_container(SCALAR, (1, b"yes"))]


def json_texts() -> bytes:
    """Offsets and bytes of three texts."""
    rows = [b'{"k": [1, -200, 0x1F.8, 1e400, "a\\ud83d\\ude00"], m: {}}', b"", b"[,'\\u{0041}',nan]"]
    return values.arrow_offsets(rows, 64) + b"".join(rows)


def levels_of_lists() -> bytes:
    layers = (nested.NULLABLE_ITEM, nested.NULL_AND_EMPTY_LIST, nested.EMPTYABLE_LIST)
    rows = [[[1, None], None, []], [], [[2], [3, 4]]]
    levels = nested.shred(nested.Column((nested.LIST, nested.LIST, nested.LEAF), rows, layers))
    return values.integers(levels.rep + levels.def_, 16)


def header_and_values(large: bool, has_rep: bool) -> bytes:
    def_ = values.integers([0, 1, 0, 0], 16)
    rep = values.integers([1, 0, 1, 1], 16) if has_rep else None
    buffers = [values.integers([1, 2, 3, 4], 32), values.variable_chunk([b"a", b"bc", b"", b"d"], 32)]
    return values.chunk(buffers, num_levels=4, rep=rep, def_=def_, large=large)


def halves(data: memoryview) -> tuple[memoryview, memoryview]:
    """Repetition and definition levels."""
    middle = len(data) // 4 * 2
    return data[:middle], data[middle : 2 * middle]


def picked_rows(data: memoryview) -> object:
    """Two rows of list<list<int>>."""
    rep, def_ = halves(data)
    return kernels.pick_rows(
        rep, def_, count(len(rep) // 2), count(5), count(3), inputs.int64s([0, 0, 0, 0, 0, 2]), 2, 1
    )


def pieces(data: memoryview, map_after: int) -> object:
    """Ranges of this very file."""
    with Path(__file__).open("rb") as file:
        middle = len(data) // 16 * 8
        return kernels.PieceReader(kept_open(file.fileno()), 3000, 4096, map_after).read(
            [(data[:middle], data[middle : 2 * middle]), (data[:8], data[-8:])]
        )


def decoded_rows(data: memoryview, coding: str, in_lists: bool, compression: str = "none") -> object:
    """Row 1 of 2 of a page whose only chunk is in a file."""
    places = inputs.int64s([0, 2 if in_lists else 4])
    pages = kernels.MiniBlocks(
        num_rows=2 if in_lists else 4,
        positions=inputs.int64s([0]),
        lengths=inputs.int64s([len(data)]),
        first_values=inputs.int64s([0, 4]),
        large=True,
        compression=compression,
        coding=coding,
        bits=32,
        def_=("flat", 0),
        max_def=1,
        has_nulls=True,
        symbols=SymbolTable(fsst.symbol_table(SYMBOLS)) if coding == "fsst" else None,
        items=None,
    )
    if in_lists:
        pages.set_lists(places, places, ("flat", 0), -1, -1, 1, 1, 1, bytes(2), 32)
    descriptor = os.memfd_create("chunks")
    try:
        os.write(descriptor, data)
        reader = kernels.PieceReader(kept_open(descriptor), len(data), 4096, 1 << 60)
        rows = rows_of((pages, reader, 1, 2))
        batches = kernels.decode_batches([(pages, reader, 1, 2)], inputs.int64s([0, 1]))
    finally:
        os.close(descriptor)
    if rows is None:
        assert not any(batches.is_there)
        raise kernels.CorruptData("refused")
    return rows


def rows_of(
    piece: tuple[kernels.MiniBlocks | kernels.FlatPage, kernels.PieceReader, int, int],
) -> tuple[Any, ...] | None:
    """The decoded rows of a piece, of which the last one is also decoded alone; None if they are refused."""
    rows, last = kernels.decode_rows([piece, piece], [None, (inputs.int64s([piece[3]]), piece[2] + 1)])
    assert (rows is None) == (last is None)
    (masked,) = kernels.decode_masked([piece], b"\x2a", [1])
    assert masked is None or rows is not None
    return rows


def flat_rows(data: memoryview, kind: str) -> object:
    """Rows 1 to 3 of 4 of a page of a 2.0 file: numbers with validity, strings, indices, or lists."""
    size = len(data)
    half = (size // 2, size - size // 2)
    if kind == "numbers":
        pages = kernels.FlatPage(4, 16, (0, size // 2), half)
    elif kind == "text":
        pages = kernels.FlatPage(4, 64, (0, size // 2), None, (half, 20, 32))
    elif kind == "lists":
        items = kernels.FlatPage(6, 16, half, (max(size, 1) - 1, 1))
        pages = kernels.FlatPage(4, 64, (0, size // 2), None, None, None, ([items], [0, 6], 0, 6, 20, 32))
    else:
        pages = kernels.FlatPage(4, 8, (0, size), None, None, (data[: size // 8 * 4], data, 3, 32))
    descriptor = os.memfd_create("page")
    try:
        os.write(descriptor, data)
        reader = kernels.PieceReader(kept_open(descriptor), size, 0, 0)
        rows = rows_of((pages, reader, 1, 4))
        column = kernels.ColumnPages([pages], inputs.int64s([0, 4]), reader)
        taken = kernels.take_rows([([column], inputs.int64s([1, 2, 3]), None)], 1, 3)
        assert taken.is_there == [True] or rows is None
    finally:
        os.close(descriptor)
    if rows is None:
        raise kernels.CorruptData("refused")
    return rows


def copied_rows(data: memoryview, is_nullable: bool) -> object:
    """Two chunks of flat values in a file that is mapped."""
    first = 32 if is_nullable else 24
    lengths = inputs.int64s([first, len(data) - first])
    pages = kernels.MiniBlocks(
        num_rows=6,
        positions=inputs.int64s([0, first]),
        lengths=lengths,
        first_values=inputs.int64s([0, 4, 6]),
        large=True,
        compression="none",
        coding="flat",
        bits=32,
        def_=("flat", 0) if is_nullable else None,
        max_def=1,
        has_nulls=is_nullable,
        symbols=None,
        items=None,
    )
    descriptor = os.memfd_create("chunks")
    try:
        os.write(descriptor, data)
        reader = kernels.PieceReader(kept_open(descriptor), len(data), 4096, 0)
        rows = rows_of((pages, reader, 1, 6))
    finally:
        os.close(descriptor)
    if rows is None:
        raise kernels.CorruptData("refused")
    assert rows[:2] == (1, 5)
    return rows


_NEVER = 1 << 60
"""More reads than there are: the file is not mapped."""


def matched_rows(
    data: memoryview, items: bytes | None, *, is_listed: bool = False, divisor: int = 0
) -> object:
    """The rows of a page of numbers, or of indices of items, that meet a condition."""
    pages = kernels.MiniBlocks(
        num_rows=4,
        positions=inputs.int64s([0]),
        lengths=inputs.int64s([len(data)]),
        first_values=inputs.int64s([0, 4]),
        large=True,
        compression="none",
        coding="flat",
        bits=32,
        def_=("flat", 0),
        max_def=1,
        has_nulls=True,
        symbols=None,
        items=None if items is None else (inputs.int64s([0, 1, 1, 1]), b"x", 3, 64),
    )
    return _matched(data, pages, items, is_listed=is_listed, divisor=divisor)


def matched_flat_rows(data: memoryview, items: bytes | None, *, map_after: int = _NEVER) -> object:
    """The rows of a page of a 2.0 file that meet a condition: indices whose items do, or numbers."""
    if items is None:
        return _matched(data, kernels.FlatPage(4, 32, (0, len(data))), None, map_after=map_after)
    strings = np.array([0, 0, 1, 1], np.int32).data, b"x", 3, 32
    pages = kernels.FlatPage(4, 8, (0, len(data)), None, None, strings)
    return _matched(data, pages, items, map_after=map_after)


def _matched(
    data: memoryview,
    pages: kernels.MiniBlocks | kernels.FlatPage,
    items: bytes | None,
    *,
    is_listed: bool = False,
    divisor: int = 0,
    map_after: int = _NEVER,
) -> object:
    descriptor = os.memfd_create("chunks")
    try:
        os.write(descriptor, data)
        piece = pages, kernels.PieceReader(kept_open(descriptor), len(data), 4096, map_after), 0, 4
        if is_listed:
            found = kernels.match_listed(piece, kernels.NumberSet(np.arange(2, dtype=np.int32), 32), True)
        elif divisor:
            found = kernels.match_remainder(piece, 32, True, divisor, 1, False)
        elif items is None:
            found = kernels.match_intervals(piece, 32, False, [(1, 1, False), (2, 2, False)], True)
        else:
            found = kernels.match_items(piece, items, True)
    finally:
        os.close(descriptor)
    if found is None:
        raise kernels.CorruptData("refused")
    bits, count = found
    assert memoryview(bits)[0] < 16
    assert memoryview(bits)[0].bit_count() == count
    return found
