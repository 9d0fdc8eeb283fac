"""Supervisor: the process that starts the workers of a server, and starts them again when they die."""

import itertools
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from flight_server.http.ports import PORT_SETTINGS, Ports
from flight_server.limits.processors import shared_file
from flight_server.logs import configure_logging, log_event
from flight_server.peers.checks import Peers
from flight_server.process import report_unknown_variables, signals, started
from flight_server.security.signing_key import signing_key
from flight_server.security.transport import Certificates, check_transport
from flight_server.server import WILDCARD_HOSTS, bound_sockets, uri_of
from flight_server.settings import Settings
from flight_server.workers.relay import Relay
from flight_server.workers.reports import Answers, Report, WorkersMonitor
from flight_server.workers.worker import Start, locations_message

_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 30.0
"""Pause before a worker is started again that died soon after its start. It doubles each time."""

_HEALTHY_SECONDS = 60.0
"""A worker that lived so long is started again at once when it dies."""

_LAST_WORDS_SECONDS = 5.0
"""Seconds that workers get beyond the grace."""

_REPORT_SECONDS = 5.0
"""Longest time that a report of a worker is waited for. Its check of the storage takes three seconds at most.
"""

_LOOPBACK = "127.0.0.1"


@dataclass
class _Running:
    """A worker process that is ready."""

    process: subprocess.Popen[str]
    uri: str
    answers: Answers = field(default_factory=Answers)


def run_workers(settings: Settings, given: Mapping[str, str]) -> None:
    """Serve with `settings.workers` processes until SIGTERM or SIGINT; then end with exit code 0.

    The URI is the only line on stdout, written when all workers are ready. Signals mean the same as for one
    process, see `run_server`: SIGHUP is passed on to all workers. To be called on the main thread.

    Args:
        settings: settings of the whole server.
        given: the settings that are not left to their defaults, as texts.

    Raises:
        InvalidInputError: the server cannot listen at its address, or must not, or cannot use its files.
    """
    received = signals()
    configure_logging(settings.log_level, settings.log_format)
    report_unknown_variables()
    supervisor = Supervisor(settings, given)
    supervisor.start()
    while (number := os.read(received, 1)[0]) == signal.SIGHUP:
        supervisor.reload()
    reason = signal.Signals(number).name
    threading.Thread(target=supervisor.drain_and_exit, args=(reason,), daemon=True).start()
    while (number := os.read(received, 1)[0]) == signal.SIGHUP:
        pass
    supervisor.kill()
    os._exit(128 + number)


