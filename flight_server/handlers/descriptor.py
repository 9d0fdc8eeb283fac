"""What a FlightDescriptor asks for."""

from pyarrow import flight

from flight_server.commands import ScanCommand, parse_command
from flight_server.names import parse_path
from lance_core.errors import InvalidInputError


def scan_of(descriptor: flight.FlightDescriptor) -> ScanCommand:
    """The scan that a path (all rows and columns) or a command stands for."""
    if descriptor.descriptor_type == flight.DescriptorType.CMD:
        return parse_command(descriptor.command)
    if descriptor.descriptor_type != flight.DescriptorType.PATH:
        raise InvalidInputError("a descriptor has a path or a command")
    try:
        path = [part.decode("utf-8") for part in descriptor.path]
    except UnicodeDecodeError:
        raise InvalidInputError("the descriptor's path is not UTF-8") from None
    return ScanCommand(parse_path(path))
