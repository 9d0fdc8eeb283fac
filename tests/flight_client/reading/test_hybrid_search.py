"""Searches of vectors and of texts together on servers, and searches that filter the other search."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import flight
from typer.testing import CliRunner

import lance_core
from flight_client import InvalidInputError, RemoteDataset
from flight_server.cli import app
from flight_server.proto.command_pb2 import Command
from lance_core.api.dataset import VectorSearchQuery
from lance_core.api.query import MatchQuery
from support.clients.commands import command_ticket
from support.searches.nearest import QUERY
from support.servers.cluster import Cluster

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
    cluster: Cluster,
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
    connection = flight.connect(cluster.uris[0])
    info = connection.get_flight_info(flight.FlightDescriptor.for_command(command_ticket(command).ticket))
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
    assert connection.do_get(command_ticket(command)).read_all() == expected


@pytest.mark.parametrize("search_filter", ["text", "vector"])
@pytest.mark.parametrize("prefilter", [True, False])
def test_a_search_may_be_the_filter_of_the_other(
    cluster: Cluster,
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
    connection = flight.connect(cluster.uris[0])
    info = connection.get_flight_info(flight.FlightDescriptor.for_command(command_ticket(command).ticket))
    assert info.schema == expected.schema
    (endpoint,) = info.endpoints
    assert connection.do_get(endpoint.ticket).read_all() == expected
    command.scan.prefilter = command.scan.split_search = True
    with pytest.raises(pa.ArrowInvalid, match="no limit, offset, order_by or search_filter"):
        connection.do_get(command_ticket(command))
    with pytest.raises(InvalidInputError, match="search_filter: expected one of"):
        remote.search(QUERY, full_text_query="alpha", search_filter="words")
    with pytest.raises(InvalidInputError, match="give both"):
        remote.search(QUERY, search_filter="text")


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
    cluster: Cluster,
    hybrid: tuple[RemoteDataset, lance_core.LanceDataset],
) -> None:
    _, local = hybrid
    options = ["--vector", json.dumps(QUERY), "--text", "alpha", "-k", "3", "--columns", "number", "--json"]
    nearest = {"column": "v", "q": QUERY, "k": 3}
    weighted = {"method": "weighted", "depth": 9, "weights": [0.9, 0.1]}
    for given, fusion in (
        ([], {}),
        (["--method", "weighted", "--depth", "9", "--weights", "0.9,0.1"], weighted),
    ):
        expected = local.to_table(["number"], nearest=nearest, full_text_query="alpha", hybrid=fusion)
        for target in (f"{cluster.uris[0]}/h", local.uri):
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
    cluster: Cluster,
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
    for target in (f"{cluster.uris[0]}/h", local.uri):
        done = CliRunner().invoke(app, ["search", target, *options])
        assert done.exit_code == 0, done.output
        assert [json.loads(line) for line in done.stdout.splitlines()] == expected
    for wrong in (
        ["--text", "alpha", "--search-filter", search_filter],
        ["--text", "alpha", "--index-segments", "0"],
        [*options, "--depth", "5"],
    ):
        assert CliRunner().invoke(app, ["search", local.uri, *wrong]).exit_code == 2
