"""Interleaved timing of competitors, so that whatever slows down the machine slows down all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Measurement:
    """Medians of each competitor on one task: wall time, CPU time of this process, and all runs."""

    task: str
    group: str
    size_bytes: int
    seconds: Mapping[str, float]
    cpu_seconds: Mapping[str, float]
    runs: Mapping[str, list[float]] = field(repr=False)

    def ratio(self, ours: str, theirs: str) -> float:
        """Return how many times faster `ours` is."""
        return self.seconds[theirs] / self.seconds[ours]

    def cpu_ratio(self, ours: str, theirs: str) -> float:
        """Return how many times less CPU time `ours` takes, for competitors that run in this process."""
        return self.cpu_seconds[theirs] / self.cpu_seconds[ours]

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def interleave(
    task: str,
    group: str,
    size_bytes: int,
    competitors: Mapping[str, Callable[[], object]],
    runs: int,
    settle: Callable[[], None] = lambda: None,
    warm_ups: int = 1,
) -> Measurement:
    """Run `warm_ups` rounds of all competitors unmeasured, then `runs` measured rounds, in changing order.

    `settle` is called before each competitor, so that none pays for work that the one before left behind.
    """
    seconds: dict[str, list[float]] = {name: [] for name in competitors}
    cpu_seconds: dict[str, list[float]] = {name: [] for name in competitors}
    names = list(competitors)
    for number in range(-warm_ups, runs):
        shift = max(number, 0) % len(names)
        for name in names[shift:] + names[:shift]:
            settle()
            started, cpu_started = time.perf_counter(), time.process_time()
            competitors[name]()
            if number >= 0:
                seconds[name].append(time.perf_counter() - started)
                cpu_seconds[name].append(time.process_time() - cpu_started)
    return Measurement(task, group, size_bytes, _medians(seconds), _medians(cpu_seconds), seconds)


def _medians(runs: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: statistics.median(times) for name, times in runs.items()}


def wait_until_idle(*processes: int) -> None:
    """Wait until none of the processes has used the CPU for 30 ms; 2 s at most."""
    before, deadline = None, time.monotonic() + 2
    while (now := [_cpu_ticks(process) for process in processes]) != before and time.monotonic() < deadline:
        before = now
        time.sleep(0.03)


def _cpu_ticks(process: int) -> int:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def peak_bytes_of(process: int | str) -> int:
    """Return the largest resident memory in bytes that a process ("self" or its id) ever had.

    Unlike `ru_maxrss`, this number starts anew with the program. `ru_maxrss` includes the parent's at the
    fork.
    """
    status = Path(f"/proc/{process}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) << 10
