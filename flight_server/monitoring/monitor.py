"""Monitor: what the ports for operators show of a server, be it one process or several.

This is the seam for servers of several processes. Everything above it (`http`, `health_service`) sees a
`Monitor`: the `ProcessMonitor` of one process, or the `WorkersMonitor` of a supervisor with workers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from flight_server.telemetry.readings import Readings


@dataclass(frozen=True)
class Check:
    """Result of one check of readiness."""

    is_ok: bool
    reason: str = ""
    """Cause of a failure, in a sentence without paths and names of datasets."""


class Monitor(Protocol):
    """State of a server at this moment. Thread-safe."""

    def readings(self) -> Readings:
        """Return the metrics of the server."""

    def checks(self) -> Mapping[str, Check]:
        """Return the checks of readiness by name. The server should get new calls if all are ok."""
