"""Every job with real Spark and a real server."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from flight_client import Client, DatasetExistsError, InvalidInputError
from spark_pipeline.failures import FORESEEN, message_of
from spark_pipeline.jobs import (
    Server,
    Source,
    backfill,
    compact,
    deduplicate,
    export,
    index,
    ingest,
    merge,
    transform,
    verify,
)
from support.searches.nearest import vector_table
from support.servers.served import Root

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture
def servers(uri: str) -> Server:
    return Server.of(uri)


@pytest.fixture
def name() -> str:
    """Name of a dataset of the test's own."""
    return f"jobs/t{uuid4().hex}"


def people(numbers: range | list[int], score: int = 0) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "name": [f"name {number}" for number in numbers],
            "score": pa.array([score + number for number in numbers], pa.int64()),
        }
    )


@pytest.mark.parametrize(
    ("file", "text", "options"),
    [
        ("a.csv", "id,name\n1,ann\n2,ben\n", {"header": "true"}),
        ("a.jsonl", '{"id": 1, "name": "ann"}\n{"id": 2, "name": "ben"}\n', {}),
    ],
)
def test_ingest_of_text(
    spark: SparkSession,
    servers: Server,
    client: Client,
    name: str,
    tmp_path: Path,
    file: str,
    text: str,
    options: dict[str, str],
) -> None:
    (tmp_path / file).write_text(text)
    source = Source(path=str(tmp_path / file), options=options, schema="id INT, name STRING")
    ingest(spark, servers, name, source, mode="create", where="id > 0")
    assert client.dataset(name).to_table().to_pydict() == {"id": [1, 2], "name": ["ann", "ben"]}
    ingest(spark, servers, name, source, columns=["name", "id"])
    assert client.dataset(name).count_rows() == 4
    ingest(spark, servers, name, source, mode="overwrite", where="id = 2", columns={"n": "name"})
    assert client.dataset(name).to_table().to_pydict() == {"n": ["ben"]}


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        (
            "a.csv",
            'a,b\n007,NA\n"",nan\n,""\n1e5,"x ""y""\nz"\n',
            {"a": ["007", "", None, "1e5"], "b": ["NA", "nan", "", 'x "y"\nz']},
        ),
        ("a.jsonl", '{"a": 99999999999999999999}\n{"a": 1}\n', {"a": [10**20 - 1, 1]}),
        (
            "a.jsonl",
            '{"a": {"b": [1, 2.5]}}\n{"c": 1e300}\n',
            {"a": [{"b": [1.0, 2.5]}, None], "c": [None, 1e300]},
        ),
        ("a.jsonl", '{"a": "2024-01-01T00:00:00+02:00"}\n', {"a": ["2024-01-01T00:00:00+02:00"]}),
    ],
)
def test_ingest_changes_no_value(
    spark: SparkSession,
    servers: Server,
    client: Client,
    name: str,
    tmp_path: Path,
    file: str,
    text: str,
    expected: dict[str, list[object]],
) -> None:
    """Columns of CSV are text without a schema; numbers of JSON keep their digits."""
    (tmp_path / file).write_text(text)
    ingest(spark, servers, name, Source(path=str(tmp_path / file)), mode="create")
    assert client.dataset(name).to_table().to_pydict() == expected


