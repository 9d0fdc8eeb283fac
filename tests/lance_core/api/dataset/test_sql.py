"""SQL queries: answers as of a table in memory and of the reference, and what reaches the scan."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from datafusion import SessionContext

import lance_core
from lance_core.errors import CorruptFileError, InvalidInputError, LanceError

NAN = float("nan")
MOMENTS = [None, *[datetime(2020, 1, n, 12) for n in range(1, 8)]]
COLUMNS: dict[str, tuple[list[Any], pa.DataType, list[str]]] = {
    "i8": ([None, 0, -1, 1, 2, 3, 7, 100], pa.int8(), ["2", "-1"]),
    "i64": ([None, 0, -1, 1, 2, 3, 7, 100], pa.int64(), ["2", "9223372036854775807"]),
    "u64": ([None, 0, 1, 2, 3, 7, 100, 2**64 - 1], pa.uint64(), ["2", "18446744073709551615"]),
    "f32": ([None, 0.0, -0.0, 1.5, NAN, float("inf"), -1.5, 2.0], pa.float32(), ["1.5", "0.0"]),
    "f64": ([None, 0.0, -0.0, 1.5, NAN, -1.5, 2.0, 3.0], pa.float64(), ["1.5", "'NaN'::double"]),
    "text": ([None, "", "a", "b", "ab", "é", "z", "a"], pa.string(), ["'a'", "''"]),
    "large": ([None, "", "a", "b", "ab", "é", "z", "a"], pa.large_string(), ["'a'", "'é'"]),
    "words": (
        [None, "", "a", "b", "ab", "é", "z", "a"],
        pa.dictionary(pa.int8(), pa.string()),
        ["'a'", "'b'"],
    ),
    "bytes": ([None, b"", b"a", b"b", b"ab", b"c", b"z", b"a"], pa.binary(), ["X'61'", "X''"]),
    "fixed": ([None, b"aa", b"ab", b"zz", b"aa", b"ca", b"bb", b"cc"], pa.binary(2), ["X'6162'", "X'7a7a'"]),
    "flag": ([None, True, False, True, False, True, None, False], pa.bool_(), ["true", "false"]),
    "day": (
        [None, *[date(2020, 1, n) for n in range(1, 8)]],
        pa.date32(),
        ["date '2020-01-03'", "date '2020-01-05'"],
    ),
    "clock": (
        [None, *[time(n, 1, 2, 3) for n in range(1, 8)]],
        pa.time64("us"),
        [f"arrow_cast('0{n}:01:02.000003', 'Time64(Microsecond)')" for n in (3, 5)],
    ),
    **{
        f"moment_{unit}": (
            MOMENTS,
            pa.timestamp(unit),
            ["timestamp '2020-01-03 12:00:00'", "timestamp '2020-01-03 12:00:00.5'"],
        )
        for unit in ("s", "ms", "us", "ns")
    },
    "zoned": (
        [None if moment is None else moment.replace(tzinfo=UTC) for moment in MOMENTS],
        pa.timestamp("us", "UTC"),
        ["timestamptz '2020-01-03 12:00:00+00'", "timestamptz '2020-01-05 12:00:00+00'"],
    ),
    "money": ([None, *[Decimal(n) / 4 for n in range(7)]], pa.decimal128(9, 2), ["0.75", "1.00"]),
}
CONDITIONS = [
    "{c} = {v}",
    "{c} = {w}",
    "{c} > {w}",
    "{c} <> {v}",
    "{c} < {v}",
    "{c} >= {v}",
    "NOT ({c} > {v})",
    "{c} IN ({v}, {w})",
    "{c} NOT IN ({v}, {w})",
    "NOT ({c} IN ({v}, {w}) OR row = 1)",
    "{c} IS NULL",
    "{c} IS NOT NULL",
    "{c} IS DISTINCT FROM {v}",
    "{c} BETWEEN {v} AND {w}",
    "{c} NOT BETWEEN {v} AND {w}",
    "({c} < {v} OR {c} IS NULL) AND row > 1",
    "coalesce({c} = {v}, true)",
]
STRUCTS = pa.array([{"x": n % 3, "y": [n]} for n in range(16)])


def table() -> pa.Table:
    columns = {name: pa.array(values * 2, kind) for name, (values, kind, _) in COLUMNS.items()}
    return pa.table({"row": pa.array(range(16)), **columns, "Upper": pa.array(range(16)), "s": STRUCTS})


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return lance_core.write_dataset(table(), tmp_path_factory.mktemp("sql") / "d", max_rows_per_file=8)


def answer(query: Any) -> list[dict[str, Any]]:
    return [row for batch in query.build().to_batch_records() for row in batch.to_pylist()]


@pytest.mark.parametrize("name", COLUMNS)
def test_conditions_pass_the_rows_that_they_pass_in_memory(name: str, dataset: Any) -> None:
    context = SessionContext()
    context.from_arrow(table(), "dataset")
    first, second = COLUMNS[name][2]
    for condition in CONDITIONS:
        where = condition.format(c=name, v=first, w=second)
        query = f"SELECT row FROM dataset WHERE {where} ORDER BY row"
        expected = [row for batch in context.sql(query).collect() for row in batch.to_pylist()]
        assert answer(dataset.sql(query)) == expected, where


QUERIES = [
    "SELECT * FROM dataset",
    "SELECT row, upper(text) AS up FROM dataset WHERE i64 > 1",
    "SELECT text, count(*) AS n, sum(i64) AS total FROM dataset GROUP BY text ORDER BY text NULLS LAST",
    "SELECT row, rank() OVER (PARTITION BY i8 ORDER BY row) AS place FROM dataset ORDER BY row",
    "SELECT a.row, b.text FROM dataset a JOIN dataset b ON a.row = b.row + 8 WHERE a.i64 = 3 ORDER BY a.row",
    "WITH few AS (SELECT * FROM dataset WHERE row < 3) SELECT count(*) AS n, max(f64) AS m FROM few",
    "SELECT \"Upper\", s['x'] AS x FROM dataset WHERE s['x'] = 1",
    "SELECT row FROM dataset ORDER BY row DESC LIMIT 3 OFFSET 2",
    "SELECT row FROM dataset WHERE text LIKE 'a%' AND flag",
    "SELECT 1 AS one",
    "SELECT row FROM dataset WHERE false",
    "SELECT unnest(s['y']) AS y FROM dataset WHERE row < 4",
    "SELECT row FROM dataset WHERE row IN (SELECT row + 1 FROM dataset WHERE row < 4) ORDER BY row",
]


@pytest.mark.parametrize("query", QUERIES)
def test_queries_answer_as_in_the_reference(query: str, dataset: Any) -> None:
    assert str(answer(dataset.sql(query))) == str(answer(lance.dataset(dataset.uri).sql(query)))


def test_the_builder_has_the_settings_of_the_reference(dataset: Any) -> None:
    for library in (lance_core, lance):
        query = library.dataset(dataset.uri).sql("SELECT * FROM rows WHERE row = 9").table_name("rows")
        (row,) = answer(query.with_row_id().with_row_addr())
        assert (row["_rowid"], row["_rowaddr"]) == (2**32 + 1, 2**32 + 1)
        assert "_rowid" not in answer(query.with_row_id(False))[0]
        batches = library.dataset(dataset.uri).sql("SELECT row FROM dataset").batch_size(3).build()
        assert max(batch.num_rows for batch in batches.to_batch_records()) == 3
        assert query.batch_size_bytes(100).build().to_stream_reader().read_all().num_rows == 1
        with pytest.raises(ValueError, match="all_binary"):
            query.blob_handling("lazy")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT row FROM dataset",
        "SELECT row, _rowid FROM dataset WHERE row > 2",
        "SELECT t.row + 1 AS next FROM dataset AS t WHERE t.row > 1 ORDER BY text, row DESC LIMIT 3 OFFSET 1",
        "SELECT text IS DISTINCT FROM 'a' AS differs /* FROM */ -- FROM (\n FROM dataset",
        "SELECT row, 'FROM (' AS \"from\" FROM dataset WHERE row IN (SELECT row FROM dataset WHERE row < 4)",
        "SELECT (SELECT max(row) FROM dataset) AS last, extract(year FROM day) AS y FROM dataset",
        "SELECT row FROM (SELECT * FROM dataset) AS t",
        "WITH t AS (SELECT * FROM dataset) SELECT row FROM t",
        "SELECT * FROM dataset WHERE false",
        # none of these has rows of the table, or their ids
        "SELECT row FROM (SELECT row FROM dataset) AS t",
        "SELECT DISTINCT row FROM dataset",
        "SELECT count(*) AS n FROM dataset",
        "SELECT text FROM dataset GROUP BY text",
        "SELECT row, row_number() OVER (ORDER BY row) AS n FROM dataset",
        "SELECT a.row FROM dataset AS a JOIN dataset AS b ON a.row = b.row",
        "SELECT row FROM dataset EXCEPT SELECT row FROM dataset WHERE row > 2",
        "SELECT unnest(s['y']) AS y FROM dataset",
        "SELECT 1 AS one",
    ],
)
def test_rows_of_the_table_have_the_ids_of_the_reference(query: str, dataset: Any) -> None:
    ours, theirs = (
        library.dataset(dataset.uri)
        .sql(query)
        .with_row_id()
        .with_row_addr()
        .build()
        .to_stream_reader()
        .read_all()
        for library in (lance_core, lance)
    )
    assert ours.schema.names == theirs.schema.names
    assert sorted(map(str, ours.to_pylist())) == sorted(map(str, theirs.to_pylist()))


@pytest.mark.parametrize("handling", ["all_binary", "blobs_descriptions"])
def test_blobs_are_bytes_or_descriptors(handling: Any, tmp_path: Path) -> None:
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    data = pa.table({"b": pa.array([b"one", b"three"])}, schema=pa.schema([field]))
    lance_core.write_dataset(data, tmp_path / "d", data_storage_version="2.1")
    found = []
    for library in (lance_core, lance):
        query = library.dataset(str(tmp_path / "d")).sql("SELECT * FROM dataset")
        found.append(answer(query.blob_handling(handling)))
    assert found[0] == found[1]
    assert (found[0][1]["b"] == b"three") == (handling == "all_binary")


PUSHED = {
    "a condition": ("SELECT text FROM dataset WHERE row > 9", "filter_expr=(row > 9), projection=[text]"),
    "a list": ("SELECT row FROM dataset WHERE text IN ('a', 'b')", "filter_expr=((text == "),
    "only a part": (
        "SELECT row FROM dataset WHERE row > 3 AND text LIKE 'a%'",
        "filter_expr=(row > 3), projection=[row, text]",
    ),
    "columns of a sum": ("SELECT sum(i64) FROM dataset", "projection=[i64]"),
    "no column": ("SELECT count(*) FROM dataset", "projection=[]"),
}


@pytest.mark.parametrize("name", PUSHED)
def test_columns_and_conditions_reach_the_scan(name: str, dataset: Any) -> None:
    query, plan = PUSHED[name]
    built = dataset.sql(query).build()
    assert plan in built.explain_plan()
    assert "metrics=[" in built.explain_plan(analyze=True)
    assert len(built.explain_plan(verbose=True)) > len(built.explain_plan())


def test_conditions_that_cannot_be_pushed_are_evaluated_by_the_engine(dataset: Any) -> None:
    many = " AND ".join(f"row <> {number}" for number in range(3, 30))
    query = dataset.sql(f"SELECT row FROM dataset WHERE {many} AND NOT (f64 > 1)").build()
    assert [row["row"] for batch in query.to_batch_records() for row in batch.to_pylist()] == [1, 2]
    assert "FilterExec" in query.explain_plan()


def test_rows_keep_the_order_of_the_dataset(tmp_path: Path) -> None:
    data = pa.table({"x": range(100_000)})
    dataset = lance_core.write_dataset(data, tmp_path / "d", max_rows_per_file=10_000)
    query = dataset.sql("SELECT x + 1 AS x FROM dataset WHERE x % 3 = 0").build()
    assert query.to_stream_reader().read_all()["x"].to_pylist() == list(range(1, 100_001, 3))


def test_a_stream_reads_as_its_rows_are_requested(tmp_path: Path) -> None:
    """A result is no table in memory: the stream has rows long before the scan ends, and may be left."""
    data = pa.table({"x": np.arange(2_000_000)})
    dataset = lance_core.write_dataset(data, tmp_path / "d", max_rows_per_file=100_000)
    before = pa.total_allocated_bytes()
    reader = dataset.sql("SELECT x, x * 2 AS y FROM dataset").build().to_stream_reader()
    assert reader.read_next_batch().num_rows > 0
    assert pa.total_allocated_bytes() - before < 8 << 20
    del reader


def test_a_query_reads_the_version_that_is_opened(tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(pa.table({"x": [1, 2]}), tmp_path / "d")
    dataset.delete("x = 1")
    query = "SELECT x FROM dataset"
    assert answer(dataset.sql(query)) == [{"x": 2}]
    assert answer(dataset.checkout_version(1).sql(query)) == [{"x": 1}, {"x": 2}]
    built = dataset.sql(query).build()
    dataset.insert(pa.table({"x": [3]}))
    assert len(built.to_batch_records()) == 1


REFUSED = {
    "no SQL": ("SELEC 1", "SQL"),
    "a column": ("SELECT nope FROM dataset", "No field named nope"),
    "a table": ("SELECT * FROM other", "other"),
    "a file": ("SELECT * FROM '/etc/hosts'", "not found"),
    "writing a file": ("COPY dataset TO 'out.csv'", "DML not supported"),
    "inserting": ("INSERT INTO dataset VALUES (1)", "SQL query"),
    "creating": ("CREATE TABLE t AS SELECT * FROM dataset", "DDL not supported"),
    "setting": ("SET datafusion.execution.batch_size = 3", "Statement not supported"),
    "two": ("SELECT 1; SELECT 2", "single SQL statement"),
    "a value": ("SELECT row / 0 FROM dataset", "Divide by zero"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_queries_that_cannot_be_answered_are_refused(
    name: str, dataset: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    query, text = REFUSED[name]
    for method in ("to_batch_records", "explain_plan"):
        if name == "a value" and method == "explain_plan":
            continue
        with pytest.raises(InvalidInputError, match=text):
            getattr(dataset.sql(query).build(), method)()
    assert not list(tmp_path.iterdir())


def test_damage_is_reported_as_in_a_scan(tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(pa.table({"x": range(1000)}), tmp_path / "d")
    (file,) = (tmp_path / "d" / "data").iterdir()
    file.write_bytes(file.read_bytes()[:-100])
    opened = lance_core.dataset(tmp_path / "d", session=lance_core.Session())
    with pytest.raises(LanceError) as found:
        opened.to_table()
    with pytest.raises(type(found.value), match=file.name):
        opened.sql("SELECT sum(x) FROM dataset").build().to_batch_records()
    assert isinstance(found.value, CorruptFileError)
    assert dataset.version == 1


def test_without_the_engine_the_message_says_what_to_install(dataset: Any) -> None:
    code = """
