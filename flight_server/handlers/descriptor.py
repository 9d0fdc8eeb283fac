"""What a FlightDescriptor asks for."""

from pyarrow import flight

from flight_server.commands import ScanCommand, TakeCommand, parse_command
from flight_server.names import parse_path


def command_of(descriptor: flight.FlightDescriptor) -> ScanCommand | TakeCommand:
    """What a command asks for; a path asks for a scan of all rows and columns.

    The binding lets no other kind of descriptor through, and no path that is not UTF-8.
    """
    if descriptor.descriptor_type == flight.DescriptorType.CMD:
        return parse_command(descriptor.command)
    return ScanCommand(parse_path([part.decode() for part in descriptor.path]))
