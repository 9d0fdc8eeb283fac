"""`--cache-dir`: what one server learns from a filter, the next one prunes by, and both answer the same."""

from __future__ import annotations

import json
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import flight

from flight_server.settings import Settings
from lance_core.errors import InvalidInputError
from support.servers.served import StartServer
from support.servers.server import RunningServer

ROWS = 200_000
SCAN = {"dataset": "d", "filter": "a >= 150000 AND a < 150010", "columns": ["a", "b"]}
COMMAND = flight.FlightDescriptor.for_command(json.dumps({"scan": SCAN}))


def write(root: Path) -> None:
    table = pa.table({"a": np.arange(ROWS), "b": [f"row {row}" for row in range(ROWS)]})
    lance.write_dataset(table, root / "d.lance", max_rows_per_file=ROWS // 2)


def redeem(server: RunningServer, ticket: flight.Ticket) -> list[pa.RecordBatch]:
    return [chunk.data for chunk in server.client().do_get(ticket)]


def planned_rows(server: RunningServer) -> tuple[str, int]:
    """Return the origin of the statistics, and the number of rows that they leave."""
    body = json.dumps({"scan": SCAN}).encode()
    (result,) = server.client().do_action(flight.Action("explain_scan", body))
    explained = json.loads(result.body.to_pybytes())
    return explained["statistics"], sum(fragment["rows_planned"] for fragment in explained["fragments"])


def test_the_next_server_prunes(tmp_path: Path, serve: StartServer) -> None:
    """T33: a ticket gives equal batches on servers with and without statistics."""
    write(tmp_path / "root")
    cache = tmp_path / "cache"
    first = serve(tmp_path / "root", "--cache-dir", str(cache))
    assert planned_rows(first) == ("none", ROWS)
    info = first.client().get_flight_info(COMMAND)
    assert json.loads(info.app_metadata)["statistics"] == "none"
    cold = [redeem(first, endpoint.ticket) for endpoint in info.endpoints]
    assert sum(len(batch) for batches in cold for batch in batches) == 10
    assert planned_rows(first) == ("cache", 8192)
    second = serve(tmp_path / "root", LANCE_FLIGHT_CACHE_DIR=str(cache))
    assert planned_rows(second) == ("cache", 8192)
    plain = serve(tmp_path / "root")
    assert planned_rows(plain) == ("none", ROWS)
    for server in (first, second, plain):
        warm = [redeem(server, endpoint.ticket) for endpoint in info.endpoints]
        assert warm == cold
    metadata = json.loads(second.client().get_flight_info(COMMAND).app_metadata)
    assert (metadata["statistics"], metadata["fragments_pruned"]) == ("cache", 1)


def test_a_cache_directory_is_made_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    settings = Settings.resolve(str(tmp_path), {"cache_dir": str(path), "cache_dir_limit": "3MiB"}, {})
    assert (settings.cache_dir, settings.cache_dir_limit) == (str(path), 3 << 20)
    assert path.is_dir()
    assert Settings.resolve(str(tmp_path), environment={}).cache_dir is None
    (tmp_path / "file").write_text("")
    for name, text in (("cache_dir", str(tmp_path / "file")), ("cache_dir_limit", "none")):
        with pytest.raises(InvalidInputError, match=name):
            Settings.resolve(str(tmp_path), {name: text}, {})
