"""Statistics of a scan that has run, and the call of the function that gets them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from lance_core.process.counters import Tally

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ScanStatistics:
    """Counts of one scan. Work that other scans do at the same time is not among them.

    Attributes:
        iops: Byte ranges that were read from files.
        requests: Calls of the system or of the storage that read them, one or more ranges each.
        bytes_read: Bytes that were read.
        indices_loaded: Index segments of which a file was opened. Open files are cached.
        parts_loaded: Reads of rows of index files: pages, posting lists, partitions. What is read is cached.
        index_comparisons: Entries of indices that were compared: rows of the searched pages of B-trees, zones
            of zone maps and Bloom filters, entries of posting lists, codes of vectors. Other kinds have 0.
        all_counts: Further counts by name, such as `rows_scanned`; docs/indices.md lists them.
        all_times: Nanoseconds by name: `elapsed`, the time of the calls of the reader, and `decode` and
            `read`, the sums over all threads. An addition to the names of the reference.
    """

    iops: int
    requests: int
    bytes_read: int
    indices_loaded: int
    parts_loaded: int
    index_comparisons: int
    all_counts: dict[str, int]
    all_times: dict[str, int]

    @classmethod
    def of(cls, tally: Tally) -> ScanStatistics:
        """Return what a tally counted."""
        counts = tally.counts()
        named = {name: counts.pop(name, 0) for name in _NAMED}
        return cls(**named, all_counts=counts, all_times=tally.times())


_NAMED = ("iops", "requests", "bytes_read", "indices_loaded", "parts_loaded", "index_comparisons")

Callback: TypeAlias = Callable[[ScanStatistics], object]
"""Function that gets the statistics of a scan after its last row."""


@contextmanager
def reported(callback: Callback) -> Iterator[Tally]:
    """Count the work of a block, and call a function with the statistics. If the block raises, do not."""
    tally = Tally()
    with tally.counting(), tally.timing("elapsed"):
        yield tally
    _report(callback, tally)


def reported_batches(
    batches: Generator[pa.RecordBatch, None, None], callback: Callback
) -> Iterator[pa.RecordBatch]:
    """Yield batches, count the work for them, and call a function after the last one.

    A reader that leaves before the end gets no statistics. Work between two batches is not counted, unless
    worker threads do it for this scan.
    """
    tally = Tally()
    with closing(batches):
        while True:
            with tally.counting(), tally.timing("elapsed"):
                batch = next(batches, None)
            if batch is None:
                break
            tally.add("output_rows", batch.num_rows)
            yield batch
    _report(callback, tally)


def _report(callback: Callback, tally: Tally) -> None:
    try:
        callback(ScanStatistics.of(tally))
    except Exception:  # the scan itself has succeeded
        _log.exception("scan_stats_callback raised an error")
