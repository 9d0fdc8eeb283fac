"""Datasets in DuckDB, Polars and functions of Arrow: what they recognise and push down, and equal answers."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import lance
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pytest

import lance_core
from lance_core.api.dataset.methods.arrow_dataset import ArrowDataset
from lance_core.errors import InvalidInputError, UnsupportedFeatureError

NUMBERS = [None, 0, -1, 1, 2, 3, 7, 100]
NAN = float("nan")
COLUMNS: dict[str, tuple[list[Any], pa.DataType, list[str]]] = {
    "i8": (NUMBERS, pa.int8(), ["2", "-1", "100"]),
    "i64": (NUMBERS, pa.int64(), ["2", "9223372036854775807"]),
    "u8": ([None, 0, 1, 2, 3, 7, 100, 255], pa.uint8(), ["2", "255"]),
    "u64": ([None, 0, 1, 2, 3, 7, 100, 2**64 - 1], pa.uint64(), ["2", "18446744073709551615"]),
    "f32": (
        [None, 0.0, -0.0, 1.5, NAN, float("inf"), -1.5, 2.0],
        pa.float32(),
        ["1.5", "0.0", "'NaN'::FLOAT"],
    ),
    "f64": (
        [None, 0.0, -0.0, 1.5, NAN, float("-inf"), -1.5, 2.0],
        pa.float64(),
        ["1.5", "-0.0", "'NaN'::DOUBLE"],
    ),
    "text": ([None, "", "a", "b", "ab", "é", "z", "a"], pa.string(), ["'a'", "''", "'é'"]),
    "large": ([None, "", "a", "b", "ab", "é", "z", "a"], pa.large_string(), ["'a'", "'ab'"]),
    "words": (
        [None, "", "a", "b", "ab", "é", "z", "a"],
        pa.dictionary(pa.int8(), pa.string()),
        ["'a'", "'b'"],
    ),
    "bytes": (
        [None, b"", b"a", b"b", b"ab", b"\x00", b"z", b"a"],
        pa.binary(),
        [r"'a'::BLOB", r"'\x00'::BLOB"],
    ),
    "large_bytes": ([None, b"", b"a", b"b", b"ab", b"c", b"z", b"a"], pa.large_binary(), ["'a'::BLOB"]),
    "fixed": ([None, b"aa", b"ab", b"zz", b"aa", b"\x00a", b"bb", b"cc"], pa.binary(2), ["'ab'::BLOB"]),
    "flag": ([None, True, False, True, False, True, None, False], pa.bool_(), ["true", "false"]),
    "day": ([None, *[date(2020, 1, n) for n in range(1, 8)]], pa.date32(), ["DATE '2020-01-03'"]),
    "clock": ([None, *[time(n, 1, 2, 3) for n in range(1, 8)]], pa.time64("us"), ["TIME '03:01:02.000003'"]),
    **{
        f"moment_{unit}": (
            [None, *[datetime(2020, 1, n, 12) for n in range(1, 8)]],
            pa.timestamp(unit),
            ["TIMESTAMP '2020-01-03 12:00:00'", "TIMESTAMP '2020-01-03 12:00:00.5'"],
        )
        for unit in ("s", "ms", "us", "ns")
    },
    "zoned": (
        [None, *[datetime(2020, 1, n, 12, tzinfo=UTC) for n in range(1, 8)]],
        pa.timestamp("us", "UTC"),
        ["TIMESTAMPTZ '2020-01-03 12:00:00+00'"],
    ),
    "money": ([None, *[Decimal(n) / 4 for n in range(7)]], pa.decimal128(9, 2), ["0.75", "1.00"]),
    "nested": (
        [None, *[{"x": n or None, "y": "s"} for n in range(7)]],
        pa.struct([("x", pa.int32()), ("y", pa.string())]),
        [],
    ),
}
CONDITIONS = [
    "{c} = {v}",
    "{c} <> {v}",
    "{c} < {v}",
    "{c} <= {v}",
    "{c} > {v}",
    "{c} >= {v}",
    "NOT ({c} > {v})",
    "{c} IN ({v}, {w})",
    "{c} NOT IN ({v}, {w})",
    "{c} IS NULL",
    "{c} IS NOT NULL",
    "{c} IS DISTINCT FROM {v}",
    "{c} BETWEEN {v} AND {w}",
    "{c} = {v} OR row = 3",
    "({c} < {v} OR {c} IS NULL) AND row > 1",
    "coalesce({c} = {v}, true)",
]


def table() -> pa.Table:
    columns = {name: pa.array(values, kind) for name, (values, kind, _) in COLUMNS.items()}
    once = pa.table({"row": pa.array(range(8)), **columns})
    return pa.concat_tables([once, once.set_column(0, "row", pa.array(range(8, 16)))])


def same(found: pa.Table, expected: pa.Table) -> bool:
    """Whether two tables have equal types and rows; NaN equals NaN."""
    return found.schema == expected.schema and str(found.to_pylist()) == str(expected.to_pylist())


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("engines") / "d"
    return lance_core.write_dataset(table(), path, max_rows_per_file=8)


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The arguments of all scans that are begun."""
    begun: list[dict[str, Any]] = []
    scanner = lance_core.LanceDataset.scanner

    def noting(self: Any, columns: Any = None, filter: Any = None, *args: Any, **named: Any) -> Any:
        begun.append({"columns": columns, "filter": filter})
        return scanner(self, columns, filter, *args, **named)

    monkeypatch.setattr(lance_core.LanceDataset, "scanner", noting)
    return begun


