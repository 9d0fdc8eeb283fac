"""Full text search on a server: commands, the client, the command line, and limits of grants."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import flight

import flight_client
import lance_core
from flight_client import InvalidInputError, RemoteDataset, UnsupportedFeatureError
from flight_server.proto.command_pb2 import Command
from lance_core.api.query import MatchQuery, PhraseQuery
from support.clients.command_line import run_verb
from support.clients.commands import command_ticket
from support.searches.texts import random_rows
from support.servers.server import serving

QUERIES = [
    "alpha rare1",
    MatchQuery("alpha alta", "text"),
    PhraseQuery("alpha alta", "text", slop=1),
    {"query": "alpha", "columns": ["text"]},
    {"boolean": {"must": [{"match": {"terms": "alpha"}}], "must_not": [{"match": {"terms": "alta"}}]}},
]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> lance_core.LanceDataset:
    path = tmp_path_factory.mktemp("root") / "texts.lance"
    dataset = lance_core.write_dataset(random_rows(random.Random(1), 0, 300), path, max_rows_per_file=90)
    dataset.create_scalar_index("text", "INVERTED", with_position=True, stem=False, remove_stop_words=False)
    return lance_core.dataset(path)


@pytest.fixture(scope="module")
def server(local: lance_core.LanceDataset, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(Path(local.uri).parent, tmp_path_factory.mktemp("logs") / "server") as server:
        yield server.uri


@pytest.fixture(scope="module")
def remote(server: str) -> Iterator[RemoteDataset]:
    with flight_client.connect(server) as client:
        yield client.dataset("texts")


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_the_client_gets_what_a_local_search_finds(
    local: lance_core.LanceDataset, remote: RemoteDataset, query: object
) -> None:
    for arguments in (
        {},
        {"limit": 7, "offset": 2},
        {"filter": "number % 3 = 0", "prefilter": True},
        {"filter": "number % 3 = 0 AND _score > 0.5", "columns": ["number"]},
        {"fast_search": True, "with_row_id": True},
    ):
        expected = local.to_table(full_text_query=query, **arguments)
        scanner = remote.scanner(full_text_query=query, **arguments)
        assert scanner.to_table() == expected
        assert scanner.count_rows() == expected.num_rows


def test_plain_clients(local: lance_core.LanceDataset, server: str) -> None:
    """A JSON command, and a protobuf command, have one ordered endpoint."""
    query = {"match": {"terms": "alpha", "column": "text"}}
    message = Command()
    message.scan.dataset = "texts"
    message.scan.full_text_query = json.dumps(query)
    text = json.dumps({"scan": {"dataset": "texts", "full_text_query": query}}).encode()
    with flight.connect(server) as client:
        for command in (text, command_ticket(message).ticket):
            info = client.get_flight_info(flight.FlightDescriptor.for_command(command))
            assert len(info.endpoints) == 1
            assert client.do_get(info.endpoints[0].ticket).read_all() == local.to_table(full_text_query=query)
        for wrong in ('{"match": {}}', '{"match": {"terms": "a", "column": "nonsense"}}', '{"a": 1}'):
            asked = {"scan": {"dataset": "texts", "full_text_query": json.loads(wrong)}}
            with pytest.raises(pa.ArrowInvalid, match=r"full text query|nonsense"):
                client.get_flight_info(flight.FlightDescriptor.for_command(json.dumps(asked).encode()))


def test_phrases_need_positions_even_if_no_fragment_matches(
    local: lance_core.LanceDataset, server: str
) -> None:
    """Statistics exclude every fragment, and the search is refused nevertheless."""
    path = Path(local.uri).parent / "no_positions.lance"
    dataset = lance_core.write_dataset(local.to_table(["number", "text"]), path, max_rows_per_file=90)
    dataset.create_scalar_index("text", "INVERTED", with_position=False)
    with flight_client.connect(server) as client:
        for condition in (None, "number < 0"):
            with pytest.raises(UnsupportedFeatureError, match="position"):
                client.dataset("no_positions").to_table(
                    full_text_query=PhraseQuery("alpha alta", "text"), filter=condition, prefilter=True
                )


def test_the_client_refuses_what_is_no_query(remote: RemoteDataset) -> None:
    with pytest.raises(InvalidInputError, match="full_text_query"):
        remote.scanner(full_text_query=5)


def test_the_command_line(local: lance_core.LanceDataset, server: str) -> None:
    expected = local.to_table(["number"], full_text_query="alpha", limit=3)["number"].to_pylist()
    for target in (f"{server}/texts", local.uri):
        for words in ("alpha", '{"match": {"terms": "alpha", "column": "text"}}'):
            shown = run_verb(
                "scan", target, "--columns", "number", "--full-text-query", words, "--limit", "3"
            )
            assert [json.loads(line)["number"] for line in shown.stdout.splitlines()] == expected


def test_the_command_line_explains_and_names_wrong_queries(
    local: lance_core.LanceDataset, server: str
) -> None:
    for target in (f"{server}/texts", local.uri):
        option = ("scan", target, "--full-text-query")
        shown = run_verb(*option, "alpha", "--filter", "number < 200 AND _score > 0", "--columns", "number")
        expected = local.to_table(["number"], full_text_query="alpha", filter="number < 200 AND _score > 0")
        assert [json.loads(line)["number"] for line in shown.stdout.splitlines()] == (
            expected["number"].to_pylist()
        )
        assert expected.num_rows
        explained = json.loads(run_verb(*option, "alpha", "--explain", "--json").stdout)
        assert explained["text_query"]["match"]["terms"] == "alpha"
        for wrong, code, words in (
            ('{"match": ', 2, "no JSON"),
            ('{"match": {"terms": "a", "column": "gone"}}', 1, "there is no column 'gone'"),
            ('{"near": {"terms": "a"}}', 1, "kind of a full text query"),
        ):
            failed = run_verb(*option, wrong, code=code)
            assert words in " ".join(failed.stderr.replace("│", " ").split())
