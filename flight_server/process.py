"""The life of a server process: ready line, stop signals, orderly end."""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from types import FrameType

import lance_core
from flight_server.http.ports import Ports
from flight_server.limits.processors import Processors
from flight_server.listener import Listener
from flight_server.logs import configure_audit, configure_logging, log_event, without_secrets
from flight_server.monitoring.process_monitor import ProcessMonitor
from flight_server.peers.checks import Peers
from flight_server.security.transport import ways_to_authenticate
from flight_server.service import Service
from flight_server.settings import Settings
from lance_core.errors import LanceError

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_LONGEST_SWEEP_SECONDS = 3600.0
"""Longest time between two searches for expired staged writes."""

# Between the end of the grace and the end of the process: time for streams to tell their clients.
_LAST_WORDS_SECONDS = 1.0


def run_server(
    settings: Settings,
    ready: Callable[[Service, str], None] | None = None,
    worker: int | None = None,
    processors: Processors | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT; then end the process with exit code 0. SIGHUP reads files again.

    The first line on stdout is the URI, written when the server is ready; if there is an HTTP port, its URL
    is the second. The first signal refuses new calls and lets running streams end within the grace; the
    clients of the others are told to come back. A second signal ends the process at once, with 128 + its
    number. To be called on the main thread.

    Args:
        settings: settings of the server.
        ready: gets the service and the URI when the server is ready, instead of stdout.
        worker: number of the process for its log, if it is one of several behind a port.
        processors: share of the process in the processors, if it is one of several.
    """
    received = signals()
    # No stack may reach a client, and the binding attaches one to NOT_FOUND, INVALID_ARGUMENT and
    # UNIMPLEMENTED.
    sys.tracebacklimit = 0
    configure_logging(settings.log_level, settings.log_format, worker)
    configure_audit(settings.audit_log)
    if worker is None:
        report_unknown_variables()
    service = Service(settings, processors)
    listener = Listener(service)
    uri = listener.server.uri
    service.servers.update(own=listener.server.locations)
    ports = Ports(settings, partial(ProcessMonitor, service))
    log_event(logging.INFO, "start", started(settings, uri, service.signing_key.origin) | ports.facts())
    if ready is None:
        print("\n".join([uri, *ports.urls]), flush=True)
    else:
        ready(service, uri)
    Peers(
        settings,
        service.signing_key.key,
        lambda locations: service.servers.update(ready_peers=locations),
        own=service.servers.own,
    ).start()
    for work in (partial(_expire_staged, service), listener.watch):
        threading.Thread(target=work, daemon=True).start()
    # FlightServerBase.serve() is not used: it lets SIGTERM kill the process.
    while (number := os.read(received, 1)[0]) == signal.SIGHUP:
        _reload(listener, service, ports)
    reason = signal.Signals(number).name
    threading.Thread(target=_drain_and_exit, args=(listener, service, ports, reason), daemon=True).start()
    while (number := os.read(received, 1)[0]) == signal.SIGHUP:
        pass
    os._exit(128 + number)


def _reload(listener: Listener, service: Service, ports: Ports) -> None:
    """Read the files of grants, accounts, keys and certificates again."""
    ports.renew()
    service.authorization.reload()
    if service.authenticator is not None:
        service.authenticator.reload()
    listener.renew()


def report_unknown_variables() -> None:
    """Write a line to the log for each environment variable that looks like a setting, but is none."""
    for warning in Settings.unknown_variables():
        log_event(logging.WARNING, "unknown_variable", {"message": warning})


def started(settings: Settings, uri: str, key_origin: str) -> dict[str, object]:
    """Return the facts for the log about a server that starts, without keys and credentials."""
    return {
        "version": lance_core.__version__,
        "root": without_secrets(settings.root),
        "address": uri,
        "memory_limit": settings.memory_limit,
        "max_streams": settings.max_streams,
        "max_puts": settings.max_puts,
        "verify_checksums": settings.verify_checksums,
        "cache_dir": settings.cache_dir or "none",
        "signing_key": key_origin,
        "tls": settings.tls_cert is not None,
        "auth": ",".join(ways_to_authenticate(settings)) or "none",
    }


def signals() -> int:
    """Return a pipe from which the numbers of the signals can be read, one byte each.

    Blocking them for `sigwait` is not enough: libraries make threads when they are imported, in which they
    are not blocked, and one that comes while the main thread does something else ends the process there.
    """
    received, written = os.pipe()
    os.set_blocking(written, False)
    signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    for number in _SIGNALS:
        signal.signal(number, _do_nothing)
    return received


def _do_nothing(number: int, frame: FrameType | None) -> None:
    """Do nothing. The interpreter has already written the number of the signal to the pipe."""


def _expire_staged(service: Service) -> None:
    """Remove expired staged writes, at the start and then several times within the expiry."""
    seconds = min(_LONGEST_SWEEP_SECONDS, service.settings.stage_expiry / 4)
    while True:
        try:
            service.staged.expire()
        except LanceError as error:  # a store that cannot be asked now, say
            log_event(logging.WARNING, "sweep_failed", {"error": type(error).__name__, "message": str(error)})
        except Exception as error:
            log_event(logging.ERROR, "sweep_failed", {"error": type(error).__name__}, error)
        time.sleep(seconds)


def _drain_and_exit(listener: Listener, service: Service, ports: Ports, reason: str) -> None:
    began = time.perf_counter()
    admission, grace = service.admission, service.settings.drain_grace
    admission.close()
    ports.drain()
    running = {"streams": admission.streams + admission.lookups, "uploads": admission.puts}
    log_event(logging.INFO, "stopping", {"reason": reason, **running, "grace_s": grace})
    is_idle = admission.wait_idle(grace)
    cut = {"streams_cut": admission.streams + admission.lookups, "uploads_cut": admission.puts}
    admission.end_streams()  # of open exchanges, too, whose clients ask nothing
    if not is_idle:
        admission.wait_idle(_LAST_WORDS_SECONDS)
    service.close()
    # A client that stopped reading blocks shutdown() for ever, so nobody waits for it longer than this.
    shutdown = threading.Thread(target=listener.shutdown, daemon=True)
    shutdown.start()
    shutdown.join(_LAST_WORDS_SECONDS)
    drained = {f"{name}_drained": max(0, running[name] - cut[f"{name}_cut"]) for name in running}
    ms = round(1000 * (time.perf_counter() - began))
    log_event(logging.INFO, "stopped", {"reason": reason, **drained, **cut, "ms": ms})
    os._exit(0)