import sys
sys.modules["datafusion"] = None
import lance_core
query = lance_core.dataset(sys.argv[1]).sql("SELECT 1").build()
try:
    query.to_batch_records()
except lance_core.UnsupportedFeatureError as error:
    assert "pip install 'lance-flight[sql]'" in str(error)
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", code, dataset.uri], check=True, timeout=60)


def test_a_stream_may_be_freed_while_another_query_runs(dataset: Any) -> None:
    """The garbage collector runs in a thread of the engine, in the scan that the engine has called. A
    stream of another query that it frees there must not end the process.
    """
    code = """
import gc, sys
import lance_core

dataset = lance_core.dataset(sys.argv[1])
read = lance_core.LanceScanner.to_batches


def collecting(scanner):
    gc.collect()
    yield from read(scanner)


gc.disable()
reader = dataset.sql("SELECT row FROM dataset").batch_size(1).build().to_stream_reader()
reader.read_next_batch()
cycle = [reader]
cycle.append(cycle)
del reader, cycle
lance_core.LanceScanner.to_batches = collecting
(batch,) = dataset.sql("SELECT sum(row) AS total FROM dataset").build().to_batch_records()
assert batch.to_pylist() == [{"total": 120}]
"""
    subprocess.run([sys.executable, "-c", code, dataset.uri], check=True, timeout=60)


