"""Monitor of a server that is one process."""

from collections.abc import Mapping

from flight_server.monitoring.monitor import Check
from flight_server.monitoring.process_readings import ProcessReadings
from flight_server.monitoring.readiness import Readiness
from flight_server.service import Service
from flight_server.telemetry.readings import Readings


class ProcessMonitor:
    """Metrics and readiness of the process that runs a service."""

    def __init__(self, service: Service) -> None:
        self._readings = ProcessReadings(service)
        self._readiness = Readiness(service)

    def readings(self) -> Readings:
        """Return the metrics of the process."""
        return self._readings.read()

    def checks(self) -> Mapping[str, Check]:
        """Return the checks of the process; see `Readiness.checks`."""
        return self._readiness.checks()
