"""Tickets: what they carry comes back, anything else is refused."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from flight_server.requests.tickets import (
    MAGIC,
    MAXIMUM_TICKET_BYTES,
    CancelledTickets,
    Ticket,
    decode_ticket,
    encode_ticket,
    is_ticket,
)
from lance_core.errors import InvalidInputError
from lance_core.scan.plan.scan_plan import FragmentScan
from support.runs.each_case import each_case

KEY = b"a key of more than sixteen bytes"
NOW = 1_000_000.0
TICKET = Ticket(
    dataset="ns/trips",
    version=12,
    identity="6f1c-991",
    expires=1_000_060,
    fragment_scans=(FragmentScan(0, 0, 100), FragmentScan(7, 5, 6)),
)


@pytest.mark.parametrize(
    "ticket",
    [
        TICKET,
        replace(TICKET, fragment_scans=()),
        replace(TICKET, columns=()),
        replace(TICKET, columns=("a", "b.c", "\u00e9")),
        replace(TICKET, with_row_id=True, with_row_address=True),
        replace(TICKET, batch_rows=10, batch_bytes=1000, compression="zstd"),
    ],
)
def test_round_trip(ticket: Ticket) -> None:
    data = encode_ticket(ticket, KEY)
    assert is_ticket(data)
    assert decode_ticket(data, KEY, NOW) == ticket


def test_every_flipped_bit_is_refused() -> None:
    """T12."""
    data = encode_ticket(TICKET, KEY)
    for bit in range(8 * len(data)):
        altered = bytearray(data)
        altered[bit // 8] ^= 1 << (bit % 8)
        with pytest.raises(InvalidInputError):
            decode_ticket(bytes(altered), KEY, NOW)


def test_truncated_and_extended_tickets_are_refused() -> None:
    """T12."""
    data = encode_ticket(TICKET, KEY)
    for length in range(len(data)):
        with pytest.raises(InvalidInputError):
            decode_ticket(data[:length], KEY, NOW)
    with pytest.raises(InvalidInputError):
        decode_ticket(data + b" ", KEY, NOW)


def test_random_tickets_are_refused() -> None:
    """T12: 10,000 of them, the seed is fixed."""
    source = random.Random(12)
    for _ in range(10_000):
        data = MAGIC + source.randbytes(source.randrange(200))
        with pytest.raises(InvalidInputError):
            decode_ticket(data, KEY, NOW)


def test_another_key_is_refused() -> None:
    """T12: a server without the key makes and redeems tickets of its own only."""
    with pytest.raises(InvalidInputError, match="another key"):
        decode_ticket(encode_ticket(TICKET, KEY), b"another key", NOW)


def test_expired_tickets_are_refused() -> None:
    """T12."""
    data = encode_ticket(TICKET, KEY)
    assert decode_ticket(data, KEY, TICKET.expires - 0.001) == TICKET
    with pytest.raises(InvalidInputError, match="expired 5 seconds ago"):
        decode_ticket(data, KEY, TICKET.expires + 5)


@each_case(
    "change",
    [
        {"tasks": [[0, 5, 5]]},
        {"tasks": [[0, 5, 4]]},
        {"tasks": [[0, 5]]},
        {"tasks": [[-1, 0, 5]]},
        {"tasks": [[0, 0, 2**64]]},
        {"tasks": {}},
        {"dataset": 1},
        {"version": "x"},
        {"filter": 1},
        {"substrait_filter": "no base64"},
        {"limit": -1},
        {"identity": None},
        {"columns": {"a": 1}},
        {"compression": "rot13"},
    ],
)
def test_a_well_signed_payload_is_still_checked(change: dict[str, object]) -> None:
    """T12, T19: with the well-known key anybody can sign."""
    payload = json.loads(encode_ticket(TICKET, KEY)[36:])
    text = json.dumps(payload | change).encode()
    with pytest.raises((InvalidInputError, NotImplementedError)):
        decode_ticket(_signed(text), KEY, NOW)


def test_a_payload_that_lacks_a_field_is_refused() -> None:
    payload = json.loads(encode_ticket(TICKET, KEY)[36:])
    for name in ("dataset", "version", "identity", "expires", "tasks"):
        text = json.dumps({key: value for key, value in payload.items() if key != name}).encode()
        with pytest.raises(InvalidInputError, match=f"{name} is missing"):
            decode_ticket(_signed(text), KEY, NOW)


def test_size_is_capped_both_ways() -> None:
    with pytest.raises(InvalidInputError, match="ask for more endpoints"):
        encode_ticket(
            replace(TICKET, fragment_scans=tuple(FragmentScan(i, 0, 10**6) for i in range(100_000))), KEY
        )
    with pytest.raises(InvalidInputError, match="at most"):
        decode_ticket(MAGIC + bytes(MAXIMUM_TICKET_BYTES), KEY, NOW)


def _signed(text: bytes) -> bytes:
    import hashlib
    import hmac

    return MAGIC + hmac.new(KEY, MAGIC + text, hashlib.sha256).digest() + text


def test_cancelled_tickets_are_forgotten_when_they_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    """T12, T33: a bounded number is remembered; what has expired makes room, what has not does not."""
    monkeypatch.setattr("flight_server.requests.tickets.MOST_CANCELLED_TICKETS", 2)
    cancelled = CancelledTickets()
    first, second, third = (
        (encode_ticket(given, KEY), given)
        for given in (replace(TICKET, expires=expires) for expires in (100, 200, 300))
    )
    assert cancelled.add(dict([first, second]), now=50)
    assert not cancelled.add(dict([third]), now=99)
    assert third[0] not in cancelled
    assert cancelled.add(dict([third]), now=150)
    assert [data in cancelled for data, _ in (first, second, third)] == [False, True, True]