def test_functions_of_json_are_those_of_filters(tmp_path: Path) -> None:
    """The engine calls our kernels; the reference answers the same queries from binary JSON."""
    documents = ['{"a":{"b":7},"t":["x","y"],"f":"1.5"}', None, '{"a":{"b":"8"},"t":[]}', '{"c":true}']
    texts = ["the cat is red", "red", None, "Red-Cat"]
    table = pa.table({"id": range(4), "data": pa.array(documents, pa.json_()), "text": texts})
    theirs = lance.write_dataset(table, str(tmp_path / "d"))
    ours = lance_core.dataset(tmp_path / "d")
    for query in (
        "SELECT * FROM dataset WHERE json_get_int(json_get(data, 'a'), 'b') > 6",
        "SELECT id, json_extract(data, '$.a.b') AS x, json_exists(data, '$.t[*]') AS y FROM dataset",
        "SELECT json_array_length(data, '$.t') AS n, count(*) AS m FROM dataset GROUP BY 1 ORDER BY 1",
        "SELECT id FROM dataset WHERE json_array_contains(data, '$.t', 'x') OR json_get_bool(data, 'c')",
        "SELECT json_get_float(data, 'f') AS f, json_get_string(data, 'f') AS s FROM dataset",
        "SELECT id FROM dataset WHERE json_get(data, 'a') IS NOT NULL AND id > 0",
        "SELECT id FROM dataset WHERE json_exists(data, '$.none')",
        "SELECT id, contains_tokens(text, 'red cat') AS x FROM dataset",
    ):
        expected, found = (one.sql(query).build().to_batch_records() for one in (theirs, ours))
        assert [batch.to_pylist() for batch in found] == [batch.to_pylist() for batch in expected], query
    with pytest.raises(InvalidInputError, match="is no path of JSON"):
        ours.sql("SELECT json_extract(data, '$[') FROM dataset").build().to_batch_records()
    with pytest.raises(InvalidInputError, match="json_get takes a constant text"):
        ours.sql("SELECT json_get(data, id::text) FROM dataset").build().to_batch_records()
