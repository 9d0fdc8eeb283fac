"""Worker: one of the server processes behind a port. The supervisor starts it, and talks to it by its pipes.

    stdin      one JSON object: the settings; then one for each change of the locations of the servers, and
               one for each report that the supervisor wants
    stdout     the URI, when the worker is ready; then the reports

If stdin ends, the supervisor has gone, and the worker drains as after SIGTERM.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from flight_server.limits.processors import Processors
from flight_server.process import run_server
from flight_server.service import Service
from flight_server.settings import Settings
from flight_server.workers.reports import Reporter
from lance_core.errors import LanceError


@dataclass(frozen=True)
class Start:
    """Arguments of a new worker."""

    number: int
    """1 for the first worker."""
    root: str
    num_workers: int
    calls_fd: int
    """Descriptor of the file that the workers share, see `Processors`."""
    settings: Mapping[str, str]
    """Texts of the settings that are not left to their defaults, by name; some are secrets."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def locations_message(own: Sequence[str], ready_peers: Sequence[str]) -> str:
    """Return the message that tells a worker which servers endpoints may name."""
    return json.dumps({"own": list(own), "ready_peers": list(ready_peers)})


def main() -> None:
    """Serve as the supervisor says. Exit code 1: the server cannot start, and stderr has the reason."""
    start = Start(**json.loads(sys.stdin.readline()))

    def ready(service: Service, uri: str) -> None:
        print(uri, flush=True)
        threading.Thread(target=_listen, args=(service,), daemon=True).start()

    try:
        settings = Settings.resolve(start.root, start.settings, {})
        with open(start.calls_fd, "r+b", buffering=0) as calls:
            processors = Processors.of_process(start.num_workers, calls)
        run_server(settings, ready, start.number, processors)
    except LanceError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


def _listen(service: Service) -> None:
    """Follow the messages of the supervisor until it ends."""
    reporter = Reporter(service)
    for line in sys.stdin:
        message = json.loads(line)
        if "report" in message:
            reporter.answer(message["report"])
            continue
        service.servers.update(own=message["own"], ready_peers=message["ready_peers"])
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
