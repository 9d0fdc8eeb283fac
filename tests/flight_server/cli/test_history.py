"""Verbs of `lance-flight` on versions, tags, branches, columns and whole datasets, here and on a server."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from support.clients.command_line import run_verb as run
from support.servers.server import RunningServer, serving


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cli-history")


@pytest.fixture(scope="module")
def server(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(root, tmp_path_factory.mktemp("log") / "server.log") as server:
        yield server


@pytest.fixture(params=["local", "remote"])
def target(request: pytest.FixtureRequest, root: Path, server: RunningServer) -> str:
    """A dataset of the reference with two versions: five rows, then ten."""
    path = root / f"{request.node.name.partition('[')[0]}-{request.param}.lance"
    lance.write_dataset(pa.table({"n": range(5), "text": list("abcde")}), path)
    lance.write_dataset(pa.table({"n": range(5, 10), "text": list("fghij")}), path, mode="append")
    return str(path) if request.param == "local" else f"{server.uri}/{path.stem}"


@pytest.fixture
def path(target: str, root: Path) -> Path:
    """Return the folder of the dataset `target`."""
    return root / f"{Path(target).stem}.lance"


def answer(*arguments: str | Path) -> Any:
    """Return the JSON object that a verb prints."""
    return json.loads(run(*arguments, "--json").stdout)


def answers(*arguments: str | Path) -> list[Any]:
    """Return the JSON objects that a verb prints, one a line."""
    return [json.loads(line) for line in run(*arguments, "--json").stdout.splitlines()]


def test_versions(target: str, path: Path) -> None:
    found = answers("versions", target)
    assert [version["version"] for version in found] == [1, 2]
    assert [version["metadata"]["total_rows"] for version in found] == ["5", "10"]
    assert all(version["timestamp"].endswith("+00:00") for version in found)
    lines = run("versions", target).stdout.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("│")] == ["1", "2"]


def test_restore(target: str, path: Path) -> None:
    assert answer("restore", target, "1") == {"version": 3}
    assert lance.dataset(path).count_rows() == 5
    assert run("restore", target, "2").stdout == "version 4 has the rows and columns of version 2\n"
    assert lance.dataset(path).count_rows() == 10
    assert "version 9" in run("restore", target, "9", code=1).stderr


def test_tags(target: str, path: Path) -> None:
    assert answer("tag", "create", target, "gold", "--at", "1") == {"tag": "gold", "version": 1}
    assert run("tag", "create", target, "new").stdout == "tag new names version 2\n"
    assert {tag["tag"]: tag["version"] for tag in answers("tag", "list", target)} == {"gold": 1, "new": 2}
    assert answer("tag", "update", target, "gold", "--at", "2")["version"] == 2
    assert {name: tag["version"] for name, tag in lance.dataset(path).tags.list().items()} == {
        "gold": 2,
        "new": 2,
    }
    assert "gold" in run("tag", "list", target).stdout
    assert run("tag", "delete", target, "gold").stdout == "tag gold deleted\n"
    assert [tag["tag"] for tag in answers("tag", "list", target)] == ["new"]
    assert "gold" in run("tag", "delete", target, "gold", code=1).stderr
    assert "version 9" in run("tag", "create", target, "none", "--at", "9", code=1).stderr


def test_branches(target: str, path: Path) -> None:
    assert answers("branch", "list", target) == []
    assert run("branch", "create", target, "dev", "--at", "1").stdout.startswith("branch dev begins with")
    (branch,) = answers("branch", "list", target)
    assert (branch["branch"], branch["parent_branch"], branch["parent_version"]) == ("dev", None, 1)
    assert list(lance.dataset(path).branches.list()) == ["dev"]
    assert "main" in run("branch", "list", target).stdout
    assert answer("branch", "delete", target, "dev") == {"branch": "dev"}
    assert answers("branch", "list", target) == []
    assert "dev" in run("branch", "delete", target, "dev", code=1).stderr


def test_update(target: str, path: Path) -> None:
    done = answer("update", target, "--set", "n=n * 10", "--set", "text = 'x = y'", "--where", "n < 2")
    assert done == {"version": 3, "rows": 2}
    assert lance.dataset(path).to_table().slice(8).to_pylist() == [
        {"n": 0, "text": "x = y"},
        {"n": 10, "text": "x = y"},
    ]
    assert run("update", target, "--set", "n=0", "--where", "n = 9").stdout == "version 4: 1 row updated\n"
    assert "nn" in run("update", target, "--set", "nn=0", code=1).stderr
    for wrong in (["--set", "n"], ["--set", "=1"], ["--set", "n=1", "--set", "n=2"], []):
        run("update", target, *wrong, code=2)
    assert lance.dataset(path).version == 4


def test_columns(target: str, path: Path) -> None:
    assert answer("columns", "add", target, "twice=n * 2", "upper=upper(text)") == {"version": 3}
    assert lance.dataset(path).to_table().to_pylist()[3] == {"n": 3, "text": "d", "twice": 6, "upper": "D"}
    done = run("columns", "rename", target, "twice", "double")
    assert done.stdout == "version 4: column twice is now double\n"
    assert answer("columns", "cast", target, "double", "INT")["version"] == 5
    assert lance.dataset(path).schema.field("double").type == pa.int32()
    assert run("columns", "drop", target, "upper").stdout == "version 6: 1 column dropped\n"
    assert lance.dataset(path).schema.names == ["n", "text", "double"]
    for arguments in (("drop", target, "upper"), ("rename", target, "upper", "x")):
        assert "upper" in run("columns", *arguments, code=1).stderr
    assert "NO_TYPE" in run("columns", "cast", target, "n", "NO_TYPE", code=1).stderr
    run("columns", "add", target, "twice", code=2)


def test_cleanup(target: str, path: Path) -> None:
    planned = answer("cleanup", target, "--older-than", "0s", "--dry-run")
    assert planned["old_versions"] == 1
    assert any(file.startswith("_versions/") for file in planned["files"])
    assert lance.dataset(path).version == 2
    assert "would be removed" in run("cleanup", target, "--older-than", "0s", "--dry-run").stdout
    assert run("cleanup", target).stdout == "0 versions and 0 other files removed, 0 B\n"
    run("tag", "create", target, "gold", "--at", "1")
    assert "--keep-tagged" in run("cleanup", target, "--retain", "1", code=1).stderr
    assert answer("cleanup", target, "--retain", "1", "--keep-tagged")["old_versions"] == 0
    run("tag", "delete", target, "gold")
    assert run("cleanup", target, "--older-than", "0").stdout.startswith("1 version and ")
    assert [version["version"] for version in answers("versions", target)] == [2]
    assert lance.dataset(path).count_rows() == 10
    for wrong in ("14 days", "-1d", "d"):
        run("cleanup", target, "--older-than", wrong, code=2)


def test_validate(target: str, path: Path) -> None:
    """T26: every damaged file of a local dataset is named, the first one of a dataset on a server."""
    assert run("validate", target).stdout == "no damage found\n"
    assert answer("validate", target) == {"findings": []}
    lance_core.write_dataset(
        pa.table({"n": range(20), "text": ["x"] * 20}), path, mode="append", max_rows_per_file=10
    )
    assert answer("validate", target, "--at", "2") == {"findings": []}
    damaged = sorted((path / "data").iterdir(), key=lambda file: file.stat().st_mtime_ns)[-2:]
    for file in damaged:
        content = bytearray(file.read_bytes())
        content[1] ^= 255
        file.write_bytes(content)
    findings = json.loads(run("validate", target, "--json", code=1).stdout)["findings"]
    is_local = "://" not in target
    assert len(findings) == (2 if is_local else 1)
    assert sum(file.name in finding for file in damaged for finding in findings) == len(findings)
    shown = run("validate", target, code=1).stdout.splitlines()
    assert shown == [f"{target}: {'2 findings' if is_local else '1 finding'}", *findings]
    # A server names the first damaged file in the order of fragments, which need not be the order of times.
    first = next(file for file in damaged if file.name in findings[0])
    first.unlink()
    assert run("validate", target, code=1).stdout.count(first.name) == 1


def test_a_damaged_manifest_is_a_finding(root: Path, server: RunningServer) -> None:
    """T26"""
    lance.write_dataset(pa.table({"n": [1]}), root / "broken.lance")
    (manifest,) = (root / "broken.lance" / "_versions").glob("*.manifest")
    manifest.write_bytes(b"x" * 40)
    for target in (root / "broken.lance", f"{server.uri}/broken"):
        assert run("validate", target, code=1).stdout.splitlines()[0].endswith(": 1 finding")
        failed = run("validate", f"{target}-missing", code=1)
        assert failed.stdout == ""
        assert failed.stderr.splitlines()[-1].startswith("error: ")


def test_drop(target: str, path: Path) -> None:
    assert "--yes" in run("drop", target, code=2).stderr
    assert path.is_dir()
    assert answer("drop", target, "--yes") == {"dropped": target}
    assert not path.exists()
    run("drop", target, "--yes", code=1)


def test_drop_of_what_is_no_dataset(root: Path, tmp_path: Path) -> None:
    """Nothing is removed but what is a dataset."""
    (tmp_path / "folder" / "data").mkdir(parents=True)
    (tmp_path / "folder" / "data" / "file").write_text("x")
    lance.write_dataset(pa.table({"n": [1]}), tmp_path / "t.lance")
    (tmp_path / "link").symlink_to(tmp_path / "t.lance")
    for name in ("folder", "link", "", "missing"):
        run("drop", tmp_path / name, "--yes", code=1)
    assert lance.dataset(tmp_path / "t.lance").count_rows() == 1
    assert (tmp_path / "folder" / "data" / "file").exists()


@pytest.mark.parametrize(("typed", "code"), [("y", 0), ("", 1), pytest.param("n", 1, marks=pytest.mark.long)])
def test_drop_asks_on_a_terminal(typed: str, code: int, tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"n": [1]}), tmp_path / "t.lance")
    ours, theirs = pty.openpty()
    os.write(ours, f"{typed}\n".encode())
    command = [sys.executable, "-m", "flight_server.cli", "drop", str(tmp_path / "t.lance")]
    done = subprocess.run(command, stdin=theirs, capture_output=True, text=True, timeout=120, check=False)
    os.close(ours)
    os.close(theirs)
    assert done.returncode == code, done.stderr
    assert "with all its versions, tags and branches?" in done.stderr
    assert (tmp_path / "t.lance").exists() == bool(code)
