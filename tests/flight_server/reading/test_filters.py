"""Filters and computed columns over Flight: a real server, against what the reference reads."""

from __future__ import annotations

import base64
import json
from typing import Any

import duckdb
import lance
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from pyarrow import flight
from pyarrow.substrait import serialize_expressions

from flight_server.proto.command_pb2 import Columns, Command, Expression, Scan
from flight_server.requests.commands import COMMAND_TYPE_URL
from support.clients.raw_flight import scan_json
from support.runs.each_case import each_case
from support.servers.served import Root, StartServer
from support.servers.server import RunningServer

FILTER = "id between 900 and 1100 and driver = 'driver 3'"


@pytest.fixture
def client(server: RunningServer) -> Any:
    with server.client() as client:
        yield client


def plan(client: flight.FlightClient, dataset: str = "trips", **fields: Any) -> flight.FlightInfo:
    return client.get_flight_info(flight.FlightDescriptor.for_command(scan_json(dataset, **fields)))


def read(client: flight.FlightClient, dataset: str = "trips", **fields: Any) -> pa.Table:
    """Both ways of reading, which must agree: planned endpoints, and the command as a ticket."""
    info = plan(client, dataset, **fields)
    planned = pa.concat_tables([client.do_get(endpoint.ticket).read_all() for endpoint in info.endpoints])
    streamed = client.do_get(flight.Ticket(scan_json(dataset, **fields))).read_all()
    assert_same(streamed, planned)
    return planned


def assert_same(found: pa.Table, expected: pa.Table) -> None:
    """Equal in schema with metadata, and in values; NaN equals NaN."""
    assert found.schema.equals(expected.schema, check_metadata=True), (found.schema, expected.schema)
    assert found.num_rows == expected.num_rows
    assert repr(found.to_pylist()) == repr(expected.to_pylist())


def metadata(info: flight.FlightInfo) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(info.app_metadata)
    return decoded


def act(client: flight.FlightClient, action: str, **body: Any) -> dict[str, Any]:
    (result,) = client.do_action(flight.Action(action, json.dumps(body).encode()))
    decoded: dict[str, Any] = json.loads(result.body.to_pybytes())
    return decoded


@pytest.fixture(scope="module")
def reference(root: Root) -> Any:
    return lance.dataset(root.path / "trips.lance")


@pytest.mark.parametrize(
    "fields",
    [
        {"filter": FILTER},
        {"filter": "fare > 100 and pickup.zone is not null", "columns": ["id", "pickup.lat"]},
        {"filter": "id < 0"},
        {"filter": "city = 'Lund'", "limit": 20, "offset": 5},
        {"filter": "city = 'Lund'", "with_row_id": True, "columns": ["stops"]},
        {"columns": {"number": "id", "zone": "pickup.zone", "free": "fare is null"}},
        {"columns": {"next": "id + 1"}, "filter": "id >= 2990"},
        {"columns": {"next": "id + 1"}, "limit": 3, "offset": 10},
    ],
    ids=str,
)
def test_rows_are_those_of_the_reference(
    client: flight.FlightClient, reference: Any, fields: dict[str, Any]
) -> None:
    assert_same(read(client, **fields), reference.to_table(**fields))
    schema = client.get_schema(flight.FlightDescriptor.for_command(scan_json("trips", **fields))).schema
    assert schema.equals(reference.scanner(**fields).projected_schema)


def test_both_forms_of_a_command_mean_the_same(client: flight.FlightClient) -> None:
    scan = Scan(
        dataset="trips",
        filter="id >= 2000 and id < 2010",
        columns=Columns(expressions=[Expression(name="b", sql="id + 1"), Expression(name="a", sql="driver")]),
    )
    packed = AnyMessage(type_url=COMMAND_TYPE_URL, value=Command(scan=scan).SerializeToString())
    info = client.get_flight_info(flight.FlightDescriptor.for_command(packed.SerializeToString()))
    found = pa.concat_tables([client.do_get(endpoint.ticket).read_all() for endpoint in info.endpoints])
    columns = {"b": "id + 1", "a": "driver"}
    assert_same(found, read(client, filter="id >= 2000 and id < 2010", columns=columns))
    assert found.schema.names == ["b", "a"]


