"""T12: tickets as a running server redeems them."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path

import grpc
import lance
import pyarrow as pa
import pytest
from pyarrow import flight

from support.raw_flight import call, path_descriptor, ticket
from support.served import Root, StartServer
from support.server import RunningServer

OK = grpc.StatusCode.OK
INVALID = grpc.StatusCode.INVALID_ARGUMENT


def planned(server: RunningServer, *path: str) -> list[bytes]:
    """The tickets of a dataset."""
    with server.client() as client:
        info = client.get_flight_info(flight.FlightDescriptor.for_path(*path))
        return [endpoint.ticket.ticket for endpoint in info.endpoints]


def test_no_flipped_bit_and_no_random_ticket_is_redeemed(server: RunningServer) -> None:
    """T12: every bit of one ticket, and 10,000 random ones; the server answers each and goes on."""
    good = planned(server, "trips")[0]
    source = random.Random(99)
    flipped = [
        bytes([*good[: bit // 8], good[bit // 8] ^ 1 << bit % 8, *good[bit // 8 + 1 :]])
        for bit in range(8 * len(good))
    ]
    made_up = [source.randbytes(source.randrange(300)) for _ in range(5000)]
    made_up += [b"LFT1" + source.randbytes(source.randrange(300)) for _ in range(5000)]
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
    """T12."""
    server = serve(root.path, "--ticket-lifetime", "1")
    (first, *_) = planned(server, "trips")
    assert call(server.address, "DoGet", ticket(first)).code is OK
    time.sleep(2.1)
    expired = call(server.address, "DoGet", ticket(first))
    assert expired.code is INVALID
    assert "expired" in expired.report["message"]


def test_servers_with_and_without_the_key(root: Root, serve: StartServer, tmp_path: Path) -> None:
    """T12: the same key on another server redeems, none and another one do not."""
    key_file = tmp_path / "key"
    key_file.write_text("first key, long enough")
    first = serve(root.path, "--ticket-key-file", str(key_file))
    twin = serve(root.path, LANCE_FLIGHT_TICKET_KEY="first key, long enough")
    other = serve(root.path, LANCE_FLIGHT_TICKET_KEY="second key, long enough")
    keyless = serve(root.path)
    mine, theirs, anybodys = (planned(server, "trips")[0] for server in (first, other, keyless))
    for data, servers in ((mine, (first, twin)), (theirs, (other,)), (anybodys, (keyless,))):
        for server in (first, twin, other, keyless):
            expected = OK if server in servers else INVALID
            assert call(server.address, "DoGet", ticket(data)).code is expected


def test_the_key_is_nowhere_to_be_seen(root: Root, serve: StartServer) -> None:
    """T46: neither in the log nor on the wire nor in the process's arguments."""
    canary = "canary-5d1e77-canary-key"
    server = serve(root.path, "--log-level", "debug", LANCE_FLIGHT_TICKET_KEY=canary)
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
