"""Search of nearest rows on a server: commands, tickets, and the client."""

from __future__ import annotations

import base64
import json
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from google.protobuf.any_pb2 import Any as Any_
from pyarrow import flight
from typer.testing import CliRunner

import flight_client
import lance_core
from flight_client import InvalidInputError, RemoteDataset
from flight_client.reading import scanner
from flight_server.cli import app
from flight_server.proto.command_pb2 import Command
from lance_core.api.dataset import VectorSearchQuery
from lance_core.api.query import MatchQuery
from support.runs.each_case import each_case
from support.searches.nearest import expected_ids, lattice, vector_table
from support.searches.texts import random_rows
from support.servers.cluster import Cluster
from support.servers.server import serving

QUERY = [1.0, 0.0, -1.0, 2.0, 0.0, 1.0]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return vector_table(lattice(1000, 6))


@pytest.fixture(scope="module")
def cluster(
    table: pa.Table, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Cluster, lance_core.LanceDataset]]:
    root = tmp_path_factory.mktemp("root")
    local = lance_core.write_dataset(table, root / "t.lance", max_rows_per_file=150)
    local.delete("id % 10 = 3")
    texts = random_rows(random.Random(5), 0, 700).append_column("v", table["v"].slice(0, 700))
    hybrid = lance_core.write_dataset(texts.slice(0, 600), root / "h.lance", max_rows_per_file=110)
    hybrid.create_scalar_index("text", "INVERTED", stem=False, remove_stop_words=False)
    hybrid.insert(texts.slice(600))
    hybrid.delete("number % 10 = 3")
    cluster = Cluster(root, tmp_path_factory.mktemp("logs"), 2)
    try:
        for number in range(2):
            cluster.start(number)
        yield cluster, local
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def local(cluster: tuple[Cluster, lance_core.LanceDataset]) -> lance_core.LanceDataset:
    return cluster[1]


@pytest.fixture(scope="module")
def remote(cluster: tuple[Cluster, lance_core.LanceDataset]) -> Iterator[RemoteDataset]:
    with flight_client.connect(cluster[0].uris) as client:
        yield client.dataset("t")


@pytest.fixture(scope="module")
def hybrid(
    cluster: tuple[Cluster, lance_core.LanceDataset],
) -> Iterator[tuple[RemoteDataset, lance_core.LanceDataset]]:
    """Return a dataset with texts and vectors, as a client sees it, and opened locally."""
    path = Path(cluster[1].uri).parent / "h.lance"
    with flight_client.connect(cluster[0].uris) as client:
        yield client.dataset("h"), lance_core.dataset(path)


CASES: list[dict[str, Any]] = [
    {},
    {"columns": ["id"]},
    {"columns": ["id"], "with_row_id": True},
    {"filter": "group = 3", "prefilter": True},
    {"filter": "group = 3 AND _distance < 12"},
    {"columns": {"n": "id + 1", "d": "_distance"}},
    {"columns": ["id"], "limit": 4, "offset": 3},
    {"filter": "group > 4", "prefilter": True, "limit": 3},
]


@pytest.mark.parametrize("arguments", CASES, ids=str)
def test_a_scan_with_a_search_is_the_local_one(
    remote: RemoteDataset, local: lance_core.LanceDataset, arguments: dict[str, Any]
) -> None:
    nearest = {"column": "v", "q": QUERY, "k": 17}
    expected = local.to_table(nearest=nearest, **arguments)
    scanner = remote.scanner(nearest=nearest, **arguments)
    assert scanner.to_table() == expected
    assert len(scanner.plan.endpoints) == 1
    assert scanner.count_rows() == expected.num_rows


@pytest.mark.parametrize("filter_", [None, "group IN (1, 2)", pc.field("group") < 3])
@pytest.mark.parametrize("num_queries", [None, 1, 5])
def test_servers_search_a_part_each(
    remote: RemoteDataset, local: lance_core.LanceDataset, filter_: Any, num_queries: int | None
) -> None:
    q = QUERY if num_queries is None else lattice(num_queries, 6, seed=3)
    found = remote.search(q, k=9, columns=["id"], filter=filter_)
    nearest = {"column": "v", "q": q, "k": 9}
    expected = local.to_table(columns=["id"], nearest=nearest, filter=filter_, prefilter=True)
    assert found == expected
    split = flight.FlightDescriptor.for_command(
        json.dumps(
            {
                "scan": {
                    "dataset": "t",
                    "split_search": True,
                    "nearest": {"column": "v", "q": QUERY},
                }
            }
        ).encode()
    )
    info = flight.connect(remote._snapshot.connections.uris[0]).get_flight_info(split)
    assert len(info.endpoints) == 2


def test_a_filter_after_the_search_may_leave_fewer_rows(
    remote: RemoteDataset, local: lance_core.LanceDataset
) -> None:
    found = remote.search(QUERY, "v", 9, filter="group = 2", prefilter=False)
    nearest = {"column": "v", "q": QUERY, "k": 9}
    assert found == local.to_table(nearest=nearest, filter="group = 2")
    assert found.num_rows < 9


