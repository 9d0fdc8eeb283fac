"""DuckDB and Polars on a remote dataset: the answers of the local table, and what they push."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import duckdb
import lance
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import flight_client
from flight_client import RemoteDataset, RemoteScanner
from support.runs.draws import draws
from support.servers.served import Root
from support.servers.server import serving

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


@pytest.fixture
def scans(trips: RemoteDataset, monkeypatch: pytest.MonkeyPatch) -> list[RemoteScanner]:
    """The scans that engines begin, on a server that knows the bounds of `id`."""
    list(trips.to_batches(["id"], "id < 0"))
    begun: list[RemoteScanner] = []
    scanner = RemoteDataset.scanner

    def noting(self: RemoteDataset, *arguments: Any, **named: Any) -> RemoteScanner:
        made = scanner(self, *arguments, **named)
        begun.append(made)
        return made

    monkeypatch.setattr(RemoteDataset, "scanner", noting)
    return begun


@dataclass(frozen=True)
class Plan:
    """Expected plan of the server: columns sent, columns filtered by, pruned fragments out of three."""

    sent: set[str]
    filtered_by: set[str] = field(default_factory=set)
    pruned: int = 0


def plan_of(scan: RemoteScanner) -> Plan:
    """Return the plan of a scan, from the server."""
    explained = scan.explain()
    columns = explained["fragments"][0]["columns"]
    used = {
        use: {column["name"] for column in columns if use in column["use"]} for use in ("output", "filter")
    }
    assert explained["filter"] == bool(used["filter"])
    assert used["output"] == set(scan.projected_schema.names)
    return Plan(used["output"], used["filter"], scan.statistics["fragments_pruned"])


PLANNED = {
    "projection": ("SELECT id, city FROM trips", Plan({"id", "city"})),
    "range": ("SELECT driver FROM trips WHERE id BETWEEN 2500 AND 2520", Plan({"driver"}, {"id"}, 2)),
    "two conditions": (
        "SELECT id FROM trips WHERE id > 2500 AND driver = 'driver 3'",
        Plan({"id"}, {"id", "driver"}, 2),
    ),
    "nested": (
        "SELECT id FROM trips WHERE pickup.zone = 'zone 5' AND id < 900",
        Plan({"id"}, {"id", "pickup"}, 2),
    ),
    "join": (
        "SELECT z.zone, a.driver FROM trips a JOIN zones z ON a.id = z.id WHERE a.id < 20",
        Plan({"id", "driver"}, {"id"}, 2),
    ),
    "aggregate": (
        "SELECT driver, count(fare) FROM trips WHERE id >= 2000 GROUP BY driver",
        Plan({"driver", "fare"}, {"id"}, 2),
    ),
    "limit": ("SELECT id FROM trips WHERE id > 1500 LIMIT 7", Plan({"id"}, {"id"}, 1)),
}


@pytest.mark.parametrize("name", PLANNED)
def test_the_server_plans_what_duckdb_asks_for(
    trips: RemoteDataset, scans: list[RemoteScanner], root: Root, name: str
) -> None:
    query, planned = PLANNED[name]
    zones = pa.table({"id": [7, 12, 2600], "zone": ["a", "b", "c"]})
    found = []
    for source in (trips, root.trips):
        connection = duckdb.connect()
        connection.register("trips", source)
        connection.register("zones", zones)
        found.append(connection.sql(query).fetchall())
    if name != "limit":
        assert sorted(found[0], key=str) == sorted(found[1], key=str)
    assert len(found[0]) == len(found[1]) > 0
    (scan,) = scans
    plan = plan_of(scan)
    assert plan.sent <= planned.sent | planned.filtered_by
    assert plan.sent >= planned.sent - {"id"}
    assert (plan.filtered_by, plan.pruned) == (planned.filtered_by, planned.pruned)


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


POLARS_PLANNED = {
    "projection": (lambda frame: frame.select("id", "city"), Plan({"id", "city"})),
    "range": (
        lambda frame: frame.filter(pl.col("id").is_between(2500, 2520)).select("driver"),
        Plan({"driver", "id"}, {"id"}, 2),  # it evaluates what it pushed once more
    ),
    "join": (
        lambda frame: frame.filter(pl.col("id") < 20).select("id", "driver").join(ZONES, on="id"),
        Plan({"id", "driver"}, {"id"}, 2),
    ),
    "aggregate": (
        lambda frame: frame.filter(pl.col("id") >= 2000).group_by("driver").agg(pl.col("fare").max()),
        Plan({"driver", "fare", "id"}, {"id"}, 2),
    ),
    "limit": (lambda frame: frame.select("id").head(7), Plan({"id"}, pruned=2)),
    "slice": (lambda frame: frame.slice(995, 30).select("driver"), Plan({"driver"}, pruned=2)),
    "length": (lambda frame: frame.select(pl.len()), Plan(set())),
}
ZONES = pl.LazyFrame({"id": [7, 12, 2600], "zone": ["a", "b", "c"]})


@pytest.mark.parametrize("name", POLARS_PLANNED)
def test_the_server_plans_what_polars_asks_for(
    trips: RemoteDataset, scans: list[RemoteScanner], root: Root, name: str
) -> None:
    query, planned = POLARS_PLANNED[name]
    found = query(trips.to_polars()).collect()
    assert_frame_equal(found, query(pl.from_arrow(root.trips).lazy()).collect(), check_row_order=False)
    assert found.height > 0
    (scan,) = scans
    assert plan_of(scan) == planned


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
NAN_OR_A_LIST = "(x > -1.5 OR n NOT IN (1, 2))"
"""Not for the server, which reads NOT IN in another way; and NaN passes for both engines."""


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
    seconds = source.choices([None, *range(-3, 4), 86_400, 253_402_300_799], k=400)
    columns |= {
        "moment": pa.array(seconds, pa.timestamp("s")),
        "zoned": pa.array(seconds, pa.timestamp("s", "UTC")),
        "day": pa.array(source.choices([None, -1, 0, 1, 2], k=400), pa.date32()),
        "clock": pa.array(source.choices([None, 0, 1, 2, 5], k=400), pa.time32("s")),
    }
    return pa.table({"row": pa.array(range(400)), **columns})


@pytest.fixture(scope="module")
def values(rows: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteDataset]:
    folder = tmp_path_factory.mktemp("values")
    lance.write_dataset(rows, folder / "values.lance", max_rows_per_file=90)
    with serving(folder, folder / "server.log") as server, flight_client.connect(server.uri) as client:
        yield client.dataset("values")


@pytest.fixture(scope="module")
def both(rows: pa.Table, values: RemoteDataset) -> duckdb.DuckDBPyConnection:
    """DuckDB with the tables `local` and `remote`."""
    connection = duckdb.connect()
    connection.register("local", rows)
    connection.register("remote", values)
    return connection


@settings(max_examples=draws(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(predicate=PREDICATES)
@example(predicate=NAN_OR_A_LIST)
def test_duckdb_agrees_on_drawn_predicates(both: duckdb.DuckDBPyConnection, predicate: str) -> None:
    """DuckDB does not check rows again, so the conditions that it pushes must be evaluated exactly."""
    local, remote = (
        both.sql(f"SELECT row FROM {name} WHERE {predicate} ORDER BY row").fetchall()
        for name in ("local", "remote")
    )
    assert remote == local


@settings(max_examples=draws(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(predicate=PREDICATES)
@example(predicate=NAN_OR_A_LIST)
def test_polars_agrees_on_drawn_predicates(rows: pa.Table, values: RemoteDataset, predicate: str) -> None:
    condition = pl.sql_expr(predicate)
    local = pl.from_arrow(rows).lazy().filter(condition).collect()
    assert_frame_equal(values.to_polars().filter(condition).collect(), local)


MOMENT, FINER = datetime(1970, 1, 1, 0, 0, 1), datetime(1970, 1, 1, 0, 0, 1, 500_000)
FINER_TIMES = {
    "moment": (FINER, "timestamp '1970-01-01 00:00:01.5'"),
    "zoned": (FINER.replace(tzinfo=UTC), "timestamptz '1970-01-01 00:00:01.5+00'"),
    "day": (FINER, "timestamp '1970-01-01 00:00:01.5'"),
    "clock": (FINER.time(), "time '00:00:01.5'"),
}
"""Constants finer than the unit of the column, for Polars and Arrow, and for DuckDB."""


@pytest.mark.parametrize("operator", ["=", "<>", "<", "<=", ">", ">=", "IN"])
@pytest.mark.parametrize("name", FINER_TIMES)
def test_times_finer_than_the_unit_of_a_column(
    both: duckdb.DuckDBPyConnection, rows: pa.Table, values: RemoteDataset, name: str, operator: str
) -> None:
    """T22: the engines trust rows that pass a filter they pushed, so a constant must lose no digits."""
    moment, text = FINER_TIMES[name]
    condition = f"{name} {operator} ({text})"
    local, remote = (
        both.sql(f"SELECT row FROM {table} WHERE {condition} ORDER BY row").fetchall()
        for table in ("local", "remote")
    )
    assert remote == local
    compared = {"=": "__eq__", "<>": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}

    def pushed(column: Any) -> Any:
        return getattr(column, compared[operator])(moment)

    if operator != "IN":
        filtered = values.to_polars().filter(pushed(pl.col(name))).collect()
        assert_frame_equal(filtered, pl.from_arrow(rows).lazy().filter(pushed(pl.col(name))).collect())
        arrow = pushed(pc.field(name))
        assert (
            values.to_table(filter=arrow)["row"].combine_chunks()
            == rows.filter(arrow)["row"].combine_chunks()
        )
    elif name == "moment":  # Polars compares no other columns with lists of such values
        listed = pl.col(name).is_in([moment, MOMENT])
        filtered = values.to_polars().filter(listed).collect()
        assert_frame_equal(filtered, pl.from_arrow(rows).lazy().filter(listed).collect())
        assert values.to_table(filter=pc.field(name).isin([moment])).num_rows == 0
