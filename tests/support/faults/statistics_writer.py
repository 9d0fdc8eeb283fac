"""A process that leaves statistics behind, over and over."""

from __future__ import annotations

from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pyarrow as pa

from lance_core.statistics.cache import ColumnKey
from lance_core.statistics.disk_cache import StatisticsDirectory
from support.processes.forked import forking_context


def start(directory: Path, key: ColumnKey, table: pa.Table, count: int) -> ForkServerProcess:
    """Store statistics `count` times under the key, and under 20 others in turn; return once this begins."""
    here, there = forking_context().Pipe(duplex=False)
    with here, there:
        process = forking_context().Process(target=_store, args=(directory, key, table, count, there))
        process.start()
        there.close()
        here.recv()
    return process


def _store(directory: Path, key: ColumnKey, table: pa.Table, count: int, begun: Connection) -> None:
    entries = StatisticsDirectory(directory)
    entries.store(key._replace(column="first"), table)  # imports what is deferred until then
    begun.send("begun")
    for number in range(count):
        entries.store(key, table)
        entries.store(key._replace(column=str(number % 20)), table)
