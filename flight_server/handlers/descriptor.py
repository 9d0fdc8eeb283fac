"""What a FlightDescriptor asks for."""

from pyarrow import flight

from flight_server.commands import (
    LookupCommand,
    ScanCommand,
    TakeCommand,
    parse_command,
    parse_lookup,
    parse_write,
)
from flight_server.names import parse_path
from flight_server.write_command import WriteCommand, write_target


def command_of(descriptor: flight.FlightDescriptor) -> ScanCommand | TakeCommand:
    """What a command asks for; a path asks for a scan of all rows and columns.

    The binding lets no other kind of descriptor through, and no path that is not UTF-8.
    """
    if descriptor.descriptor_type == flight.DescriptorType.CMD:
        return parse_command(descriptor.command)
    return ScanCommand(parse_path([part.decode() for part in descriptor.path]))


def write_of(descriptor: flight.FlightDescriptor) -> WriteCommand:
    """What a DoPut asks for; a path asks for an append."""
    if descriptor.descriptor_type == flight.DescriptorType.CMD:
        return parse_write(descriptor.command)
    return WriteCommand(write_target(parse_path([part.decode() for part in descriptor.path])))


def lookup_of(descriptor: flight.FlightDescriptor) -> LookupCommand:
    """What a DoExchange asks for; a path asks for all columns."""
    if descriptor.descriptor_type == flight.DescriptorType.CMD:
        return parse_lookup(descriptor.command)
    return LookupCommand(parse_path([part.decode() for part in descriptor.path]))
