"""Flight calls over plain gRPC: status codes, trailers and bytes as they are on the wire."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import grpc

SERVICE = "/arrow.flight.protocol.FlightService/"
UNARY = ("GetFlightInfo", "GetSchema", "PollFlightInfo")


@dataclass(frozen=True)
class Outcome:
    """Outcome of a call."""

    code: grpc.StatusCode
    details: str
    trailers: dict[str, str | bytes]
    messages: list[bytes]

    @property
    def report(self) -> dict[str, Any]:
        """The trailer of our errors."""
        return json.loads(self.trailers["x-lance-error"])  # type: ignore[no-any-return]

    def everything(self) -> bytes:
        """All bytes about the error that reached the client."""
        values = [value if isinstance(value, bytes) else value.encode() for value in self.trailers.values()]
        return b"\n".join([self.details.encode(), *values])


Headers = Iterable[tuple[str, str | bytes]]


def call(address: str, method: str, *requests: bytes, timeout: float = 30, headers: Headers = ()) -> Outcome:
    """Call an RPC with serialised requests (one, or several for DoPut and DoExchange)."""
    with grpc.insecure_channel(address) as channel:
        return call_on(channel, method, *requests, timeout=timeout, headers=headers)


def call_on(
    channel: grpc.Channel, method: str, *requests: bytes, timeout: float = 30, headers: Headers = ()
) -> Outcome:
    """Call an RPC on a connection that is there."""
    metadata = tuple(headers)
    if method in UNARY:
        stub = channel.unary_unary(SERVICE + method)
        try:
            response, ended = stub.with_call(requests[0], timeout=timeout, metadata=metadata)
            return _outcome(ended, [response])
        except grpc.RpcError as error:
            return _outcome(error, [])
    if method in ("DoPut", "DoExchange", "Handshake"):
        running = channel.stream_stream(SERVICE + method)(iter(requests), timeout=timeout, metadata=metadata)
    else:
        running = channel.unary_stream(SERVICE + method)(requests[0], timeout=timeout, metadata=metadata)
    messages: list[bytes] = []
    try:
        messages.extend(running)
    except grpc.RpcError as error:
        return _outcome(error, messages)
    return _outcome(running, messages)


def _outcome(ended: Any, messages: list[bytes]) -> Outcome:
    trailers = {item.key: item.value for item in ended.trailing_metadata() or ()}
    return Outcome(ended.code(), ended.details() or "", trailers, messages)


def path_descriptor(*parts: str | bytes) -> bytes:
    encoded = (part.encode() if isinstance(part, str) else part for part in parts)
    return b"\x08\x01" + b"".join(field(3, part) for part in encoded)


def command_descriptor(command: bytes) -> bytes:
    return b"\x08\x02" + field(2, command)


def ticket(data: bytes) -> bytes:
    return field(1, data)


def criteria(data: bytes) -> bytes:
    return field(1, data)


def action(kind: str, body: bytes = b"") -> bytes:
    return field(1, kind.encode()) + field(2, body)


def flight_data(descriptor: bytes) -> bytes:
    return field(1, descriptor)


def field(number: int, data: bytes) -> bytes:
    """Return a length-delimited protobuf field."""
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def scan_json(dataset: str, **fields: Any) -> bytes:
    return json.dumps({"scan": {"dataset": dataset, **fields}}).encode()


def joined(outcomes: Iterable[Outcome]) -> bytes:
    return b"\n".join(outcome.everything() for outcome in outcomes)