def test_engines_read_what_was_found(remote: RemoteDataset) -> None:
    found = remote.search(QUERY, k=5, columns=["id"])
    largest = duckdb.sql("SELECT max(_distance) FROM found").fetchall()
    assert largest == [(max(found["_distance"].to_pylist()),)]
    frame = pl.from_arrow(found)
    assert isinstance(frame, pl.DataFrame)
    assert frame["id"].to_list() == found["id"].to_pylist()


def test_every_form_of_a_query(
    cluster: tuple[Cluster, lance_core.LanceDataset], remote: RemoteDataset
) -> None:
    """The forms of JSON and of protobuf, and those of the client, give the same rows."""
    expected = remote.search(QUERY, "v", 6, columns=["id"])
    encoded = base64.b64encode(np.array(QUERY, "<f4").tobytes()).decode()
    connection = flight.connect(cluster[0].uris[0])
    for q in (QUERY, encoded):
        fields = {"dataset": "t", "columns": ["id"], "nearest": {"column": "v", "q": q, "k": "6"}}
        ticket = flight.Ticket(json.dumps({"scan": fields}).encode())
        assert connection.do_get(ticket).read_all() == expected
    command = Command()
    command.scan.dataset = "t"
    command.scan.columns.names.append("id")
    command.scan.nearest.column = "v"
    command.scan.nearest.k = 6
    command.scan.nearest.q.values.extend(QUERY)
    assert connection.do_get(_ticket(command)).read_all() == expected
    command.scan.nearest.q.data = np.array(QUERY, "<f4").tobytes()
    with pytest.raises(pa.ArrowInvalid, match="values and data"):
        connection.do_get(_ticket(command))
    command.scan.nearest.ClearField("q")
    command.scan.nearest.queries.vectors.add().data = np.array(QUERY, "<f4").tobytes()
    command.scan.nearest.distance_range.upper = expected["_distance"][3].as_py()
    batch = connection.do_get(_ticket(command)).read_all()
    assert batch.column_names == ["query_index", "id", "_distance"]
    kept = pc.less(expected["_distance"], expected["_distance"][3])
    assert batch["id"].to_pylist() == expected.filter(kept)["id"].to_pylist()
    for q in (np.array(QUERY), np.array(QUERY, np.float32), pa.array(QUERY), tuple(QUERY)):
        assert remote.search(q, k=6, columns=["id"]) == expected


def _ticket(command: Command) -> flight.Ticket:
    envelope = Any_(type_url="type.googleapis.com/lance_flight.v1.Command", value=command.SerializeToString())
    return flight.Ticket(envelope.SerializeToString())


@each_case(
    ("fields", "words"),
    [
        ({"nearest": {"column": "v"}}, "the field q is missing"),
        ({"nearest": {"column": "v", "q": []}}, "nearest.q: expected base64, a list"),
        ({"nearest": {"column": "v", "q": [1, "a"]}}, r"q\[1\]: expected a number"),
        ({"nearest": {"column": "v", "q": [[1], "??"]}}, "expected base64"),
        ({"nearest": {"column": "v", "q": QUERY, "k": 0}}, "nearest.k: expected 1 to"),
        ({"nearest": {"column": "v", "q": QUERY, "probes": 1}}, "unknown field 'probes'"),
        ({"nearest": {"column": "v", "q": QUERY, "distance_range": [1]}}, "a lower and an upper bound"),
        ({"nearest": {"column": "w", "q": QUERY}}, "there is no column 'w'"),
        ({"nearest": {"column": "v", "q": "AAAA"}}, "no values of float32"),
        ({"split_search": True}, "split_search: needs nearest"),
        ({"nearest": {"column": "v", "q": QUERY}, "split_search": True, "limit": 1}, "no limit"),
        ({"nearest": {"column": "v", "q": QUERY}, "split_search": True, "filter": "id > 1"}, "prefilter"),
    ],
)
def test_wrong_fields_are_named(
    cluster: tuple[Cluster, lance_core.LanceDataset], fields: dict[str, Any], words: str
) -> None:
    """T19: a command with a wrong search is refused before anything is read."""
    command = json.dumps({"scan": {"dataset": "t", **fields}}).encode()
    connection = flight.connect(cluster[0].uris[0])
    with pytest.raises(pa.ArrowInvalid, match=words):
        connection.get_flight_info(flight.FlightDescriptor.for_command(command))


SEARCHERS: list[dict[str, Any]] = [
    {},
    {"columns": ["id"], "metric": "cosine"},
    {"columns": {"twice": "id * 2", "d": "_distance"}, "filter": "group IN (1, 2)"},
    {"filter": pc.field("group") < 3, "with_row_id": True, "with_row_address": True},
    {"filter": "group = 2", "prefilter": False, "distance_range": (1.0, 20.0)},
    {"columns": [], "k": 100},
]


