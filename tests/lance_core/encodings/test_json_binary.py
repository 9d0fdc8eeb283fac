"""JSON columns: the text that users see, beside the reference, and what damaged values do."""

from __future__ import annotations

import contextlib
import json
import math
import random
import struct
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lance_core
from lance_core.encodings.json_binary import show_json
from lance_core.errors import CorruptFileError
from lance_core.schema.fields import Field
from support.oracles.comparison import assert_tables_equal
from support.runs.each_case import each_case

FIELD = Field(0, -1, "j", "json", True, {}, "lance.json")

DOCUMENTS = [
    *("null", "true", "false", "[]", "{}", '""', "[[],{}]", "[null,true,false]", ' { "x" : [ 1 , 2 ] } '),
    *("0", "-0", "1", "-1", "127", "128", "255", "256", "-128", "-129", "65535", "65536", "-32769"),
    *("4294967295", "4294967296", "-2147483649", "9223372036854775807", "-9223372036854775808"),
    *("18446744073709551615", "18446744073709551616", "-9223372036854775809", "99999999999999999999999999"),
    *("0.0", "-0.0", "1.0", "0.1", "1e-5", "1e-6", "123e-8", "1e15", "1e16", "1234567890123456.7", "1e300"),
    *("5e-324", "1.7976931348623157e308", "0.30000000000000004", "-12345678901234567890.5", "100.0"),
    '"\\n\\t\\"\\\\\\/\\b\\f\\r"',
    '"\\u0000\\u0001\\u001f\\u007f\\u2028"',
    '"é😀\\ud83d\\ude00"',
    '{"b":1,"a":2,"aa":{"x":[1.5,{"":null}]},"":4,"k\\n\\"":"v"}',
]


def column(documents: list[str | None]) -> pa.Array:
    return pa.ExtensionArray.from_storage(pa.json_(), pa.array(documents, pa.string()))


def assert_reads_equal(table: pa.Table, path: Path, **options: Any) -> None:
    theirs = lance.write_dataset(table, str(path), **options)
    assert_tables_equal(theirs.to_table(), lance_core.dataset(path).to_table())


@pytest.mark.parametrize("version", ["legacy", "2.0", "2.1", "2.2"])
def test_text_is_that_of_the_reference(tmp_path: Path, version: str) -> None:
    table = pa.table({"j": column([*DOCUMENTS, None])})
    assert_reads_equal(table, tmp_path, data_storage_version=version)


def test_random_documents_read_as_the_reference_reads_them(tmp_path: Path) -> None:
    """Numbers of every size and bit pattern, text of every script, nesting."""
    source = random.Random(8)

    def number() -> float | int:
        kind = source.random()
        if kind < 0.3:
            value = struct.unpack("<d", struct.pack("<Q", source.getrandbits(64)))[0]
            return value if math.isfinite(value) else 1
        if kind < 0.6:
            return source.uniform(-10, 10) * 10.0 ** source.randint(-12, 22)
        return source.getrandbits(source.randint(1, 64)) * source.choice([1, -1])

    def text() -> str:
        return "".join(
            chr(source.choice([source.randint(0, 127), source.randint(128, 0xD7FF)])) for _ in "12345"
        )

    def value(depth: int) -> Any:
        kind = source.random() if depth < 5 else 1
        if kind < 0.2:
            return [value(depth + 1) for _ in range(source.randint(0, 4))]
        if kind < 0.4:
            return {text(): value(depth + 1) for _ in range(source.randint(0, 4))}
        return source.choice([number, text, lambda: source.choice([None, True, False])])()

    documents = [json.dumps(value(0)) if row % 20 else None for row in range(3000)]
    assert_reads_equal(pa.table({"j": column(documents)}), tmp_path)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_json_inside_other_types(tmp_path: Path, version: str) -> None:
    values = column(['{"b":1,"a":[1.0]}', None, "3", "[]"])
    table = pa.table(
        {
            "struct": pa.StructArray.from_arrays(
                [values, pa.array([1, 2, 3, 4])], names=["j", "x"], mask=pa.array([False, True, False, False])
            ),
            "list": pa.ListArray.from_arrays(pa.array([0, 1, None, 3, 4], pa.int32()), values),
            "large": pa.LargeListArray.from_arrays(pa.array([0, 1, 1, 3, 4], pa.int64()), values),
            "number": [1, 2, 3, 4],
        }
    )
    assert_reads_equal(table, tmp_path, data_storage_version=version)
    lance.dataset(str(tmp_path)).delete("number = 2")
    theirs, ours = lance.dataset(str(tmp_path)), lance_core.dataset(tmp_path)
    assert_tables_equal(theirs.to_table(), ours.to_table())
    assert_tables_equal(theirs.to_table(columns=["struct.j"]), ours.to_table(columns=["struct.j"]))
    assert_tables_equal(theirs.take([2, 0]), ours.take([2, 0]))
    assert_tables_equal(theirs.to_table(offset=1), ours.to_table(offset=1))


