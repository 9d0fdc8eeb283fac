"""Pickles of Flight's own classes, which pyarrow cannot pickle. Workers receive endpoints and tickets this
way.
"""

import copyreg
from typing import Any

from pyarrow import flight

_SERIALIZABLE = (
    flight.Action,
    flight.FlightDescriptor,
    flight.FlightEndpoint,
    flight.FlightInfo,
    flight.Ticket,
)


def register() -> None:
    """Let `pickle` and libraries on top of it pickle plans, endpoints, tickets and locations."""
    for kind in _SERIALIZABLE:
        copyreg.pickle(kind, _by_bytes)
    copyreg.pickle(flight.Location, _by_uri)


def _by_bytes(given: Any) -> tuple[Any, tuple[type, bytes]]:
    return _of_bytes, (type(given), given.serialize())


def _of_bytes(kind: Any, data: bytes) -> Any:
    return kind.deserialize(data)


def _by_uri(location: flight.Location) -> tuple[Any, tuple[str]]:
    return flight.Location, (location.uri.decode(),)