@pytest.mark.parametrize("arguments", SEARCHERS, ids=str)
def test_a_searcher_finds_what_single_searches_find(remote: RemoteDataset, arguments: dict[str, Any]) -> None:
    """Queries of all forms, one and many, on one stream."""
    many = lattice(5, 6, seed=3)
    with remote.searcher(**arguments) as searcher:
        for q in (QUERY, many[0], many, many[:1].tolist(), pa.array(QUERY), _MANY, np.array(QUERY, np.int8)):
            assert searcher.search(q) == remote.search(q, **arguments)


def test_a_searcher_of_a_filtered_dataset(remote: RemoteDataset) -> None:
    filtered = remote.filter("group = 4")
    with filtered.searcher("v", 3, columns=["group"]) as searcher:
        assert searcher.search(QUERY)["group"].to_pylist() == [4, 4, 4]
    with pytest.raises(InvalidInputError, match="give the condition as SQL"):
        remote.searcher(filter=pc.field("id").cast(pa.string()) == "1")


def test_a_searcher_goes_on_after_an_error(remote: RemoteDataset) -> None:
    """T31: a wrong query fails alone; the stream is opened again for the next one."""
    with remote.searcher(k=3) as searcher:
        expected = searcher.search(QUERY)
        for _ in range(2):
            with pytest.raises(InvalidInputError, match="Query vector size 2"):
                searcher.search([1.0, 2.0])
            assert searcher.search(QUERY) == expected
        with pytest.raises(InvalidInputError, match="q: expected numbers, found 'a'"):
            searcher.search(["a", "b"])
        with pytest.raises(InvalidInputError, match="found none"):
            searcher.search([])
        with pytest.raises(InvalidInputError, match=r"found an array of shape \(1, 1, 6\)"):
            searcher.search([[QUERY]])
    with pytest.raises(InvalidInputError, match="closed"):
        searcher.search(QUERY)
    assert repr(searcher) == "Searcher('t', version=2, column=v, k=3)"
    with remote.searcher(probes=3) as searcher, pytest.raises(InvalidInputError, match="field 'probes'"):
        searcher.search(QUERY)


def test_streams_that_the_server_ends_are_opened_again(tmp_path: Path, table: pa.Table) -> None:
    """T31: after half of the bytes that one call may send, a stream ends between two questions."""
    lance_core.write_dataset(table.slice(0, 50), tmp_path / "s.lance")
    with (
        serving(tmp_path, tmp_path / "server.log", "--max-put-bytes", "400") as server,
        flight_client.connect(server.uri) as client,
        client.dataset("s").searcher(k=3) as searcher,
        client.dataset("s").lookup() as lookup,
    ):
        expected = searcher.search(QUERY)
        for number in range(30):  # 24 bytes each, and 8 bytes
            assert searcher.search(QUERY) == expected
            assert lookup.take([number, number])["id"].to_pylist() == [number, number]


def test_streams_that_come_too_late_are_opened_again(tmp_path: Path, table: pa.Table) -> None:
    """T31: a question after the time that one call may take is asked again on another stream."""
    lance_core.write_dataset(table.slice(0, 50), tmp_path / "s.lance")
    with (
        serving(tmp_path, tmp_path / "server.log", "--max-put-seconds", "0.6") as server,
        flight_client.connect(server.uri) as client,
        client.dataset("s").searcher(k=3) as searcher,
        client.dataset("s").lookup() as lookup,
    ):
        expected = searcher.search(QUERY)
        for number in range(2):
            assert lookup.take([number])["id"].to_pylist() == [number]
            time.sleep(0.7)
            assert searcher.search(QUERY) == expected


def test_threads_share_a_stream(remote: RemoteDataset) -> None:
    """T31: each thread gets the answers to its own questions."""
    queries = lattice(40, 6, seed=8)
    with remote.searcher(k=4) as searcher, remote.lookup(["id"]) as lookup, ThreadPoolExecutor(4) as threads:
        found = list(threads.map(searcher.search, queries))
        rows = list(threads.map(lookup.take, ([number] for number in range(40))))
        alone = searcher.search(queries)
    assert pa.concat_tables(found) == alone.drop_columns(["query_index"])
    live = [number for number in range(45) if number % 10 != 3][:40]
    assert [row["id"].to_pylist() for row in rows] == [[number] for number in live]


def test_a_batch_has_a_largest_size(tmp_path: Path, table: pa.Table) -> None:
    """T31: queries take eight bytes per number in the server, whatever type they come in."""
    lance_core.write_dataset(table.slice(0, 50), tmp_path / "s.lance")
    fields = {"dataset": "s", "columns": ["id"], "nearest": {"column": "v", "k": 1}}
    with serving(tmp_path, tmp_path / "server.log", "--max-batch-bytes", "1000") as server:
        client = server.client()
        (answer,) = _asked(client, fields, _queries([[1] * 6] * 20, pa.int8()))
        assert answer.num_rows == 20
        with pytest.raises(pa.ArrowInvalid, match=r"send fewer .* 64 bits, found 1008"):
            _asked(client, fields, _queries([[1] * 6] * 21, pa.int8()))


