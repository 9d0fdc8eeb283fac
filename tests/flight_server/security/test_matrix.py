"""Every RPC and action over a real socket, with every kind of credential."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterable
from pathlib import Path
from threading import get_ident
from typing import Any

import grpc
import pyarrow as pa
import pytest
from pyarrow import flight

from flight_server.handlers.actions import ACTIONS
from flight_server.handlers.thread_state import ThreadState
from flight_server.security.accounts import Account, hash_token
from flight_server.security.server_tokens import server_token
from flight_server.security.sessions import Sessions
from flight_server.server import FlightServer
from flight_server.service import Service
from flight_server.settings import Settings
from support.clients.raw_flight import (
    action,
    call,
    call_on,
    command_descriptor,
    criteria,
    field,
    flight_data,
    path_descriptor,
    scan_json,
    ticket,
)
from support.servers.guarded import Guarded
from support.servers.served import Root
from support.servers.server import signing_key_of
from support.servers.tokens import OTHER_TOKEN, PASSWORD, TOKEN, Issuer, write_accounts

UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED
Headers = list[tuple[str, str | bytes]]
WRONG_PASSWORDS = ("a wrong password", "the password of another", "no such user")
"""Kinds of bad credentials of which each call costs the server 50 ms, for the hash of a password."""

REQUESTS: dict[str, tuple[str, bytes]] = {
    "ListFlights": ("ListFlights", criteria(b"")),
    "GetFlightInfo": ("GetFlightInfo", path_descriptor("trips")),
    "PollFlightInfo": ("PollFlightInfo", path_descriptor("trips")),
    "GetSchema": ("GetSchema", path_descriptor("trips")),
    "DoGet": ("DoGet", ticket(scan_json("trips", limit=1))),
    "DoGet of garbage": ("DoGet", ticket(b"LFT1garbage")),
    "DoPut": ("DoPut", flight_data(path_descriptor("trips"))),
    "DoExchange": ("DoExchange", flight_data(command_descriptor(b'{"take": {"dataset": "trips"}}'))),
    "ListActions": ("ListActions", b""),
    "no such action": ("DoAction", action("no_such_action")),
    "Handshake": ("Handshake", b""),
} | {f"action {name}": ("DoAction", action(name, b'{"dataset": "trips"}')) for name in ACTIONS}


def bearer(token: str) -> Headers:
    return [("authorization", f"Bearer {token}")]


def basic(text: str) -> Headers:
    return [("authorization", "Basic " + base64.b64encode(text.encode()).decode())]


def altered(token: str) -> str:
    head, _, tail = token.rpartition(".")
    return f"{head}.{'B' if tail[0] == 'A' else 'A'}{tail[1:]}"


def session(key: bytes, lifetime: float, subject: str = "ana") -> str:
    """Return the session token of a server with another key, or of another time."""
    return Sessions(key, lifetime).begin(Account(subject))


def bad_credentials(issuer: Issuer) -> dict[str, Headers]:
    """Return headers that no call may pass with, by what is wrong with them."""
    stranger = Issuer.make(issuer.algorithm, issuer.key_id)
    good, now = issuer.token(), int(time.time())
    header, payload, signature = good.split(".")
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
    return {
        "missing": [],
        "empty": [("authorization", "")],
        "only the scheme": [("authorization", "Bearer")],
        "another scheme": [("authorization", f"Negotiate {TOKEN}")],
        "without a scheme": [("authorization", TOKEN)],
        "a wrong static token": bearer(TOKEN[:-1] + "x"),
        "more than a static token": bearer(TOKEN + "x"),
        "the hash of a token": bearer(hash_token(TOKEN)),
        "expired": bearer(issuer.token(exp=now - 120)),
        "forged: altered": bearer(altered(good)),
        "forged: other payload": bearer(f"{header}.{stranger.token('root').split('.')[1]}.{signature}"),
        "forged: no signature": bearer(f"{none}.{payload}."),
        "foreign: another key": bearer(stranger.token()),
        "foreign: another issuer": bearer(issuer.token(iss="https://evil.example")),
        "foreign: another audience": bearer(issuer.token(aud="another service")),
        "foreign: the session of another server": bearer(session(b"the key of another server", 60)),
        "no session": bearer("lfs_e30.e30"),
        "a wrong password": basic(f"ana:{PASSWORD}x"),
        "the password of another": basic(f"ben:{PASSWORD}"),
        "no such user": basic(f"nobody:{PASSWORD}"),
        "no base64": [("authorization", "Basic %%%")],
        "twice": bearer(TOKEN) * 2,
        "two kinds": [*bearer(TOKEN), ("auth-token-bin", TOKEN.encode())],
        "5000 characters": bearer("a" * 5000),
        "the older header": [("auth-token-bin", b"\xff\x00wrong")],
    }


def requests_with(kind: str) -> dict[str, tuple[str, bytes]]:
    """Return the requests of a row of the table: all of them, but wrong passwords share the actions, each
    taking a third.
    """
    if kind not in WRONG_PASSWORDS:
        return REQUESTS
    taken = list(ACTIONS)[WRONG_PASSWORDS.index(kind) :: len(WRONG_PASSWORDS)]
    actions = {f"action {name}" for name in taken}
    return {name: REQUESTS[name] for name in REQUESTS if name in actions or not name.startswith("action ")}


def secrets_in(headers: Headers) -> Iterable[bytes]:
    """Yield the long parts of credentials, which no answer and no log may hold."""
    for _, value in headers:
        data = value if isinstance(value, bytes) else value.encode()
        yield from (part for part in data.split(b" ") if len(part) > 20)


def test_nothing_passes_without_good_credentials(guarded: Guarded) -> None:
    """T1, T2: each RPC and each action with each kind of credential; the answers tell nothing else.

    A new action is in the table at once: its rows come from the registry.
    """
    cells = 0
    with grpc.insecure_channel(guarded.server.address) as channel:
        for kind, headers in bad_credentials(guarded.issuer).items():
            answers = set()
            for name, (method, request) in requests_with(kind).items():
                outcome = call_on(channel, method, request, headers=headers)
                assert outcome.code is UNAUTHENTICATED, (kind, name, outcome)
                assert outcome.messages == [], (kind, name)
                assert b"Traceback" not in outcome.everything()
                for secret in secrets_in(headers):
                    assert secret not in outcome.everything(), (kind, name)
                if method != "Handshake":
                    answers.add(outcome.details.partition(" gRPC")[0].partition(". Detail")[0])
                cells += 1
            assert len(answers) == 1, (kind, answers)
            assert "<root>" not in answers.pop()
    assert cells == 25 * len(REQUESTS) - (len(WRONG_PASSWORDS) - 1) * len(ACTIONS)
    canaries = [TOKEN, OTHER_TOKEN, PASSWORD, guarded.issuer.token().split(".")[2]]
    assert all(canary not in guarded.server.log for canary in canaries)
    refused = guarded.server.log.count(" refused ")
    assert refused >= cells


def good_credentials(guarded: Guarded) -> dict[str, Headers]:
    return {
        "static token": bearer(TOKEN),
        "web token": bearer(guarded.issuer.token()),
        "password": basic(f"ana:{PASSWORD}"),
        "any case of the scheme": [("authorization", f"bEARER {TOKEN}")],
        "the older header": [("auth-token-bin", TOKEN.encode())],
    }


def test_good_credentials_reach_every_handler(guarded: Guarded) -> None:
    """T1: in the other half of the table, no call is refused because of its credentials."""
    harmless = [name for name, action in ACTIONS.items() if not action.changes]
    with grpc.insecure_channel(guarded.server.address) as channel:
        for kind, headers in good_credentials(guarded).items():
            for name, (method, request) in REQUESTS.items():
                if method != "DoAction" or name.removeprefix("action ") in harmless:
                    outcome = call_on(channel, method, request, headers=headers)
                    assert outcome.code is not UNAUTHENTICATED, (kind, name, outcome)
            listed = call_on(channel, *REQUESTS["ListFlights"], headers=headers)
            assert listed.code is grpc.StatusCode.OK
            assert listed.messages


@pytest.mark.parametrize(
    "headers",
    [
        [("authorization", "Bearer " + "x" * (1 << 20))],
        [(f"x-header-{number}", "v" * 20) for number in range(5000)],
        [("authorization", f"Bearer {number}") for number in range(200)],
        [("authorization-bin", b"\xff" * 100), ("authorization", "Bearer \x7e\x7e")],
    ],
    ids=["a token of 1 MiB", "5000 headers", "200 tokens", "binary"],
)
def test_huge_and_malformed_headers(guarded: Guarded, headers: Headers) -> None:
    """T2: refused by the transport or by the server, which goes on."""
    outcome = call(guarded.server.address, *REQUESTS["ListFlights"], headers=headers)
    assert outcome.code in (UNAUTHENTICATED, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INTERNAL)
    assert outcome.messages == []
    good = call(guarded.server.address, *REQUESTS["ListFlights"], headers=bearer(TOKEN))
    assert good.code is grpc.StatusCode.OK


def test_a_ticket_is_of_no_use_to_another_subject(guarded: Guarded) -> None:
    """T12: over the wire, the answer is that of a forged ticket."""
    address = guarded.server.address
    with flight.connect(guarded.server.uri) as client:
        options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {TOKEN}".encode())])
        info = client.get_flight_info(flight.FlightDescriptor.for_path("trips"), options)
    mine = info.endpoints[0].ticket.ticket
    forged = mine[:-2] + bytes([mine[-2] ^ 1]) + mine[-1:]
    assert call(address, "DoGet", ticket(mine), headers=bearer(TOKEN)).code is grpc.StatusCode.OK
    # The same subject with another proof.
    assert call(address, "DoGet", ticket(mine), headers=bearer(guarded.issuer.token("ana"))).messages
    other, altered_one = (
        call(address, "DoGet", ticket(data), headers=bearer(OTHER_TOKEN)) for data in (mine, forged)
    )
    assert other.code is altered_one.code is grpc.StatusCode.INVALID_ARGUMENT
    assert other.report["message"] == altered_one.report["message"]


def test_handshakes(guarded: Guarded) -> None:
    """T1, T2: both forms; the token works until the password changes, a repeated handshake gives another."""
    with flight.connect(guarded.server.uri) as client:
        name, first = client.authenticate_basic_token("ana", PASSWORD)
        assert name == b"authorization"
        _, second = client.authenticate_basic_token("ana", PASSWORD)
        for header in (first, second):
            options = flight.FlightCallOptions(headers=[(b"authorization", header)])
            assert list(client.list_flights(options=options))
            assert PASSWORD.encode() not in header
        with pytest.raises(flight.FlightUnauthenticatedError):
            client.authenticate_basic_token("ana", "wrong")
    with flight.connect(guarded.server.uri) as client:
        client.authenticate(_OlderHandshake("ana", PASSWORD))
        assert list(client.list_flights())
        with pytest.raises(flight.FlightUnauthenticatedError):
            client.authenticate(_OlderHandshake("ana", "wrong"))
    for messages in ([b""], [field(2, b"\xff\xfe")], [field(2, b"x" * 100_000)]):
        assert call(guarded.server.address, "Handshake", *messages).code is UNAUTHENTICATED


class _OlderHandshake(flight.ClientAuthHandler):  # type: ignore[misc]
    def __init__(self, username: str, password: str) -> None:
        super().__init__()
        self._basic = flight.BasicAuth(username, password)
        self._token = b""

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        outgoing.write(self._basic.serialize())
        self._token = incoming.read()

    def get_token(self) -> bytes:
        return self._token


def test_the_log_names_the_subject(guarded: Guarded) -> None:
    """T46: a line has the name of the subject, but no token."""
    call(guarded.server.address, "GetSchema", path_descriptor("trips"), headers=bearer(OTHER_TOKEN))
    lines = [line for line in guarded.server.log.splitlines() if "rpc=GetSchema" in line]
    assert "subject=ben" in lines[-1]
    started = next(line for line in guarded.server.log.splitlines() if " start " in line)
    assert "auth=accounts,jwt" in started


def test_every_call_gives_its_thread_state_back(
    root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The middleware keeps Python's thread state for the length of a call, whatever the call and its end."""
    begun, ended = [], []
    made, release = ThreadState.__init__, ThreadState.release

    def count_made(self: ThreadState) -> None:
        begun.append(get_ident())
        made(self)

    def count_released(self: ThreadState) -> None:
        ended.append(get_ident())
        release(self)

    monkeypatch.setattr(ThreadState, "__init__", count_made)
    monkeypatch.setattr(ThreadState, "release", count_released)
    write_accounts(tmp_path / "accounts.toml")
    accounts = str(tmp_path / "accounts.toml")
    server = FlightServer(Service(Settings(str(root.path), port=0, accounts_file=accounts)))
    harmless = [name for name, action in ACTIONS.items() if not action.changes]
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        for headers in ([], bearer(TOKEN), basic(f"ana:{PASSWORD}")):
            for method, request in [
                request
                for name, request in REQUESTS.items()
                if request[0] != "DoAction" or name.removeprefix("action ") in harmless
            ]:
                call_on(channel, method, request, headers=headers)
    server.shutdown()
    assert len(begun) > 50
    assert sorted(begun) == sorted(ended)


def test_the_token_of_a_server_only_asks_for_its_health(guarded: Guarded, root: Root) -> None:
    """T1, T3: also without grants. It travels to every peer, perhaps over a connection without TLS."""
    headers = bearer(server_token(signing_key_of(root.path)))
    create = {"dataset": "made", "schema": base64.b64encode(pa.schema([]).serialize()).decode()}
    with grpc.insecure_channel(guarded.server.address) as channel:
        health = call_on(channel, "DoAction", action("health", b"{}"), headers=headers)
        assert health.code is grpc.StatusCode.OK
        for rpc, request in (
            ("GetFlightInfo", path_descriptor("trips")),
            ("GetSchema", path_descriptor("trips")),
            ("DoGet", ticket(scan_json("trips", limit=1))),
            ("DoAction", action("describe", b'{"dataset": "trips"}')),
            ("DoAction", action("create_dataset", json.dumps(create).encode())),
        ):
            assert call_on(channel, rpc, request, headers=headers).code is grpc.StatusCode.NOT_FOUND
        listed = call_on(channel, "ListFlights", criteria(b""), headers=headers)
        assert (listed.code, listed.messages) == (grpc.StatusCode.OK, [])
