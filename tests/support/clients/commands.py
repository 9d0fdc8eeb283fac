"""Commands in protobuf, as bytes."""

from __future__ import annotations

from google.protobuf.any_pb2 import Any as AnyMessage
from pyarrow import flight

from flight_server.proto.command_pb2 import Command


def command_ticket(command: Command) -> flight.Ticket:
    """Return the command as a ticket. The bytes of the ticket are a command for a descriptor, too."""
    type_url = "type.googleapis.com/lance_flight.v1.Command"
    return flight.Ticket(AnyMessage(type_url=type_url, value=command.SerializeToString()).SerializeToString())
