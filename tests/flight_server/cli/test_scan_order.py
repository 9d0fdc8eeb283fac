"""`lance-flight scan --order-by` and `--compression`, on a local dataset and through a server."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
import pytest

import lance_core
from support.clients.command_line import run_verb
from support.servers.server import serving


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Return the targets of one dataset: its path, and its address on a server."""
    folder = tmp_path_factory.mktemp("order")
    table = pa.table({"id": range(6), "x": [3, None, 1, 3, None, 2]})
    lance_core.write_dataset(table, folder / "t.lance")
    with serving(folder, tmp_path_factory.mktemp("log") / "server.log") as server:
        yield {"path": str(folder / "t.lance"), "server": f"{server.uri}/t"}


@pytest.mark.parametrize("kind", ["path", "server"])
@pytest.mark.parametrize(
    ("order", "ids"),
    [
        ("x", [2, 5, 0, 3, 1, 4]),
        ("x desc, id DESC", [3, 0, 5, 2, 4, 1]),
        ("x DESC NULLS FIRST,id", [1, 4, 0, 3, 5, 2]),
        ("x nulls first", [1, 4, 2, 5, 0, 3]),
        ("id asc nulls last", [0, 1, 2, 3, 4, 5]),
    ],
)
def test_rows_are_sorted(targets: dict[str, str], kind: str, order: str, ids: list[int]) -> None:
    for limit in (6, 2):
        options = ("--order-by", order, "--limit", str(limit), "--compression", "auto")
        shown = run_verb("scan", targets[kind], "--columns", "id", *options).stdout
        assert [json.loads(line)["id"] for line in shown.splitlines()] == ids[:limit]


def test_wrong_orders_are_refused(targets: dict[str, str]) -> None:
    assert "no column 'y'" in run_verb("scan", targets["path"], "--order-by", "y", code=1).stderr
    assert "no column 'y'" in run_verb("scan", targets["server"], "--order-by", "y", code=1).stderr
    assert "expected" in run_verb("scan", targets["path"], "--order-by", "x,,id", code=2).stderr
    run_verb("scan", targets["server"], "--compression", "gzip", code=2)