def test_slices_of_lists_of_every_kind() -> None:
    """The arrays that a scan cuts begin anywhere; each kind of nesting has to follow."""
    one, text = scalar(0x20000000, b"\x50\x01"), scalar(0x10000000, b"t")
    values = pa.array([one, None, text, one, text, None, one, one], pa.large_binary())
    shown = ["1", None, '"t"', "1", '"t"', None, "1", "1"]
    below = Field(1, 0, "item", "struct", True, {}, "", (FIELD,))
    structs = pa.StructArray.from_arrays([values], names=["j"])
    shown_structs = [{"j": item} for item in shown]
    pairs = pa.FixedSizeListArray.from_arrays(structs, 2)
    field = Field(2, -1, "pairs", "fixed_size_list:struct:2", True, {}, "", (below,))
    expected = [shown_structs[k : k + 2] for k in range(0, 8, 2)]
    for start in range(4):
        assert show_json(pairs.slice(start), field).to_pylist() == expected[start:]
    maps = pa.MapArray.from_arrays([0, 1, 4, 8], list("abcdefgh"), values)
    entries = Field(
        3, 2, "entries", "struct", False, {}, "", (Field(4, 3, "key", "string", False, {}, ""), FIELD)
    )
    field = Field(2, -1, "map", "map", True, {}, "", (entries,))
    for start in range(3):
        result = show_json(maps.slice(start), field)
        result.validate(full=True)
        pairs_shown = list(zip("abcdefgh", shown, strict=True))
        assert result.to_pylist() == [pairs_shown[0:1], pairs_shown[1:4], pairs_shown[4:8]][start:]


def test_a_sliced_column_keeps_its_nulls() -> None:
    one = scalar(0x20000000, b"\x50\x01")
    values = pa.array([one, None, one, None, None, one] * 3, pa.large_binary())
    expected = ["1" if value else None for value in values.to_pylist()]
    for start in range(12):
        assert show_json(values.slice(start, 5), FIELD).to_pylist() == expected[start : start + 5]
    assert show_json(pa.array([], pa.large_binary()), FIELD).to_pylist() == []
    assert show_json(pa.nulls(3, pa.large_binary()), FIELD).to_pylist() == [None] * 3


def scalar(kind: int, payload: bytes) -> bytes:
    return struct.pack(">II", 0x20000000, kind | len(payload)) + payload


def shown(value: bytes) -> str:
    (text,) = show_json(pa.array([value], pa.large_binary()), FIELD).to_pylist()
    return str(text)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"", "null"),
        (scalar(0x20000000, b"\x10"), "null"),
        (scalar(0x20000000, b"\x20"), "null"),
        (scalar(0x20000000, b"\x30"), "null"),
        (scalar(0x20000000, b"\x60" + struct.pack(">d", math.inf)), "null"),
        (scalar(0x20000000, b"\x60" + struct.pack(">d", math.nan)), "null"),
        (scalar(0x20000000, b"\x40" + bytes(7) + b"\x05"), "5"),
        (struct.pack(">II", 0x80000001, 0x90000001) + b"a", '["a"]'),
    ],
)
def test_values_that_only_other_writers_leave(value: bytes, expected: str) -> None:
    """Numbers that JSON text does not have are null, as the reference shows them."""
    assert shown(value) == expected


@each_case(
    "value",
    [
        b"\x20",
        b"\x20\0\0\0",
        b'{"a":1}',
        struct.pack(">I", 0xE0000000),
        struct.pack(">I", 0x80000001),
        struct.pack(">I", 0x9FFFFFFF),
        struct.pack(">I", 0x5FFFFFFF),
        struct.pack(">III", 0x20000002, 0, 0),
        struct.pack(">II", 0x80000001, 0x10000005) + b"abc",
        struct.pack(">II", 0x80000001, 0x00000002) + b"ab",
        struct.pack(">III", 0x40000001, 0x20000001, 0) + b"\0",
        struct.pack(">II", 0x80000001, 0x50000002) + b"\x80\0",
        struct.pack(">I", 0x80000000) + b"x",
        scalar(0, b"") + b"xx",
        scalar(0x20000000, b""),
        scalar(0x20000000, b"\x40"),
        scalar(0x20000000, b"\x40\0\0\x01"),
        scalar(0x20000000, b"\x60\0\0\0\0"),
        scalar(0x20000000, b"\x00\x01"),
        scalar(0x20000000, b"\x70" + bytes(17)),
        scalar(0x20000000, b"\x80\x01"),
        scalar(0x60000000, b"\x10\0\0\0\x01"),
        scalar(0x70000000, b""),
        scalar(0x10000000, b"\xff"),
    ],
)
def test_damaged_values_are_corrupt(value: bytes) -> None:
    """T22"""
    with pytest.raises(CorruptFileError, match="column j"):
        shown(value)


def nested(depth: int) -> bytes:
    value = struct.pack(">I", 0x80000000)
    for _ in range(depth - 1):
        value = struct.pack(">II", 0x80000001, 0x50000000 | len(value)) + value
    return value


def test_nesting_is_bounded() -> None:
    """T22: far below what the stack of a thread holds."""
    assert shown(nested(2000)) == "[" * 2000 + "]" * 2000
    with pytest.raises(CorruptFileError, match="deeper"):
        shown(nested(5000))


@given(st.binary(max_size=80), st.sampled_from([0x80000001, 0x40000001, 0x20000001, 0x80000003, 0x40000002]))
def test_any_bytes_are_json_or_corrupt(data: bytes, header: int) -> None:
    """T22"""
    for value in (data, struct.pack(">I", header) + data):
        with contextlib.suppress(CorruptFileError):
            text = shown(value)
            assert json.loads(text) is not ...
