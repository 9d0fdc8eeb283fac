"""The actions that Flight itself defines: their bodies are its protobuf messages, not JSON."""

from typing import TypeVar

import pyarrow as pa
from google.protobuf.message import DecodeError
from pyarrow import flight

from flight_server.handlers.get_flight_info import expiration_time
from flight_server.proto.flight_pb2 import (
    CANCEL_STATUS_CANCELLED,
    CANCEL_STATUS_NOT_CANCELLABLE,
    CancelFlightInfoRequest,
    CancelFlightInfoResult,
    RenewFlightEndpointRequest,
)
from flight_server.service import Service
from lance_core.errors import InvalidInputError

Request = TypeVar("Request", CancelFlightInfoRequest, RenewFlightEndpointRequest)
Message = TypeVar("Message", flight.FlightInfo, flight.FlightEndpoint)

# Room for the tickets of many endpoints, with a long filter in each ticket.
MAXIMUM_BODY_BYTES = 16 << 20


def cancel_flight_info(service: Service, body: bytes) -> bytes:
    info = _parsed(flight.FlightInfo, _request(CancelFlightInfoRequest, body).info)
    cancelled = service.reads.cancel([endpoint.ticket.ticket for endpoint in info.endpoints])
    status = CANCEL_STATUS_CANCELLED if cancelled else CANCEL_STATUS_NOT_CANCELLABLE
    return CancelFlightInfoResult(status=status).SerializeToString()


def renew_flight_endpoint(service: Service, body: bytes) -> bytes:
    endpoint = _parsed(flight.FlightEndpoint, _request(RenewFlightEndpointRequest, body).endpoint)
    ticket, expires = service.reads.renew(endpoint.ticket.ticket)
    renewed = flight.FlightEndpoint(
        ticket, endpoint.locations, expiration_time(expires), endpoint.app_metadata
    )
    return renewed.serialize()  # type: ignore[no-any-return]


def _request(kind: type[Request], body: bytes) -> Request:
    name = kind.DESCRIPTOR.name
    if len(body) > MAXIMUM_BODY_BYTES:
        raise InvalidInputError(f"{name} of {len(body)} bytes; at most {MAXIMUM_BODY_BYTES}")
    try:
        return kind.FromString(body)
    except DecodeError:
        raise InvalidInputError(f"the body does not parse as a message {name}") from None


def _parsed(kind: type[Message], data: bytes) -> Message:
    try:
        return kind.deserialize(data)
    except pa.ArrowInvalid:
        raise InvalidInputError(f"the body does not contain a {kind.__name__}") from None
