"""Sorted rows and groups of rows over the wire, beside the same calls on the dataset itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import flight

import flight_client
import lance_core
from flight_client.errors import InvalidInputError, LanceError, UnsupportedFeatureError
from support.servers.server import RunningServer, serving

ROWS = 5000


def shown(table: pa.Table) -> str:
    """Return the rows as text, in which NaN is equal to NaN."""
    return str(table.to_pylist())


@dataclass(frozen=True)
class Trips:
    server: RunningServer
    raw: flight.FlightClient
    local: lance_core.LanceDataset
    remote: flight_client.RemoteDataset

    def read(self, command: str, **fields: Any) -> pa.Table:
        """Return the rows of a command, first by the tickets of its plan, and then by the command itself."""
        text = json.dumps({command: {"dataset": "trips", **fields}}).encode()
        info = self.raw.get_flight_info(flight.FlightDescriptor.for_command(text))
        assert info.ordered
        assert len(info.endpoints) == 1
        planned = self.raw.do_get(info.endpoints[0].ticket).read_all()
        assert shown(planned) == shown(self.raw.do_get(flight.Ticket(text)).read_all())
        assert info.schema.equals(planned.schema, check_metadata=True)
        assert info.total_records in (-1, planned.num_rows)
        assert self.raw.get_schema(flight.FlightDescriptor.for_command(text)).schema == planned.schema
        return planned


@pytest.fixture(scope="module")
def trips(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trips]:
    """Three fragments with deleted rows, nulls and NaN."""
    root = tmp_path_factory.mktemp("root")
    rng = np.random.default_rng(4)
    numbers = rng.integers(0, 500, ROWS)
    values = [None if n % 9 == 0 else float("nan") if n % 11 == 0 else n / 4 for n in numbers.tolist()]
    table = pa.table(
        {
            "id": range(ROWS),
            "value": pa.array(values, pa.float64(), from_pandas=False),
            "kind": [f"kind {n % 6}" for n in numbers],
        }
    )
    lance_core.write_dataset(table, root / "trips.lance", max_rows_per_file=2000)
    local = lance_core.dataset(root / "trips.lance")
    local.delete("id % 7 = 2")
    log = tmp_path_factory.mktemp("log") / "server.log"
    with serving(root, log) as server, server.client() as raw, flight_client.connect(server.uri) as client:
        yield Trips(server, raw, local, client.dataset("trips"))


ORDERS: list[list[dict[str, Any]]] = [
    [{"column": "value"}],
    [{"column": "value", "ascending": False, "nulls_first": True}],
    [{"column": "kind", "ascending": False}, {"column": "id"}],
]


@pytest.mark.parametrize("order", ORDERS, ids=["up", "down", "two"])
@pytest.mark.parametrize(
    "fields",
    [{}, {"limit": 12, "offset": 3}, {"filter": "value > 20", "limit": 9}],
    ids=["all", "few", "filter"],
)
def test_rows_are_sorted_on_the_server(
    trips: Trips, order: list[dict[str, Any]], fields: dict[str, Any]
) -> None:
    """The rows of tickets, of commands and of the client are those of the dataset itself."""
    found = trips.read("scan", order_by=order, **fields)
    orderings = [
        lance_core.ColumnOrdering(each["column"], each.get("ascending", True), each.get("nulls_first", False))
        for each in order
    ]
    expected = trips.local.scanner(order_by=orderings, **fields).to_table()
    assert found["id"] == expected["id"]
    assert trips.remote.scanner(order_by=orderings, **fields).to_table()["id"] == expected["id"]


@pytest.mark.parametrize(
    "fields", [{}, {"limit": 7, "offset": 2}, {"filter": "value > 20", "limit": 9}], ids=str
)
def test_sorted_rows_without_columns_are_counted(trips: Trips, fields: dict[str, Any]) -> None:
    expected = trips.local.scanner(columns=[], **fields).to_table().num_rows
    found = trips.remote.to_table([], order_by=["kind"], **fields)
    assert found.num_rows == expected > 0
    command = {"dataset": "trips", "columns": [], "order_by": [{"column": "kind"}], **fields}
    ticket = flight.Ticket(json.dumps({"scan": command}).encode())
    assert trips.raw.do_get(ticket).read_all().num_rows == expected


def test_the_client_sorts_by_names_and_counts(trips: Trips) -> None:
    scan = trips.remote.scanner(
        ["id"], order_by=["kind", flight_client.ColumnOrdering("id", ascending=False)]
    )
    assert (
        scan.head(3)
        == trips.local.scanner(
            ["id"], order_by=["kind", lance_core.ColumnOrdering("id", ascending=False)], limit=3
        ).to_table()
    )
    assert scan.count_rows() == trips.local.count_rows()
    with pytest.raises(InvalidInputError, match="order_by: expected"):
        trips.remote.scanner(order_by="id")
    with pytest.raises(InvalidInputError, match="order_by: expected"):
        trips.remote.scanner(order_by=[1])  # type: ignore[list-item]
    with pytest.raises(InvalidInputError, match="no column 'nothing'"):
        trips.remote.scanner(order_by=["nothing"]).to_table()


AGGREGATES = {
    "rows": "count(*)",
    "values": "count(value)",
    "kinds": "count(DISTINCT kind)",
    "sum": "sum(id)",
    "most": "max(value)",
    "mean": "avg(id)",
}


@pytest.mark.parametrize("group_by", [[], ["kind"], {"third": "id % 3", "kind": "kind"}])
@pytest.mark.parametrize("condition", [None, "id > 2500", "id < 0"])
def test_groups_are_made_on_the_server(trips: Trips, group_by: Any, condition: str | None) -> None:
    fields = {"aggregates": AGGREGATES, "group_by": group_by}
    found = trips.read("aggregate", **fields | ({} if condition is None else {"filter": condition}))
    expected = trips.local.aggregate(AGGREGATES, group_by, condition)
    assert found.schema == expected.schema
    assert shown(found) == shown(expected)
    assert shown(trips.remote.aggregate(AGGREGATES, group_by, condition)) == shown(expected)


def test_many_groups_come_in_several_batches(trips: Trips) -> None:
    """No batch is larger than 2 MiB."""
    text = {"dataset": "trips", "group_by": {"id": "id", "text": "repeat('x', 1000)"}}
    batches = list(trips.raw.do_get(flight.Ticket(json.dumps({"aggregate": text}))))
    sizes = [chunk.data.nbytes for chunk in batches]
    assert len(sizes) > 1
    assert max(sizes) <= 2 << 20
    assert sum(chunk.data.num_rows for chunk in batches) == trips.local.count_rows()


def test_what_cannot_be_aggregated_is_refused(trips: Trips) -> None:
    for aggregates, message in (
        ({"a": "median(id)"}, "not an aggregate"),
        ({"a": "sum(nothing)"}, "nothing"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            trips.remote.aggregate(aggregates)
    with pytest.raises(InvalidInputError, match="now"):
        trips.remote.aggregate({"a": "max(now())"})
    with pytest.raises(UnsupportedFeatureError, match="cannot be aggregated"):
        trips.remote.scanner(limit=3).aggregate({"n": "count(*)"})


def test_rows_beyond_the_memory_limit_are_sorted_or_refused(tmp_path: Path) -> None:
    """T33: a server sorts rows that do not fit, as long as the columns that decide do."""
    rng = np.random.default_rng(8)
    rows = pa.table(
        {"id": rng.permutation(200_000), "text": [f"a text of row {n:090}" for n in range(200_000)]}
    )
    lance_core.write_dataset(rows, tmp_path / "root" / "t.lance")
    with (
        serving(tmp_path / "root", tmp_path / "log", "--memory-limit", "16MiB") as server,
        flight_client.connect(server.uri) as client,
    ):
        dataset = client.dataset("t")
        assert dataset.to_table(order_by=["id"]).equals(rows.sort_by("id"))
        with pytest.raises(InvalidInputError, match="too many rows to sort"):
            dataset.to_table(order_by=["text"])
        assert dataset.head(2, order_by=["text"]).equals(rows.slice(0, 2))


def test_too_many_groups_are_refused(tmp_path: Path) -> None:
    """T33: groups have the limit of other answers that a server holds in memory."""
    lance_core.write_dataset(pa.table({"id": range(200_000)}), tmp_path / "root" / "t.lance")
    with (
        serving(tmp_path / "root", tmp_path / "log", "--max-batch-bytes", "1MiB") as server,
        flight_client.connect(server.uri) as client,
    ):
        dataset = client.dataset("t")
        with pytest.raises(LanceError, match="too many groups"):
            dataset.aggregate({"n": "count(*)"}, ["id"])
        assert dataset.aggregate({"n": "count(*)"}, ["id % 5"])["n"].to_pylist() == [40_000] * 5
