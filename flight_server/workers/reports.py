"""Reports: what workers tell the supervisor about themselves, over their pipes.

    stdin of a worker      {"report": 7}
    its stdout             {"report": 7, "metrics": [...], "checks": {"storage": [true, ""], ...}}

A worker that did not answer the last request gets no further one, so that the pipe of a worker that hangs
does not fill.
"""

import json
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flight_server.monitoring.monitor import Check
from flight_server.monitoring.process_monitor import ProcessMonitor
from flight_server.service import Service
from flight_server.telemetry.readings import Readings, from_data, merge, to_data


@dataclass(frozen=True)
class Report:
    """State of one worker at one moment."""

    readings: Readings
    checks: Mapping[str, Check]


class Reporter:
    """Worker's side: answers requests on stdout."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._monitor: ProcessMonitor | None = None

    def answer(self, number: int) -> None:
        """Answer on a thread of its own, because a check may wait for the storage."""
        self._monitor = self._monitor or ProcessMonitor(self._service)
        threading.Thread(target=self._answer, args=(number, self._monitor), daemon=True).start()

    @staticmethod
    def _answer(number: int, monitor: ProcessMonitor) -> None:
        checks = {name: (check.is_ok, check.reason) for name, check in monitor.checks().items()}
        answer = {"report": number, "metrics": to_data(monitor.readings()), "checks": checks}
        print(json.dumps(answer), flush=True)


@dataclass
class Answers:
    """Supervisor's side: requests to one worker and its answers."""

    _found: "queue.SimpleQueue[dict[str, Any] | None]" = field(default_factory=queue.SimpleQueue)
    _is_asked: bool = False

    def request(self, number: int) -> str | None:
        """Return the message of a request; None if the worker owes an answer."""
        if self._is_asked:
            return None
        self._is_asked = True
        return json.dumps({"report": number})

    def add(self, line: str) -> None:
        """Take a line of the worker."""
        self._is_asked = False
        self._found.put(json.loads(line))

    def close(self) -> None:
        """End the wait for an answer: the worker has ended."""
        self._found.put(None)

    def wait(self, number: int, deadline: float) -> Report | None:
        """Return the answer to a request; None if none comes in time."""
        while True:
            try:
                answer = self._found.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return None
            if answer is None:
                return None
            if answer["report"] == number:
                checks = {name: Check(*found) for name, found in answer["checks"].items()}
                return Report(from_data(answer["metrics"]), checks)


class WorkersMonitor:
    """Monitor of a server of several processes: sums of their metrics, and the state of the best worker."""

    def __init__(self, reports: Callable[[], Sequence[Report]]) -> None:
        self._reports = reports

    def readings(self) -> Readings:
        """Return the metrics of all workers together."""
        return merge(report.readings for report in self._reports())

    def checks(self) -> Mapping[str, Check]:
        """Return the checks of the worker with the fewest failures, since one that is ready takes calls."""
        reports = self._reports()
        if not reports:
            return {"workers": Check(False, "no worker answers")}
        best = min(reports, key=lambda report: sum(not check.is_ok for check in report.checks.values()))
        return {"workers": Check(True), **best.checks}
