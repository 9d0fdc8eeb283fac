"""T12: tickets as a running server redeems them."""

from __future__ import annotations

import json
import random
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import lance
import pyarrow as pa
import pytest
from google.protobuf import any_pb2
from google.protobuf.message import Message
from pyarrow import flight

from flight_server.proto.command_pb2 import Command, Scan
from flight_server.proto.flight_pb2 import (
    CANCEL_STATUS_CANCELLED,
    CancelFlightInfoRequest,
    CancelFlightInfoResult,
    RenewFlightEndpointRequest,
)
from flight_server.requests.commands import COMMAND_TYPE_URL
from flight_server.requests.tickets import decode_ticket, encode_ticket
from support.clients.raw_flight import Outcome, action, call, path_descriptor, ticket
from support.oracles.comparison import assert_tables_equal
from support.servers.served import Root, StartServer
from support.servers.server import RunningServer, signing_key_of

OK = grpc.StatusCode.OK
INVALID = grpc.StatusCode.INVALID_ARGUMENT


def planned(server: RunningServer, *path: str) -> list[bytes]:
    """Return the tickets of a dataset."""
    with server.client() as client:
        info = client.get_flight_info(flight.FlightDescriptor.for_path(*path))
        return [endpoint.ticket.ticket for endpoint in info.endpoints]


