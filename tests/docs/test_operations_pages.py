"""docs/operations: every command runs, and every name of an error, an event or a setting exists."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import flight_client.errors
import flight_server.errors
import lance_core.errors
from flight_server.settings import Settings
from support.clients.documented_commands import DocumentedCommands

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "operations"
TROUBLES = (PAGES / "troubleshooting.md").read_text(encoding="utf-8")
SOURCES = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "flight_server").rglob("*.py"))]
ERRORS = {
    name
    for module in (lance_core.errors, flight_server.errors, flight_client.errors)
    for name, value in vars(module).items()
    if isinstance(value, type) and issubclass(value, Exception) and name.endswith("Error")
}
BASE_CLASSES = {"LanceError"}


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[DocumentedCommands]:
    (tmp_path / "served").mkdir()
    commands = DocumentedCommands(tmp_path, tmp_path / "served")
    try:
        yield commands
        commands.stop()
    finally:
        commands.kill()


@pytest.mark.long
def test_the_commands_of_the_pages_work(commands: DocumentedCommands) -> None:
    """The pages follow each other: the later ones use the dataset and the settings of the first one."""
    first = commands.run(PAGES / "first-server.md")
    assert any("2,7" in output or "2,7.0" in output for output in first)
    commands.stop()
    commands.ports.clear()
    commands.serve("--port", "8815", "--http-port", "9815")
    upgraded = commands.run(PAGES / "upgrades.md")
    assert any('"ready"' in output for output in upgraded)
    shutil.copytree(ROOT / "docker" / "compose", commands.folder / "docker" / "compose")
    commands.run(PAGES / "containers.md")


def test_the_unit_of_systemd_starts_a_server_that_may_drain() -> None:
    (text,) = re.findall(r"^```ini\n(.*?)^```", (PAGES / "first-server.md").read_text(), re.M | re.S)
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(text)
    words = shlex.split(unit["Service"]["ExecStart"])
    assert words[1:4] == ["serve", "/data/lance", "--settings"]
    assert float(unit["Service"]["TimeoutStopSec"]) > Settings(root="/").drain_grace
    assert unit["Service"]["ReadWritePaths"] == words[2]


def test_every_error_of_the_page_exists_and_the_page_has_every_error() -> None:
    named = set(re.findall(r"`(\w+Error)`", TROUBLES))
    assert named == ERRORS - BASE_CLASSES


def test_every_event_of_the_page_is_written() -> None:
    section = TROUBLES.partition("## Events of the log")[2]
    events = re.findall(r"^- `(\w+)`:", section, re.MULTILINE)
    assert len(events) > 5
    missing = [event for event in events if not any(f'"{event}"' in source for source in SOURCES)]
    assert not missing


def test_every_metric_of_the_page_is_on_the_page_of_metrics() -> None:
    monitoring = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(lance_flight_\w+)`", TROUBLES))
    assert named
    assert not [name for name in named if f"`{name}" not in monitoring]


STARTS = [
    ["served", "--host", "0.0.0.0"],
    ["served", "--tls-cert", "file"],
    ["served/t.lance"],
    ["nowhere"],
    ["served", "--settings", "file"],
    ["served", "--memory-limit", "lots"],
    ["served", "--signing-key-file", "nowhere"],
]
"""Arguments of servers that do not start."""

START_THEM = """
import json, sys
from typer.testing import CliRunner
from flight_server.cli import app

ended = [CliRunner().invoke(app, ["serve", "--port", "0", *words]) for words in json.loads(sys.argv[1])]
print(json.dumps([[each.exit_code, each.output] for each in ended]))
"""


def test_the_messages_of_servers_that_do_not_start_are_on_the_page(tmp_path: Path) -> None:
    """Each refusal has a sentence of the page, and each sentence but that about ports a refusal."""
    (tmp_path / "served" / "t.lance" / "_versions").mkdir(parents=True)
    (tmp_path / "file").write_text("no_setting = 1\n")
    section = TROUBLES.partition("## The server does not start")[2].partition("\n## ")[0]
    sentences = re.findall(r"^- `([^`]+)`:", section, re.MULTILINE)
    done = subprocess.run(
        [sys.executable, "-c", START_THEM, json.dumps(STARTS)],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "500"},
        capture_output=True,
        text=True,
        check=True,
    )
    seen = set()
    for words, (exit_code, told) in zip(STARTS, json.loads(done.stdout), strict=True):
        assert exit_code == 2, (words, told)
        found = [sentence for sentence in sentences if sentence in told]
        assert len(found) == 1, (words, told)
        seen.update(found)
    assert set(sentences) - seen == {"is in use"}
