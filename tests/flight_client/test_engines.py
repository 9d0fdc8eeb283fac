"""DuckDB and Polars on a remote dataset: the answers of the local table, and what they push."""

from __future__ import annotations

import random

import duckdb
import lance
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import flight_client
from flight_client import RemoteDataset
from support.served import Root

QUERIES = [
    "SELECT count(*) FROM trips",
    "SELECT id, city FROM trips WHERE id BETWEEN 100 AND 120 ORDER BY id",
    "SELECT driver, count(*), sum(id) FROM trips GROUP BY driver ORDER BY driver",
    "SELECT id FROM trips WHERE city = 'Lund' AND pickup.zone IS NOT NULL ORDER BY id LIMIT 7",
    "SELECT id FROM trips WHERE fare > 500 AND driver LIKE 'driver 1%' ORDER BY id",
    "SELECT id FROM trips WHERE fare <= 5 OR id IN (7, 14, 2999) ORDER BY id",
    "SELECT id FROM trips WHERE fare = 'NaN'::DOUBLE AND id < 100 ORDER BY id",
    "SELECT id FROM trips WHERE NOT (id IN (1, 2, 4)) AND id < 9 ORDER BY id",
    "SELECT a.id, b.driver FROM trips a JOIN trips b ON a.id = b.id + 1 WHERE a.id < 20 ORDER BY a.id",
    "SELECT id FROM trips WHERE length(driver) = 9 AND id % 7 = 3 ORDER BY id LIMIT 5",
    "SELECT max(id) FROM trips WHERE stops IS NULL",
    "SELECT vector FROM trips WHERE id = 42",
]


@pytest.mark.parametrize("query", QUERIES)
def test_duckdb(trips: RemoteDataset, root: Root, query: str) -> None:
    remote = duckdb.connect()
    remote.register("trips", trips)
    local = duckdb.connect()
    local.register("trips", root.trips)
    expected = local.sql(query).arrow().read_all()
    assert remote.sql(query).arrow().read_all().equals(expected)


def test_duckdb_pushes_columns_and_filters(trips: RemoteDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    scanner = RemoteDataset.scanner

    def noting(self: RemoteDataset, *arguments: object, **named: object) -> object:
        made = scanner(self, *arguments, **named)  # type: ignore[arg-type]
        asked.append(made)
        return made

    monkeypatch.setattr(RemoteDataset, "scanner", noting)
    list(trips.to_batches(["id"], "id < 0"))  # learns the bounds of the pages
    asked.clear()
    connection = duckdb.connect()
    connection.register("trips", trips)
    connection.sql("SELECT driver FROM trips WHERE id > 2500").fetchall()
    (scan,) = asked
    assert scan.projected_schema.names == ["driver"]
    assert scan.statistics["fragments_pruned"] == 2
    assert scan.explain()["pages_pruned"] > 0


FRAMES = {
    "columns": lambda frame: frame.select("id", "driver"),
    "filter": lambda frame: frame.filter(pl.col("id").is_between(10, 30), pl.col("city") == "Lund"),
    "nan": lambda frame: frame.filter(pl.col("fare") > 900),
    "text": lambda frame: frame.filter(pl.col("driver").str.ends_with("7")).select("id"),
    "null": lambda frame: frame.filter(pl.col("fare").is_null() & (pl.col("id") < 90)),
    "not in": lambda frame: frame.filter(~pl.col("id").is_in([1, 2, 4])).head(9),
    "length": lambda frame: frame.select(pl.len()),
    "filtered length": lambda frame: frame.filter(pl.col("id") > 2000).select(pl.len()),
    "head": lambda frame: frame.head(7),
    "slice": lambda frame: frame.slice(995, 30).select("id"),
    "tail": lambda frame: frame.tail(4),
    "slice then filter": lambda frame: frame.slice(10, 50).filter(pl.col("id") > 30),
    "filter then slice": lambda frame: frame.filter(pl.col("id") > 30).slice(10, 50),
    "groups": lambda frame: frame.group_by("driver").agg(pl.col("id").sum()).sort("driver"),
    "join": lambda frame: (
        frame.filter(pl.col("id") < 9).join(frame, on="id").select("id", "city_right").sort("id")
    ),
    "index": lambda frame: frame.with_row_index().filter(pl.col("index") == 1234).select("index", "id"),
    "nested": lambda frame: frame.filter(pl.col("pickup").struct.field("lat") > 2).select("pickup"),
}


@pytest.mark.parametrize("name", FRAMES)
def test_polars(trips: RemoteDataset, root: Root, name: str) -> None:
    query = FRAMES[name]
    local = query(pl.from_arrow(root.trips).lazy()).collect()
    assert_frame_equal(query(trips.to_polars()).collect(), local)


def test_polars_pushes_columns_and_filters(trips: RemoteDataset) -> None:
    plan = trips.to_polars().filter(pl.col("id") < 10).select("driver").explain()
    assert "PROJECT 2/7 COLUMNS" in plan
    assert 'SELECTION: col("id") < 10' in plan


COMPARISONS = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
LEAVES = st.one_of(
    st.tuples(st.just("n"), COMPARISONS, st.integers(-5, 5)),
    st.tuples(st.just("x"), COMPARISONS, st.sampled_from(["-1.5", "0.0", "2.5"])),
    st.tuples(st.just("s"), COMPARISONS, st.sampled_from(["''", "'a'", "'b'"])),
    st.tuples(st.sampled_from("nxs"), st.just("IS"), st.sampled_from(["NULL", "NOT NULL"])),
    st.tuples(st.just("n"), st.sampled_from(["IN", "NOT IN"]), st.sampled_from(["(1, 2)", "(0, 3)", "(-3)"])),
).map(lambda leaf: " ".join(map(str, leaf)))
PREDICATES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda parts: f"({' '.join(parts)})"),
        inner.map(lambda part: f"NOT ({part})"),
    ),
    max_leaves=4,
)


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    source = random.Random(11)
    domains = {
        "n": [None, *range(-5, 6)],
        "x": [None, -1.5, -0.0, 0.0, 1.0, 2.5, float("inf"), float("nan")],
        "s": [None, "", "a", "ab", "b", "z\u00fc"],
    }
    kinds = {"n": pa.int64(), "x": pa.float64(), "s": pa.string()}
    columns = {name: pa.array(source.choices(domains[name], k=400), kinds[name]) for name in kinds}
    return pa.table({"row": pa.array(range(400)), **columns})


@pytest.fixture(scope="module")
def values(rows: pa.Table, client: flight_client.Client, root: Root) -> RemoteDataset:
    lance.write_dataset(rows, root.path / "values.lance", max_rows_per_file=90)
    return client.dataset("values")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(predicate=PREDICATES)
def test_duckdb_agrees_on_drawn_predicates(rows: pa.Table, values: RemoteDataset, predicate: str) -> None:
    """Whatever DuckDB pushes comes back exactly: it does not look again."""
    query = f"SELECT row FROM data WHERE {predicate} ORDER BY row"
    found = []
    for source in (rows, values):
        connection = duckdb.connect()
        connection.register("data", source)
        found.append(connection.sql(query).fetchall())
    assert found[1] == found[0]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(predicate=PREDICATES)
def test_polars_agrees_on_drawn_predicates(rows: pa.Table, values: RemoteDataset, predicate: str) -> None:
    condition = pl.sql_expr(predicate)
    local = pl.from_arrow(rows).lazy().filter(condition).collect()
    assert_frame_equal(values.to_polars().filter(condition).collect(), local)