def rows(query: str, source: Any) -> str:
    """Return the rows as text, in which NaN equals NaN and differs from null, and -0.0 from 0.0."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("source", source)
        return str(connection.sql(query).arrow().read_all().to_pylist())


@pytest.mark.parametrize("name", COLUMNS)
def test_duckdb_finds_the_rows_that_it_finds_in_a_table(name: str, dataset: Any) -> None:
    literals = COLUMNS[name][2]
    column = "nested.x" if name == "nested" else name
    for value, other in zip(
        literals or ["2"], [*literals[1:], literals[0]] if literals else ["5"], strict=True
    ):
        conditions = [condition.format(c=column, v=value, w=other) for condition in CONDITIONS]
        query = " UNION ALL ".join(
            f"(SELECT {number} AS condition, row, {column} FROM source WHERE {condition})"
            for number, condition in enumerate(conditions)
        )
        query += " ORDER BY condition, row"
        assert rows(query, dataset) == rows(query, table()), conditions


PUSHED = {
    "columns": ("SELECT row, text FROM source", ["row", "text"], None),
    "comparison": ("SELECT row FROM source WHERE i64 > 2", ["i64", "row"], "i64 > 2"),
    "two": ("SELECT row FROM source WHERE i64 > 2 AND text = 'a'", ["i64", "row", "text"], "text == "),
    "nested": ("SELECT row FROM source WHERE nested.x = 3", ["nested", "row"], "== 3"),
    "count": ("SELECT count(*) FROM source WHERE row < 5", ["row"], "row < 5"),
    "join": (
        "SELECT a.row FROM source a JOIN (SELECT 3 AS k) b ON a.row = b.k WHERE a.i8 < 9",
        None,
        "i8 < 9",
    ),
}


@pytest.mark.parametrize("name", PUSHED)
def test_duckdb_pushes_columns_and_conditions(name: str, dataset: Any, scans: list[dict[str, Any]]) -> None:
    query, columns, condition = PUSHED[name]
    assert len(rows(query, table())) == len(rows(query, dataset)) > 2
    (scan,) = scans
    if columns is not None:
        assert set(scan["columns"]) <= set(columns)
    assert condition is None or condition in str(scan["filter"])


def test_duckdb_finds_datasets_by_the_name_of_a_variable(dataset: Any, scans: list[dict[str, Any]]) -> None:
    filtered = dataset.filter("row > 3")  # noqa: F841  # named by the query
    query = "SELECT count(*) FROM dataset JOIN filtered USING (row) WHERE dataset.i64 = 3"
    assert duckdb.sql(query).fetchall() == [(2,)]
    assert any("i64 == 3" in str(scan["filter"]) for scan in scans)


LATE = """
import sys
import lance_core
dataset = lance_core.dataset(sys.argv[1])
assert not isinstance(dataset, int) and dataset.__class__ is lance_core.LanceDataset
assert "pyarrow.dataset" not in sys.modules and "pandas" not in sys.modules
import duckdb
scans = []
scanner = lance_core.LanceDataset.scanner
def noting(self, columns=None, filter=None, **named):
    scans.append((columns, str(filter)))
    return scanner(self, columns, filter, **named)
