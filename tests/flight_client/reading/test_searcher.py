"""Searches whose queries come in batches on one stream: searchers of the client, and plain exchanges."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import flight

import flight_client
import lance_core
from flight_client import InvalidInputError, RemoteDataset
from support.runs.each_case import each_case
from support.searches.nearest import QUERY, lattice
from support.servers.cluster import Cluster
from support.servers.server import serving

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
    lists = pa.array([[9.0] * 6, QUERY, QUERY[::-1]], pa.list_(pa.float64()))
    with remote.searcher(**arguments) as searcher:
        for q in (QUERY, many[0], many, many[:1].tolist(), pa.array(QUERY), lists, np.array(QUERY, np.int8)):
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
    cluster: Cluster, remote: RemoteDataset, data_type: pa.DataType
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
    answers = _asked(flight.connect(cluster.uris[0]), fields, *batches)
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
    cluster: Cluster,
    fields: dict[str, Any],
    queries: pa.RecordBatch,
    words: str,
) -> None:
    """T31: the stream ends with an error that says what is wrong."""
    scan = {"dataset": "t", "nearest": {"column": "v", **fields}}
    with pytest.raises((pa.ArrowInvalid, pa.ArrowTypeError), match=words):
        _asked(flight.connect(cluster.uris[0]), scan, queries)


def test_hybrid_searches_have_one_query(cluster: Cluster) -> None:
    scan = {"dataset": "t", "nearest": {"column": "v"}, "full_text_query": {"query": "a"}, "hybrid": {}}
    with pytest.raises(NotImplementedError, match="hybrid"):
        _asked(flight.connect(cluster.uris[0]), scan, _queries([QUERY], pa.float32()))


@pytest.mark.parametrize("name", ["split_search", "batch_rows", "compression", "max_endpoints"])
def test_an_answer_is_not_divided(cluster: Cluster, name: str) -> None:
    scan = {"dataset": "t", "nearest": {"column": "v"}, name: 1}
    with pytest.raises(pa.ArrowInvalid, match=f"unknown field '{name}'"):
        _asked(flight.connect(cluster.uris[0]), scan, _queries([QUERY], pa.float32()))
