"""Meters: counts and durations of the calls of this process.

A call costs two short critical sections here. Everything else that is measured is counted where it happens,
and read when somebody asks.
"""

import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence

import pyarrow as pa

from flight_server.telemetry.readings import Histogram, Labels, Metric

CALL_SECONDS = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0),
)
"""Upper bounds of the buckets of calls. A stream lasts until its client has read it."""

DELAY_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)

_BEAT_SECONDS = 0.25
_EXACT_BYTES = 64 << 10


class Distribution:
    """Durations by labels. For one thread, or under a lock."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self._counts: dict[Labels, list[int]] = {}
        self._sums: Counter[Labels] = Counter()

    def add(self, labels: Labels, seconds: float) -> None:
        counts = self._counts.get(labels)
        if counts is None:
            counts = self._counts[labels] = [0] * (len(self.bounds) + 1)
        counts[bisect_left(self.bounds, seconds)] += 1
        self._sums[labels] += seconds  # type: ignore[assignment]

    def histograms(self) -> Mapping[Labels, Histogram]:
        return {
            labels: Histogram(tuple(counts), self._sums[labels]) for labels, counts in self._counts.items()
        }


class Meters:
    """Calls of one process with their durations, and the rows and bytes that they sent and received."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended: Counter[Labels] = Counter()
        self._seconds = Distribution(CALL_SECONDS)
        self._rows: Counter[tuple[str, str]] = Counter()
        self._bytes: Counter[tuple[str, str]] = Counter()

    def call_ended(self, rpc: str, action: str, code: str, error: str, seconds: float) -> None:
        """Count a call that ended; `action` and `error` are empty if there is none."""
        with self._lock:
            self._ended[rpc, action, code, error] += 1
            self._seconds.add((rpc, action), seconds)

    def sent(self, rpc: str, num_rows: int, num_bytes: int) -> None:
        """Count rows that are sent."""
        self._moved("sent", rpc, num_rows, num_bytes)

    def received(self, rpc: str, num_rows: int, num_bytes: int) -> None:
        """Count rows that were received and checked."""
        self._moved("received", rpc, num_rows, num_bytes)

    def _moved(self, way: str, rpc: str, num_rows: int, num_bytes: int) -> None:
        key = way, rpc
        with self._lock:
            self._rows[key] += num_rows
            self._bytes[key] += num_bytes

    def readings(self) -> Sequence[Metric]:
        """Return the metrics of calls."""
        with self._lock:
            ended, seconds = dict(self._ended), self._seconds.histograms()
            rows, sizes = dict(self._rows), dict(self._bytes)
        return (
            Metric(
                "lance_flight_calls_total",
                "counter",
                "Calls that ended, by gRPC status code and name of the error.",
                ("rpc", "action", "code", "error"),
                values=ended,
            ),
            Metric(
                "lance_flight_call_seconds",
                "histogram",
                "Time from the start of a call to its end; a stream ends when its client has read it.",
                ("rpc", "action"),
                histograms=seconds,
                bounds=CALL_SECONDS,
            ),
            *(
                Metric(
                    f"lance_flight_{way}_{what}_total",
                    "counter",
                    f"{what.capitalize()} of record batches {way}, before compression.",
                    ("rpc",),
                    values={(rpc,): count for (moved, rpc), count in counts.items() if moved == way},
                )
                for way in ("sent", "received")
                for what, counts in (("rows", rows), ("bytes", sizes))
            ),
        )


class Heartbeat:
    """Thread that wants to run four times a second, and measures how late it is (threat T32).

    It is late if other threads hold the interpreter's lock, or the processors, for too long.
    """

    def __init__(self) -> None:
        self._delays = Distribution(DELAY_SECONDS)

    def start(self) -> None:
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()

    def _beat(self) -> None:
        while True:
            due = time.monotonic() + _BEAT_SECONDS
            time.sleep(_BEAT_SECONDS)
            self._delays.add((), max(0.0, time.monotonic() - due))

    def reading(self) -> Metric:
        """Return the metric of the delays."""
        return Metric(
            "lance_flight_heartbeat_delay_seconds",
            "histogram",
            "How late a thread was that wants to run four times a second.",
            histograms=self._delays.histograms(),
            bounds=DELAY_SECONDS,
        )


def num_bytes(rows: pa.RecordBatch) -> int:
    """Return the bytes of rows.

    Finding the bytes of slices takes as long as sending some rows, so a small batch counts with all bytes of
    its buffers.
    """
    size: int = rows.get_total_buffer_size()
    return size if size <= _EXACT_BYTES else rows.nbytes
