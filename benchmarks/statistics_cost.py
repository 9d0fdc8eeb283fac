"""Cost of page statistics and checksums: files are written with and without them, in alternating pairs."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from lance_core.file.footer import FileVersion
from lance_core.file.writer import open_writer
from lance_core.file.writer_options import WriteOptions
from lance_core.schema import schema_from_arrow
from lance_core.statistics.page_recorder import FilePageRecorder
from lance_core.storage import storage_for
from lance_core.write.batch_sources import slices

_WITH = WriteOptions(recorder=FilePageRecorder)
_WITHOUT = WriteOptions()


@dataclass(frozen=True)
class Cost:
    """Shares of statistics and checksums in the CPU time of a write, over all pairs."""

    median: float
    lower_quartile: float
    upper_quartile: float


def measure(table: pa.Table, version: str, folder: Path, pairs: int) -> Cost:
    """Write one file of `table` twice in each pair, in changing order, and create `folder`."""
    folder.mkdir()
    _cpu_seconds(table, version, folder, _WITH)
    shares = []
    for number in range(pairs):
        order = (_WITH, _WITHOUT) if number % 2 else (_WITHOUT, _WITH)
        seconds = {options is _WITH: _cpu_seconds(table, version, folder, options) for options in order}
        shares.append((seconds[True] - seconds[False]) / seconds[True])
    lower, median, upper = statistics.quantiles(shares, n=4)
    return Cost(median, lower, upper)


def _cpu_seconds(table: pa.Table, version: str, folder: Path, options: WriteOptions) -> float:
    storage = storage_for(str(folder), None)
    started = time.process_time()
    file = storage.create_file("file.lance", sync=False)
    writer = open_writer(file, schema_from_arrow(table.schema), FileVersion.from_name(version), options)
    for batch in table.to_batches():
        for part in slices(batch):
            writer.write(part)
    writer.finish()
    seconds = time.process_time() - started
    storage.delete_file("file.lance")
    return seconds
