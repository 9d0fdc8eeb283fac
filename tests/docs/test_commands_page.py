"""docs/commands.md names every verb of the command line, and no other; its examples work."""

from __future__ import annotations

import gzip
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from typer.main import get_command

from flight_server.cli import app
from support.clients.command_line import run_verb
from support.servers.server import RunningServer, serving

PAGE = (Path(__file__).parents[2] / "docs" / "commands.md").read_text(encoding="utf-8")
TRIPS = pa.table(
    {
        "id": range(20),
        "fare": [float(k - 1) for k in range(20)],
        "tip": [0.5] * 20,
        "city": ["Porto", "Lund"] * 10,
    }
)


def test_every_verb_is_on_the_page() -> None:
    listed = re.findall(r"^\| `lance-flight (\w+)", PAGE, flags=re.MULTILINE)
    assert sorted(listed) == sorted(get_command(app).commands)  # type: ignore[attr-defined]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: the files of the examples, and an empty folder to serve."""
    parquet.write_table(TRIPS.slice(0, 10), tmp_path / "trips-1.parquet")
    parquet.write_table(TRIPS.slice(10), tmp_path / "trips-2.parquet")
    csv.write_csv(TRIPS, tmp_path / "more.csv")
    (tmp_path / "more.csv.gz").write_bytes(gzip.compress((tmp_path / "more.csv").read_bytes()))
    (tmp_path / "changes.jsonl").write_text('{"id": 30, "fare": 2.5}\n')
    (tmp_path / "shops.csv").write_text("id,zip\n1,04103\n")
    (tmp_path / "served").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def server(folder: Path) -> Iterator[RunningServer]:
    with serving(folder / "served", folder / "server.log") as server:
        yield server


def test_the_examples_work(server: RunningServer, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of the page; `demo` has tests of its own, and so has the dataset that it serves."""
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    # Of a block with answers, the commands are the lines behind a prompt.
    commands = (
        re.findall(r"^\$ (.*)", block, re.MULTILINE) if "$ " in block else block.splitlines()
        for block in blocks
    )
    lines = [line for block in commands for line in block]
    verbs = []
    for line in lines:
        line = re.sub(r"grpc://host:8815", server.uri, line.replace("/data/lance", str(folder / "served")))
        words = shlex.split(line)
        while "=" in words[0]:
            monkeypatch.setenv(*words.pop(0).split("=", 1))
        assert words[0] == "lance-flight", line
        if words[1] != "demo" and "timezones" not in line:
            done = run_verb(*words[1:])
            assert done.stdout or done.stderr, line
            verbs.append(words[1])
    assert {"put", "update", "columns", "tag", "branch", "cleanup", "validate", "drop"} <= set(verbs)
    assert [path.name for path in (folder / "served").iterdir()] == [".lance-flight-key"]