def _asked(
    connection: flight.FlightClient, fields: dict[str, Any], *batches: pa.RecordBatch
) -> list[pa.RecordBatch]:
    """Return the answers to batches of queries on one stream."""
    command = flight.FlightDescriptor.for_command(json.dumps({"scan": fields}).encode())
    writer, reader = connection.do_exchange(command)
    with writer:
        writer.begin(batches[0].schema)
        answers = []
        for batch in batches:
            writer.write_batch(batch)
            answers.append(reader.read_chunk().data)
        writer.done_writing()
        assert list(reader) == []
    return answers


def _queries(vectors: Any, data_type: pa.DataType, width: int = 6) -> pa.RecordBatch:
    return pa.record_batch({"q": pa.array(vectors, pa.list_(data_type, width))})


@pytest.mark.parametrize(
    "data_type", [pa.float16(), pa.float32(), pa.float64(), pa.int8(), pa.int64()], ids=str
)
def test_any_client_searches_over_an_exchange(
    cluster: tuple[Cluster, lance_core.LanceDataset], remote: RemoteDataset, data_type: pa.DataType
) -> None:
    many = lattice(3, 6, seed=4)
    number = np.dtype(data_type.to_pandas_dtype()).type
    rows = [[number(value) for value in query] for query in [*many.tolist(), QUERY]]
    batches = [
        _queries(rows[3:], data_type),
        _queries(rows[:3], data_type),
        _queries(rows, data_type).slice(3),
    ]
    fields = {"dataset": "t", "columns": ["id"], "nearest": {"column": "v", "k": 4}}
    answers = _asked(flight.connect(cluster[0].uris[0]), fields, *batches)
    for q, answer in zip(([QUERY], many, [QUERY]), answers, strict=True):
        assert pa.Table.from_batches([answer]) == remote.search(q, k=4, columns=["id"])


@each_case(
    ("fields", "queries", "words"),
    [
        ({"q": QUERY}, _queries([QUERY], pa.float32()), "come in batches, not as q"),
        ({"k": 0}, _queries([QUERY], pa.float32()), "nearest.k: expected 1 to"),
        ({}, pa.record_batch({"v": [1]}), "queries come in one column"),
        ({}, pa.record_batch({"q": [1.0]}), "must be fixed-size lists of numbers"),
        ({}, pa.record_batch({"q": pa.array([QUERY])}), "must be fixed-size lists of numbers"),
        ({}, _queries([[True] * 6], pa.bool_()), "must be fixed-size lists of numbers"),
        ({}, _queries([[]], pa.float32(), 0), r"an array of shape \(1, 0\)"),
        ({"k": 600_000}, _queries([QUERY, QUERY], pa.float32()), "the number of queries is too large"),
        ({}, _queries([None], pa.float32()), "found a null"),
        ({}, _queries([[None] * 6], pa.float32()), "found a null"),
        ({}, _queries([], pa.float32()), "a vector or a list of vectors"),
        ({}, _queries([QUERY[:5]], pa.float32(), 5), "Query vector size 5"),
        ({"column": "id"}, _queries([QUERY], pa.float32()), "must be a vector"),
    ],
)
def test_wrong_queries_are_named(
    cluster: tuple[Cluster, lance_core.LanceDataset],
    fields: dict[str, Any],
    queries: pa.RecordBatch,
    words: str,
) -> None:
    """T31: the stream ends with an error that says what is wrong."""
    scan = {"dataset": "t", "nearest": {"column": "v", **fields}}
    with pytest.raises((pa.ArrowInvalid, pa.ArrowTypeError), match=words):
        _asked(flight.connect(cluster[0].uris[0]), scan, queries)


def test_hybrid_searches_have_one_query(cluster: tuple[Cluster, lance_core.LanceDataset]) -> None:
    scan = {"dataset": "t", "nearest": {"column": "v"}, "full_text_query": {"query": "a"}, "hybrid": {}}
    with pytest.raises(NotImplementedError, match="hybrid"):
        _asked(flight.connect(cluster[0].uris[0]), scan, _queries([QUERY], pa.float32()))


@pytest.mark.parametrize("name", ["split_search", "batch_rows", "compression", "max_endpoints"])
def test_an_answer_is_not_divided(cluster: tuple[Cluster, lance_core.LanceDataset], name: str) -> None:
    scan = {"dataset": "t", "nearest": {"column": "v"}, name: 1}
    with pytest.raises(pa.ArrowInvalid, match=f"unknown field '{name}'"):
        _asked(flight.connect(cluster[0].uris[0]), scan, _queries([QUERY], pa.float32()))


def test_the_client_names_what_is_wrong(remote: RemoteDataset) -> None:
    with pytest.raises(InvalidInputError, match="Query vector size 2"):
        remote.search([1.0, 2.0])
    with pytest.raises(InvalidInputError, match="'q' is missing"):
        remote.to_table(nearest={"column": "v"})
    with pytest.raises(InvalidInputError, match="q: expected numbers, found 'a'"):
        remote.search(["a", "b"])
    with pytest.raises(InvalidInputError, match="found None"):
        remote.search([1.0, None])
    with pytest.raises(InvalidInputError, match="q: expected numbers, found null"):
        remote.search(pa.array([[1.0, None, 2.0]]))
    with pytest.raises(InvalidInputError, match="q: expected numbers, found string"):
        remote.search(pa.array(["a"]))
    with pytest.raises(InvalidInputError, match="a vector of numbers, or a list of vectors"):
        remote.search([[1.0, 2.0], [3.0]])


