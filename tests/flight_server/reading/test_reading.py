"""ListFlights, GetFlightInfo, GetSchema and DoGet of a real server, against what the reference reads."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import lance
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import flight

from flight_server.proto.command_pb2 import Columns, Command, Scan
from flight_server.requests.commands import COMMAND_TYPE_URL
from support.clients.raw_flight import call, scan_json, ticket
from support.servers.served import Root, StartServer, trips_table, write_root
from support.servers.server import RunningServer, serving


@pytest.fixture
def client(server: RunningServer) -> Any:
    with server.client() as client:
        yield client


def by_command(dataset: str, **fields: Any) -> flight.FlightDescriptor:
    return flight.FlightDescriptor.for_command(scan_json(dataset, **fields))


def read_endpoints(client: flight.FlightClient, info: flight.FlightInfo) -> pa.Table:
    return pa.concat_tables([client.do_get(endpoint.ticket).read_all() for endpoint in info.endpoints])


def read(client: flight.FlightClient, dataset: str, **fields: Any) -> pa.Table:
    """Both ways of reading, which must agree: planned endpoints, and the command as a ticket."""
    planned = read_endpoints(client, client.get_flight_info(by_command(dataset, **fields)))
    streamed = client.do_get(flight.Ticket(scan_json(dataset, **fields))).read_all()
    assert_same(streamed, planned)
    return planned


def assert_same(found: pa.Table, expected: pa.Table) -> None:
    """Equal in schema with metadata, and in values; NaN equals NaN."""
    assert found.schema.equals(expected.schema, check_metadata=True), (found.schema, expected.schema)
    assert found.num_rows == expected.num_rows
    assert repr(found.to_pylist()) == repr(expected.to_pylist())


def test_a_path_reads_everything(client: flight.FlightClient, root: Root) -> None:
    info = client.get_flight_info(flight.FlightDescriptor.for_path("trips"))
    assert_same(read_endpoints(client, info), root.trips)
    assert info.schema.equals(root.trips.schema, check_metadata=True)
    assert (info.total_records, info.ordered, len(info.endpoints)) == (2700, True, 3)
    assert json.loads(info.app_metadata) == {
        "dataset": "trips",
        "version": 2,
        "fragments_total": 3,
        "fragments_pruned": 0,
        "pages_total": None,
        "pages_pruned": 0,
        "statistics": "none",
    }


@pytest.mark.parametrize(
    "path", [["ns", "vectors"], ["ns/vectors"], ["ns", "vectors.lance"], ["ns/vectors@1"]]
)
def test_all_ways_to_write_a_path(client: flight.FlightClient, path: list[str]) -> None:
    info = client.get_flight_info(flight.FlightDescriptor.for_path(*path))
    assert read_endpoints(client, info).num_rows == 1000


def test_endpoints_say_where_and_until_when(client: flight.FlightClient, server: RunningServer) -> None:
    info = client.get_flight_info(flight.FlightDescriptor.for_path("trips"))
    for endpoint in info.endpoints:
        locations = [location.uri.decode() for location in endpoint.locations]
        assert locations == [server.uri, "arrow-flight-reuse-connection://?"]
        assert 23 * 3600 < endpoint.expiration_time.value / 1e9 - time.time() <= 24 * 3600


def test_advertised_locations_come_first(root: Root, serve: StartServer) -> None:
    """In an order that differs from fragment to fragment."""
    server = serve(root.path, "--advertise", "grpc://one:1", "--advertise", "grpc+tls://two:2")
    with server.client() as client:
        info = client.get_flight_info(flight.FlightDescriptor.for_path("trips"))
    for endpoint in info.endpoints:
        *named, last = [location.uri.decode() for location in endpoint.locations]
        assert sorted(named) == ["grpc+tls://two:2", "grpc://one:1"]
        assert last == "arrow-flight-reuse-connection://?"


def test_projection(client: flight.FlightClient, root: Root) -> None:
    table = read(client, "trips", columns=["vector", "id", "pickup.zone"])
    expected = lance.dataset(root.path / "trips.lance").to_table(columns=["vector", "id", "pickup.zone"])
    assert_same(table, expected)
    schema = client.get_schema(by_command("trips", columns=["vector", "id", "pickup.zone"])).schema
    assert schema.equals(table.schema, check_metadata=True)


def test_no_columns_count_rows(client: flight.FlightClient) -> None:
    streamed = client.do_get(flight.Ticket(scan_json("trips", columns=[]))).read_all()
    assert (streamed.num_rows, streamed.num_columns) == (2700, 0)
    info = client.get_flight_info(by_command("trips", columns=[]))
    assert [client.do_get(endpoint.ticket).read_all().num_rows for endpoint in info.endpoints] == [900] * 3


@pytest.mark.parametrize(
    ("limit", "offset"), [(0, 0), (1, 0), (10, 895), (950, 899), (5000, 2699), (5, 2700)]
)
def test_limit_and_offset_become_ranges(
    client: flight.FlightClient, root: Root, limit: int, offset: int
) -> None:
    table = read(client, "trips", limit=limit, offset=str(offset))
    assert_same(table, root.trips.slice(offset, limit))
    info = client.get_flight_info(by_command("trips", limit=limit, offset=offset))
    assert info.total_records == table.num_rows
    assert len(info.endpoints) >= 1


def test_nothing_left_is_one_empty_stream(client: flight.FlightClient, root: Root) -> None:
    for fields in ({"limit": 0}, {"fragments": []}, {"offset": 10**12}):
        info = client.get_flight_info(by_command("trips", **fields))
        assert (len(info.endpoints), info.total_records) == (1, 0)
        reader = client.do_get(info.endpoints[0].ticket)
        assert reader.schema.equals(root.trips.schema, check_metadata=True)
        assert reader.read_all().num_rows == 0
    assert read(client, "empty").schema == pa.schema([("a", pa.int32())])


def test_fragments_row_ids_and_addresses(client: flight.FlightClient, root: Root) -> None:
    table = read(client, "trips", fragments=[2, 0], columns=["id"], with_row_id=True, with_row_address=True)
    dataset = lance.dataset(root.path / "trips.lance")
    parts = [
        dataset.scanner(
            columns=["id"], fragments=[dataset.get_fragment(i)], with_row_id=True, with_row_address=True
        ).to_table()
        for i in (2, 0)
    ]
    assert_same(table, pa.concat_tables(parts))


def test_endpoints_by_rows_and_grouped(client: flight.FlightClient, root: Root) -> None:
    for fields, number in (
        ({"rows_per_endpoint": 400}, 9),
        ({"rows_per_endpoint": 400, "max_endpoints": 2}, 2),
        ({"max_endpoints": 2}, 2),
        ({"max_endpoints": 1}, 1),
        ({"rows_per_endpoint": 1}, 900),
    ):
        info = client.get_flight_info(by_command("trips", columns=["id"], **fields))
        assert len(info.endpoints) == number, fields
        assert_same(read_endpoints(client, info), root.trips.select(["id"]))


def test_unordered_is_said(client: flight.FlightClient) -> None:
    assert client.get_flight_info(by_command("trips", ordered=False)).ordered is False


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_compression(
    client: flight.FlightClient, root: Root, server: RunningServer, compression: str
) -> None:
    assert_same(read(client, "trips", compression=compression), root.trips)
    outcome = call(server.address, "DoGet", ticket(scan_json("ns/vectors", compression=compression)))
    sent = sum(map(len, outcome.messages))
    assert (sent < 200_000) == (compression != "none"), sent


def test_the_protobuf_form_of_a_command(client: flight.FlightClient, root: Root) -> None:
    from google.protobuf.any_pb2 import Any as AnyMessage

    command = Command(scan=Scan(dataset="trips@1", columns=Columns(names=["id", "city"]), limit=5, offset=7))
    data = AnyMessage(type_url=COMMAND_TYPE_URL, value=command.SerializeToString()).SerializeToString()
    info = client.get_flight_info(flight.FlightDescriptor.for_command(data))
    assert_same(read_endpoints(client, info), root.trips_before.select(["id", "city"]).slice(7, 5))


def test_versions_by_name_and_field(client: flight.FlightClient, root: Root) -> None:
    assert_same(read(client, "trips@1"), root.trips_before)
    assert_same(read(client, "trips", version=1), root.trips_before)
    assert_same(read(client, "trips", version="2"), root.trips)


def test_batches_are_small_on_the_wire(tmp_path: Path, serve: StartServer) -> None:
    """Messages of 1 to 2 MiB: some clients refuse 4 MiB. Rows of very different size included."""
    sizes = [100, 3_000_000, *[50] * 5000, 1_500_000, 1_500_000, *[200_000] * 30]
    tables = {
        "flat": pa.table({"a": np.arange(1_000_000), "b": np.full(1_000_000, 1.5)}),
        "long": pa.table({"s": ["x" * size for size in sizes]}),
    }
    for name, table in tables.items():
        lance.write_dataset(table, tmp_path / "data" / name)
    server = serve(tmp_path / "data")
    all_rows = json.dumps({"take": {"dataset": "long", "offsets": list(range(len(sizes)))}}).encode()
    for command, num_large in ((scan_json("flat"), 0), (scan_json("long"), 1), (all_rows, 1)):
        with server.client() as client:
            chunks = [chunk.data for chunk in client.do_get(flight.Ticket(command))]
        large = [batch for batch in chunks if batch.nbytes > 2 << 20]
        assert all(batch.num_rows == 1 for batch in large), [batch.nbytes for batch in large]
        assert len(large) == num_large
        messages = call(server.address, "DoGet", ticket(command)).messages
        assert sum(len(message) > (2 << 20) + 65536 for message in messages) == len(large)
    with server.client() as client:
        chunks = [chunk.data for chunk in client.do_get(flight.Ticket(scan_json("flat")))]
        assert 8 <= len(chunks) <= 20
        few = [chunk.data for chunk in client.do_get(flight.Ticket(scan_json("flat", batch_rows=100_000)))]
        assert max(batch.num_rows for batch in few) <= 100_000
        tiny = [chunk.data for chunk in client.do_get(flight.Ticket(scan_json("flat", batch_bytes=65536)))]
        assert max(batch.nbytes for batch in tiny) <= 65536


def test_few_rows_in_no_one_and_several_batches(tmp_path: Path, serve: StartServer) -> None:
    """Answers that are found before the schema is sent: small whole ones, and the first batch of others."""
    texts = ["x" * size for size in (10, 60_000, 30, 5, 70_000, *range(200, 400))]
    table = pa.table({"id": range(len(texts)), "s": texts})
    lance.write_dataset(table, tmp_path / "data" / "t.lance")
    lance.dataset(str(tmp_path / "data" / "t.lance")).delete("id = 6")
    left = table.filter(pa.compute.field("id") != 6)
    take = {"dataset": "t", "row_addresses": [9, 0, 6, 4, 4, 100]}
    commands = {
        scan_json("t", limit=0): left.slice(0, 0),
        json.dumps({"take": {"dataset": "t", "row_addresses": [6]}}).encode(): left.slice(0, 0),
        scan_json("t", limit=1): left.slice(0, 1),
        scan_json("t", limit=150, offset=2): left.slice(2, 150),
        scan_json("t", limit=150, batch_rows=1): left.slice(0, 150),
        scan_json("t", limit=150, batch_bytes=1000): left.slice(0, 150),
        scan_json("t", columns=[], limit=7): left.slice(0, 7).select([]),
        json.dumps({"take": take}).encode(): table.take([9, 0, 4, 4, 100]),
    }
    with serve(tmp_path / "data").client() as client:
        for command, expected in commands.items():
            for compression in ("none", "zstd"):
                ((kind, fields),) = json.loads(command).items()
                extra = {"compression": compression} if kind == "scan" else {}
                asked = flight.Ticket(json.dumps({kind: {**fields, **extra}}).encode())
                chunks = [chunk.data for chunk in client.do_get(asked)]
                assert pa.Table.from_batches(chunks, expected.schema) == expected, command
                if "batch_rows" in fields:
                    assert [chunk.num_rows for chunk in chunks] == [1] * 150
                elif "batch_bytes" in fields:
                    assert len(chunks) > 20


def dictionary_table(num_rows: int, num_values: int) -> pa.Table:
    """Dictionaries at the top, in a struct and in a list; the values are some 40 bytes each."""
    values = pa.array([f"some long value of a dictionary {i:08d}" for i in range(num_values)])
    words = pa.DictionaryArray.from_arrays(pa.array(np.arange(num_rows) % num_values, pa.int32()), values)
    lists = pa.ListArray.from_arrays(pa.array(np.arange(num_rows + 1), pa.int32()), words)
    inside = pa.StructArray.from_arrays([words], ["x"])
    return pa.table({"word": words, "inside": inside, "list": lists, "id": np.arange(num_rows)})


def test_a_large_dictionary_is_sent_once(tmp_path: Path, serve: StartServer) -> None:
    """A dictionary larger than a batch may be does not reduce the size of batches, and is not sent with
    each batch.
    """
    lance.write_dataset(dictionary_table(300_000, 100_000), tmp_path / "data" / "d.lance")
    with serve(tmp_path / "data").client() as client:
        reader = client.do_get(flight.Ticket(scan_json("d")))
        chunks = [chunk.data for chunk in reader]
        assert reader.stats.num_dictionary_batches == 3
        assert 4 <= len(chunks) <= 20
        expected = lance.dataset(tmp_path / "data" / "d.lance").to_table()
        assert pa.Table.from_batches(chunks).equals(expected)


def test_an_error_between_dictionaries_keeps_its_class(tmp_path: Path, serve: StartServer) -> None:
    """The batches before it arrive; then comes the error with its report, and no traceback."""
    path = tmp_path / "data" / "d.lance"
    lance.write_dataset(dictionary_table(400_000, 100), path, max_rows_per_file=100_000)
    with serve(tmp_path / "data").client() as client:
        last = lance.dataset(path).get_fragments()[-1].data_files()[0].path
        (path / "data" / last).unlink()
        reader = client.do_get(flight.Ticket(scan_json("d")))
        rows = []
        with pytest.raises(flight.FlightUnavailableError, match=r"\[FileMissingError\]") as caught:
            rows.extend(chunk.data.num_rows for chunk in reader)
        assert sum(rows) == 300_000
        assert json.loads(caught.value.extra_info)["name"] == "FileMissingError"
        assert "Traceback" not in str(caught.value)


def test_the_same_ticket_gives_the_same_batches(client: flight.FlightClient) -> None:
    info = client.get_flight_info(by_command("trips", rows_per_endpoint=700))
    for endpoint in info.endpoints:
        first, second = ([chunk.data.num_rows for chunk in client.do_get(endpoint.ticket)] for _ in range(2))
        assert first == second


def test_endpoints_stay_at_the_planned_version(tmp_path: Path, serve: StartServer) -> None:
    """A commit between GetFlightInfo and DoGet does not show; a later request sees it."""
    path = tmp_path / "data" / "trips.lance"
    dataset = lance.write_dataset(trips_table(500), path, max_rows_per_file=250)
    before = dataset.to_table()
    with serve(tmp_path / "data").client() as client:
        info = client.get_flight_info(flight.FlightDescriptor.for_path("trips"))
        lance.write_dataset(trips_table(100), path, mode="append")
        lance.dataset(path).delete("id < 300")
        assert_same(read_endpoints(client, info), before)
        assert_same(read(client, "trips"), lance.dataset(path).to_table())
        lance.write_dataset(pa.table({"other": [1]}), path, mode="overwrite")
        assert_same(read_endpoints(client, info), before)
        assert read(client, "trips").schema.names == ["other"]


def test_tickets_outlive_the_server(root: Root, serve: StartServer) -> None:
    with serve(root.path).client() as client:
        info = client.get_flight_info(flight.FlightDescriptor.for_path("trips"))
    with serve(root.path).client() as client:
        assert_same(read_endpoints(client, info), root.trips)


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Root, flight.FlightClient]]:
    """A root that no other test adds datasets to, and a client of its server."""
    root = write_root(tmp_path_factory.mktemp("untouched"))
    log = tmp_path_factory.mktemp("log") / "server.log"
    with serving(root.path, log) as server, server.client() as client:
        yield root, client


def test_listing(untouched: tuple[Root, flight.FlightClient]) -> None:
    root, client = untouched
    offers = {
        "/".join(part.decode() for part in offer.descriptor.path): offer for offer in client.list_flights()
    }
    assert sorted(offers) == ["bad/manifest", "bad/missing", "bad/pages", "empty", "ns/vectors", "trips"]
    trips = offers["trips"]
    assert trips.schema.equals(root.trips.schema, check_metadata=True)
    assert (trips.total_records, len(trips.endpoints)) == (2700, 0)
    files = (root.path / "trips.lance" / "data").glob("*.lance")
    assert trips.total_bytes == sum(file.stat().st_size for file in files)
    assert json.loads(trips.app_metadata) == {"dataset": "trips", "version": 2}
    unreadable = offers["bad/manifest"]
    assert (len(unreadable.schema), unreadable.total_records) == (0, -1)
    assert "[CorruptFileError]" in json.loads(unreadable.app_metadata)["error"]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [(b"trips", ["trips"]), (b"ns/*", ["vectors"]), (b"*p*", ["pages", "empty", "trips"]), (b"[", [])],
)
def test_listing_by_pattern(
    untouched: tuple[Root, flight.FlightClient], pattern: bytes, names: list[str]
) -> None:
    offers = untouched[1].list_flights(pattern)
    assert [offer.descriptor.path[-1].decode() for offer in offers] == names


def test_duckdb_reads_a_stream(client: flight.FlightClient, root: Root) -> None:
    trips = client.do_get(flight.Ticket(scan_json("trips"))).to_reader()
    query = "SELECT city, count(*), sum(id) FROM trips WHERE fare IS NOT NULL GROUP BY city ORDER BY city"
    found = duckdb.sql(query).fetchall()
    trips = root.trips
    assert found == duckdb.sql(query).fetchall()
    assert trips is not None
    assert sum(row[1] for row in found) == root.trips.num_rows - root.trips["fare"].null_count


def test_polars_reads_a_stream(client: flight.FlightClient, root: Root) -> None:
    frame = pl.from_arrow(client.do_get(flight.Ticket(scan_json("trips"))).read_all())
    assert isinstance(frame, pl.DataFrame)
    assert frame.equals(pl.from_arrow(root.trips))  # type: ignore[arg-type]
