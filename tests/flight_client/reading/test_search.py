"""Search of nearest rows on servers: commands, tickets, the client, and the command line."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import flight
from typer.testing import CliRunner

import flight_client
import lance_core
from flight_client import InvalidInputError, RemoteDataset
from flight_client.reading import scanner
from flight_server.cli import app
from flight_server.proto.command_pb2 import Command
from support.clients.commands import command_ticket
from support.runs.each_case import each_case
from support.searches.nearest import QUERY, expected_ids, lattice
from support.servers.cluster import Cluster
from support.servers.server import serving

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


def test_every_form_of_a_query(cluster: Cluster, remote: RemoteDataset) -> None:
    """The forms of JSON and of protobuf, and those of the client, give the same rows."""
    expected = remote.search(QUERY, "v", 6, columns=["id"])
    encoded = base64.b64encode(np.array(QUERY, "<f4").tobytes()).decode()
    connection = flight.connect(cluster.uris[0])
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
    assert connection.do_get(command_ticket(command)).read_all() == expected
    command.scan.nearest.q.data = np.array(QUERY, "<f4").tobytes()
    with pytest.raises(pa.ArrowInvalid, match="values and data"):
        connection.do_get(command_ticket(command))
    command.scan.nearest.ClearField("q")
    command.scan.nearest.queries.vectors.add().data = np.array(QUERY, "<f4").tobytes()
    command.scan.nearest.distance_range.upper = expected["_distance"][3].as_py()
    batch = connection.do_get(command_ticket(command)).read_all()
    assert batch.column_names == ["query_index", "id", "_distance"]
    kept = pc.less(expected["_distance"], expected["_distance"][3])
    assert batch["id"].to_pylist() == expected.filter(kept)["id"].to_pylist()
    for q in (np.array(QUERY), np.array(QUERY, np.float32), pa.array(QUERY), tuple(QUERY)):
        assert remote.search(q, k=6, columns=["id"]) == expected


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
def test_wrong_fields_are_named(cluster: Cluster, fields: dict[str, Any], words: str) -> None:
    """T19: a command with a wrong search is refused before anything is read."""
    command = json.dumps({"scan": {"dataset": "t", **fields}}).encode()
    connection = flight.connect(cluster.uris[0])
    with pytest.raises(pa.ArrowInvalid, match=words):
        connection.get_flight_info(flight.FlightDescriptor.for_command(command))


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


def test_the_command_line_searches(cluster: Cluster, local: lance_core.LanceDataset) -> None:
    expected = _nearest_rows(local, 4)
    for target in (f"{cluster.uris[0]}/t", local.uri):
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


def test_named_segments_find_the_rows(cluster: Cluster, table: pa.Table) -> None:
    """One server searches the named segments, and several each search theirs; other rows are not found."""
    path = cluster.root / "segments.lance"
    local = lance_core.write_dataset(table.slice(0, 400), path, max_rows_per_file=100)
    segments = [
        local.create_index_uncommitted("v", "IVF_FLAT", num_partitions=2, fragment_ids=[number])
        for number in (0, 1)
    ]
    local = local.commit_existing_index_segments("v_idx", "v", segments)
    nearest = {"column": "v", "q": QUERY, "k": 250, "nprobes": 2}
    with flight_client.connect(cluster.uris) as client:
        remote = client.dataset("segments")
        (index,) = client.describe("segments")["indices"]
        assert [segment["fragments"] for segment in index["segments"]] in ([[0], [1]], [[1], [0]])
        uuids = [segment["uuid"] for segment in index["segments"]]
        for chosen in (uuids[:1], uuids):
            expected = local.to_table(["id"], nearest=nearest, index_segments=chosen)
            assert expected.num_rows == 100 * len(chosen)
            given: dict[str, Any] = {"columns": ["id"], "index_segments": chosen}
            assert remote.scanner(nearest=nearest, **given).to_table() == expected
            for target in (f"{cluster.uris[0]}/segments", local.uri):
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
        connection = flight.connect(cluster.uris[0])
        info = connection.get_flight_info(flight.FlightDescriptor.for_command(command_ticket(command).ticket))
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


def _nearest_rows(local: lance_core.LanceDataset, k: int) -> list[dict[str, Any]]:
    nearest = {"column": "v", "q": QUERY, "k": k}
    rows = local.to_table(columns=["id", "group"], nearest=nearest, filter="group < 5", prefilter=True)
    return rows.to_pylist()