_MANY = pa.array([[9.0] * 6, QUERY, QUERY[::-1]], pa.list_(pa.float64()))


@pytest.mark.parametrize(
    ("q", "queries"),
    [
        (np.array(QUERY, np.int8), [QUERY]),
        (np.array([QUERY, QUERY[::-1]], np.float16)[:, :], [QUERY, QUERY[::-1]]),
        (np.array([[value, 0.0] for value in QUERY])[:, 0], [QUERY]),
        (pa.array([7.0, *QUERY])[1:], [QUERY]),
        (pa.chunked_array([QUERY[:2], QUERY[2:]]), [QUERY]),
        (pa.array([QUERY], pa.list_(pa.float32(), 6))[0], [QUERY]),
        (_MANY[1:], [QUERY, QUERY[::-1]]),
        ([np.array(QUERY), QUERY[::-1]], [QUERY, QUERY[::-1]]),
        ([pa.array(QUERY)], [QUERY]),
    ],
    ids=["integers", "rows", "strides", "slice", "chunks", "scalar", "slice of lists", "mixed", "arrays"],
)
def test_a_query_may_be_any_array(remote: RemoteDataset, q: Any, queries: list[list[float]]) -> None:
    found = remote.search(q, k=5, columns=["id"])
    expected = [remote.search(query, k=5, columns=["id"]) for query in queries]
    assert found["id"].to_pylist() == pa.concat_tables(expected)["id"].to_pylist()


def test_exact_rows_are_those_of_numpy(remote: RemoteDataset, local: lance_core.LanceDataset) -> None:
    rows = local.to_table()
    found = remote.search(QUERY, k=40, metric="dot", columns=["id"])
    assert found["id"].to_pylist() == expected_ids(rows, np.array(QUERY), "dot", 40)


def test_a_snapshot_is_searched_whatever_is_committed(tmp_path: Path, table: pa.Table) -> None:
    """T12: a ticket of a search is bound to its version."""
    dataset = lance_core.write_dataset(table.slice(0, 100), tmp_path / "s.lance")
    with serving(tmp_path, tmp_path / "server.log") as server, flight_client.connect(server.uri) as client:
        remote = client.dataset("s")
        before = remote.search(QUERY, k=5)
        scan = remote.scanner(nearest={"q": QUERY, "k": 5})
        assert scan.plan.schema == before.schema
        with remote.searcher(k=5) as searcher:
            assert searcher.search(QUERY) == before
            dataset.insert(table.slice(100))
            assert searcher.search(QUERY) == before
        assert scan.to_table() == before
        assert client.dataset("s").search(QUERY, k=5) != before