@pytest.mark.parametrize(
    ("file", "text", "schema", "words"),
    [
        ("a.csv", "a;b\n1;2\n", None, ["'a;b'", "sep=';'"]),
        ("a.csv", "a,b\n1,x\n", "a INT, b INT", ["a.csv", '"x"']),
        ("a.csv", "b,a\n1,2\n", "a INT, b INT", ["a.csv", "header does not conform"]),
        ("a.csv", "1,2\n3,4\n", "a INT, b INT", ["header does not conform"]),
        ("a.csv", "a,b\n1\n", None, ["a.csv", "alformed"]),
        ("a.csv", "a\n2024-02-30\n", "a DATE", ["a.csv", "2024-02-30"]),
        ("a.jsonl", '{"a": 2.5}\n{"a": 9007199254740993}\n', None, ["field a", "9007199254740993", "schema"]),
        (
            "a.jsonl",
            '{"a": [{"b": 0.5}, {"b": 12345678901234567}]}\n',
            None,
            ["field a.b", "12345678901234567"],
        ),
        ("a.jsonl", '{"a": "x"}\n', "a INT", ["a.jsonl", "value x"]),
        ("a.jsonl", '{"a": 1}\n{"a"\n', None, ["alformed"]),
    ],
)
def test_ingest_refuses_text_that_would_change(
    spark: SparkSession,
    servers: Server,
    name: str,
    tmp_path: Path,
    file: str,
    text: str,
    schema: str | None,
    words: list[str],
) -> None:
    """Spark's own defaults make nulls of such cells, or read columns by position."""
    (tmp_path / file).write_text(text)
    with pytest.raises(FORESEEN) as raised:
        ingest(spark, servers, name, Source(path=str(tmp_path / file), schema=schema), mode="create")
    for word in words:
        assert word in message_of(raised.value)


def test_ingest_of_orc_and_a_database(
    spark: SparkSession, servers: Server, client: Client, name: str, tmp_path: Path
) -> None:
    folder = str(tmp_path / "orc")
    spark.range(10).selectExpr("id", "CAST(id AS DECIMAL(9, 2)) AS price").write.orc(folder)
    ingest(spark, servers, name, Source(path=folder, format="orc"), mode="create", sort_by=["id DESC"])
    assert client.dataset(name).to_table()["id"].to_pylist() == list(range(9, -1, -1))

    spark._jvm.java.lang.System.setProperty("derby.stream.error.file", str(tmp_path / "derby.log"))
    url = f"jdbc:derby:memory:{uuid4().hex}"
    database = spark._jvm.java.sql.DriverManager.getConnection(f"{url};create=true")
    statement = database.createStatement()
    statement.execute("CREATE TABLE people (id BIGINT, price DECIMAL(9, 2))")
    statement.execute("INSERT INTO people VALUES (100, 1.25), (101, NULL)")
    ingest(
        spark,
        servers,
        name,
        Source(format="jdbc", options={"url": url, "dbtable": "people"}),
        columns={"id": "ID", "price": "PRICE"},
    )
    database.close()
    assert client.dataset(name).to_table(filter="id >= 100")["id"].to_pylist() == [100, 101]


def test_ingest_refuses_what_does_not_fit(
    spark: SparkSession, servers: Server, client: Client, name: str, tmp_path: Path
) -> None:
    """Nothing is written, and the error is one line."""
    client.write(name, people(range(3)), "create")
    pq.write_table(pa.table({"id": ["x", "1"]}), tmp_path / "a.parquet")
    source = Source(path=str(tmp_path / "a.parquet"))
    with pytest.raises(PySparkException) as raised:
        ingest(spark, servers, name, source)
    assert message_of(raised.value).startswith("column 'id': int64 cannot hold it")
    with pytest.raises(InvalidInputError, match="no column 'other'"):
        ingest(spark, servers, name, source, columns={"other": "id"})
    with pytest.raises(PySparkException) as raised:
        ingest(spark, servers, name, source, columns={"id": "nothing"})
    assert "nothing" in message_of(raised.value)
    assert "\n" not in message_of(raised.value)
    with pytest.raises(InvalidInputError, match="partition_rows"):
        ingest(spark, servers, name, source, partitions=2, partition_rows=10)
    assert client.dataset(name).version == 1


def test_no_rows_make_a_version_too(spark: SparkSession, servers: Server, client: Client, name: str) -> None:
    source = Source(dataset="empty")
    transaction_id = str(uuid4())
    for was_done in (False, True):
        made = ingest(spark, servers, name, source, mode="create", transaction_id=transaction_id)
        assert (made.version, made.rows, made.was_done) == (1, 0, was_done)
    assert client.dataset(name).schema.names == ["a"]


