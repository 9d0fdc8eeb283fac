"""Commands in a FlightDescriptor."""

from pyarrow import flight

from flight_server.requests.commands import (
    ExchangeCommand,
    LookupCommand,
    ReadCommand,
    ScanCommand,
    parse_command,
    parse_exchange,
    parse_write,
)
from flight_server.requests.names import parse_path
from flight_server.requests.write_command import WriteCommand, write_target


def command_of(descriptor: flight.FlightDescriptor) -> ReadCommand:
    """Return the read command of a descriptor. A path means a scan of all rows and columns.

    The binding lets no other kind of descriptor through, and no path that is not UTF-8.
    """
    if descriptor.descriptor_type == flight.DescriptorType.CMD:
        return parse_command(descriptor.command)
    return ScanCommand(parse_path([part.decode() for part in descriptor.path]))


def write_of(descriptor: flight.FlightDescriptor) -> WriteCommand:
    """Return the write command of a DoPut. A path means an append."""
    if descriptor.descriptor_type == flight.DescriptorType.CMD:
        return parse_write(descriptor.command)
    return WriteCommand(write_target(parse_path([part.decode() for part in descriptor.path])))


def exchange_of(descriptor: flight.FlightDescriptor) -> ExchangeCommand:
    """Return the command of a DoExchange. A path means a lookup of all columns."""
    if descriptor.descriptor_type == flight.DescriptorType.CMD:
        return parse_exchange(descriptor.command)
    return LookupCommand(parse_path([part.decode() for part in descriptor.path]))
