"""`lance-flight bench`, here and on a server."""

from __future__ import annotations

import json

import pytest

from support.clients.command_line import run_verb
from support.servers.served import Root
from support.servers.server import RunningServer


@pytest.fixture(params=["local", "remote"])
def at(request: pytest.FixtureRequest, root: Root, server: RunningServer) -> str:
    """Address of the datasets, as both kinds of target."""
    return str(root.path) if request.param == "local" else server.uri


def named(at: str, name: str) -> str:
    return f"{at}/{name}" if at.startswith("grpc://") else f"{at}/{name}.lance"


def test_figures(at: str, root: Root) -> None:
    done = run_verb("bench", named(at, "trips"), "--runs", "3", "--json")
    measured = json.loads(done.stdout)
    assert (measured["version"], measured["runs"]) == (2, 3)
    scan = measured["scan"]
    assert scan["rows"] == root.trips.num_rows
    assert scan["bytes"] > 100_000
    assert [each["rows"] for each in measured["take"]] == [1, 1000]
    for part in (scan, measured["first_batch"], *measured["take"]):
        seconds = part["seconds"]
        assert 0 < seconds["least"] <= seconds["median"] <= seconds["most"] < 60
    assert measured["first_batch"]["seconds"]["least"] <= scan["seconds"]["most"]
    assert scan["rows_per_second"] == pytest.approx(scan["rows"] / scan["seconds"]["median"])
    assert scan["bytes_per_second"] == pytest.approx(scan["bytes"] / scan["seconds"]["median"])


def test_selection(at: str) -> None:
    arguments = ["--columns", "id", "--filter", "id < 100", "--runs", "1", "--json"]
    measured = json.loads(run_verb("bench", named(at, "trips"), *arguments).stdout)
    assert (measured["scan"]["rows"], measured["scan"]["bytes"]) == (90, 720)
    older = json.loads(run_verb("bench", named(at, "trips"), "--at", "1", "--runs", "1", "--json").stdout)
    assert (older["version"], older["scan"]["rows"]) == (1, 3000)


def test_small_and_empty_datasets(at: str) -> None:
    """Takes of 1000 rows take those there are."""
    measured = json.loads(run_verb("bench", named(at, "empty"), "--runs", "1", "--json").stdout)
    assert (measured["scan"]["rows"], measured["take"]) == (0, [])
    done = run_verb("bench", named(at, "empty"), "--runs", "1")
    assert "0 rows" in done.stdout


def test_a_table_for_people(at: str) -> None:
    shown = run_verb("bench", named(at, "trips"), "--runs", "1").stdout
    assert shown.startswith("version 2: 2,700 rows, ")
    for line in ("scan", "first batch", "take 1 ", "take 1,000"):
        assert f"│ {line}" in shown


def test_failures(at: str, root: Root, server: RunningServer) -> None:
    assert run_verb("bench", named(at, "nowhere"), code=1).stderr.startswith("error: ")
    assert "nothing" in run_verb("bench", named(at, "trips"), "--columns", "nothing", code=1).stderr
    assert run_verb("bench", named(at, "bad/pages"), code=1).stderr.count("Traceback") == 0
    run_verb("bench", named(at, "trips"), "--runs", "0", code=2)
    run_verb("bench", code=2)
    run_verb("bench", "grpc://127.0.0.1:1", code=2)