@pytest.mark.parametrize("count", [1000, pytest.param(10_000, marks=pytest.mark.long)])
def test_no_flipped_bit_and_no_random_ticket_is_redeemed(server: RunningServer, count: int) -> None:
    """T12: every bit of one ticket, and random ones; the server answers each and goes on."""
    good = planned(server, "trips")[0]
    source = random.Random(99)
    flipped = [
        bytes([*good[: bit // 8], good[bit // 8] ^ 1 << bit % 8, *good[bit // 8 + 1 :]])
        for bit in range(8 * len(good))
    ]
    made_up = [source.randbytes(source.randrange(300)) for _ in range(count // 2)]
    made_up += [b"LFT1" + source.randbytes(source.randrange(300)) for _ in range(count // 2)]
    with server.client() as client:
        for data in (*flipped, *made_up):
            with pytest.raises((pa.ArrowInvalid, NotImplementedError)):
                client.do_get(flight.Ticket(data))
        assert client.do_get(flight.Ticket(good)).read_all().num_rows == 900
    print(f"{len(flipped)} flipped and {len(made_up)} random tickets refused")


def test_a_recreated_dataset_is_another_one(tmp_path: Path, serve: StartServer) -> None:
    """T12, T14: same name, same version number, same rows, and still NOT_FOUND."""
    path = tmp_path / "data" / "a.lance"
    table = pa.table({"x": [1, 2, 3]})
    lance.write_dataset(table, path)
    server = serve(tmp_path / "data")
    (old,) = planned(server, "a")
    assert call(server.address, "DoGet", ticket(old)).code is OK
    shutil.rmtree(path)
    gone = call(server.address, "DoGet", ticket(old))
    assert (gone.code, gone.report["name"]) == (grpc.StatusCode.NOT_FOUND, "DatasetNotFoundError")
    lance.write_dataset(table, path)
    recreated = call(server.address, "DoGet", ticket(old))
    assert (recreated.code, recreated.report["name"]) == (grpc.StatusCode.NOT_FOUND, "DatasetNotFoundError")
    assert "made again" in recreated.report["message"]
    (new,) = planned(server, "a")
    assert call(server.address, "DoGet", ticket(new)).code is OK


def test_a_command_may_pin_the_identity_of_a_version(tmp_path: Path, serve: StartServer) -> None:
    """T12, T14: in both forms, for every read; describe and list_versions tell the identity."""
    path = tmp_path / "data" / "a.lance"
    lance.write_dataset(pa.table({"x": [1, 2, 3]}), path)
    server = serve(tmp_path / "data")
    described = acted(server, "describe", {"dataset": "a"})
    identity = described["identity"]
    (listed,) = acted(server, "list_versions", {"dataset": "a"})["versions"]
    assert identity == listed["identity"]
    pinned = {"dataset": "a", "version": 1, "identity": identity}
    in_protobuf = any_pb2.Any()
    in_protobuf.value = Command(scan=Scan(dataset="a", version=1, identity=identity)).SerializeToString()
    in_protobuf.type_url = COMMAND_TYPE_URL
    reads = {
        "scan": ticket(json.dumps({"scan": pinned}).encode()),
        "scan in protobuf": ticket(in_protobuf.SerializeToString()),
        "take": ticket(json.dumps({"take": {**pinned, "offsets": [1]}}).encode()),
    }
    for read in reads.values():
        assert call(server.address, "DoGet", read).code is OK
    bodies = {
        "count_rows": pinned,
        "describe": pinned,
        "list_fragments": pinned,
        "validate": pinned,
        "explain_scan": {"scan": pinned},
    }
    for name, body in bodies.items():
        acted(server, name, body)
    shutil.rmtree(path)
    lance.write_dataset(pa.table({"x": [4, 5, 6]}), path)
    outcomes = [call(server.address, "DoGet", read) for read in reads.values()]
    outcomes += [
        call(server.address, "DoAction", action(name, json.dumps(body).encode()))
        for name, body in bodies.items()
    ]
    for outcome in outcomes:
        assert outcome.code is grpc.StatusCode.NOT_FOUND
        assert "made again" in outcome.report["message"]
    assert acted(server, "describe", {"dataset": "a"})["identity"] != identity
    for wrong in ({"dataset": "a", "identity": identity}, {**pinned, "identity": "x" * 300}):
        refused = call(server.address, "DoGet", ticket(json.dumps({"scan": wrong}).encode()))
        assert refused.code is INVALID
        assert "identity" in refused.report["message"]


def acted(server: RunningServer, name: str, body: dict[str, object]) -> dict[str, Any]:
    with server.client() as client:
        (answer,) = client.do_action(flight.Action(name, json.dumps(body).encode()))
    return dict(json.loads(answer.body.to_pybytes()))


def test_a_version_that_was_cleaned_up_says_so(tmp_path: Path, serve: StartServer) -> None:
    """T12."""
    path = tmp_path / "data" / "a.lance"
    dataset = lance.write_dataset(pa.table({"x": [1]}), path)
    server = serve(tmp_path / "data")
    (old,) = planned(server, "a")
    dataset = lance.write_dataset(pa.table({"x": [2]}), path, mode="overwrite")
    assert call(server.address, "DoGet", ticket(old)).code is OK
    dataset.cleanup_old_versions(retain_versions=1, delete_unverified=True)
    cleaned = call(server.address, "DoGet", ticket(old))
    assert (cleaned.code, cleaned.report["code"]) == (grpc.StatusCode.NOT_FOUND, 11)
    assert "cleaned up" in cleaned.report["message"]


def test_expired_tickets_say_so(root: Root, serve: StartServer) -> None:
    """T12. A slow machine takes longer than the lifetime now and then, so it has several tickets."""
    server = serve(root.path, "--ticket-lifetime", "2")
    for _ in range(10):
        (first, *_) = planned(server, "trips")
        if call(server.address, "DoGet", ticket(first)).code is OK:
            break
    else:
        pytest.fail("no ticket was redeemed")
    time.sleep(3.1)
    expired = call(server.address, "DoGet", ticket(first))
    assert expired.code is INVALID
    assert "expired" in expired.report["message"]


def act(server: RunningServer, name: str, request: Message) -> Outcome:
    return call(server.address, "DoAction", action(name, request.SerializeToString()))


def renewed(server: RunningServer, endpoint: flight.FlightEndpoint) -> flight.FlightEndpoint:
    request = RenewFlightEndpointRequest(endpoint=endpoint.serialize())
    with server.client() as client:
        (answer,) = client.do_action(flight.Action("RenewFlightEndpoint", request.SerializeToString()))
    return flight.FlightEndpoint.deserialize(answer.body.to_pybytes())


def test_renewed_tickets_give_the_same_rows_for_longer(root: Root, serve: StartServer) -> None:
    """T12: Flight's own action; what was altered or has expired is not renewed."""
    server = serve(root.path)
    with server.client() as client:
        info = client.get_flight_info(flight.FlightDescriptor.for_path("trips"))
        first = info.endpoints[0]
        rows = client.do_get(first.ticket).read_all()
        time.sleep(1.1)
        later = renewed(server, first)
        assert later.expiration_time.value > first.expiration_time.value
        assert later.locations == first.locations
        assert later.ticket != first.ticket
        assert_tables_equal(rows, client.do_get(later.ticket).read_all())
    key = signing_key_of(root.path)
    given = decode_ticket(first.ticket.ticket, key, time.time())
    expired = encode_ticket(replace(given, expires=int(time.time()) - 1), key)
    altered = bytearray(later.ticket.ticket)
    altered[-1] ^= 1
    for hostile, word in (
        (expired, "expired"),
        (bytes(altered), "altered"),
        (b"", "not a ticket"),
    ):
        endpoint = flight.FlightEndpoint(hostile, [])
        refused = act(
            server, "RenewFlightEndpoint", RenewFlightEndpointRequest(endpoint=endpoint.serialize())
        )
        assert refused.code is INVALID
        assert word in refused.report["message"]


def test_cancelled_tickets_are_redeemed_no_more(root: Root, serve: StartServer) -> None:
    """T12: Flight's own action; other tickets of the same rows stay good."""
    server = serve(root.path)
    with server.client() as client:
        infos = [client.get_flight_info(flight.FlightDescriptor.for_path("trips")) for _ in range(2)]
        if infos[0].endpoints[0].ticket == infos[1].endpoints[0].ticket:  # made in the same second
            time.sleep(1.1)
            infos[1] = client.get_flight_info(flight.FlightDescriptor.for_path("trips"))
        request = CancelFlightInfoRequest(info=infos[0].serialize()).SerializeToString()
        for _ in range(2):
            (answer,) = client.do_action(flight.Action("CancelFlightInfo", request))
            status = CancelFlightInfoResult.FromString(answer.body.to_pybytes()).status
            assert status == CANCEL_STATUS_CANCELLED
        for endpoint in infos[0].endpoints:
            refused = call(server.address, "DoGet", ticket(endpoint.ticket.ticket))
            assert refused.code is INVALID
            assert "cancelled" in refused.report["message"]
        for endpoint in infos[1].endpoints:
            client.do_get(endpoint.ticket).read_all()
    endpoint = infos[0].endpoints[0]
    again = act(server, "RenewFlightEndpoint", RenewFlightEndpointRequest(endpoint=endpoint.serialize()))
    assert "cancelled" in again.report["message"]


def test_servers_with_and_without_the_key(root: Root, serve: StartServer, tmp_path: Path) -> None:
    """T12: another server with the key redeems the ticket; servers with no key or another key refuse it.

    Servers of the same local root that have no key of their own share one.
    """
    key_file = tmp_path / "key"
    key_file.write_text("first key, long enough")
    first = serve(root.path, "--ticket-key-file", str(key_file))
    twin = serve(root.path, LANCE_FLIGHT_TICKET_KEY="first key, long enough")
    other = serve(root.path, LANCE_FLIGHT_TICKET_KEY="second key, long enough")
    keyless, keyless_too = serve(root.path), serve(root.path)
    mine, theirs, roots = (planned(server, "trips")[0] for server in (first, other, keyless))
    for data, servers in ((mine, (first, twin)), (theirs, (other,)), (roots, (keyless, keyless_too))):
        for server in (first, twin, other, keyless, keyless_too):
            expected = OK if server in servers else INVALID
            assert call(server.address, "DoGet", ticket(data)).code is expected


def test_the_key_is_nowhere_to_be_seen(root: Root, serve: StartServer) -> None:
    """T46: neither in the log nor on the wire nor in the process's arguments."""
    canary = "canary-5d1e77-canary-key"
    server = serve(root.path, "--log-level", "debug", new_interpreter=True, LANCE_FLIGHT_TICKET_KEY=canary)
    tickets = planned(server, "trips")
    outcomes = [call(server.address, "DoGet", ticket(data[:-1])) for data in tickets]
    outcomes.append(call(server.address, "GetFlightInfo", path_descriptor("missing")))
    assert all(canary.encode() not in outcome.everything() for outcome in outcomes)
    assert all(canary.encode() not in data for data in tickets)
    assert canary not in server.log
    assert all(canary not in argument for argument in server.statistics().cmdline())
    for data in tickets:
        assert data.hex() not in server.log
        assert "LFT1" not in server.log
