"""docs/monitoring.md: its commands run against a server, and all metrics stand on the page."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
import yaml

import lance_core
from flight_server.errors import FLIGHT_CLASSES
from support.clients.http import Scrape
from support.clients.puts import put
from support.servers.collector import collecting
from support.servers.server import RunningServer, serving

PAGE = (Path(__file__).parents[2] / "docs" / "monitoring.md").read_text(encoding="utf-8")
LISTED = re.findall(r"`((?:lance_flight|process)_\w+)(?:\{([\w, ]+)\})?`:?", PAGE)
"""Metrics on the page, with their labels as texts; some stand there twice, the second time without labels."""
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
    assert [command.split()[1] for command in COMMANDS if command.startswith("lance-flight")] == ["serve"] * 2
    for command in COMMANDS[1:-1]:
        text = command.replace("http://127.0.0.1:9815", server.http)
        done = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", text], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (text, done.stdout, done.stderr)
        answers.append(done.stdout)
    assert '{"status":"ok"}' in answers[0]
    assert "lance_flight_calls_total" in answers[1]


def test_the_command_with_traces_works(server: RunningServer, tmp_path: Path) -> None:
    words = shlex.split(COMMANDS[-1])
    options = [re.sub(r"^\d+$", "0", word) for word in words[3:]]
    with collecting() as collector:
        options[-1] = collector.url
        with serving(tmp_path, tmp_path / "log", *options[2:]) as traced, traced.client() as client:
            list(client.list_flights())
        assert [span.name for span in collector.all()] == ["ListFlights"]


def test_the_answer_of_the_page_has_the_form_of_the_server(server: RunningServer) -> None:
    (shown,) = re.findall(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert set(json.loads(shown)["checks"]) == {"draining", "memory", "storage"}


def test_the_page_lists_every_metric_with_its_labels(server: RunningServer) -> None:
    """Metrics that have no values yet stand in /metrics with their type, too."""
    found = dict(re.findall(r"^# TYPE (\S+) (\S+)$", Scrape(server).text, re.MULTILINE))
    assert {name for name, _ in LISTED} == set(found)
    for name, labels in LISTED:
        for text in re.findall(rf"^{name}(?:_bucket)?{{(.*?)}}", Scrape(server).text, re.MULTILINE):
            assert set(re.findall(r"(\w+)=", text)) - {"le"} == set(labels.replace(",", "").split()), name


FOLDER = Path(__file__).parents[2] / "docs" / "monitoring"
OF_PROMETHEUS = {"up"}
"""Metrics that Prometheus makes itself."""


def _queries_of_the_dashboard() -> list[str]:
    dashboard = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))
    panels = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    variables = [each["query"] for each in dashboard["templating"]["list"] if each["type"] == "query"]
    return [*panels, *(each["query"] for each in variables)]


def _queries_of_the_alerts() -> list[str]:
    groups = yaml.safe_load((FOLDER / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    return [rule["expr"] for group in groups for rule in group["rules"]]


def _metrics_in(query: str) -> dict[str, set[str]]:
    """Return the labels that a query names of each metric."""
    found: dict[str, set[str]] = {}
    for name, matchers in re.findall(r"\b([a-z]\w*_\w+|up)\b(?![(=])(?:\{(.*?)\})?", _without_groups(query)):
        found.setdefault(name, set()).update(re.findall(r"(\w+)\s*[=!]~?\s*\"", matchers))
    return found


def _without_groups(query: str) -> str:
    """Return a query without the labels that it groups by, and without `label_values`."""
    return re.sub(r"\b(by|on|without)\s*\([^)]*\)", "", query).replace("label_values", "")


@pytest.mark.parametrize("queries", [_queries_of_the_dashboard, _queries_of_the_alerts])
def test_every_metric_of_a_query_is_there(queries: Callable[[], list[str]], server: RunningServer) -> None:
    """A metric or a label that the server does not have would leave a panel empty, or an alert silent."""
    text = Scrape(server).text
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    names = {
        f"{name}{suffix}"
        for name, kind in types.items()
        for suffix in (("_bucket", "_count", "_sum") if kind == "histogram" else ("",))
    }
    labels = {name: set(listed.replace(",", "").split()) for name, listed in LISTED}
    used = [_metrics_in(query) for query in queries()]
    assert len(used) > 5
    for metrics in used:
        assert metrics
        assert metrics.keys() <= names | OF_PROMETHEUS, metrics
        for name, asked in metrics.items():
            base = re.sub(r"_(bucket|count|sum)$", "", name)
            known = labels.get(name, labels.get(base, set())) | {"job", "instance", "le"}
            assert asked <= known, (name, asked)


def test_groups_of_queries_are_labels(server: RunningServer) -> None:
    known = {label for _, listed in LISTED for label in listed.replace(",", "").split()}
    for query in [*_queries_of_the_dashboard(), *_queries_of_the_alerts()]:
        for group in re.findall(r"\bby\s*\(([^)]*)\)", query):
            assert {label.strip() for label in group.split(",")} <= known | {"job", "instance", "le"}, query


def test_errors_in_alerts_are_errors_of_the_server() -> None:
    known = {kind.__name__ for kind in FLIGHT_CLASSES} | {"InternalError"}
    known |= {kind.__name__ for parent in FLIGHT_CLASSES for kind in parent.__subclasses__()}
    for query in _queries_of_the_alerts():
        for names in re.findall(r'error=~?"(.*?)"', query):
            assert set(names.split("|")) <= known, query
