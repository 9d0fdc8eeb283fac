"""The worked examples of docs/format.md as whole pages, byte by byte, read whole and by every row range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import lz4.block
import pyarrow as pa
import pytest

from lance_core.encodings.v2_1.layouts.levels import Node
from lance_core.proto import encodings_v2_1_pb2 as pb
from support.runs.each_case import each_case
from support.twins import nested, pages, values
from support.twins.pages import ITEM, LIST, HandmadePage, flat, variable

NULLABLE, NULLABLE_LIST = [nested.NULLABLE_ITEM], [nested.NULLABLE_ITEM, nested.NULL_AND_EMPTY_LIST]


def u16(*levels: int) -> bytes:
    return values.integers(levels, 16)


def i32(*numbers: int) -> bytes:
    return values.integers(numbers, 32)


NUMBERS = pages.mini_block(
    [
        bytes.fromhex("5000"),
        bytes.fromhex(
            "0500 0a00 1400 fefe 00000100000000000100 fefefefefefe"
            "01000000 00000000 03000000 04000000 00000000 fefefefe"
        ),
    ],
    5,
    pa.int32(),
    layers=NULLABLE,
    def_compression=flat(16),
    value_compression=flat(32),
)
NUMBERS_2_2 = pages.mini_block(
    [
        bytes.fromhex("50000000"),
        bytes.fromhex(
            "0500 0a00 14000000 00000100000000000100 fefefefefefe"
            "01000000 00000000 03000000 04000000 00000000 fefefefe"
        ),
    ],
    5,
    pa.int32(),
    layers=NULLABLE,
    def_compression=flat(16),
    value_compression=flat(32),
    has_large_chunk=True,
)
LISTS = pages.mini_block(
    [
        bytes.fromhex("6000"),
        bytes.fromhex(
            "0500 0a00 0a00 0c00 01000000010001000100 000000000000 00000000010002000000 000000000000"
            "0a000000 14000000 1e000000 00000000"
        ),
        bytes.fromhex("0400000000000000 0000000000000000"),
    ],
    4,
    pa.int32(),
    (ITEM, LIST),
    num_items=3,
    layers=[nested.ALL_VALID_ITEM, nested.NULL_AND_EMPTY_LIST],
    rep_compression=flat(16),
    def_compression=flat(16),
    value_compression=flat(32),
    repetition_index_depth=1,
)
ZIPPED_NUMBERS = pages.full_zip(
    [bytes.fromhex("00 01000000 01 00000000 00 03000000")],
    3,
    pa.int32(),
    bits_def=1,
    bits_per_value=32,
    layers=NULLABLE,
    value_compression=flat(32),
)
ZIPPED_TEXT = pages.full_zip(
    [
        bytes.fromhex("00 02000000 6162 01 00 00000000 00 03000000 636465"),
        bytes.fromhex("00 07 08 0d 15"),
    ],
    4,
    pa.string(),
    bits_def=1,
    bits_per_offset=32,
    layers=NULLABLE,
    value_compression=variable(32),
)
ZIPPED_LISTS = pages.full_zip(
    [
        bytes.fromhex("04 02000000 6162 00 01000000 63 06 07 04 00000000 01"),
        bytes.fromhex("00 0d 0e 0f 15"),
    ],
    4,
    pa.string(),
    (ITEM, LIST),
    bits_rep=1,
    bits_def=2,
    bits_per_offset=32,
    layers=NULLABLE_LIST,
    value_compression=variable(32),
)
DICTIONARY_BLOCK = bytes.fromhex("20000000 14000000 00000000 01000000 02000000 61 62")


def one_chunk(buffers: list[bytes], *def_: int) -> list[bytes]:
    """Buffers 0 and 1 of a page of one chunk, with definition levels if there are any."""
    chunk = values.chunk(buffers, num_levels=len(def_), def_=u16(*def_) if def_ else None)
    return [u16((len(chunk) // 8 - 1) << 4), chunk]


def dictionary_page(block: bytes, encoding: pb.CompressiveEncoding) -> HandmadePage:
    """['a', null, 'b', 'a'] as indices 0 0 1 0 into {a, b}."""
    return pages.mini_block(
        [*one_chunk([i32(0, 0, 1, 0)], 0, 1, 0, 0), block],
        4,
        pa.string(),
        layers=NULLABLE,
        def_compression=flat(16),
        value_compression=flat(32),
        dictionary=encoding,
        num_dictionary_items=2,
    )


def lz4_block(data: bytes) -> bytes:
    return i32(len(data)) + lz4.block.compress(data, store_size=False)


LISTS_OF_TWO = pages.lists_of(2, flat(32), has_validity=True)
FIXED_LISTS = pages.mini_block(
    one_chunk([b"\x0d", i32(1, 0, 3, 4, 0, 0)], 0, 0, 1),
    3,
    pa.list_(pa.int32(), 2),
    layers=NULLABLE,
    num_buffers=2,
    def_compression=flat(16),
    value_compression=LISTS_OF_TWO,
)
ZIPPED_FIXED_LISTS = pages.full_zip(
    [b"\0\1" + i32(1, 0) + b"\0\3" + i32(3, 4) + b"\1\0" + i32(0, 0)],
    3,
    pa.list_(pa.int32(), 2),
    bits_def=1,
    bits_per_value=72,
    layers=NULLABLE,
    value_compression=LISTS_OF_TWO,
)
PACKED = pages.mini_block(
    one_chunk([bytes.fromhex("01000000 02 03000000 04")]),
    2,
    pa.struct([("a", pa.int32()), ("b", pa.uint8())]),
    value_compression=pb.CompressiveEncoding(
        packed_struct=pb.PackedStruct(bits_per_value=[32, 8], values=flat(40))
    ),
)
FIELDS = [
    pb.VariablePackedStruct.FieldEncoding(value=flat(32), bits_per_value=32),
    pb.VariablePackedStruct.FieldEncoding(value=variable(32), bits_per_length=32),
]
VARIABLE_PACKED = pages.full_zip(
    [
        bytes.fromhex("00 0a000000 01000000 02000000 7879 01 00 08000000 03000000 00000000"),
        bytes.fromhex("00 0f 10 1d"),
    ],
    3,
    pa.struct([("n", pa.int32()), ("s", pa.string())]),
    bits_def=1,
    bits_per_offset=32,
    layers=NULLABLE,
    value_compression=pb.CompressiveEncoding(variable_packed_struct=pb.VariablePackedStruct(fields=FIELDS)),
)
LISTS_OF_STRUCTS = pages.mini_block(
    one_chunk([i32(1, 0, 0, 0, 3, 0)], 0, 2, 3, 3, 0, 1),
    6,
    pa.int32(),
    (ITEM, ITEM, Node(dimension=2)),
    layers=[nested.NULLABLE_ITEM] * 3,
    def_compression=flat(16),
    value_compression=flat(32),
)
SPANNING_ROWS = [[0, 1, 2], [3, 4, 5, 6, 7, 8, 9], [10]]
SPANNING_CHUNKS = [
    values.chunk([i32(*numbers)], num_levels=len(rep), rep=u16(*rep))
    for numbers, rep in (
        ((0, 1, 2, 3), (1, 0, 0, 1)),
        ((4, 5, 6, 7), (0, 0, 0, 0)),
        ((8, 9, 10), (0, 0, 1)),
    )
]


def spanning(depth: int, counts: Sequence[int]) -> HandmadePage:
    """Lists whose rows span chunks, with a repetition index of a depth."""
    sizes = u16(
        *((len(chunk) // 8 - 1) << 4 | k for chunk, k in zip(SPANNING_CHUNKS, (2, 2, 0), strict=True))
    )
    return pages.mini_block(
        [sizes, b"".join(SPANNING_CHUNKS), values.integers(counts, 64)],
        3,
        pa.int32(),
        (ITEM, LIST),
        num_items=11,
        layers=[nested.ALL_VALID_ITEM, nested.ALL_VALID_LIST],
        rep_compression=flat(16),
        value_compression=flat(32),
        repetition_index_depth=depth,
    )


SCALAR = bytes.fromhex("02000000 08000000 03000000 00000000 03000000 686579")
LARGE_SCALAR = i32(2, 16, 3) + values.integers([0, 3], 64) + b"hey"

EXAMPLES: dict[str, tuple[HandmadePage, list[Any]]] = {
    "nullable int32": (NUMBERS, [1, None, 3, 4, None]),
    "nullable int32, 2.2": (NUMBERS_2_2, [1, None, 3, 4, None]),
    "list<int32>": (LISTS, [[10, 20], None, [], [30]]),
    "rows that span chunks": (spanning(1, (1, 1, 0, 4, 2, 0)), SPANNING_ROWS),
    "rows that span chunks, an index of depth 2": (spanning(2, (1, 0, 1, 0, 0, 4, 2, 0, 0)), SPANNING_ROWS),
    "rows that span chunks, an index of depth 3": (
        spanning(3, (1, 1, 0, 0, 0, 1, 2, 0, 2, 0, 0, 0)),
        SPANNING_ROWS,
    ),
    "full-zip int32": (ZIPPED_NUMBERS, [1, None, 3]),
    "full-zip string": (ZIPPED_TEXT, ["ab", None, "", "cde"]),
    "full-zip list<string>": (ZIPPED_LISTS, [["ab", "c"], None, [], ["", None]]),
    "dictionary": (dictionary_page(DICTIONARY_BLOCK, variable(32)), ["a", None, "b", "a"]),
    "dictionary behind LZ4": (
        dictionary_page(lz4_block(DICTIONARY_BLOCK), pages.general(pages.LZ4, variable(32))),
        ["a", None, "b", "a"],
    ),
    "fixed-size lists": (FIXED_LISTS, [[1, None], [3, 4], None]),
    "full-zip fixed-size lists": (ZIPPED_FIXED_LISTS, [[1, None], [3, 4], None]),
    "packed struct": (PACKED, [{"a": 1, "b": 2}, {"a": 3, "b": 4}]),
    "variable packed struct": (VARIABLE_PACKED, [{"n": 1, "s": "xy"}, None, {"n": 3, "s": ""}]),
    "fixed-size lists of structs": (LISTS_OF_STRUCTS, [[{"c": 1}, None], None, [{"c": 3}, {"c": None}]]),
    "all null": (pages.constant([], 3, pa.int32()), [None] * 3),
    "null type": (pages.constant([], 2, pa.null()), [None] * 2),
    "empty structs": (
        pages.constant([], 2, pa.struct([]), layers=[nested.ALL_VALID_ITEM]),
        [{}, {}],
    ),
    "null structs of nulls": (
        pages.constant([b"", u16(1, 2, 1)], 3, pa.int8(), (ITEM, ITEM), layers=[nested.NULLABLE_ITEM] * 2),
        [{"c": None}, None, {"c": None}],
    ),
    "lists without values": (
        pages.constant([u16(1, 1, 1), u16(2, 3, 2)], 3, pa.int8(), (ITEM, LIST), layers=NULLABLE_LIST),
        [None, [], None],
    ),
    "lists of nulls, packed levels": (
        pages.constant(
            [u16(1, 0, 1), u16(1, 1, 2)],
            2,
            pa.int8(),
            (ITEM, LIST),
            layers=NULLABLE_LIST,
            rep_compression=pages.packed(16, 1),
            def_compression=pages.packed(16, 2),
            num_rep_values=3,
            num_def_values=3,
        ),
        [[None, None], None],
    ),
    "one value": (
        pages.constant([], 3, pa.int16(), layers=[nested.ALL_VALID_ITEM], inline_value=b"\5\0"),
        [5] * 3,
    ),
    "one bool": (
        pages.constant([], 9, pa.bool_(), layers=[nested.ALL_VALID_ITEM], inline_value=b"\1"),
        [True] * 9,
    ),
    "one short string": (
        pages.constant([], 2, pa.string(), layers=[nested.ALL_VALID_ITEM], inline_value=b"hey"),
        ["hey"] * 2,
    ),
    "one value and nulls": (
        pages.constant([b"", u16(0, 1, 0)], 3, pa.int16(), layers=NULLABLE, inline_value=b"\5\0"),
        [5, None, 5],
    ),
    "one value in lists": (
        pages.constant(
            [u16(1, 0, 1, 1), u16(0, 1, 3, 0)],
            3,
            pa.int16(),
            (ITEM, LIST),
            layers=NULLABLE_LIST,
            inline_value=b"\5\0",
        ),
        [[5, None], [], [5]],
    ),
    "one scalar": (
        pages.constant([SCALAR], 2, pa.string(), layers=[nested.ALL_VALID_ITEM]),
        ["hey"] * 2,
    ),
    "one large scalar and nulls": (
        pages.constant([LARGE_SCALAR, b"", u16(1, 0)], 2, pa.large_string(), layers=NULLABLE),
        [None, "hey"],
    ),
    "one wide scalar": (
        pages.constant([i32(1, 40) + b"x" * 40], 2, pa.binary(40), layers=[nested.ALL_VALID_ITEM]),
        [b"x" * 40] * 2,
    ),
}


@each_case("name", EXAMPLES)
def test_example(name: str) -> None:
    page, rows = EXAMPLES[name]
    assert page.array().to_pylist() == rows
    for start in range(len(rows)):
        for end in range(start + 1, len(rows) + 1):
            assert page.array(start, end).to_pylist() == rows[start:end], (start, end)
            ends = sorted({start, end - 1})
            assert page.picked(ends).to_pylist() == [rows[row] for row in ends], ends


def test_the_examples_match_the_twin_writers() -> None:
    """The bytes that the random pages of other tests are made of are those of the format."""
    texts = nested.Column((nested.LIST, nested.LEAF), [[7, 8], None, [], [9, None]], tuple(NULLABLE_LIST))
    page = pages.full_zip_page(texts, as_text=True, index_width=1)
    assert page.buffers[0] == bytes.fromhex("04 01000000 37 00 01000000 38 06 07 04 01000000 39 01")
    assert page.layout.full_zip_layout.bits_rep == 1
    assert page.layout.full_zip_layout.bits_def == 2
    page, rows = EXAMPLES["rows that span chunks"]
    column = nested.Column((nested.LIST, nested.LEAF), rows, (1, 2))
    assert pages.mini_block_page(column, [2, 2]).buffers[2] == page.buffers[2]


def test_a_dictionary_column_keeps_its_indices() -> None:
    arrow_type = pa.dictionary(pa.int32(), pa.string())
    page = replace(dictionary_page(DICTIONARY_BLOCK, variable(32)), arrow_type=arrow_type)
    array = page.array()
    assert array.type == arrow_type
    assert array.dictionary.to_pylist() == ["a", "b"]
    assert array.to_pylist() == ["a", None, "b", "a"]


@pytest.mark.parametrize(
    ("nodes", "rows", "layers", "rep", "def_"),
    [
        (
            ["list", "list", "list"],
            [[[[0, 1], [], [2]], [[3]], []], [], [[[4]]]],
            (1, 5, 5, 5),
            [3, 0, 1, 1, 2, 2, 3, 3],
            [0, 0, 1, 0, 0, 2, 3, 0],
        ),
        (
            ["list", "struct"],
            [[(1,), None, (None,)], None, [], [(2,), (3,)]],
            (3, 3, 6),
            [1, 0, 0, 1, 1, 1, 0],
            [0, 2, 1, 3, 4, 0, 0],
        ),
        (
            ["list", "struct", "list"],
            [[([10, 11],), None, ([],)], None, [], [(None,), ([None],)]],
            (3, 6, 3, 6),
            [2, 0, 1, 1, 2, 2, 2, 1],
            [0, 0, 4, 3, 5, 6, 2, 1],
        ),
        (
            ["struct", "list"],
            [([1, 2],), None, (None,), ([],), ([None],)],
            (3, 6, 3),
            [1, 0, 1, 1, 1, 1],
            [0, 0, 4, 2, 3, 1],
        ),
    ],
    ids=["A", "B, leaf x", "B, leaf z", "C"],
)
def test_nested_examples(
    nodes: list[str], rows: list[Any], layers: tuple[int, ...], rep: list[int], def_: list[int]
) -> None:
    """Rows become the levels of the format, and pages with these levels become the rows."""
    column = nested.Column((*nodes, nested.LEAF), rows, layers)
    levels = nested.shred(column)
    assert (levels.rep, levels.def_) == (rep, def_)
    expected = [pages.as_arrow(row) for row in rows]
    for page in (
        pages.mini_block_page(column, [1, 1, 1]),
        pages.mini_block_page(column, [], large=True),
        pages.full_zip_page(column, as_text=False),
    ):
        assert page.array().to_pylist() == expected