class Supervisor:
    """Workers of one server, with the relay in front of them."""

    def __init__(self, settings: Settings, given: Mapping[str, str]) -> None:
        """Take the port; arguments and errors are those of `run_workers`."""
        check_transport(settings)
        Certificates.load(settings)
        self._settings = settings
        key = signing_key(settings)
        listeners = bound_sockets(settings.host, settings.port)
        self._uri = uri_of(settings, listeners[0].getsockname()[1])
        self._relay = Relay(listeners)
        # Clients can reach the workers if they can reach the port, unless something is between them.
        self._is_direct = not settings.advertise and settings.host not in WILDCARD_HOSTS
        self._names_workers = self._is_direct or (settings.worker_port > 0 and bool(settings.advertise))
        self._given = {
            **{name: text for name, text in given.items() if name not in PORT_SETTINGS},
            "host": settings.host if self._names_workers else _LOOPBACK,
            "workers": "1",
            "peers": "",
            "advertise": "",
            "memory_limit": str(max(1, settings.memory_limit // settings.workers)),
        }
        if key.origin == "memory":  # the workers share it
            self._given["signing_key"] = key.key.hex()
        self._ports = [settings.worker_port and settings.worker_port + n for n in range(settings.workers)]
        self._calls = shared_file()
        self._lock = threading.RLock()
        self._report_lock = threading.Lock()
        self._report_numbers = itertools.count()
        self._running: dict[int, _Running] = {}
        self._processes: dict[int, subprocess.Popen[str]] = {}
        self._ready_peers: Sequence[str] = ()
        self._is_ready = self._is_stopping = False
        self._keepers = [
            threading.Thread(target=self._keep, args=(number,), name=f"worker {number}", daemon=True)
            for number in range(settings.workers)
        ]
        self._peers = Peers(settings, key.key, self._peers_changed, own=(self._uri,))
        self._ports_for_operators = Ports(settings, lambda: WorkersMonitor(self.reports))
        facts = started(settings, self._uri, key.origin) | self._ports_for_operators.facts()
        log_event(logging.INFO, "start", facts | {"workers": settings.workers})

    def start(self) -> None:
        """Start the workers and the relay."""
        self._relay.start()
        for keeper in self._keepers:
            keeper.start()

    def reload(self) -> None:
        """Let the workers read their files again. Those that start now read them anyway."""
        self._ports_for_operators.renew()
        with self._lock:
            for running in self._running.values():
                running.process.send_signal(signal.SIGHUP)

    def drain_and_exit(self, reason: str) -> None:
        """Stop all workers, which drain, and end the process."""
        began = time.perf_counter()
        facts = {"reason": reason, "workers": self._settings.workers, "grace_s": self._settings.drain_grace}
        log_event(logging.INFO, "stopping", facts)
        with self._lock:
            self._is_stopping = True
            for process in self._processes.values():
                process.terminate()
        self._ports_for_operators.drain()
        deadline = time.monotonic() + self._settings.drain_grace + _LAST_WORDS_SECONDS
        for keeper in self._keepers:
            keeper.join(max(0.0, deadline - time.monotonic()))
        self.kill()
        log_event(
            logging.INFO, "stopped", {"reason": reason, "ms": round(1000 * (time.perf_counter() - began))}
        )
        os._exit(0)

    def reports(self) -> Sequence[Report]:
        """Return the reports of the workers that answer in time."""
        with self._report_lock:
            number = next(self._report_numbers)
            with self._lock:
                workers = list(self._running.values())
                asked = [worker for worker in workers if self._ask(worker, number)]
            deadline = time.monotonic() + _REPORT_SECONDS
            found = [worker.answers.wait(number, deadline) for worker in asked]
            return [report for report in found if report is not None]

    @staticmethod
    def _ask(worker: _Running, number: int) -> bool:
        """Ask a worker for a report. Return whether it will answer unless it hangs."""
        message = worker.answers.request(number)
        if message is None:
            return False
        _send(worker, message)
        return True

    def kill(self) -> None:
        """End all workers at once."""
        with self._lock:
            self._is_stopping = True
            for process in self._processes.values():
                process.kill()

    def _keep(self, number: int) -> None:
        """Run one worker, and another one whenever it ends, until the server stops."""
        pause = _FIRST_PAUSE_SECONDS
        while True:
            began = time.monotonic()
            try:
                process = self._run(number)
            except OSError as error:  # no memory or no descriptors for another process
                facts = {"worker": number + 1, "restart_in_s": _LONGEST_PAUSE_SECONDS, "message": str(error)}
                log_event(logging.ERROR, "worker_died", facts)
                time.sleep(_LONGEST_PAUSE_SECONDS)
                continue
            if process is None:
                return
            with self._lock:
                was_ready = self._running.pop(number, None) is not None
                self._processes.pop(number, None)
                if self._is_stopping:
                    return
                self._changed()
            if not was_ready:
                if not self._is_ready:  # as a single server that cannot start; the worker has said why
                    self.kill()
                    os._exit(process.returncode if process.returncode > 0 else 1)
                if self._settings.worker_port == 0:
                    self._ports[number] = 0  # another process may have taken the port
            lived = time.monotonic() - began
            pause = _FIRST_PAUSE_SECONDS if lived >= _HEALTHY_SECONDS else pause
            wait = 0.0 if was_ready and lived >= _HEALTHY_SECONDS else pause
            facts = {"worker": number + 1, "exit_code": process.returncode, "restart_in_s": wait}
            log_event(logging.ERROR, "worker_died", facts)
            time.sleep(wait)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _run(self, number: int) -> subprocess.Popen[str] | None:
        """Run one worker until it ends, and return its process; None if the server stops."""
        settings = {**self._given, "port": str(self._ports[number])}
        # The worker finds the same modules, whatever the working directory holds.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with self._lock:
            if self._is_stopping:
                return None
            process = self._processes[number] = subprocess.Popen(
                [sys.executable, "-P", "-m", "flight_server.workers.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=environment,
                pass_fds=(self._calls.fileno(),),
                start_new_session=True,  # Ctrl-C goes to all processes of a terminal: workers hear of it once
            )
        assert process.stdin is not None
        assert process.stdout is not None
        with process, suppress(BrokenPipeError):
            start = Start(
                number + 1, self._settings.root, self._settings.workers, self._calls.fileno(), settings
            )
            process.stdin.write(start.to_json() + "\n")
            process.stdin.flush()
            if uri := process.stdout.readline().strip():
                worker = _Running(process, uri)
                self._ready(number, worker)
                for line in process.stdout:
                    worker.answers.add(line)
                worker.answers.close()
            process.wait()
        return process

    def _ready(self, number: int, worker: _Running) -> None:
        with self._lock:
            self._running[number] = worker
            self._ports[number] = urlsplit(worker.uri).port or 0
            self._changed()
            facts = {"worker": number + 1, "pid": worker.process.pid, "address": worker.uri}
            log_event(logging.INFO, "worker_ready", facts)
            if self._is_ready or len(self._running) < self._settings.workers:
                return
            self._is_ready = True
        print("\n".join([self._uri, *self._ports_for_operators.urls]), flush=True)
        self._peers.start()

    def _peers_changed(self, ready: Sequence[str]) -> None:
        with self._lock:
            self._ready_peers = tuple(ready)
            self._changed()

    def _changed(self) -> None:
        """Tell the relay and all workers which workers and peers are ready."""
        workers = [self._running[number] for number in sorted(self._running)]
        addresses = [urlsplit(worker.uri) for worker in workers]
        self._relay.use([(each.hostname or "", each.port or 0) for each in addresses])
        message = locations_message(self._own(workers), self._ready_peers)
        for worker in workers:
            _send(worker, message)

    def _own(self, workers: Sequence[_Running]) -> Sequence[str]:
        """Return the locations under which clients reach this server."""
        settings = self._settings
        if self._is_direct:
            return [worker.uri for worker in workers]
        if not self._names_workers:
            return settings.advertise
        public = urlsplit(settings.advertise[0])
        host = f"[{public.hostname}]" if ":" in (public.hostname or "") else public.hostname
        return [f"{public.scheme}://{host}:{urlsplit(worker.uri).port}" for worker in workers]


def _send(worker: _Running, message: str) -> None:
    """Send a line to a worker, unless it has just died."""
    assert worker.process.stdin is not None
    with suppress(OSError):
        worker.process.stdin.write(message + "\n")
        worker.process.stdin.flush()