def test_a_filter_may_be_substrait(client: flight.FlightClient) -> None:
    schema = pa.schema([("id", pa.int64()), ("driver", pa.string())])
    condition = (pc.field("id") < 50) & (pc.field("driver") == "driver 3")
    data = bytes(serialize_expressions([condition], ["filter"], schema))
    expected = read(client, filter="id < 50 and driver = 'driver 3'")
    assert expected.num_rows > 0
    text = base64.b64encode(data).decode()
    assert_same(read(client, substrait_filter=text), expected)
    assert act(client, "count_rows", dataset="trips", substrait_filter=text)["count"] == expected.num_rows
    command = Command(scan=Scan(dataset="trips", substrait_filter=data))
    packed = AnyMessage(type_url=COMMAND_TYPE_URL, value=command.SerializeToString()).SerializeToString()
    assert_same(client.do_get(flight.Ticket(packed)).read_all(), expected)


def test_computed_columns_are_taken(client: flight.FlightClient, reference: Any) -> None:
    columns = {"next": "id + 1", "city": "city"}
    take = {"take": {"dataset": "trips", "offsets": [7, 2000, 7], "columns": columns}}
    info = client.get_flight_info(flight.FlightDescriptor.for_command(json.dumps(take)))
    (endpoint,) = info.endpoints
    assert_same(client.do_get(endpoint.ticket).read_all(), reference.take([7, 2000, 7], columns=columns))


def test_rows_without_columns_are_counted(client: flight.FlightClient, reference: Any) -> None:
    fields: dict[str, Any] = {"filter": "fare is null", "columns": []}
    endpoints = plan(client, **fields).endpoints
    counts = [client.do_get(endpoint.ticket).read_all().num_rows for endpoint in endpoints]
    assert sum(counts) == reference.count_rows("fare is null")
    streamed = client.do_get(flight.Ticket(scan_json("trips", **fields))).read_all()
    assert streamed.num_rows == sum(counts)


def test_a_filter_leaves_the_number_of_rows_open(client: flight.FlightClient) -> None:
    info = plan(client, filter=FILTER)
    assert info.total_records == -1
    assert info.ordered
    assert metadata(info)["fragments_total"] == 3


@pytest.mark.parametrize("fields", [{"limit": 10}, {"offset": 3}, {"limit": 10, "offset": 3}], ids=str)
def test_limit_and_offset_behind_a_filter_make_one_ordered_endpoint(
    client: flight.FlightClient, fields: dict[str, Any]
) -> None:
    info = plan(client, filter="fare > 10", rows_per_endpoint=10, ordered=False, **fields)
    assert len(info.endpoints) == 1
    assert info.ordered
    assert info.total_records == -1
    without = plan(client, filter="fare > 10", rows_per_endpoint=100)
    assert len(without.endpoints) > 3


def test_statistics_prune_endpoints(root: Root, serve: StartServer) -> None:
    """The first filter on a column learns, the second plan is pruned; batches stay as they were."""
    server = serve(root.path)
    with server.client() as client:
        cold_info = plan(client, filter=FILTER)
        assert len(cold_info.endpoints) == 3
        assert metadata(cold_info) | {"pages_total": None, "statistics": "none"} == metadata(cold_info)
        cold = [[chunk.data for chunk in client.do_get(e.ticket)] for e in cold_info.endpoints]
        warm = [[chunk.data for chunk in client.do_get(e.ticket)] for e in cold_info.endpoints]
        assert [[b.num_rows for b in stream] for stream in cold] == [
            [b.num_rows for b in stream] for stream in warm
        ]
        assert repr([[b.to_pylist() for b in stream] for stream in cold]) == repr(
            [[b.to_pylist() for b in stream] for stream in warm]
        )
        info = plan(client, filter=FILTER)
        assert len(info.endpoints) == 2
        known = metadata(info)
        assert known["fragments_pruned"] == 1
        assert 0 < known["pages_pruned"] < known["pages_total"]
        assert known["statistics"] == "cache"
        nothing = plan(client, filter="id < 0")
        assert (nothing.total_records, len(nothing.endpoints)) == (0, 1)
        assert client.do_get(nothing.endpoints[0].ticket).read_all().num_rows == 0
        explained = act(client, "explain_scan", scan={"dataset": "trips", "filter": FILTER}, analyze=True)
        assert explained["rows_returned"] == sum(b.num_rows for stream in cold for b in stream)
        assert explained["fragments"][2]["rows_planned"] == 0


def test_tickets_are_redeemed_on_another_server(root: Root, serve: StartServer) -> None:
    """A cold server gives the batches of the warm one that planned."""
    one, other = serve(root.path), serve(root.path)
    fields: dict[str, Any] = {"filter": "fare > 50", "columns": {"next": "id + 1", "driver": "driver"}}
    with one.client() as client, other.client() as stranger:
        read(client, **fields)
        for endpoint in plan(client, **fields).endpoints:
            here = [chunk.data for chunk in client.do_get(endpoint.ticket)]
            there = [chunk.data for chunk in stranger.do_get(endpoint.ticket)]
            assert len(here) == len(there)
            assert all(left.equals(right) for left, right in zip(here, there, strict=True))


