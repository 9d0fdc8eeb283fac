"""`lance-flight aggregate`, on a local dataset and through a server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pyarrow as pa
import pytest

import lance_core
from support.clients.command_line import run_verb
from support.servers.server import serving

TABLE = pa.table({"city": ["Porto", "Lund", None, "Lund"], "fare": [1.5, 2.0, 4.0, None]})


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Return the targets of one dataset: its path, and its address on a server."""
    folder = tmp_path_factory.mktemp("aggregate")
    lance_core.write_dataset(TABLE, folder / "t.lance")
    lance_core.write_dataset(TABLE.slice(0, 1), folder / "t.lance", mode="overwrite")
    with serving(folder, tmp_path_factory.mktemp("log") / "server.log") as server:
        yield {"path": str(folder / "t.lance"), "server": f"{server.uri}/t"}


@pytest.mark.parametrize("kind", ["path", "server"])
def test_groups_and_their_aggregates(targets: dict[str, str], kind: str) -> None:
    wanted = ("rows=count(*)", "fares = sum(fare)", "--at", "1")
    shown = run_verb("aggregate", targets[kind], *wanted, "--group-by", "city", "--json").stdout
    assert [json.loads(line) for line in shown.splitlines()] == [
        {"city": "Porto", "rows": 1, "fares": 1.5},
        {"city": "Lund", "rows": 2, "fares": 2.0},
        {"city": None, "rows": 1, "fares": 4.0},
    ]
    by_sql = ("--group-by", '{"far": "fare > 1.5"}', "--filter", "fare IS NOT NULL")
    shown = run_verb("aggregate", targets[kind], *wanted, *by_sql, "--json").stdout
    assert [json.loads(line) for line in shown.splitlines()] == [
        {"far": False, "rows": 1, "fares": 1.5},
        {"far": True, "rows": 2, "fares": 6.0},
    ]
    table = run_verb("aggregate", targets[kind], "rows=count(*)").stdout
    assert re.findall(r"\w+", table) == ["rows", "1"], table


def test_wrong_aggregates_are_refused(targets: dict[str, str]) -> None:
    for target in targets.values():
        assert "median" in run_verb("aggregate", target, "m=median(fare)", code=1).stderr
        assert "expected column=SQL" in run_verb("aggregate", target, "count(*)", code=2).stderr
        run_verb("aggregate", target, code=2)
