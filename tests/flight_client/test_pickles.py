"""Objects of the client that a user sends to worker processes."""

from __future__ import annotations

import pickle
from types import ModuleType

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import flight
from pyspark import cloudpickle

import flight_client
from flight_client import RemoteDataset
from support.oracles.comparison import assert_tables_equal
from support.processes.workers import first_rows, load, read_endpoint, rows_of, side_by_side, spawned

LIBRARIES = pytest.mark.parametrize("library", [pickle, cloudpickle], ids=["pickle", "cloudpickle"])


@LIBRARIES
def test_what_can_be_read(trips: RemoteDataset, client: flight_client.Client, library: ModuleType) -> None:
    """Before and after it was read; plans and connections stay behind."""
    condition = pc.field("id") < 50
    for given in (
        trips,
        trips.filter(condition).filter("driver IS NOT NULL"),
        trips.scanner(["id"], condition & (pc.utf8_length(pc.field("driver")) > 1), limit=20),
        client.snapshot("trips").scanner(flight_client.Selection(columns={"n": "id + 1"}, filter="id < 9")),
    ):
        before = library.dumps(given)
        expected = given.to_table()
        assert given.count_rows() == len(expected)
        after = library.dumps(given)
        assert after == before
        assert_tables_equal(expected, pickle.loads(after).to_table())


@LIBRARIES
def test_clients_and_what_they_answer(client: flight_client.Client, library: ModuleType) -> None:
    assert client.dataset("trips").version == 2
    again = pickle.loads(library.dumps(client))
    assert again.dataset("trips").version == 2
    listing = pickle.loads(library.dumps(client.datasets()))
    assert listing.names == client.datasets().names
    changes = client.changes("trips", 1, 2)
    assert repr(pickle.loads(library.dumps(changes))) == repr(changes)
    with pytest.raises(flight_client.DatasetNotFoundError) as raised:
        client.dataset("no/such")
    error = pickle.loads(library.dumps(raised.value))
    assert (type(error), str(error), vars(error)) == (
        type(raised.value),
        str(raised.value),
        vars(raised.value),
    )


@LIBRARIES
def test_plans_endpoints_and_tickets(trips: RemoteDataset, library: ModuleType) -> None:
    """Classes of Flight itself, which pyarrow cannot pickle."""
    plan = trips.scanner(["id"]).plan
    endpoint = plan.endpoints[0]
    for given in (
        plan,
        endpoint,
        endpoint.ticket,
        endpoint.locations[0],
        plan.descriptor,
        flight.Action("health", b"{}"),
    ):
        again = pickle.loads(library.dumps(given))
        assert (type(again), again) == (type(given), given)
    assert pickle.loads(library.dumps(endpoint)).expiration_time == endpoint.expiration_time
    rows = pa.Table.from_batches(trips.read_endpoint(pickle.loads(library.dumps(endpoint))))
    assert rows == pa.Table.from_batches(trips.read_endpoint(endpoint))


def test_workers(trips: RemoteDataset, client: flight_client.Client) -> None:
    """Each by its own connection, though the parent has used its own: datasets, scans, endpoints."""
    expected = sorted(trips.to_table(["id"])["id"].to_pylist())
    endpoints = trips.scanner(["id"]).plan.endpoints
    with spawned() as pool:
        shares = side_by_side(pool, load, [trips] * 2, range(2), [2] * 2)
        parts = side_by_side(pool, read_endpoint, [client] * len(endpoints), endpoints)
        taken = pool.submit(first_rows, trips).result()
        scanned = pool.submit(rows_of, trips.scanner(["id"], pc.field("id") < 9)).result()
    for epoch in range(2):
        assert sorted(number for share in shares for number in share[epoch]) == expected
    assert sorted(number for part in parts for number in part["id"].to_pylist()) == expected
    assert taken == trips.take([0, 1]).to_pylist()
    assert scanned == trips.to_table(["id"], "id < 9").to_pylist()