def test_transform(spark: SparkSession, servers: Server, client: Client, name: str) -> None:
    client.write(f"{name}/people", people(range(100)), "create")
    client.delete(f"{name}/people", "id >= 50")
    query = "SELECT p.id % 2 AS odd, count(*) AS n FROM people p JOIN old o ON o.id = p.id GROUP BY 1"
    inputs = {"people": f"{name}/people", "old": f"{name}/people@1"}
    made = transform(spark, servers, name, query, inputs, sort_by=["odd"], partition_rows=1)
    assert client.dataset(name).to_table().to_pydict() == {"odd": [0, 1], "n": [25, 25]}
    assert made.version == 1
    with pytest.raises(PySparkException) as raised:
        transform(spark, servers, name, "SELECT nothing FROM people", inputs)
    assert message_of(raised.value).startswith("[UNRESOLVED_COLUMN")


def test_attempts_of_a_task_double_nothing(
    spark: SparkSession, servers: Server, client: Client, name: str
) -> None:
    """T44: tasks fail after they have sent rows, and are tried again."""
    client.write(f"{name}/people", people(range(30_000)), "create", max_rows_per_file=10_000)

    def flaky(number: int) -> int:
        context = TaskContext.get()
        if context is not None and context.attemptNumber() < 2 and number % 10_000 == 9_999:
            raise RuntimeError("this attempt fails")
        return number

    spark.udf.register("flaky", flaky, "bigint")
    inputs = {"people": f"{name}/people"}
    transform(spark, servers, name, "SELECT flaky(id) AS id FROM people", inputs)
    assert client.dataset(name).to_table()["id"].to_pylist() == list(range(30_000))


