"""Scans over Flight use the indices of a dataset."""

from __future__ import annotations

import json
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import flight

import flight_client
from support.servers.served import StartServer

ROWS = 3000


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a table whose last fragment its index does not cover."""
    folder = tmp_path_factory.mktemp("indexed")
    ids = np.random.default_rng(1).permutation(ROWS)
    rows = pa.table({"id": ids, "name": [f"row {number}" for number in ids]})
    dataset = lance.write_dataset(rows, str(folder / "d.lance"), max_rows_per_file=1000)
    dataset.create_scalar_index("id", "BTREE")
    dataset.insert(pa.table({"id": [5, ROWS], "name": ["again", "new"]}))
    return folder


def test_an_index_answers_a_scan(root: Path, serve: StartServer) -> None:
    """Tickets are small, fragments without a row are pruned, and the explanation names the index."""
    server = serve(root)
    dataset = flight_client.connect(server.uri).dataset("d")
    assert sorted(dataset.to_table(["name"], filter="id = 5")["name"].to_pylist()) == ["again", "row 5"]
    one = dataset.to_table(["name"], filter="id = 5", fast_search=True)
    assert one["name"].to_pylist() == ["row 5"]
    assert dataset.to_table(filter="id = 5", use_scalar_index=False).num_rows == 2
    assert dataset.count_rows("id < 10") == 11
    scan = {"dataset": "d", "filter": "id = 5"}
    info = server.client().get_flight_info(flight.FlightDescriptor.for_command(json.dumps({"scan": scan})))
    assert json.loads(info.app_metadata)["fragments_pruned"] == 2
    assert max(len(endpoint.ticket.ticket) for endpoint in info.endpoints) < 400
    body = json.dumps({"scan": scan}).encode()
    (result,) = server.client().do_action(flight.Action("explain_scan", body))
    explained = json.loads(result.body.to_pybytes())
    (use,) = explained["indices"]
    assert (use["index"], use["kind"], use["rows"], use["is_exact"]) == ("id_idx", "BTree", 1, True)
    body = json.dumps({"scan": {**scan, "use_scalar_index": False}}).encode()
    (result,) = server.client().do_action(flight.Action("explain_scan", body))
    assert json.loads(result.body.to_pybytes())["indices"] == []