def test_one_server_plans_and_reads_in_one_call(
    tmp_path: Path, table: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Searches and few rows need no plan where no other server can share the work."""
    local = lance_core.write_dataset(table, tmp_path / "s.lance", max_rows_per_file=300)
    with serving(tmp_path, tmp_path / "server.log") as server, flight_client.connect(server.uri) as client:
        remote = client.dataset("s")
        expected = remote.scanner(nearest={"q": QUERY, "k": 5}, columns=["id"]).to_table()

        def refuse(*arguments: object) -> None:
            raise AssertionError("a plan was asked for")

        monkeypatch.setattr(scanner, "_planned", refuse)
        assert remote.search(QUERY, k=5, columns=["id"]) == expected
        assert remote.search(QUERY, k=5, columns=["id"], filter="id < 0") == expected.slice(0, 0)
        assert remote.head(7) == local.to_table(limit=7)
        assert remote.head(5, filter="id > 20") == local.to_table(filter="id > 20", limit=5)
        with pytest.raises(InvalidInputError, match="bananas"):
            remote.search(QUERY, k=5, filter="bananas > 1")
        with pytest.raises(AssertionError, match="a plan was asked for"):
            remote.head(5000)


def test_the_command_line_searches(
    cluster: tuple[Cluster, lance_core.LanceDataset], local: lance_core.LanceDataset
) -> None:
    expected = nearest_rows(local, 4)
    for target in (f"{cluster[0].uris[0]}/t", local.uri):
        for query in (["--vector", "1,0,-1,2,0,1"], ["--vector", json.dumps(QUERY)]):
            done = CliRunner().invoke(
                app, ["search", target, *query, "-k", "4", "--filter", "group < 5", "--json"]
            )
            assert done.exit_code == 0, done.output
            assert [json.loads(line) for line in done.stdout.splitlines()] == expected
        done = CliRunner().invoke(app, ["search", target, "--row", "5", "-k", "1", "--json"])
        assert json.loads(done.stdout)["_distance"] == 0
    for wrong in ([], ["--vector", "a"], ["--vector", "1", "--row", "2"]):
        assert CliRunner().invoke(app, ["search", local.uri, *wrong]).exit_code == 2


HYBRIDS: list[dict[str, Any]] = [
    {},
    {"depth": 60},
    {"depth": 30, "weights": [0.3, 1.5], "rank_constant": 5},
    {"method": "weighted", "depth": 30},
    {"method": "weighted", "weights": [0.8, 0.2]},
]


@pytest.mark.parametrize("fusion", HYBRIDS, ids=str)
def test_a_hybrid_search_of_several_servers_is_the_local_one(
    hybrid: tuple[RemoteDataset, lance_core.LanceDataset], fusion: dict[str, Any]
) -> None:
    """Servers rank vectors of a part each, one ranks the texts, and the client joins the rankings."""
    remote, local = hybrid
    nearest = {"column": "v", "q": QUERY, "k": 15}
    both: dict[str, Any] = {"nearest": nearest, "full_text_query": "alpha rare1", "hybrid": fusion}
    searched: dict[str, Any] = {"full_text_query": "alpha rare1", "hybrid": fusion}
    for arguments in (
        {},
        {"columns": ["number"], "with_row_id": True},
        {"columns": ["_score", "number"], "filter": "number % 3 < 2"},
        {"filter": pc.field("number") > 250, "columns": ["text"], "with_row_address": True},
    ):
        expected = local.to_table(**both, **arguments, prefilter=True)
        assert remote.search(QUERY, k=15, **searched, **arguments) == expected
        scanner = remote.scanner(**both, **arguments, prefilter=True)
        assert scanner.to_table() == expected
        assert len(scanner.plan.endpoints) == 1
    later = {"filter": "_relevance_score > 0.2 AND number % 3 < 2"}
    assert remote.search(QUERY, k=15, **searched, prefilter=False, **later) == local.to_table(**both, **later)


def test_the_ranking_of_texts_has_an_endpoint_of_its_own(
    cluster: tuple[Cluster, lance_core.LanceDataset],
    hybrid: tuple[RemoteDataset, lance_core.LanceDataset],
) -> None:
    """Scores depend on all texts, so no server ranks a part of them."""
    _, local = hybrid
    command = Command()
    command.scan.dataset = "h"
    command.scan.split_search = True
    command.scan.nearest.column = "v"
    command.scan.nearest.q.values.extend(QUERY)
    command.scan.full_text_query = json.dumps({"query": "alpha"})
    command.scan.hybrid.weights.vector = 2
    command.scan.hybrid.weights.text = 1
    connection = flight.connect(cluster[0].uris[0])
    info = connection.get_flight_info(flight.FlightDescriptor.for_command(_ticket(command).ticket))
    *near, good = [connection.do_get(each.ticket).read_all() for each in info.endpoints]
    assert len(near) == 2
    assert all(part["_score"].null_count == part.num_rows == 10 for part in near)
    assert good["_distance"].null_count == 10
    assert good["number"].to_pylist() == (
        local.to_table(full_text_query="alpha", limit=10)["number"].to_pylist()
    )
    command.scan.split_search = False
    weighted = {"weights": [2, 1]}
    nearest = {"column": "v", "q": QUERY}
    expected = local.to_table(nearest=nearest, full_text_query="alpha", hybrid=weighted)
    assert connection.do_get(_ticket(command)).read_all() == expected


@pytest.mark.parametrize("search_filter", ["text", "vector"])
@pytest.mark.parametrize("prefilter", [True, False])
def test_a_search_may_be_the_filter_of_the_other(
    cluster: tuple[Cluster, lance_core.LanceDataset],
    hybrid: tuple[RemoteDataset, lance_core.LanceDataset],
    search_filter: str,
    prefilter: bool,
) -> None:
    """One server answers, also if there are several, and both forms of a command carry the filter."""
    remote, local = hybrid
    words = MatchQuery("alpha", "text")
    if search_filter == "text":
        arguments: dict[str, Any] = {"nearest": {"column": "v", "q": QUERY, "k": 15}}
        search: Any = words
    else:
        arguments = {"full_text_query": words}
        search = VectorSearchQuery("v", QUERY, 15)
    both = {"expr_filter": "number % 3 < 2", "search_filter": search}
    expected = local.to_table(["number"], both, prefilter=prefilter, **arguments)
    assert expected.num_rows
    given: dict[str, Any] = {"full_text_query": words, "search_filter": search_filter, "columns": ["number"]}
    given |= {"filter": "number % 3 < 2", "prefilter": prefilter}
    assert remote.search(QUERY, column="v", k=15, **given) == expected
    scanner = remote.scanner(nearest={"q": QUERY, "k": 15}, **given)
    assert scanner.to_table() == expected
    assert len(scanner.plan.endpoints) == 1
    assert scanner.count_rows() == expected.num_rows
    command = Command()
    command.scan.dataset = "h"
    command.scan.nearest.column = "v"
    command.scan.nearest.q.values.extend(QUERY)
    command.scan.nearest.k = 15
    command.scan.full_text_query = words.to_json()
    command.scan.search_filter = search_filter
    command.scan.filter = "number % 3 < 2"
    command.scan.prefilter = prefilter
    command.scan.columns.names.append("number")
    connection = flight.connect(cluster[0].uris[0])
    info = connection.get_flight_info(flight.FlightDescriptor.for_command(_ticket(command).ticket))
    assert info.schema == expected.schema
    (endpoint,) = info.endpoints
    assert connection.do_get(endpoint.ticket).read_all() == expected
    command.scan.prefilter = command.scan.split_search = True
    with pytest.raises(pa.ArrowInvalid, match="no limit, offset, order_by or search_filter"):
        connection.do_get(_ticket(command))
    with pytest.raises(InvalidInputError, match="search_filter: expected one of"):
        remote.search(QUERY, full_text_query="alpha", search_filter="words")
    with pytest.raises(InvalidInputError, match="give both"):
        remote.search(QUERY, search_filter="text")


def test_named_segments_find_the_rows(
    cluster: tuple[Cluster, lance_core.LanceDataset], table: pa.Table
) -> None:
    """One server searches the named segments, and several each search theirs; other rows are not found."""
    path = Path(cluster[1].uri).parent / "segments.lance"
    local = lance_core.write_dataset(table.slice(0, 400), path, max_rows_per_file=100)
    segments = [
        local.create_index_uncommitted("v", "IVF_FLAT", num_partitions=2, fragment_ids=[number])
        for number in (0, 1)
    ]
    local = local.commit_existing_index_segments("v_idx", "v", segments)
    nearest = {"column": "v", "q": QUERY, "k": 250, "nprobes": 2}
    with flight_client.connect(cluster[0].uris) as client:
        remote = client.dataset("segments")
        (index,) = client.describe("segments")["indices"]
        assert [segment["fragments"] for segment in index["segments"]] in ([[0], [1]], [[1], [0]])
        uuids = [segment["uuid"] for segment in index["segments"]]
        for chosen in (uuids[:1], uuids):
            expected = local.to_table(["id"], nearest=nearest, index_segments=chosen)
            assert expected.num_rows == 100 * len(chosen)
            given: dict[str, Any] = {"columns": ["id"], "index_segments": chosen}
            assert remote.scanner(nearest=nearest, **given).to_table() == expected
            for target in (f"{cluster[0].uris[0]}/segments", local.uri):
                options = ["--vector", json.dumps(QUERY), "--column", "v", "-k", "250", "--columns", "id"]
                options += ["--index-segments", ",".join(chosen), "--json"]
                done = CliRunner().invoke(app, ["search", target, *options])
                assert done.exit_code == 0, done.output
                shown = [json.loads(line)["id"] for line in done.stdout.splitlines()]
                assert sorted(shown) == sorted(
                    local.to_table(
                        ["id"],
                        nearest={name: nearest[name] for name in ("column", "q", "k")},
                        index_segments=chosen,
                    )["id"].to_pylist()
                )
            found = remote.search(QUERY, "v", 250, nprobes=2, **given)
            assert found == expected
            fragments = [local.get_fragment(number) for number in (0, 1, 3)]
            others = local.to_table(["id"], nearest=nearest, index_segments=chosen, fragments=fragments)
            assert others.num_rows == 250
            assert remote.scanner(nearest=nearest, fragments=[0, 1, 3], **given).to_table() == others
        assert remote.search(QUERY, "v", 250, nprobes=2, columns=["id"]).num_rows == 250
        command = Command()
        command.scan.dataset = "segments"
        command.scan.nearest.column = "v"
        command.scan.nearest.q.values.extend(QUERY)
        command.scan.nearest.k = 250
        command.scan.index_segments.values.append(uuids[0])
        connection = flight.connect(cluster[0].uris[0])
        info = connection.get_flight_info(flight.FlightDescriptor.for_command(_ticket(command).ticket))
        (endpoint,) = info.endpoints
        assert connection.do_get(endpoint.ticket).read_all().num_rows == 100
        for wrong, words in (
            (["x"], "must have uuids"),
            ([], "at least one segment"),
            (["0" * 32], "unknown"),
        ):
            with pytest.raises(InvalidInputError, match=words):
                remote.search(QUERY, "v", index_segments=wrong)
        with pytest.raises(InvalidInputError, match="index_segments is only for searches"):
            remote.to_table(index_segments=uuids)


def test_search_takes_texts_alone(hybrid: tuple[RemoteDataset, lance_core.LanceDataset]) -> None:
    remote, local = hybrid
    found = remote.search(full_text_query="alpha", k=4, filter="number > 100", columns=["number"])
    expected = local.to_table(
        ["number"], full_text_query="alpha", limit=4, filter="number > 100", prefilter=True
    )
    assert found == expected
    for arguments, words in (
        ({}, "a vector q, a full_text_query, or both"),
        ({"full_text_query": "alpha", "hybrid": {}}, "both a vector q and"),
        ({"full_text_query": "alpha", "metric": "l2"}, "metric: expected a vector"),
        ({"full_text_query": "alpha", "column": "v"}, "column: expected a vector"),
        ({"q": QUERY, "full_text_query": "alpha", "hybrid": {"depth": 1}}, "depth must be at least k"),
        ({"q": QUERY, "full_text_query": "alpha", "hybrid": {"deep": 1}}, "unknown field 'deep'"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            remote.search(**arguments)
    with pytest.raises(InvalidInputError, match="need hybrid"):
        remote.to_table(nearest={"q": QUERY}, full_text_query="alpha")


def test_the_command_line_joins_both_searches(
    cluster: tuple[Cluster, lance_core.LanceDataset],
    hybrid: tuple[RemoteDataset, lance_core.LanceDataset],
) -> None:
    _, local = hybrid
    options = ["--vector", json.dumps(QUERY), "--text", "alpha", "-k", "3", "--columns", "number", "--json"]
    nearest = {"column": "v", "q": QUERY, "k": 3}
    for given, fusion in (
        ([], {}),
        (["--method", "weighted", "--depth", "9", "--weights", "0.9,0.1"], _WEIGHTED),
    ):
        expected = local.to_table(["number"], nearest=nearest, full_text_query="alpha", hybrid=fusion)
        for target in (f"{cluster[0].uris[0]}/h", local.uri):
            done = CliRunner().invoke(app, ["search", target, *options, *given])
            assert done.exit_code == 0, done.output
            assert [json.loads(line) for line in done.stdout.splitlines()] == expected.to_pylist()
    done = CliRunner().invoke(app, ["search", local.uri, "--text", "alpha", "-k", "2", "--json"])
    assert [json.loads(line)["number"] for line in done.stdout.splitlines()] == (
        local.to_table(full_text_query="alpha", limit=2)["number"].to_pylist()
    )
    wrong = CliRunner().invoke(app, ["search", local.uri, "--text", "alpha", "--depth", "5"])
    assert wrong.exit_code == 2


@pytest.mark.parametrize("search_filter", ["text", "vector"])
def test_the_command_line_filters_one_search_by_the_other(
    cluster: tuple[Cluster, lance_core.LanceDataset],
    hybrid: tuple[RemoteDataset, lance_core.LanceDataset],
    search_filter: str,
) -> None:
    remote, local = hybrid
    options = ["--vector", json.dumps(QUERY), "--text", "alpha", "-k", "9", "--columns", "number", "--json"]
    options += ["--search-filter", search_filter]
    given: dict[str, Any] = {
        "columns": ["number"],
        "full_text_query": "alpha",
        "search_filter": search_filter,
    }
    expected = remote.search(QUERY, column="v", k=9, **given).to_pylist()
    assert expected
    for target in (f"{cluster[0].uris[0]}/h", local.uri):
        done = CliRunner().invoke(app, ["search", target, *options])
        assert done.exit_code == 0, done.output
        assert [json.loads(line) for line in done.stdout.splitlines()] == expected
    for wrong in (
        ["--text", "alpha", "--search-filter", search_filter],
        ["--text", "alpha", "--index-segments", "0"],
        [*options, "--depth", "5"],
    ):
        assert CliRunner().invoke(app, ["search", local.uri, *wrong]).exit_code == 2


_WEIGHTED = {"method": "weighted", "depth": 9, "weights": [0.9, 0.1]}


def test_searches_over_the_limit_are_refused_by_name(tmp_path: Path, table: pa.Table) -> None:
    """T19, T33: the rows that a search gathers in memory are bounded, before anything is read."""
    lance_core.write_dataset(table.slice(0, 50), tmp_path / "s.lance")
    options = ("--max-search-rows", "100")
    with (
        serving(tmp_path, tmp_path / "server.log", *options) as server,
        flight_client.connect(server.uri) as client,
    ):
        remote = client.dataset("s")
        assert remote.search([QUERY] * 5, k=20).num_rows == 100
        wrong: tuple[dict[str, Any], ...] = (
            {"q": [QUERY] * 5, "k": 21},
            {"q": QUERY, "k": 30, "refine_factor": 4},
            {"q": QUERY, "k": 30, "ef": 101},
        )
        for arguments in wrong:
            with pytest.raises(InvalidInputError, match="max_search_rows"):
                remote.search(**arguments)
            q = arguments.pop("q")
            with (
                remote.searcher(**arguments) as searcher,
                pytest.raises(InvalidInputError, match="max_search_rows"),
            ):
                searcher.search(q)
        ticket = json.dumps({"scan": {"dataset": "s", "nearest": {"column": "v", "q": QUERY, "k": 101}}})
        with pytest.raises(pa.ArrowInvalid, match="max_search_rows"):
            flight.connect(server.uri).do_get(flight.Ticket(ticket)).read_all()


def nearest_rows(local: lance_core.LanceDataset, k: int) -> list[dict[str, Any]]:
    nearest = {"column": "v", "q": QUERY, "k": k}
    rows = local.to_table(columns=["id", "group"], nearest=nearest, filter="group < 5", prefilter=True)
    return rows.to_pylist()
