"""What a FlightDescriptor asks for."""

from pyarrow import flight

from flight_server.commands import ScanCommand, parse_command
from flight_server.names import parse_path


def scan_of(descriptor: flight.FlightDescriptor) -> ScanCommand:
    """The scan that a path (all rows and columns) or a command stands for.

    The binding lets no other kind of descriptor through, and no path that is not UTF-8.
    """
    if descriptor.descriptor_type == flight.DescriptorType.CMD:
        return parse_command(descriptor.command)
    return ScanCommand(parse_path([part.decode() for part in descriptor.path]))
