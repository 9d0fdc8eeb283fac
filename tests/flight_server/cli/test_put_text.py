"""`lance-flight put` of CSV and JSON: no value changes without a word."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
import zstandard
from typer.testing import Result

from flight_server.cli.files import csv_files, json_files
from flight_server.cli.files.text_values import Declared, Inferred, inferred_types
from flight_server.cli.files.type_names import parse_type
from lance_core.errors import InvalidInputError
from support.clients.command_line import run_verb
from support.runs.each_case import each_case

Put = Callable[..., Result]


@pytest.fixture
def put(tmp_path: Path) -> Put:
    """Write text to a file and the file to a new dataset, with more arguments."""

    def run(text: str | bytes, *arguments: str, file: str = "rows.csv", code: int = 0) -> Result:
        (tmp_path / file).write_bytes(text if isinstance(text, bytes) else text.encode())
        target = tmp_path / "rows.lance"
        return run_verb("put", tmp_path / file, target, "--mode", "overwrite", *arguments, code=code)

    return run


@pytest.fixture
def rows(tmp_path: Path) -> Callable[[], pa.Table]:
    """Read the rows that `put` wrote with the reference."""
    return lambda: lance.dataset(str(tmp_path / "rows.lance")).to_table()


def inferred(*cells: str | None, decimal_point: str = ".") -> str:
    """Return the type that a column with these cells becomes."""
    text = pa.array(cells, pa.string())
    kept = (each for each in inferred_types(decimal_point) if each.first_failure(text) is None)
    return str(next((each.type for each in kept), "text"))


@each_case(
    ("cells", "expected"),
    [
        (["1", "-2", None, "0"], "int64"),
        (["9223372036854775807", "-9223372036854775808"], "int64"),
        (["9223372036854775808"], "text"),
        (["99999999999999999999"], "text"),
        (["100000000000000000000"], "text"),
        (["1", "007"], "text"),
        (["+1"], "text"),
        ([" 1"], "text"),
        (["1_000"], "text"),
        (["1", ""], "text"),
        (["NA", "1"], "text"),
        (["nan", "1.5"], "text"),
        (["inf"], "text"),
        (["1.50", "2", "-0.5", ".5"], "double"),
        (["0.30000000000000004"], "double"),
        (["0.1234567890123456789"], "text"),
        (["007.5"], "text"),
        (["9007199254740993", "1.5"], "text"),
        (["9007199254740992", "1.5"], "double"),
        (["1e5"], "text"),
        (["12E4"], "text"),
        (["1e-05", "1.5e300", "1e+22"], "double"),
        (["1.5e400"], "text"),
        (["1.5e-400"], "text"),
        (["true", "false"], "bool"),
        (["True", "False"], "bool"),
        (["true", "True"], "text"),
        (["yes", "no"], "text"),
        (["2024-02-29", "0001-01-01"], "date32[day]"),
        (["2023-02-29"], "text"),
        (["2024-1-1"], "text"),
        (["01/02/2024"], "text"),
        (["2024-01-01 00:00", "2024-01-01T00:00:01.123456"], "timestamp[us]"),
        (["2024-01-01 00:00:00.123456789"], "timestamp[ns]"),
        (["2500-01-01 00:00:00.123456789"], "text"),
        (["2024-01-01T00:00:00Z", "2024-01-01 00:00:00+00:00"], "timestamp[us, tz=UTC]"),
        (["2024-01-01T00:00:00Z", "2024-01-01T00:00:00"], "text"),
        (["2024-01-01T00:00:00+02:00"], "text"),
        (["12:30:00"], "text"),
    ],
)
def test_a_type_is_inferred_only_if_it_keeps_the_text(cells: list[str | None], expected: str) -> None:
    assert inferred(*cells) == expected


def test_decimal_points() -> None:
    assert inferred("1,5", "2", decimal_point=",") == "double"
    assert inferred("1.234", decimal_point=",") == "text"
    assert inferred("1.234,5", decimal_point=",") == "text"
    assert Declared(pa.decimal128(8, 2), ",").values(pa.array(["1,5"])).to_pylist() == [Decimal("1.50")]


@each_case(
    ("data_type", "cells", "expected"),
    [
        (pa.int64(), ["007", None], [7, None]),
        (pa.int8(), ["1", "300"], 1),
        (pa.float64(), ["inf", "-inf", "1e5"], [float("inf"), float("-inf"), 1e5]),
        (pa.float64(), ["1", "1e400"], 1),
        (pa.float64(), ["9007199254740993"], 0),
        (pa.float32(), ["0.5", "16777217"], 1),
        (pa.float32(), ["0.5", "1e39"], 1),
        (pa.float16(), ["0.5", "70000"], 1),
        (pa.bool_(), ["TRUE", "0"], [True, False]),
        (pa.decimal128(8, 2), ["1.5", "1.005"], 1),
        (pa.date32(), ["2024-01-31"], [date(2024, 1, 31)]),
        (pa.time64("us"), ["12:30:00.5", "07:00"], [time(12, 30, 0, 500_000), time(7)]),
        (pa.time32("s"), ["12:30:00.5"], 0),
        (pa.duration("s"), ["90"], [timedelta(seconds=90)]),
        (pa.timestamp("us"), ["2024-01-01", "2024-01-01T00:00:00+02:00"], 1),
        (pa.timestamp("us"), ["2024-01-01 00:00:00.1234567"], 0),
        (pa.timestamp("us", "UTC"), ["2024-01-01T02:00:00+02:00"], [datetime(2024, 1, 1, tzinfo=UTC)]),
        (pa.timestamp("us", "UTC"), ["2024-01-01T02:00:00"], 0),
        (pa.dictionary(pa.int8(), pa.string()), ["a", "b", "a"], ["a", "b", "a"]),
        (pa.large_binary(), ["ab"], [b"ab"]),
    ],
)
def test_a_type_that_was_asked_for(data_type: pa.DataType, cells: list[str], expected: Any) -> None:
    """Texts that do not fit are refused; the position of the first one is known."""
    conversion = Declared(data_type)
    text = pa.array(cells, pa.string())
    if isinstance(expected, int):
        assert conversion.first_failure(text) == expected
    else:
        assert conversion.first_failure(text) is None
        assert conversion.values(text).to_pylist() == expected
        assert conversion.values(text).type == data_type


def test_the_first_of_many_cells_that_fail_is_found() -> None:
    cells = [str(row) for row in range(100_000)]
    for wrong in (0, 255, 256, 70_000, 99_999):
        text = pa.array([*cells[:wrong], "x", *cells[wrong + 1 :], "y"])
        assert Inferred(pa.int64(), "0|[1-9][0-9]*").first_failure(text) == wrong


@each_case(
    "data_type",
    [
        *(pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.string()),
        *(pa.large_string(), pa.binary(), pa.binary(16), pa.date32(), pa.date64(), pa.time32("ms")),
        *(pa.timestamp("ns"), pa.timestamp("us", "Europe/Oslo"), pa.timestamp("s", "+02:00")),
        *(pa.duration("ms"), pa.decimal128(10, 2), pa.decimal128(5, -2), pa.decimal256(50, 3)),
        *(pa.list_(pa.float32()), pa.list_(pa.float32(), 3), pa.large_list(pa.string())),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int32(), pa.decimal128(5, 1), ordered=True),
        pa.struct({"a": pa.int64(), "b": pa.list_(pa.struct({"c": pa.timestamp("us", "UTC")}))}),
    ],
)
def test_names_of_types_are_those_that_arrow_prints(data_type: pa.DataType) -> None:
    assert parse_type(str(data_type)) == data_type


def test_other_names_of_types() -> None:
    names = ["text", "bigint", "decimal(10,2)", "decimal(50)", "list<float>", "timestamp", "date", "Double"]
    assert [str(parse_type(name)) for name in names] == [
        "string",
        "int64",
        "decimal128(10, 2)",
        "decimal256(50, 0)",
        "list<item: float>",
        "timestamp[us]",
        "date32[day]",
        "double",
    ]
    for name in ("", "int65", "list<", "list<int64>>", "decimal", "timestamp[xs]", "struct<>", "int64 x"):
        with pytest.raises(InvalidInputError, match="not the name of a type"):
            parse_type(name)


def test_what_columns_become_is_told_before_the_write(put: Put, rows: Callable[[], pa.Table]) -> None:
    text = "id,zip,ratio,note,none\n1,007,1.50,NA,\n2,123,2,,\n"

    done = put(text, "--json")

    assert json.loads(done.stdout)["columns"] == [
        {"name": "id", "type": "int64", "source": "inferred"},
        {"name": "zip", "type": "string", "source": "text", "example": "'007' in row 1"},
        {"name": "ratio", "type": "double", "source": "inferred"},
        {"name": "note", "type": "string", "source": "text", "example": "'NA' in row 1"},
        {"name": "none", "type": "string", "source": "text", "example": "no values"},
    ]
    assert "zip    string  stays text: '007' in row 1" in done.stderr.splitlines()
    assert done.stderr.index("'007'") < done.stderr.index("rows: 2")
    assert rows().to_pydict() == {
        "id": [1, 2],
        "zip": ["007", "123"],
        "ratio": [1.5, 2.0],
        "note": ["NA", None],
        "none": [None, None],
    }


def test_a_dry_run_writes_nothing(put: Put, tmp_path: Path) -> None:
    done = put("id\n1\n", "--dry-run", "--json")
    assert json.loads(done.stdout) == {"columns": [{"name": "id", "type": "int64", "source": "inferred"}]}
    assert not (tmp_path / "rows.lance").exists()


def test_which_cells_are_null(put: Put, rows: Callable[[], pa.Table]) -> None:
    text = 'a,b\nNA,\n"NA",""\n5,NA\n,x\n'
    put(text)
    assert rows().to_pydict() == {"a": ["NA", "NA", "5", None], "b": [None, "", "NA", "x"]}
    put(text, "--nulls", ",NA")
    assert rows().to_pydict() == {"a": [None, "NA", "5", None], "b": [None, "", None, "x"]}
    put(text, "--nulls", "NA", "--nulls", "", "--quoted-nulls")
    assert rows().to_pydict() == {"a": [None, None, 5, None], "b": [None, None, None, "x"]}


def test_empty_cells_of_one_column_are_rows(put: Put, rows: Callable[[], pa.Table]) -> None:
    put("a\n1\n\n3\n")
    assert rows().to_pydict() == {"a": [1, None, 3]}


def test_types_that_are_given(put: Put, rows: Callable[[], pa.Table]) -> None:
    text = "at,zip,n,x\n2024-01-01T02:00:00+02:00,007,007,nan\n"
    types = ["at=timestamp[us, tz=UTC]", "n=int16", "x=float"]
    done = put(text, *(word for name in types for word in ("--types", name)))
    assert "--types" in done.stderr
    assert rows().schema.types == [pa.timestamp("us", "UTC"), pa.string(), pa.int16(), pa.float32()]
    assert str(rows().to_pylist()[0]["at"]) == "2024-01-01 00:00:00+00:00"

    put(text, "--no-infer")
    assert set(rows().schema.types) == {pa.string()}


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        ("a;b\n1;2\n", [], ["rows.csv", "semicolon", "--delimiter", "'a;b'"]),
        ("a\tb\n1\t2\n", [], ["tab", "--delimiter"]),
        ('"x, y";b\n1;2\n', [], ["semicolon"]),
        ("a|b\n1|2\n", [], ["vertical bar"]),
        ("a,b\n1,2\n", ["--types", "c=string"], ["--types", "column c"]),
        ("a\nx\n", ["--types", "a=int64"], ["row 1", "--types", "column a", "'x'", "int64"]),
        ("a\n1\n", ["--types", "a=list<int64>"], ["column a", "nested"]),
        ("a,b\n1\n", [], ["rows.csv", "Expected 2 columns"]),
        ("a,a\n1,2\n", [], ["two columns", "column a"]),
        ("ä\n".encode("latin-1"), [], ["rows.csv", "utf-8", "--encoding"]),
        ("a\nä\n".encode("latin-1"), [], ["rows.csv", "UTF8", "--encoding"]),
    ],
)
def test_csv_that_is_refused(put: Put, text: str | bytes, arguments: list[str], words: list[str]) -> None:
    error = put(text, *arguments, code=1).stderr.splitlines()[-1]
    assert error.startswith("error: ")
    for word in words:
        assert word in error


def test_json_in_another_encoding_is_refused(put: Put) -> None:
    for text in ('{"a": "ä"}\n', '{"ä": 1}\n'):
        error = put(text.encode("latin-1"), file="rows.json", code=1).stderr.splitlines()[-1]
        assert "rows.json" in error
        assert "--encoding" in error


def test_dialects(put: Put, rows: Callable[[], pa.Table]) -> None:
    expected = {"a": [1.5], "b": ['x;"y']}
    put("a;b\n1,5;'x;\"y'\n", "--delimiter", ";", "--quote", "'", "--decimal-point", ",")
    assert rows().to_pydict() == expected
    put('a\tb\n1.5\tx;"y\n', "--delimiter", r"\t", "--quote", "")
    assert rows().to_pydict() == expected
    put('a\tb\n1.5\t"x;""y"\n', file="rows.tsv")
    assert rows().to_pydict() == expected
    put("a;b\n1\n", "--delimiter", ",")
    assert rows().to_pydict() == {"a;b": [1]}
    for encoding in ("latin-1", "utf-16", "utf-8-sig"):
        put("ä,b\n1,ß\n".encode(encoding), "--encoding", encoding)
        assert rows().to_pydict() == {"ä": [1], "b": ["ß"]}
        put('{"ä": 1, "b": "ß"}\n'.encode(encoding), "--encoding", encoding, file="rows.json")
        assert rows().to_pydict() == {"ä": [1], "b": ["ß"]}


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress], ids=["gz", "zst"])
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_compressed_files(
    put: Put, rows: Callable[[], pa.Table], compress: Callable[[bytes], bytes], kind: str
) -> None:
    lines = [b"a,b\n", b"1,x\n", b"2,y\n"]
    if kind == "jsonl":
        lines = [b'{"a": 1, "b": "x"}\n', b'{"a": 2, "b": "y"}\n']
    suffix = "gz" if compress is gzip.compress else "zst"
    # Programs that append to such files write one member after the other.
    data = b"".join(map(compress, lines))
    for file in (f"rows.{kind}.{suffix}", f"rows.{kind}"):
        put(data, file=file)
        assert rows().to_pydict() == {"a": [1, 2], "b": ["x", "y"]}

    assert "runcated" in put(data[:-3], file=f"rows.{kind}.{suffix}", code=1).stderr
    assert "not compressed" in put(b"".join(lines), file=f"rows.{kind}.{suffix}", code=1).stderr
    put(data, file=f"rows.parquet.{suffix}", code=2)


@pytest.mark.parametrize(
    ("late", "words"),
    [("007", ["row 5001", "column n", "'007'", "int64", "--types"]), ("x", ["row 5001", "'x'"])],
)
def test_a_late_cell_that_would_change_is_an_error(
    put: Put, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, late: str, words: list[str]
) -> None:
    monkeypatch.setattr(csv_files, "TEXT_BYTES", 1 << 10)
    error = put("n\n" + "5\n" * 5_000 + f"{late}\n6\n", code=1).stderr.splitlines()[-1]
    for word in words:
        assert word in error
    assert not list(tmp_path.glob("rows.lance/data/*"))


def test_files_share_the_types_of_their_columns(tmp_path: Path, rows: Callable[[], pa.Table]) -> None:
    (tmp_path / "1.csv").write_text("zip,n\n123,1\n")
    (tmp_path / "2.csv").write_text("n,zip,more\n2.5,007,x\n")
    done = run_verb("put", tmp_path / "?.csv", tmp_path / "rows.lance", "--mode", "create")
    assert "'007' in row 1 of " in done.stderr
    assert rows().to_pydict() == {"zip": ["123", "007"], "n": [1.0, 2.5], "more": [None, "x"]}


def test_an_append_changes_no_integer_either(put: Put, rows: Callable[[], pa.Table]) -> None:
    put("x\n1.5\n")
    error = put("x\n9007199254740993\n", "--mode", "append", code=1).stderr
    assert "dataset" in error
    assert "9007199254740993" in error
    error = put('{"x": 9007199254740993}\n', "--mode", "append", file="rows.json", code=1).stderr
    assert "dataset" in error
    put("x\n9007199254740993\n", "--mode", "append", "--types", "x=double")
    assert rows().to_pydict() == {"x": [1.5, 9007199254740992.0]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 99999999999999999999}\n{"a": 1}\n', ("decimal128(38, 0)", [Decimal(10**20 - 1), 1])),
        (f'{{"a": 1{"0" * 50}}}\n', ("decimal256(76, 0)", [Decimal(10**50)])),
        ('{"a": 9223372036854775807}\n', ("int64", [2**63 - 1])),
        ('{"a": 1}\n{"a": 2.5}\n', ("double", [1.0, 2.5])),
        ('{"a": 9007199254740992}\n{"a": 2.5}\n', ("double", [2.0**53, 2.5])),
        ('{"a": "2024-01-01T00:00:00+02:00"}\n', ("string", ["2024-01-01T00:00:00+02:00"])),
        ('{"a": "2024-01-01"}\n{"a": "NA"}\n{"a": ""}\n', ("string", ["2024-01-01", "NA", ""])),
        ('{"a": null}\n', ("string", [None])),
        (
            '{"a": {"b": [{"c": [1, 99999999999999999999]}], "t": "\\"2024-01-01 : 5"}}\n{"a": {"b": []}}\n',
            (
                "struct<b: list<item: struct<c: list<item: decimal128(38, 0)>>>, t: string>",
                [
                    {"b": [{"c": [Decimal(1), Decimal(10**20 - 1)]}], "t": '"2024-01-01 : 5'},
                    {"b": [], "t": None},
                ],
            ),
        ),
    ],
)
def test_json_values_stay_as_they_are(
    put: Put, rows: Callable[[], pa.Table], text: str, expected: tuple[str, list[Any]]
) -> None:
    put(text, file="rows.jsonl")
    assert str(rows().schema.field("a").type) == expected[0]
    assert rows()["a"].to_pylist() == expected[1]


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        ('{"a": 1.5}\n{"a": 9007199254740993}\n', [], ["line 2", "column a", "9007199254740993"]),
        ('{"a": true, "b": [0.5, 12345678901234567]}\n', [], ["line 1", "column b", "12345678901234567"]),
        ('{"a": 1}\n{"a": "x"}\n', [], ["number to string"]),
        ('{"a": 1}\n{"a": 1.5}\n', ["--types", "a=int64"], ["line 2", "--types", "1.5"]),
        ('{"a": "2024-01-01T00:00:00"}\n', ["--types", "a=timestamp[us, tz=UTC]"], ["line 1", "column a"]),
        ('{"a": "2024-01-01T00:00:00Z"}\n', ["--types", "a=timestamp[us]"], ["line 1", "column a"]),
        ('{"a": 1e39}\n', ["--types", "a=float"], ["line 1", "column a"]),
        ('[{"a": 1}]\n', [], ["rows.jsonl", "one object on each line"]),
        ('{"a": 1}\n{"a": 1', [], ["rows.jsonl"]),
        ("", [], ["rows.jsonl"]),
    ],
)
def test_json_that_is_refused(put: Put, text: str, arguments: list[str], words: list[str]) -> None:
    error = put(text, *arguments, file="rows.jsonl", code=1).stderr.splitlines()[-1]
    assert error.startswith("error: ")
    for word in words:
        assert word in error


@pytest.mark.parametrize(
    ("late", "words"),
    [
        ('{"a": {"b": 1, "c": 2}}', ["line 5002", "column a.c", "unexpected field"]),
        ('{"a": {"b": 1}, "more": 5}', ["line 5002", "column more"]),
        ('{"a": {"b": 1.5}}', ["line 5002", "column a", "1.5", "int64"]),
        ('{"a": {"b": 99999999999999999999}}', ["line 5002", "column a", "99999999999999999999"]),
        ('{"a": }', ["line 5002", "not JSON"]),
        ("[]", ["line 5002", "not a JSON object"]),
    ],
)
def test_a_late_line_that_does_not_fit_is_named(
    put: Put, monkeypatch: pytest.MonkeyPatch, late: str, words: list[str]
) -> None:
    monkeypatch.setattr(json_files, "TEXT_BYTES", 1 << 10)
    text = '{"a": {"b": 1}}\n\n' + '{"a": {"b": 1}}\n' * 4_999 + f'{late}\n{{"a": null}}\n'
    error = put(text, file="rows.jsonl", code=1).stderr.splitlines()[-1]
    for word in words:
        assert word in error


def test_a_late_field_that_is_declared(
    put: Put, rows: Callable[[], pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_files, "TEXT_BYTES", 1 << 10)
    text = '{"a": 1}\n' * 1_000 + '{"a": 1, "more": "2024-01-01T00:00:00+02:00"}'
    put(text, "--types", "more=timestamp[us, UTC]", file="rows.jsonl")
    last = rows().slice(999).to_pylist()
    assert [str(row["more"]) for row in last] == ["None", "2023-12-31 22:00:00+00:00"]


def test_json_becomes_types_that_arrow_reads_no_json_as(put: Put, rows: Callable[[], pa.Table]) -> None:
    types = {
        "vector": "fixed_size_list<item: float>[2]",
        "day": "date",
        "hour": "time64[us]",
        "s": "struct<at: timestamp[ms, tz=UTC], w: large_list<item: halffloat>>",
    }
    row = {"vector": [0.5, 2], "day": "2024-01-31", "hour": "12:30:00"}
    nested = {"at": "2024-01-01T00:00:00.5Z", "w": [0.5]}
    text = "".join(f"{json.dumps(row | {'s': value})}\n" for value in (nested, None))
    put(text, *(word for item in types.items() for word in ("--types", "=".join(item))), file="rows.jsonl")
    assert [str(field.type) for field in rows().schema] == [
        "fixed_size_list<item: float>[2]",
        "date32[day]",
        "time64[us]",
        "struct<at: timestamp[ms, tz=UTC], w: large_list<item: halffloat>>",
    ]
    first, second = rows().to_pylist()
    assert (first["vector"], first["day"], first["hour"]) == ([0.5, 2.0], date(2024, 1, 31), time(12, 30))
    assert str(first["s"]["at"]) == "2024-01-01 00:00:00.500000+00:00"
    assert second["s"] is None


@pytest.mark.parametrize(
    "arguments",
    [
        ["--delimiter", ";;"],
        ["--delimiter", '"'],
        ["--quote", "''"],
        ["--decimal-point", "x"],
        ["--decimal-point", ",", "--delimiter", ","],
        ["--encoding", "klingon"],
        ["--types", "a"],
        ["--types", "a=int65"],
        ["--on", "a"],
        ["--when-matched", "fail"],
    ],
)
def test_wrong_usage_of_csv(put: Put, arguments: list[str]) -> None:
    put("a\n1\n", *arguments, code=2)


@pytest.mark.parametrize("arguments", [["--delimiter", ";"], ["--nulls", "NA"], ["--no-infer"]])
def test_options_that_go_with_csv_alone(put: Put, arguments: list[str]) -> None:
    put('{"a": 1}\n', *arguments, file="rows.json", code=2)
    put(b"PAR1", *arguments, file="rows.parquet", code=2)