lance_core.LanceDataset.scanner = noting
assert duckdb.sql("SELECT count(*) FROM dataset WHERE row < 5").fetchall() == [(5,)]
assert scans == [(["row"], "(row < 5)")], scans
"""


def test_the_order_of_imports_does_not_matter(dataset: Any) -> None:
    subprocess.run([sys.executable, "-c", LATE, dataset.uri], check=True, timeout=60)


WITHOUT = """
import sys
sys.modules["pyarrow.dataset"] = None
import duckdb
import lance_core
dataset = lance_core.dataset(sys.argv[1])
assert not isinstance(dataset, int) and dataset.__class__ is lance_core.LanceDataset
assert dataset.count_rows("row < 5") == 5
"""


def test_an_arrow_without_datasets_is_enough(dataset: Any) -> None:
    subprocess.run([sys.executable, "-c", WITHOUT, dataset.uri], check=True, timeout=60)


FRAMES: dict[str, Callable[[pl.LazyFrame], pl.LazyFrame]] = {
    "columns": lambda frame: frame.select("row", "text"),
    "condition": lambda frame: frame.filter(pl.col("i64") > 2).select("row"),
    "two": lambda frame: frame.filter((pl.col("i64") > 2) & (pl.col("text") == "a")),
    "null": lambda frame: frame.filter(pl.col("f64").is_null()),
    "float": lambda frame: frame.filter(pl.col("f64") <= 1),
    "listed": lambda frame: frame.filter(pl.col("row").is_in([1, 5, 99])),
    "head": lambda frame: frame.head(3),
    "time": lambda frame: frame.filter(pl.col("moment_us") > datetime(2020, 1, 3)).select("row"),
}


@pytest.mark.parametrize("name", FRAMES)
def test_polars_finds_the_rows_that_it_finds_in_a_table(
    name: str, dataset: Any, scans: list[dict[str, Any]]
) -> None:
    plain = ["row", "i64", "f64", "text", "moment_us"]
    expected = FRAMES[name](pl.DataFrame(table().select(plain)).lazy()).collect()
    found = FRAMES[name](pl.scan_pyarrow_dataset(dataset).select(plain)).collect()
    assert found.equals(expected)
    (scan,) = scans
    if name in ("columns", "condition", "time"):
        assert set(scan["columns"]) <= {"row", "text", "i64", "moment_us"}
    assert (scan["filter"] is not None) == (name not in ("columns", "head"))


def test_arrow_takes_a_dataset_for_one_of_its_own(dataset: Any, tmp_path: Path) -> None:
    for each in (dataset, dataset.filter("row < 3")):
        assert isinstance(each, pads.Dataset)
        assert isinstance(each, ArrowDataset)
        assert not isinstance(each, pads.Scanner)
        assert same(pa.table(each), each.to_table())
        pads.write_dataset(each.scanner(["row", "text"]).to_reader(), tmp_path / "parquet", format="parquet")
        assert pads.dataset(tmp_path / "parquet").count_rows() == each.count_rows()
        for file in (tmp_path / "parquet").iterdir():
            file.unlink()
        with pytest.raises(TypeError, match="incorrect type"):
            pads.Scanner.from_dataset(each)
    for copied in (copy.copy(dataset), pickle.loads(pickle.dumps(dataset)), dataset.__class__(dataset.uri)):
        assert type(copied) is lance_core.LanceDataset
        assert same(copied.to_table(), dataset.to_table())


def test_methods_of_arrow_give_the_rows_of_the_table(dataset: Any, tmp_path: Path) -> None:
    local, plain = table(), ["row", "i64", "text"]
    assert (
        dataset.sort_by([("row", "descending")])
        .to_table(plain)
        .equals(local.select(plain).take(list(range(15, -1, -1))))
    )
    left = lance_core.write_dataset(pa.table({"t": [1, 5, 10], "by": [0, 0, 0]}), tmp_path / "left")
    right = pads.dataset(pa.table({"key": [1, 5], "extra": ["x", "y"]}))
    joined = left.join(right, "t", "key", join_type="inner").to_table()
    assert sorted(joined["extra"].to_pylist()) == ["x", "y"]
    near = left.join_asof(pads.dataset(pa.table({"t": [2, 6], "by": [0, 0], "v": [1.0, 2.0]})), "t", "by", 2)
    assert near.to_table()["v"].to_pylist() == [1.0, 2.0, None]
    assert dataset.slice(3, 9, plain).equals(local.select(plain).slice(3, 6))
    assert dataset.slice(14, 99, plain).equals(local.select(plain).slice(14))
    for arguments in ((-1, 2), (3, 2)):
        with pytest.raises(InvalidInputError, match=r"start|end"):
            dataset.slice(*arguments)
    with pytest.raises(UnsupportedFeatureError, match="replace_schema"):
        dataset.replace_schema(local.schema)
    assert dataset.partition_expression.equals(pc.scalar(True))
    assert dataset.get_fragment(0).partition_expression.equals(pc.scalar(True))


def test_a_fragment_is_a_stream_of_its_rows(dataset: Any, scans: list[dict[str, Any]]) -> None:
    second = dataset.get_fragments()[1]
    assert same(pa.table(second), table().slice(8))
    assert duckdb.sql("SELECT min(row), count(*) FROM second").fetchall() == [(8, 8)]
    assert pl.DataFrame(second)["row"].to_list() == list(range(8, 16))


def test_fragments_without_matching_rows_are_left_out(dataset: Any) -> None:
    for condition in ("row > 9", pc.field("row") > 9):
        assert [each.fragment_id for each in dataset.get_fragments(condition)] == [1]
        assert [each.fragment_id for each in dataset.filter(condition).get_fragments()] == [1]
    assert len(dataset.get_fragments()) == len(dataset.get_fragments("i64 = 3")) == 2
    with pytest.raises(InvalidInputError, match="no column"):
        dataset.get_fragments("nope > 1")


def test_a_filtered_dataset_has_the_rows_that_meet_all_conditions(dataset: Any, tmp_path: Path) -> None:
    filtered = dataset.filter("row >= 4").filter(pc.field("row") != 6)
    local = table().filter((pc.field("row") >= 4) & (pc.field("row") != 6))
    assert same(filtered.to_table(), local)
    assert filtered.schema == dataset.schema
    assert filtered.count_rows() == 11
    assert filtered.count_rows("row < 9") == 4
    assert filtered.head(2, columns=["row"])["row"].to_pylist() == [4, 5]
    assert filtered.slice(1, 4, ["row"])["row"].to_pylist() == [5, 7, 8]
    assert filtered.take([2, 0, 2], ["row"])["row"].to_pylist() == [7, 4, 7]
    with pytest.raises(InvalidInputError, match="less than 11"):
        filtered.take([11])
    with pytest.raises(InvalidInputError, match="no column"):
        dataset.filter("nope > 1")
    assert same(pickle.loads(pickle.dumps(filtered)).to_table(), local)
    assert pa.Table.from_batches(filtered.to_batches(["row"])).equals(local.select(["row"]))
    assert len(filtered.to_pandas(["row"])) == 11
    written = lance_core.write_dataset(filtered, tmp_path / "copy")
    assert same(written.to_table(), local)
    assert lance.dataset(str(tmp_path / "copy")).count_rows() == 11
