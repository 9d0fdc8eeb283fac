"""docs/several-servers.md: its servers start with the options of the page, and name each other."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import flight

import lance_core
from support.processes.waiting import wait_until
from support.servers.cluster import Cluster
from support.servers.server import RunningServer, start_server

PAGE = (Path(__file__).parents[2] / "docs" / "several-servers.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def started() -> Iterator[list[RunningServer]]:
    servers: list[RunningServer] = []
    yield servers
    for server in servers:
        server.kill()


def named(uri: str) -> set[str]:
    with flight.connect(uri) as client:
        info = client.get_flight_info(flight.FlightDescriptor.for_path("trips"))
    return {each.uri.decode() for endpoint in info.endpoints for each in endpoint.locations[:-1]}


@pytest.mark.long
def test_the_commands_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[RunningServer]
) -> None:
    """The servers get free ports; the names of the machines become addresses of this one."""
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "served"
    lance_core.write_dataset({"id": [1, 2, 3]}, root / "trips.lance")
    one, two = Cluster(root, tmp_path, 2).uris
    for number, block in enumerate(BLOCKS):
        if not block.startswith("lance-flight serve"):
            subprocess.run(["bash", "-eu", "-c", block], check=True)
            continue
        words = shlex.split(block.replace("\\\n", " "))[3:]
        own = words[words.index("--advertise") + 1] if "--advertise" in words else ":0"
        text = " ".join(words).replace("grpc://lance-1.example:8815", one)
        text = text.replace("grpc://lance-2.example:8815", two)
        own = own.replace("grpc://lance-1.example:8815", one).replace("grpc://lance-2.example:8815", two)
        options = text.replace("--port 8815", f"--port {own.rpartition(':')[2]}").split()
        started.append(start_server(root, tmp_path / f"{number}.log", *options))
    workers, *machines = started
    assert len(named(workers.uri)) == 2
    assert [server.uri for server in machines] == [one, two]
    for server in machines:
        wait_until(lambda uri=server.uri: named(uri) == {one, two}, "the servers name each other")
    assert all(server.stop() == 0 for server in started)
