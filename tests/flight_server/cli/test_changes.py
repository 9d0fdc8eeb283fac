"""`lance-flight delete` and `compact`, here and on a server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from support.clients.command_line import run_verb as run
from support.servers.server import RunningServer, serving


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cli-changes")


@pytest.fixture(scope="module")
def server(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(root, tmp_path_factory.mktemp("log") / "server.log") as server:
        yield server


@pytest.fixture(params=["local", "remote"])
def target(request: pytest.FixtureRequest, root: Path, server: RunningServer) -> str:
    """A dataset of 20 rows in four fragments, the reference's."""
    path = root / "t.lance"
    lance.write_dataset(pa.table({"n": range(20)}), path, mode="overwrite", max_rows_per_file=5)
    return str(path) if request.param == "local" else f"{server.uri}/t"


def test_delete(target: str, root: Path) -> None:
    before = lance.dataset(root / "t.lance").version
    done = json.loads(run("delete", target, "n % 2 = 0", "--json").stdout)
    assert done == {"version": before + 1, "rows": 10}
    assert lance.dataset(root / "t.lance").to_table()["n"].to_pylist() == list(range(1, 20, 2))
    assert run("delete", target, "n > 100").stdout == f"version {before + 2}: 0 rows deleted\n"
    failed = run("delete", target, "nothing = 1", code=1)
    assert "nothing" in failed.stderr
    assert failed.stdout == ""
    assert lance.dataset(root / "t.lance").version == before + 2


def test_compact(target: str, root: Path) -> None:
    dataset = lance.dataset(root / "t.lance")
    dataset.create_scalar_index("n", "BTREE", name="tree")
    dataset.create_scalar_index("n", "ZONEMAP", name="zones")
    arguments = ("compact", target, "--target-rows", "100", "--threads", "2")
    done = json.loads(run(*arguments, "--json").stdout)
    assert done["version"] == lance.dataset(root / "t.lance").version
    assert (done["fragments_removed"], done["fragments_added"]) == (4, 1)
    assert len(lance.dataset(root / "t.lance").get_fragments()) == 1
    assert lance.dataset(root / "t.lance").to_table()["n"].to_pylist() == list(range(20))
    covered = {
        each["index"]: (each["num_rows_before"], each["num_rows_after"]) for each in done["index_coverage"]
    }
    assert covered == {"tree": (20, 20), "zones": (20, 0)}
    assert run(*arguments).stdout.endswith(": nothing to compact\n")
    lance.dataset(root / "t.lance").delete("n % 4 = 1")
    lines = run(*arguments, "--defer-index-remap").stdout.splitlines()
    assert lines[1:] == [
        "index tree (BTree) covered 15 rows, covers 15 rows",
        "index zones (ZoneMap) covered 0 rows, covers 0 rows",
    ]
    assert "__lance_frag_reuse" in {
        index.name for index in lance.dataset(root / "t.lance").describe_indices()
    }


def test_wrong_usage(target: str) -> None:
    run("delete", target, code=2)
    run("compact", target, "--target-rows", "0", code=2)
    run("delete", "http://x/y", "n = 1", code=2)
    run("compact", target + "-missing", code=1)