@each_case(
    ("fields", "words"),
    [
        ({"filter": "idd = 3"}, "idd"),
        ({"filter": "id ="}, "id"),
        ({"filter": "driver like"}, "like|end"),
        ({"filter": "id"}, "condition"),
        ({"filter": "launch(id) = 3"}, "launch"),
        ({"filter": "id in (select 1)"}, "(?i)select"),
        ({"filter": "id = 1; drop table x"}, ";|drop|DROP"),
        ({"columns": {"x": "id +"}}, "x"),
        ({"columns": {"x": "nope + 1"}}, "nope"),
        ({"columns": {"x": 1}}, "columns.*x"),
        ({"substrait_filter": "%%"}, "base64"),
        ({"substrait_filter": "bm8gcHJvdG9idWY="}, "(?i)substrait"),
    ],
)
def test_what_cannot_be_used_is_named(
    client: flight.FlightClient, fields: dict[str, Any], words: str
) -> None:
    """T20: expressions are parsed from an allow-list; what is not in it is refused by name."""
    with pytest.raises(pa.ArrowInvalid, match=words):
        plan(client, **fields)
    with pytest.raises(pa.ArrowInvalid, match=words):
        client.do_get(flight.Ticket(scan_json("trips", **fields))).read_all()


def test_values_without_a_result_end_the_stream_with_an_error(client: flight.FlightClient) -> None:
    with pytest.raises(pa.ArrowInvalid, match=r"zero|no value"):
        read(client, filter="100 / (id - 1500) > 3")


def test_rows_are_counted(client: flight.FlightClient, reference: Any) -> None:
    assert act(client, "count_rows", dataset="trips", filter=FILTER)["count"] == reference.count_rows(FILTER)
    assert act(client, "count_rows", dataset="trips")["count"] == 2700
    assert act(client, "count_rows", dataset="trips@1", filter="id >= 0")["count"] == 3000
    with pytest.raises(pa.ArrowInvalid, match="fil"):
        act(client, "count_rows", dataset="trips", fil="id = 3")


def test_a_scan_is_explained(client: flight.FlightClient) -> None:
    explained = act(
        client, "explain_scan", scan={"dataset": "trips", "filter": "id < 10", "columns": ["fare"]}
    )
    assert explained["filter"] is True
    assert explained["rows_returned"] is None
    assert [fragment["fragment"] for fragment in explained["fragments"]] == [0, 1, 2]
    uses = {column["name"]: column["use"] for column in explained["fragments"][0]["columns"]}
    assert uses == {"fare": "output", "id": "filter"}
    with pytest.raises(pa.ArrowInvalid, match="scan"):
        act(client, "explain_scan", dataset="trips")


def test_duckdb_and_polars_read_what_passed(client: flight.FlightClient, root: Root) -> None:
    ticket = flight.Ticket(scan_json("trips", filter="fare > 500 and driver != 'driver 3'", columns=["id"]))
    expected = duckdb.sql(
        "select id from trips where fare > 500 and not isnan(fare) and driver != 'driver 3'",
        connection=_with(trips=root.trips.select(["id", "fare", "driver"])),
    ).fetchnumpy()["id"]
    nan = np.array([row for row in root.trips.to_pylist() if row["fare"] != row["fare"]], dtype=object)
    also = [row["id"] for row in nan if row["fare"] is not None and row["driver"] != "driver 3"]
    ids = np.sort(np.concatenate((expected, also)))
    streamed = _with(stream=client.do_get(ticket).to_reader())
    found = duckdb.sql("select id from stream order by id", connection=streamed).fetchnumpy()["id"]
    np.testing.assert_array_equal(found, ids)
    frame = pl.from_arrow(client.do_get(ticket).read_all())
    np.testing.assert_array_equal(frame["id"].to_numpy(), ids)


def _with(**relations: pa.Table | pa.RecordBatchReader) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for name, relation in relations.items():
        connection.register(name, relation)
    return connection


@pytest.mark.parametrize(
    "fields", [{"filter": "now() is null"}, {"columns": {"day": "current_date()"}}], ids=repr
)
def test_scans_refuse_the_current_time(client: flight.FlightClient, fields: dict[str, Any]) -> None:
    """A ticket gives the same batches every time, also on another day. A count is made at once."""
    with pytest.raises(pa.ArrowInvalid, match="write the date or time instead"):
        plan(client, **fields)
    assert act(client, "count_rows", dataset="trips", filter="now() is null")["count"] == 0
