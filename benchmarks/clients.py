"""Waiting times of users of `flight_client`: DuckDB and Polars on a remote dataset, and its single rows.

These engines also run on the stream of a plain Flight server over the reference, with the batch size and the
number of streams that are best for this server: once as it is, and once after the columns and rows of the
query were given to the server by hand. A remote take is compared with a take of the reference in this process
plus one round trip.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import duckdb
import lance
import numpy as np
import polars as pl
import pyarrow as pa
from pyarrow import flight

import flight_client
from benchmarks import targets
from benchmarks.data import FRAGMENTS, SEED, Dataset
from benchmarks.flight_scan import BATCH_SIZES, Server
from benchmarks.measure import Measurement, interleave
from benchmarks.single_rows import COLUMNS, MANY_ROWS, RUNS_OF_ONE_ROW
from benchmarks.targets import Ratio
from benchmarks.touch import touch_table

OURS = "flight_client"
LOOKUP = "flight_client, lookup"
PLAIN = "plain"
BY_HAND = "plain, told by hand"
LOCAL = "pylance here and a round trip"
ROUND_TRIP = "round trip alone"

RANGE_ROWS = 1000


@dataclass(frozen=True)
class Query:
    """Query in both languages, and its columns and rows for a server that is told by hand."""

    name: str
    line: str
    """Name in the closing table."""
    line_by_hand: str | None
    """Line of the comparison with a server that was told by hand; None if there is nothing to tell."""
    sql: str
    """The query, on the table `data`."""
    frame: Callable[[pl.LazyFrame], pl.LazyFrame]
    columns: tuple[str, ...] | None
    filter: str | None


def queries(num_rows: int) -> list[Query]:
    """Return an aggregate of all columns, one of two, and a range of rows of a sorted column."""
    first = num_rows * 5 // 8
    last = first + RANGE_ROWS - 1
    largest = ("id", "hash", "small", "value", "ratio", "maybe", "time", "category", "text")
    return [
        Query(
            "full aggregate",
            targets.ENGINES_ALL,
            None,
            f"SELECT {', '.join(f'max({name})' for name in largest)}, sum(flag::INT)::BIGINT AS flag,"
            " sum(len(tags))::BIGINT AS tags FROM data",
            lambda frame: frame.select(
                pl.col(*largest).max(),
                pl.col("flag").sum().cast(pl.Int64),
                pl.col("tags").list.len().sum().cast(pl.Int64),
            ),
            None,
            None,
        ),
        Query(
            "projection",
            targets.ENGINES_COLUMNS,
            targets.COLUMNS_BY_HAND,
            "SELECT category, count(*) AS n, max(value) AS best FROM data GROUP BY 1 ORDER BY 1",
            lambda frame: (
                frame.group_by("category")
                .agg(pl.len().cast(pl.Int64).alias("n"), pl.col("value").max().alias("best"))
                .sort("category")
            ),
            ("category", "value"),
            None,
        ),
        Query(
            "range filter",
            targets.ENGINES_RANGE,
            targets.RANGE_BY_HAND,
            f"SELECT * FROM data WHERE id BETWEEN {first} AND {last} ORDER BY id",
            lambda frame: frame.filter(pl.col("id").is_between(first, last)).sort("id"),
            None,
            f"id BETWEEN {first} AND {last}",
        ),
    ]


def measure(
    dataset: Dataset, ours: Server, plain: Server, runs: int
) -> Iterator[tuple[Measurement, list[Ratio]]]:
    """Measure both engines on every query, then takes; yield each measurement with its target."""
    remote = flight_client.connect(ours.uri).dataset(dataset.name)
    for query in queries(remote.count_rows()):
        for engine, over_ours, over_plain in (
            ("DuckDB", lambda query=query: _duckdb(query, remote), _duckdb),
            ("Polars", lambda query=query: query.frame(remote.to_polars()).collect().to_arrow(), _polars),
        ):
            competitors = {OURS: over_ours}
            lines = {PLAIN: query.line} | ({BY_HAND: query.line_by_hand} if query.line_by_hand else {})
            for name in lines:
                competitors[name] = _best_way(dataset, plain, query, over_plain, by_hand=name == BY_HAND)
            answers = {name: run() for name, run in competitors.items()}
            if any(answer.to_pylist() != answers[OURS].to_pylist() for answer in answers.values()):
                raise AssertionError(f"{engine}, {query.name}: the answers differ")
            task = f"{dataset.name} {engine} {query.name}"
            measured = interleave(task, query.line, answers[OURS].nbytes, competitors, runs)
            yield (
                measured,
                [Ratio(line, measured.task, measured.ratio(OURS, name)) for name, line in lines.items()],
            )
    for num_rows, line, lookup_line in (
        (MANY_ROWS, targets.REMOTE_TAKE_MANY, targets.REMOTE_LOOKUP_MANY),
        (1, targets.REMOTE_TAKE_ONE, targets.REMOTE_LOOKUP_ONE),
    ):
        measured = _takes(dataset, remote, plain, num_rows, line, runs)
        yield (
            measured,
            [
                Ratio(line, measured.task, measured.ratio(OURS, LOCAL)),
                Ratio(lookup_line, measured.task, measured.ratio(LOOKUP, LOCAL)),
            ],
        )


def _duckdb(query: Query, data: object) -> pa.Table:
    """Run the query in DuckDB, which finds `data` by the name of the variable."""
    return duckdb.sql(query.sql).arrow().read_all()


def _polars(query: Query, source: pa.Table | pa.RecordBatchReader) -> pa.Table:
    table = source if isinstance(source, pa.Table) else source.read_all()
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return query.frame(frame.lazy()).collect().to_arrow()


def _best_way(
    dataset: Dataset,
    plain: Server,
    query: Query,
    engine: Callable[[Query, pa.Table | pa.RecordBatchReader], pa.Table],
    *,
    by_hand: bool,
) -> Callable[[], pa.Table]:
    """Return the query over the plain server, in the way that was fastest in two rounds."""
    clients = [flight.connect(plain.uri) for _ in range(FRAGMENTS)]

    def ticket(size: int | None, fragment: int | None) -> flight.Ticket:
        asked: dict[str, object] = {"dataset": dataset.name, "batch_size": size, "fragment": fragment}
        if by_hand:
            asked |= {"columns": query.columns, "filter": query.filter}
        return flight.Ticket(json.dumps(asked).encode())

    def one_stream(size: int | None) -> pa.Table:
        return engine(query, clients[0].do_get(ticket(size, None)).to_reader())

    def parallel(size: int | None) -> pa.Table:
        with ThreadPoolExecutor(FRAGMENTS) as pool:
            tickets = [ticket(size, fragment) for fragment in range(FRAGMENTS)]
            parts = pool.map(lambda client, part: client.do_get(part).read_all(), clients, tickets)
            return engine(query, pa.concat_tables(parts))

    ways = [(read, size) for read in (one_stream, parallel) for size in BATCH_SIZES]
    least = {way: float("inf") for way in ways}
    for _ in range(2):
        for read, size in ways:
            started = time.perf_counter()
            read(size)
            least[read, size] = min(least[read, size], time.perf_counter() - started)
    best, best_size = min(ways, key=least.__getitem__)
    return lambda: best(best_size)


def _takes(
    dataset: Dataset,
    remote: flight_client.RemoteDataset,
    plain: Server,
    num_rows: int,
    line: str,
    runs: int,
) -> Measurement:
    """Measure takes. Every run takes other rows, which are the same for all competitors."""
    reference = lance.dataset(str(dataset.path))
    total = remote.count_rows()
    client = flight.connect(plain.uri)
    nothing = flight.Ticket(b"{}")
    lookup = remote.lookup(COLUMNS)
    chosen = {name: np.random.default_rng(SEED) for name in (OURS, LOOKUP, LOCAL)}

    def rows(name: str) -> Sequence[int]:
        keys: list[int] = chosen[name].integers(0, total, num_rows).tolist()
        return keys

    def local() -> None:
        touch_table(reference.take(rows(LOCAL), columns=COLUMNS))
        client.do_get(nothing).read_all()

    competitors = {
        OURS: lambda: touch_table(remote.take(rows(OURS), columns=COLUMNS)),
        LOOKUP: lambda: touch_table(lookup.take(rows(LOOKUP))),
        LOCAL: local,
        ROUND_TRIP: lambda: client.do_get(nothing).read_all(),
    }
    size = reference.take(list(range(num_rows)), columns=COLUMNS).nbytes
    task = f"{dataset.name} take {num_rows} of {len(COLUMNS)} columns"
    least_runs = RUNS_OF_ONE_ROW // (4 if num_rows > 1 else 1)
    measured = interleave(task, line, size, competitors, max(runs, least_runs))
    lookup.close()
    return measured