def test_backfill_by_a_function(spark: SparkSession, servers: Server, client: Client, name: str) -> None:
    client.write(name, people(range(100)), "create", max_rows_per_file=30)
    client.delete(name, "id < 3 OR id > 95 OR id % 7 = 0")

    def embed(batch: pa.RecordBatch) -> pa.RecordBatch:
        values = pc.cast(batch["id"], pa.float32()).to_pylist()
        return pa.record_batch({"vector": [[value, value / 2] for value in values]})

    made = backfill(
        spark,
        servers,
        name,
        function=embed,
        schema="vector ARRAY<FLOAT>",
        inputs=["id"],
        vectors={"vector": 2},
    )
    assert made.details == {"fragments": 4, "fragments_without": 0}
    table = client.dataset(name).to_table()
    assert table.schema.field("vector").type == pa.list_(pa.float32(), 2)
    assert all(row["vector"] == [row["id"], row["id"] / 2] for row in table.to_pylist())

    def half(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.slice(0, batch.num_rows // 2).rename_columns(["other"])

    with pytest.raises(PySparkException) as raised:
        backfill(spark, servers, name, function=half, schema="other BIGINT", inputs=["id"])
    assert "the function returned" in message_of(raised.value)
    with pytest.raises(InvalidInputError, match="cannot be imported"):
        backfill(spark, servers, name, function="no.such:thing", schema="other BIGINT")
    assert "other" not in client.dataset(name).schema.names


def test_merge_and_deduplicate(
    spark: SparkSession, servers: Server, client: Client, name: str, tmp_path: Path
) -> None:
    client.write(name, people(range(10)), "create", max_rows_per_file=4)
    pq.write_table(pa.concat_tables([people([3, 20], 100), people([3, 20], 200)]), tmp_path / "a.parquet")
    source, transaction_id = Source(path=str(tmp_path / "a.parquet")), str(uuid4())
    for was_done in (False, True):
        made = merge(
            spark, servers, name, source, on=["id"], keep_by=["score DESC"], transaction_id=transaction_id
        )
        assert (made.version, made.was_done) == (2, was_done)
    scores = dict(zip(*client.dataset(name).to_table(["id", "score"]).to_pydict().values(), strict=True))
    assert (len(scores), scores[3], scores[20], scores[4]) == (11, 203, 220, 4)

    client.write(name, people(range(8), 1000))
    client.write(name, people(range(4), 500))
    made = deduplicate(spark, servers, name, keys=["id"], keep_by=["score DESC"])
    assert made.details == {"deleted": 12, "moved_meanwhile": 0}
    table = client.dataset(name).to_table().sort_by("id")
    assert table["id"].to_pylist() == [*range(10), 20]
    assert table["score"].to_pylist() == [*range(1000, 1008), 8, 9, 220]
    assert deduplicate(spark, servers, name, keys=["id"]).version == made.version


def test_compact(spark: SparkSession, servers: Server, client: Client, name: str) -> None:
    client.write(name, people(range(100)), "create", max_rows_per_file=10)
    client.delete(name, "id % 10 = 3")
    transaction_id = str(uuid4())
    made = compact(spark, servers, name, target_rows=45, transaction_id=transaction_id)
    assert made.details["fragments_before"] == 10
    assert made.details["fragments_after"] < 5
    assert made.details["tasks"] > 1
    assert made.details["lost_coverage"] == []
    again = compact(spark, servers, name, target_rows=45, transaction_id=transaction_id)
    assert (again.version, again.was_done) == (made.version, True)
    assert client.dataset(name).to_table()["id"].to_pylist() == [i for i in range(100) if i % 10 != 3]


def test_index(spark: SparkSession, servers: Server, client: Client, name: str) -> None:
    """Executors build segments, and one commit makes an index of them."""
    client.write(name, people(range(100)), "create", max_rows_per_file=10)
    transaction_id = str(uuid4())
    made = index(spark, servers, name, "id", segments=3, transaction_id=transaction_id)
    assert made.details["segments"] == 3
    (found,) = client.indices(name)
    assert (found["name"], found["type"], found["rows"]) == ("id_idx", "BTree", 100)
    again = index(spark, servers, name, "id", segments=3, transaction_id=transaction_id)
    assert (again.version, again.was_done) == (made.version, True)
    assert client.dataset(name).to_table(filter="id = 55")["id"].to_pylist() == [55]


def test_vector_index(spark: SparkSession, servers: Server, client: Client) -> None:
    """The index is trained once: its segments have the same centroids, and one commit makes the index."""
    name = f"jobs/vectors-{uuid4().hex}"
    vectors = np.random.default_rng(2).standard_normal((900, 16)).astype(np.float32)
    client.write(name, vector_table(vectors), mode="create", max_rows_per_file=100)
    parameters = {"num_partitions": 4, "num_sub_vectors": 4}
    made = index(spark, servers, name, "v", index_type="IVF_PQ", segments=3, parameters=parameters)
    assert (made.version, made.details) == (2, {"segments": 3})
    facts = client.index_statistics(name, "v_idx")
    assert (facts["num_segments"], facts["num_unindexed_rows"]) == (3, 0)
    nearest = {"column": "v", "q": vectors[5].tolist(), "k": 20, "nprobes": 4}
    found = client.dataset(name).to_table(["id"], nearest=nearest)
    client.create_index(name, "v", "IVF_PQ", index="v_idx", parameters=parameters)
    assert found == client.dataset(name).to_table(["id"], nearest=nearest)


def test_export(spark: SparkSession, servers: Server, client: Client, name: str, tmp_path: Path) -> None:
    """T44: a folder is there with all its rows or not at all, and a repeated job writes it once."""
    client.write(name, people(range(100)), "create")
    folder, transaction_id = str(tmp_path / "out"), str(uuid4())
    columns = {"id": "id", "name": "name", "part": "id % 3"}
    for was_done in (False, True):
        made = export(
            spark,
            servers,
            name,
            folder,
            columns=columns,
            filter="id >= 10",
            where="id < 70",
            partition_by=["part"],
            sort_by=["id DESC"],
            partitions=2,
            transaction_id=transaction_id,
        )
        assert (made.rows, made.version, made.was_done) == (60, 1, was_done)
        assert made.bytes > 0
        client.write(name, people([200]))
    assert sorted(path.name for path in (tmp_path / "out").iterdir() if path.is_dir()) == [
        f"part={number}" for number in range(3)
    ]
    assert sorted(row.id for row in spark.read.parquet(folder).collect()) == list(range(10, 70))
    with pytest.raises(DatasetExistsError):
        export(spark, servers, name, folder)
    assert export(spark, servers, f"{name}@1", folder, mode="overwrite", format="json").rows == 100
    assert spark.read.json(folder).count() == 100
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


MAPS = [[("a", 1), ("b", None)], [], None, [("b", 2)], [("a", None)]]
PLACES = [
    {"lat": 0.5, "zone": None},
    {"lat": None, "zone": "x"},
    None,
    {"lat": None, "zone": None},
    {"lat": float("nan"), "zone": ""},
]


def test_jobs_do_not_copy_damage(
    spark: SparkSession, servers: Server, client: Client, served: Root, name: str, tmp_path: Path
) -> None:
    """T26: a flipped bit that decodes ends exports and transformations."""
    values = np.random.default_rng(1).normal(size=5000)
    client.write(name, pa.table({"x": values}), "create")
    (file,) = (served.path / f"{name}.lance" / "data").iterdir()
    whole = bytearray(file.read_bytes())
    whole[whole.index(values[77].tobytes())] ^= 1
    file.write_bytes(whole)
    with pytest.raises(PySparkException, match="does not match its checksum"):
        export(spark, servers, name, str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()
    with pytest.raises(PySparkException, match="does not match its checksum"):
        transform(spark, servers, f"{name}out", "SELECT x + 1 AS y FROM source", {"source": name})
    assert client.dataset(name).version == 1


def test_verify_sees_every_difference(
    spark: SparkSession, servers: Server, client: Client, name: str, tmp_path: Path
) -> None:
    """T26: no value changes unseen; what is equal for Lance is equal here."""
    nan = float("nan")
    place = pa.struct([("lat", pa.float32()), ("zone", pa.string())])
    rows = {
        "id": pa.array([0, 1, 2, 3, 4], pa.int64()),
        "x": pa.array([nan, 0.0, None, 1.5, -1.0]),
        "a": pa.array([1, None, 3, None, 5], pa.int32()),
        "b": pa.array([None, 1, None, 3, 5], pa.int32()),
        "list": pa.array([[1, None], [1], [], None, [None, 1]], pa.list_(pa.int32())),
        "map": pa.array(MAPS, pa.map_(pa.string(), pa.int32())),
        "place": pa.array(PLACES, place),
        "bytes": pa.array([b"", None, b"\0", b"a", b"b"]),
    }
    table = pa.table(rows)
    client.write(name, table, "create", max_rows_per_file=2)

    def difference(changed: pa.Table) -> dict[str, object]:
        pq.write_table(changed, tmp_path / "a.parquet")
        source = Source(path=str(tmp_path / "a.parquet"))
        return dict(verify(spark, servers, name, source, keys=["id"], buckets=4).details)

    same = table.set_column(1, "x", pa.array([nan, -0.0, None, 1.5, -1.0])).take([4, 2, 0, 1, 3])
    assert difference(same)["is_equal"]
    doubled = difference(pa.concat_tables([table, table.slice(1, 1), table.slice(1, 1)]))
    assert (doubled["is_equal"], doubled["missing"], doubled["keys"]) == (False, 2, [["1"]])
    changes = {
        "x": [nan, 0.0, None, 1.5, nan],
        "a": [None, None, 3, None, 5],
        "list": [[1, None], [1, None], [], None, [None, 1]],
        "map": [MAPS[0], MAPS[1], [], *MAPS[3:]],
        "place": [PLACES[0], PLACES[1], {"lat": None, "zone": None}, *PLACES[3:]],
        "bytes": [b"", b"", b"\0", b"a", b"b"],
    }
    for column, values in changes.items():
        position = table.schema.get_field_index(column)
        changed = table.set_column(position, column, pa.array(values, table.schema.field(column).type))
        found = difference(changed)
        assert (found["missing"], found["unexpected"], len(found["keys"])) == (1, 1, 1), column
    swapped = table.set_column(2, "a", table["b"]).set_column(3, "b", table["a"])
    assert difference(swapped)["missing"] == 4
    with pytest.raises(InvalidInputError, match="no column 'other'"):
        verify(spark, servers, name, Source(dataset=name), columns={"other": "id"})
