"""T33: caches follow the memory that a server was given."""

from __future__ import annotations

import json
from pathlib import Path

from pyarrow import flight

from support.servers.server import serving

LIMIT_BYTES = 64 << 20


def test_caches_take_parts_of_the_memory_limit(tmp_path: Path) -> None:
    """T33: a worker, whose limit is a part of the server's, has smaller caches than the whole server."""
    (tmp_path / "root").mkdir()
    with (
        serving(tmp_path / "root", tmp_path / "log", "--memory-limit", str(LIMIT_BYTES)) as server,
        server.client() as client,
    ):
        (answer,) = client.do_action(flight.Action("health", b"{}"))
    caches = json.loads(answer.body.to_pybytes())["caches"]
    assert {name: cache["max_bytes"] for name, cache in caches.items()} == {
        "manifests": LIMIT_BYTES // 4,
        "files": LIMIT_BYTES // 4,
        "indices": LIMIT_BYTES // 2,
        "statistics": 64 << 20,
    }
