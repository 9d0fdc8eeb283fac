"""docs/monitoring.md: its commands run against a server, and all metrics stand on the page."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lance_core
from support.http import Scrape
from support.puts import put
from support.server import RunningServer, serving

PAGE = (Path(__file__).parents[2] / "docs" / "monitoring.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """The server of the first command of the page, on free ports, after two commits in conflict."""
    folder = tmp_path_factory.mktemp("monitored")
    rows = pa.table({"id": [1, 2, 3]})
    lance_core.write_dataset(rows, folder / "t.lance")
    words = shlex.split(COMMANDS[0])
    assert words[:3] == ["lance-flight", "serve", "/data/lance"]
    options = [re.sub(r"^\d+$", "0", word) for word in words[3:]]
    with serving(folder, folder / "log", *options[2:]) as server:
        with server.client() as client:
            put(client, {"dataset": "t", "mode": "append"}, rows)
        yield server


def test_the_commands_work(server: RunningServer) -> None:
    answers = []
    for command in COMMANDS[1:]:
        text = command.replace("http://127.0.0.1:9815", server.http)
        done = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", text], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (text, done.stdout, done.stderr)
        answers.append(done.stdout)
    assert '{"status":"ok"}' in answers[0]
    assert "lance_flight_calls_total" in answers[1]


def test_the_answer_of_the_page_has_the_form_of_the_server(server: RunningServer) -> None:
    (shown,) = re.findall(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert set(json.loads(shown)["checks"]) == {"draining", "memory", "storage"}


def test_the_page_lists_every_metric_with_its_labels(server: RunningServer) -> None:
    """Metrics that have no values yet stand in /metrics with their type, too."""
    found = dict(re.findall(r"^# TYPE (\S+) (\S+)$", Scrape(server).text, re.MULTILINE))
    listed = re.findall(r"`((?:lance_flight|process)_\w+)(?:\{([\w, ]+)\})?`", PAGE)
    assert {name for name, _ in listed} == set(found)
    for name, labels in listed:
        for text in re.findall(rf"^{name}(?:_bucket)?{{(.*?)}}", Scrape(server).text, re.MULTILINE):
            assert set(re.findall(r"(\w+)=", text)) - {"le"} == set(labels.replace(",", "").split()), name
