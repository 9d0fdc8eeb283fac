"""Readings of one process: its calls, limits, caches, memory, commits, and facts of the operating system."""

import os
import platform
import resource
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import pyarrow as pa

import lance_core
from flight_server.service import Service
from flight_server.telemetry.meters import Heartbeat
from flight_server.telemetry.readings import Labels, Metric, Readings
from lance_core.api.serving import event_counts

_PROC = Path("/proc/self")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")


class ProcessReadings:
    """Readings of the process that runs a service."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._heartbeat = Heartbeat()
        self._heartbeat.start()

    def read(self) -> Readings:
        """Return the metrics of this process at this moment. The storage is not asked."""
        return (
            *self._about(),
            *self._service.meters.readings(),
            self._heartbeat.reading(),
            *self._limits(),
            *self._caches(),
            *self._memory(),
            *_events(),
            *_process(),
        )

    def _about(self) -> Readings:
        facts = {
            "version": lance_core.__version__,
            "python": platform.python_version(),
            "pyarrow": pa.__version__,
        }
        draining = float(self._service.admission.is_closed)
        return (
            Metric(
                "lance_flight_build_info",
                "gauge",
                "1, with the versions of the server.",
                tuple(facts),
                "max",
                {tuple(facts.values()): 1.0},
            ),
            _gauge("processes", "Server processes whose values are added up here.", {(): 1.0}),
            _gauge(
                "draining",
                "1 while the server is stopping and refuses new calls.",
                {(): draining},
                combined="max",
            ),
        )

    def _limits(self) -> Readings:
        use = self._service.admission.use()
        return (
            _gauge(
                "running",
                "Calls, streams, exchanges, lookups, uploads and changes that run; calls end before their"
                " streams.",
                {(kind,): running for kind, (running, _) in use.items()},
                ("kind",),
            ),
            _gauge(
                "waiting_streams",
                "Running streams that wait for their turn to send.",
                {(): self._service.turns.waiting},
            ),
            _gauge(
                "running_limit",
                "How many calls, streams, exchanges, lookups, uploads and changes may run.",
                {(kind,): limit for kind, (_, limit) in use.items() if limit < sys.maxsize},
                ("kind",),
            ),
        )

    def _caches(self) -> Readings:
        caches = self._service.caches()
        label = ("cache",)

        def values(name: str) -> Mapping[Labels, float]:
            return {(cache,): getattr(use, name) for cache, use in caches.items()}

        return (
            _counter("cache_hits", "Requests for an entry that was in the cache.", values("hits"), label),
            _counter("cache_misses", "Requests for an entry that was not.", values("misses"), label),
            _gauge("cache_entries", "Entries of the cache.", values("entries"), label),
            _gauge("cache_bytes", "Estimated memory of the entries.", values("bytes"), label),
            _gauge("cache_limit_bytes", "Limit of the memory of the entries.", values("max_bytes"), label),
        )

    def _memory(self) -> Readings:
        memory = self._service.memory()
        pool = pa.default_memory_pool()
        return (
            _gauge(
                "memory_budget_used_bytes",
                "Memory of rows that are decoded ahead of clients.",
                {(): memory.used_bytes},
            ),
            _gauge(
                "memory_budget_peak_bytes",
                "Largest memory of rows decoded ahead since the start.",
                {(): memory.peak_bytes},
            ),
            _gauge(
                "memory_budget_limit_bytes",
                "Memory above which a stream decodes no rows ahead.",
                {(): memory.limit_bytes},
            ),
            _gauge("arrow_pool_bytes", "Memory of Arrow's default pool.", {(): pool.bytes_allocated()}),
            _gauge(
                "arrow_pool_peak_bytes",
                "Largest memory of Arrow's default pool since the start.",
                {(): pool.max_memory() or 0},
            ),
        )


def _events() -> Readings:
    """Return what the core counts in this process."""
    counts = event_counts()
    return (
        _counter("page_reads", "Reads of pages by windows of scans.", counts["page_reads"]),
        _counter(
            "planned_pages",
            "Pages of filter columns when scans were planned with statistics.",
            counts["planned_pages"],
        ),
        _counter(
            "pruned_pages",
            "Planned pages in which no row matches.",
            counts["pruned_pages"],
        ),
        _counter("taken_rows", "Rows that takes and lookups read.", counts["taken_rows"]),
        _counter("commits", "Commits, by outcome.", counts["commits"], ("operation", "outcome")),
        _counter(
            "conflicts",
            "Conflicts with transactions of other writers, by verdict.",
            counts["conflicts"],
            ("operation", "other", "verdict"),
        ),
        _counter("retries", "Repeated commits and changes.", counts["retries"], ("operation", "cause")),
    )


def _process() -> Readings:
    """Return the metrics that every client library of Prometheus has for a process."""
    fields = (_PROC / "stat").read_text().rpartition(")")[2].split()
    user, system, threads, started = (int(fields[number]) for number in (11, 12, 17, 19))
    resident = int((_PROC / "statm").read_text().split()[1]) * _PAGE_BYTES
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    values: tuple[tuple[str, str, float], ...] = (
        ("process_resident_memory_bytes", "Resident memory size in bytes.", resident),
        ("process_open_fds", "Number of open file descriptors.", len(os.listdir(_PROC / "fd"))),
        ("process_max_fds", "Maximum number of open file descriptors.", descriptors),
        ("process_threads", "Number of threads.", threads),
        (
            "process_start_time_seconds",
            "Start time of the process since the epoch in seconds.",
            _boot_time() + started / _TICKS,
        ),
    )
    return (
        Metric(
            "process_cpu_seconds_total",
            "counter",
            "Total user and system CPU time spent in seconds.",
            values={(): (user + system) / _TICKS},
        ),
        *(
            Metric(
                name,
                "gauge",
                about,
                combined="max" if name == "process_start_time_seconds" else "sum",
                values={(): value},
            )
            for name, about, value in values
        ),
    )


def _boot_time() -> float:
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith("btime "):
            return float(line.split()[1])
    return 0.0


def _counter(name: str, about: str, values: Mapping[Labels, float], labels: Labels = ()) -> Metric:
    """Return a counter. Without labels it has a value even if nothing was counted."""
    counted = values if labels else {(): 0.0, **values}
    return Metric(f"lance_flight_{name}_total", "counter", about, labels, values=counted)


def _gauge(
    name: str,
    about: str,
    values: Mapping[Labels, float],
    labels: Labels = (),
    *,
    combined: Literal["sum", "max"] = "sum",
) -> Metric:
    return Metric(f"lance_flight_{name}", "gauge", about, labels, combined, values)
