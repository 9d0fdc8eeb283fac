"""Every kernel that reads bytes of a file, on valid input that was cut or changed.

Each kernel gets each prefix of its input, and its input with bytes replaced. It may answer or refuse; any
other error, and any access outside the input that the sanitizer build sees, is a defect.
"""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lz4.block
import numpy as np
import pyroaring
import pytest
import zstandard
from google.protobuf import any_pb2

from lance_core import kernels
from lance_core.index.row_sets import TreeMap
from lance_core.kernels import Stream, SymbolTable
from lance_core.proto import encodings_v2_0_pb2, encodings_v2_1_pb2, file2_pb2
from support.descriptors import kept_open
from support.twins import fsst, inputs, nested, packing, values

RNG = random.Random(20)
ARRAY, OBJECT, SCALAR = 8, 4, 2
SYMBOLS = [bytes([i]) * (i % 8 + 1) for i in range(255)]
TEXT = [b"lance", b"", b"columns of text " * 3, b"\xff\xfe", b"x" * 40]
CODES = [fsst.encode(text, SYMBOLS) for text in TEXT]


@dataclass
class Case:
    """A kernel as a function of the bytes that a file would hold."""

    run: Callable[[memoryview], object]
    data: bytes


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


def matched_rows(data: memoryview, items: bytes | None) -> object:
    """The rows of a page of numbers, or of indices of items, that meet a condition."""
    size = len(data)
    pages = kernels.MiniBlocks(
        num_rows=4,
        positions=inputs.int64s([0]),
        lengths=inputs.int64s([size]),
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
    descriptor = os.memfd_create("chunks")
    try:
        os.write(descriptor, data)
        piece = pages, kernels.PieceReader(kept_open(descriptor), size, 4096, 1 << 60), 0, 4
        if items is None:
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


PROSE = " ".join(RNG.choices(["river", "stone", "north", "light"], k=500)).encode()
NUMBERS = b"".join(RNG.randrange(1000).to_bytes(8, "little") for _ in range(500))
INTS = struct.pack("<4i", *range(4))
LZ4_INTS = lz4.block.compress(INTS, store_size=True)
ZSTD_INTS = len(INTS).to_bytes(8, "little") + zstandard.compress(INTS)
PICKS = inputs.int64s([0, 3, 4, 7])
TWENTY = inputs.place(bytes(range(20)))
ROWS = [b"\1\2\3\4" + b"\3\0\0\0abc", b"", b"\1\2\3\4" + b"\0\0\0\0"]
ENTRIES = [(1, 0, b"abc"), (0, 1, None), (0, 0, b""), (1, 3, None), (1, 0, b"defgh")]
NARROW = [(rep, def_, b"1234" if def_ <= 1 else None) for rep, def_, _ in ENTRIES]

CASES = {
    "unpack_inline 8": Case(
        lambda d: kernels.unpack_inline(one(d), count(900), 8), packing.pack_inline([5] * 900, 8)
    ),
    "unpack_inline 64": Case(
        lambda d: kernels.unpack_inline(two(d), count(4, 1024), 64), 2 * packing.pack_inline([5] * 4, 64)
    ),
    "unpack_out_of_line": Case(
        lambda d: kernels.unpack_out_of_line(one(d), count(1100), 16, 3),
        packing.pack_out_of_line([5] * 1100, 16, 3, raw_tail=True),
    ),
    "expand_runs": Case(
        lambda d: kernels.expand_runs(one(d[:-4]), one(d[-4:]), count(403), 32),
        b"".join(values.runs([5] * 300 + [6] * 3 + [0] * 100, 32)),
    ),
    "split_runs": Case(
        lambda d: kernels.expand_runs(*kernels.split_runs(one(d), count(402)), count(402), 16),
        values.run_block([5] * 300 + [6] * 2 + [0] * 100, 16),
    ),
    "join_byte_streams": Case(lambda d: kernels.join_byte_streams(one(d), count(8), 8), RNG.randbytes(64)),
    "join_fixed": Case(lambda d: kernels.join_fixed(two(d), count(4, 4), 4), RNG.randbytes(32)),
    "join_bits": Case(lambda d: kernels.join_bits(two(d), count(61, 60)), RNG.randbytes(16)),
    "copy_bits": Case(lambda d: kernels.copy_bits(d, 13, 40), RNG.randbytes(7)),
    "join_variable 32": Case(
        lambda d: kernels.join_variable(one(d), count(5), 32), values.variable_chunk(TEXT, 32)
    ),
    "join_variable 64": Case(
        lambda d: kernels.join_variable(one(d), count(5), 64), values.variable_chunk(TEXT, 64)
    ),
    "variable block 32": Case(lambda d: block(d, 32), values.variable_block(TEXT, 32)),
    "variable block 64": Case(lambda d: block(d, 64), values.variable_block(TEXT, 64)),
    "symbol table": Case(
        lambda d: kernels.expand_symbols(
            SymbolTable(d),
            inputs.stream([values.variable_chunk([b"\0\1\2\3\4", b"\1\xff\1"], 32)]),
            count(2),
            32,
        ),
        fsst.symbol_table([b"a", b"bcd", b"e" * 8, b"fg", b"h"])[:80],
    ),
    "expand_symbols 32": Case(
        lambda d: kernels.expand_symbols(SymbolTable(fsst.symbol_table(SYMBOLS)), one(d), count(5), 32),
        values.variable_chunk(CODES, 32),
    ),
    "expand_symbols 64, partial table": Case(
        lambda d: kernels.expand_symbols(SymbolTable(fsst.symbol_table(SYMBOLS[:100])), one(d), count(5), 64),
        values.variable_chunk([fsst.encode(text, SYMBOLS[:100]) for text in TEXT], 64),
    ),
    "expand_page_symbols": Case(
        lambda d: kernels.expand_page_symbols(
            [SymbolTable(fsst.symbol_table(SYMBOLS[:n])) for n in (255, 100)],
            inputs.int64s([1, 1]),
            two(d),
            count(5, 5),
            32,
        ),
        values.variable_chunk([fsst.encode(text, SYMBOLS[:100]) for text in TEXT], 32) * 2,
    ),
    "expand_symbol_values 32": Case(
        lambda d: coded(d, 32), values.arrow_offsets(CODES, 32) + b"".join(CODES)
    ),
    "expand_symbol_values 64": Case(
        lambda d: coded(d, 64), values.arrow_offsets(CODES, 64) + b"".join(CODES)
    ),
    "levels inline": Case(
        lambda d: kernels.decode_validity(one(d), count(700), "inline", 0, 1, 2),
        packing.pack_inline([1] * 700, 16),
    ),
    "levels packed": Case(
        lambda d: kernels.decode_validity(one(d), count(2000), "packed", 2, 1, 2),
        packing.pack_out_of_line([1, 2] * 1000, 16, 2, raw_tail=False),
    ),
    "levels runs": Case(
        lambda d: kernels.decode_validity(one(d), count(350), "runs", 0, 1, 2),
        values.run_block([1] * 300 + [2] * 50, 16),
    ),
    "levels of lists": Case(lists, levels_of_lists()),
    "chunk": Case(lambda d: chunks(d, False, False), header_and_values(False, False)),
    "chunk with lists, large": Case(lambda d: chunks(d, True, True), header_and_values(True, True)),
    "unzip_fixed": Case(lambda d: kernels.unzip_fixed(d, 1, 2, 1, 4), values.zip_entries(NARROW, 1, 2)),
    "unzip_fixed, wide control word": Case(
        lambda d: kernels.unzip_fixed(d, 9, 9, 1, 4), values.zip_entries(NARROW, 9, 9)
    ),
    "unzip_variable 32": Case(
        lambda d: kernels.unzip_variable(d, 1, 2, 1, 32), values.zip_entries(ENTRIES, 1, 2, 32)
    ),
    "unzip_variable 64": Case(
        lambda d: kernels.unzip_variable(d, 8, 8, 1, 64), values.zip_entries(ENTRIES, 8, 8, 64)
    ),
    "gather_fixed": Case(
        lambda d: kernels.gather_fixed(d[:8], 4, 16, d[8:], 3),
        values.integers([0, 3, 2, 2], 16) + RNG.randbytes(12),
    ),
    "gather_bits": Case(
        lambda d: kernels.gather_bits(d[:8], 4, 16, d[8:], 30),
        values.integers([0, 29, 2, 2], 16) + RNG.randbytes(4),
    ),
    "check_indices": Case(lambda d: kernels.check_indices(d, 4, 16, 4), values.integers([0, 3, 2, 2], 16)),
    "split_rows": Case(lambda d: kernels.split_rows(d, 5, [4, 1, 3]), RNG.randbytes(40)),
    "join_row_bits": Case(lambda d: kernels.join_row_bits(d, 7, 13), RNG.randbytes(14)),
    "split_variable_rows": Case(
        lambda d: kernels.split_variable_rows(d[:16], d[16:], 3, 32, [(4, 0), (0, 32)]),
        values.arrow_offsets(ROWS, 32) + b"".join(ROWS),
    ),
    "pick_fixed": Case(lambda d: kernels.pick_fixed(two(d), count(4, 4), PICKS, 4), RNG.randbytes(32)),
    "pick_bits": Case(lambda d: kernels.pick_bits(two(d), count(61, 60), PICKS), RNG.randbytes(16)),
    "pick_inline": Case(
        lambda d: kernels.pick_inline(two(d), count(4, 1024), PICKS, 64), 2 * packing.pack_inline([5] * 4, 64)
    ),
    "pick_variable 32": Case(
        lambda d: kernels.pick_variable(one(d), count(5), PICKS[:3], 32), values.variable_chunk(TEXT, 32)
    ),
    "pick_variable 64": Case(
        lambda d: kernels.pick_variable(one(d), count(5), PICKS[:3], 64), values.variable_chunk(TEXT, 64)
    ),
    "pick_levels inline": Case(
        lambda d: kernels.pick_levels(one(d), count(700), PICKS, "inline", 0),
        packing.pack_inline([1] * 700, 16),
    ),
    "pick_levels packed": Case(
        lambda d: kernels.pick_levels(one(d), count(2000), PICKS, "packed", 2),
        packing.pack_out_of_line([1, 2] * 1000, 16, 2, raw_tail=False),
    ),
    "picks": Case(
        lambda d: kernels.pick_fixed(one(TWENTY), count(20), d, 1), values.integers([0, 3, 19], 64)
    ),
    "pick_rows": Case(picked_rows, levels_of_lists()),
    "places": Case(
        lambda d: kernels.pick_rows(
            *halves(inputs.place(levels_of_lists())), count(8), count(5), count(3), d, 2, 1
        ),
        values.integers([0, 0, 0, 0, 0, 2], 64),
    ),
    "locate_chunks": Case(
        lambda d: kernels.locate_chunks(d, False, 20, 100), struct.pack("<3H", 5 << 4 | 3, 1 << 4 | 3, 2 << 4)
    ),
    "locate_chunks, large": Case(
        lambda d: kernels.locate_chunks(d, True, 20, 100), struct.pack("<3I", 5 << 4 | 3, 1 << 4 | 3, 2 << 4)
    ),
    "choose_chunks": Case(
        lambda d: kernels.choose_chunks(d[:32], d[32:64], d[64:], 1000),
        values.integers([0, 48, 96, 144, 0, 8, 16, 20, 0, 9, 9, 19], 64),
    ),
    "choose_row_chunks": Case(
        lambda d: kernels.choose_row_chunks(d[:32], d[32:64], d[64:96], d[96:128], d[128:], 1000),
        values.integers([0, 48, 96, 144, 0, 8, 16, 20, 0, 3, 3, 4, 0, 2, 2, 4, 0, 2, 3], 64),
    ),
    "PieceReader": Case(lambda d: pieces(d, 99), values.integers([0, 7, 100, 5, 1, 0], 64)),
    "PieceReader, mapped": Case(lambda d: pieces(d, 0), values.integers([0, 7, 100, 5, 1, 0], 64)),
    "decode_rows, flat": Case(
        lambda d: decoded_rows(d, "flat", False), struct.pack("<HHI4H4i", 4, 8, 16, 0, 1, 0, 0, *range(4))
    ),
    "FlatPage, numbers": Case(lambda d: flat_rows(d, "numbers"), struct.pack("<4h8s", 1, 2, 3, 4, b"\x0b")),
    "FlatPage, text": Case(lambda d: flat_rows(d, "text"), struct.pack("<4Q32s", 2, 4, 24, 6, b"abcdef")),
    "FlatPage, lists": Case(
        lambda d: flat_rows(d, "lists"), struct.pack("<4Q6h19sB", 2, 4, 24, 6, *range(6), b"", 0x2F)
    ),
    "FlatPage, items": Case(lambda d: flat_rows(d, "items"), struct.pack("<4i16s", 0, 0, 1, 3, b"abc")),
    "decode_rows, mapped": Case(
        lambda d: copied_rows(d, False),
        struct.pack("<HI2x4iHI2x2i", 0, 16, *range(4), 0, 8, 4, 5),
    ),
    "decode_rows, mapped with nulls": Case(
        lambda d: copied_rows(d, True),
        struct.pack("<HHI4H4iHHI2H4x2i", 4, 8, 16, 0, 1, 0, 0, *range(4), 2, 4, 8, 1, 0, 4, 5),
    ),
    "decode_rows, variable": Case(
        lambda d: decoded_rows(d, "variable", False),
        struct.pack("<HHI4H5I3s", 4, 8, 23, 0, 1, 0, 0, 20, 20, 20, 21, 23, b"abc"),
    ),
    "decode_rows, fsst": Case(
        lambda d: decoded_rows(d, "fsst", False),
        struct.pack("<HHI4H5I6s", 4, 8, 26, 0, 1, 0, 0, 20, 20, 20, 22, 26, bytes([1, 2, 3, 255, 65, 7])),
    ),
    "decode_rows, lists": Case(
        lambda d: decoded_rows(d, "flat", True),
        struct.pack("<HHHIxxxxxx4H4H4i", 4, 8, 8, 16, 1, 0, 1, 0, 0, 0, 1, 0, *range(4)),
    ),
    "decode_rows, lz4": Case(
        lambda d: decoded_rows(d, "flat", False, "lz4"),
        struct.pack("<HHI4H", 4, 8, len(LZ4_INTS), 0, 1, 0, 0) + LZ4_INTS,
    ),
    "decode_rows, zstd": Case(
        lambda d: decoded_rows(d, "byte_stream_split", False, "zstd"),
        struct.pack("<HHI4H", 4, 8, len(ZSTD_INTS), 0, 1, 0, 0) + ZSTD_INTS,
    ),
    "decode_rows, runs": Case(
        lambda d: decoded_rows(d, "rle", False),
        struct.pack("<HHII4x4H2i2b", 4, 8, 8, 2, 0, 1, 0, 0, 5, 6, 3, 1),
    ),
    "match_intervals": Case(
        lambda d: matched_rows(d, None), struct.pack("<HHI4H4i", 4, 8, 16, 0, 1, 0, 0, *range(4))
    ),
    "match_items": Case(
        lambda d: matched_rows(d, bytes([0, 1, 1])), struct.pack("<HHI4H4i", 4, 8, 16, 0, 1, 0, 0, 0, 0, 2, 1)
    ),
    "inflate lz4": Case(
        lambda d: kernels.inflate(one(d), "lz4").chunks(), lz4.block.compress(PROSE, store_size=True)
    ),
    "inflate zstd": Case(
        lambda d: kernels.inflate(one(d), "zstd").chunks(),
        len(PROSE).to_bytes(8, "little") + zstandard.compress(PROSE),
    ),
    "inflate zstd, numbers": Case(
        lambda d: kernels.inflate(one(d), "zstd").chunks(),
        len(NUMBERS).to_bytes(8, "little") + zstandard.compress(NUMBERS, 19),
    ),
    "inflate_values": Case(
        lambda d: kernels.inflate_values(d[:12], d[12:], 2, 32, "lz4"),
        values.arrow_offsets([LZ4_INTS, LZ4_INTS], 32) + 2 * LZ4_INTS,
    ),
    "json_text": Case(lambda d: kernels.json_text(d[:32], d[32:], None, 0, 3), json_values()),
    "json_binary": Case(lambda d: kernels.json_binary(d[:32], d[32:], None, 0, 3), json_texts()),
    "json_values_at": Case(
        lambda d: kernels.json_values_at(d[:32], d[32:], None, 0, 3, "$.**[*]?(@ != 1)"), json_values()
    ),
    "json_leaves": Case(lambda d: kernels.json_leaves(d[:32], d[32:], None, 0, 3), json_values()),
    "json_member": Case(lambda d: kernels.json_member(d[:32], d[32:], None, 0, 3, "k"), json_values()),
    "json_exists": Case(lambda d: kernels.json_exists(d[:32], d[32:], None, 0, 3, "$.k[0]"), json_values()),
    "json_array_length": Case(
        lambda d: kernels.json_array_length(d[:32], d[32:], None, 0, 3, "$.k"), json_values()
    ),
    "json_array_contains": Case(
        lambda d: kernels.json_array_contains(d[:32], d[32:], None, 0, 3, "$.*", "a"), json_values()
    ),
    **{
        kernel.__name__: Case(lambda d, kernel=kernel: kernel(d[:40], d[40:], None, 0, 4), json_scalars())
        for kernel in (kernels.json_strings, kernels.json_integers, kernels.json_floats)
    },
    "json_booleans": Case(
        lambda d: kernels.json_booleans(d[:24], d[24:], None, 0, 2),
        values.arrow_offsets(JSON_TRUTHS, 64) + b"".join(JSON_TRUTHS),
    ),
    "digest_values": Case(lambda d: kernels.digest_values(d[:32], d[32:], 3, "sha256"), json_texts()),
    "encode_base64": Case(lambda d: kernels.encode_base64(d[:32], d[32:], 3, True), json_texts()),
    "decode_base64": Case(
        lambda d: kernels.decode_base64(d[:24], d[24:], 2, False),
        values.arrow_offsets([b"YWJj", b"YQ=="], 64) + b"YWJjYQ==",
    ),
    "edit_distances": Case(lambda d: kernels.edit_distances(d[:32], d[32:], d[:32], d[32:], 3), json_texts()),
    "field_totals": Case(
        lambda d: kernels.field_totals(d, (2, 4)),
        # numbers: field 1 and, in the message of field 2, field 4; 8 bytes in field 3, 4 bytes in field 5
        bytes([8, 0xAC, 2, 18, 6, 32, 5, 10, 2, 7, 7, 25, *range(8), 45, *range(4)]),
    ),
    "split_null_ends": Case(
        lambda d: kernels.split_null_ends(d, 3, True, 100, 60, 32), values.integers([3, 5, 109, 60], 64)
    ),
    "unite_row_sets": Case(
        lambda d: kernels.unite_row_sets(inputs.int64s([2]), d[:12], d[12:], True), row_sets()
    ),
    "parse_file_pages": Case(lambda d: two_files(kernels.parse_file_pages, d), small_file() * 2),
    "parse_file_arrays": Case(lambda d: two_files(kernels.parse_file_arrays, d), small_file_of_arrays() * 2),
    "join_null_ends": Case(
        lambda d: kernels.join_null_ends(d[32:], d[:16], d[16:32], inputs.int64s([7, 9]), 32),
        values.integers([2, 1, 9, 9, 3, 7, 18], 64),
    ),
    "join_ranges": Case(
        lambda d: kernels.join_ranges(d[16:], d[:8], d[8:16]),
        values.integers([3, 5], 64) + bytes(9),
    ),
    "join_chunks": Case(
        lambda d: kernels.join_chunks(
            d, inputs.int64s([0, 4, 0, 4]), inputs.int64s([8, 56, 8, 56]), inputs.int64s([9, 9]), False
        ),
        struct.pack("<4H", 5 << 4 | 3, 0 << 4, 0, 0) + bytes(56),
    ),
    "unpack_bit_stream": Case(lambda d: kernels.unpack_bit_stream(d, 5, 11, 7, 16, True), RNG.randbytes(11)),
}


@pytest.mark.parametrize("name", CASES)
def test_valid_input_is_accepted(name: str) -> None:
    """Without this the other tests here would pass on kernels that refuse everything."""
    case = CASES[name]
    for shift in range(8):
        case.run(inputs.place(case.data, shift))


@pytest.mark.parametrize("name", CASES)
def test_cut_input(name: str) -> None:
    """T22, T23: every prefix."""
    case = CASES[name]
    lengths = (
        range(len(case.data)) if len(case.data) < 400 else [*range(200), *range(200, len(case.data), 13)]
    )
    for length in lengths:
        inputs.answer_or_refusal(lambda: case.run(inputs.place(case.data[:length])))  # noqa: B023


@pytest.mark.parametrize("mutants", [300, pytest.param(10_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", CASES)
def test_changed_input(name: str, mutants: int) -> None:
    """T22, T23: one to three bytes replaced, mostly near the front, where the sizes are."""
    case = CASES[name]
    rng = random.Random(f"{name} {mutants}")
    for _ in range(mutants):
        data = bytearray(case.data)
        for _ in range(rng.randint(1, 3)):
            reach = rng.choice((8, 32, len(data)))
            at = rng.randrange(min(reach, len(data)))
            bit = data[at] ^ (1 << rng.randrange(8))
            data[at] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256), bit))
        inputs.answer_or_refusal(lambda: case.run(inputs.place(bytes(data))))  # noqa: B023


def test_deep_json() -> None:
    """T24: nesting has a limit far below what the stack of a thread holds."""
    value = json_container(ARRAY)
    for _ in range(20_000):
        value = json_container(ARRAY, (5, value))
    with pytest.raises(kernels.CorruptData, match="deeper"):
        kernels.json_text(values.arrow_offsets([value], 64), value, None, 0, 1)
    text = b"[" * 20_000
    with pytest.raises(kernels.CorruptData, match="deeper"):
        kernels.json_binary(values.arrow_offsets([text], 64), text, None, 0, 1)


def test_every_kernel_is_here() -> None:
    """A kernel that reads bytes of a file and is not tried above fails here."""
    source = Path(__file__).read_text(encoding="utf-8")
    made_of_values = {
        "expand_ways",
        "repeat_value",
        "repeat_variable",
        "bytes_to_bits",
        "check_json_path",
        "count_read",
        "count_write",
        "io_counts",
        "pool_use",
        "set_pool_retention",
        "thread_reads",
    }
    # Statistics and encoders get arrays that Arrow has checked, and checksums any bytes.
    of_arrow_data = {
        "ArrayBuilder",
        "LevelBuilder",
        "TermCollector",
        "assemble_chunks",
        "bloom_filter",
        "build_map",
        "chunk_variable",
        "compress_lz4",
        "compress_symbols",
        "count_changes",
        "count_levels",
        "crc32c",
        "crc32c_by",
        "crc32c_ways",
        "cut_bits",
        "encode_levels",
        "encode_runs",
        "find_distinct",
        "find_trigrams",
        "fixed_zones",
        "hash_strings",
        "interleave_rows",
        "join_variable_rows",
        "longest_value",
        "map_levels",
        "rebase_offsets",
        "repeat_levels",
        "sample_distinct",
        "search_strings",
        "set_positions",
        "bits_except",
        "shred_items",
        "shred_lists",
        "sort_rows",
        "sort_variable",
        "split_byte_streams",
        "survey_words",
        "train_symbols",
        "try_symbols",
        "variable_zones",
        "write_checked",
        "xxhash64",
    }
    in_test_sets_by_value = {"SetCollector"}
    in_test_text = {
        "Postings",
        "WordReader",
        "best_documents",
        "decode_position_lists",
        "decode_positions",
        "expand_map",
        "find_key",
        "match_phrase",
        "similar_terms",
    }
    in_test_takes = {"ColumnPages", "ArrowRows", "take_rows"}
    in_test_vector_index = {
        "BestRows",
        "Graph",
        "KeySet",
        "StoredVectors",
        "code_sizes",
        "lookup_table",
        "nearest_centroids",
        "sum_clusters",
    }
    in_test_vectors = {
        "Comparison",
        "PlainPages",
        "distances_in_files",
        "nearest_in_file",
        "nearest_vectors",
        "vector_distances",
    }
    errors = {"ChunkOverflow", "CorruptData", "InvalidPath", "NoResult", "OffsetOverflow"}
    in_test_descriptors = {"Descriptor", "close_unused_descriptors"}
    no_kernels = {"Block", "LONGEST_RUN"} | errors
    tried_elsewhere = (
        in_test_descriptors
        | in_test_sets_by_value
        | in_test_takes
        | in_test_text
        | in_test_vector_index
        | in_test_vectors
    )
    names = set(kernels.__all__) - no_kernels - made_of_values - of_arrow_data - tried_elsewhere
    assert [name for name in sorted(names) if f"kernels.{name}(" not in source and name not in source] == []
