"""Statistics of whole columns on disk, for later processes and other servers.

    v1/ab/abcdef....statistics      an entry; its name is the SHA-256 of its key
    v1/ab/abcdef....<random>.tmp    an entry that is being written, or was left by a process that died

An entry is written under a temporary name and renamed, so a reader sees all of it or nothing. The checksum of
an entry is checked when it is read. A damaged or foreign entry counts as missing and is written again.
Several servers may share a directory, and its files may be deleted at any time. A failure of the directory is
never an error, because statistics only save work.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from lance_core.process.forks import begin_anew_after_fork
from lance_core.statistics.bound_encoding import decode_bounds, encode_bounds
from lance_core.statistics.checksummed_batch import DamagedBatch, seal, unseal
from lance_core.statistics.column_statistics import statistics_schema

_VERSION = "v1"
_ENTRY = ".statistics"
_TEMPORARY = ".tmp"
_ABANDONED_SECONDS = 3600
_LARGEST_ENTRY = 64 << 20
_SCHEMA = statistics_schema(pa.binary())

_log = logging.getLogger(__name__)


class StatisticsDirectory:
    """Directory of statistics of about `max_bytes` at most; thread-safe."""

    def __init__(self, path: str | os.PathLike[str], max_bytes: int = 256 << 20) -> None:
        self._root = Path(path) / _VERSION
        self._max_bytes = max_bytes
        self.begin()
        begin_anew_after_fork(self)

    def begin(self) -> None:
        """Start with a directory of unknown size, in this process or in a forked one."""
        # Bytes written since the directory was last measured. Its size is unknown at first, so the first
        # write measures it.
        self._written = self._max_bytes
        self._lock = threading.Lock()

    def load(self, key: tuple[str, ...], value_type: pa.DataType, num_rows: int) -> pa.Table | None:
        """Return the statistics of a whole column of `num_rows` values; None if there is no valid entry."""
        path = self._path(key)
        try:
            size = os.path.getsize(path)
            if size > _LARGEST_ENTRY:
                return None
            data = path.read_bytes()
            os.utime(path)  # record the use: unused entries are deleted first
        except OSError:
            return None
        try:
            return _parse(data, _digest(key), value_type, num_rows)
        except DamagedBatch as error:
            _log.info("entry of the statistics cache ignored: %s", error)
            return None

    def store(self, key: tuple[str, ...], table: pa.Table) -> None:
        """Store the statistics of a whole column."""
        batch = table.combine_chunks().to_batches()[0]
        columns = [*batch.columns[:-2], *(encode_bounds(side) for side in batch.columns[-2:])]
        stored = pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)
        data = _digest(key) + seal(stored)
        if len(data) > min(_LARGEST_ENTRY, self._max_bytes):
            return
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._write(path, data)
            self._make_room(len(data))
        except OSError as error:
            _log.info("statistics cache cannot be written: %s", error.strerror)

    def _path(self, key: tuple[str, ...]) -> Path:
        name = _digest(key).hex()
        return self._root / name[:2] / (name + _ENTRY)

    @staticmethod
    def _write(path: Path, data: bytes) -> None:
        descriptor, temporary = tempfile.mkstemp(_TEMPORARY, path.stem, path.parent)
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
            os.replace(temporary, path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise

    def _make_room(self, num_bytes: int) -> None:
        """Delete the least recently used entries, each time an eighth of the limit has been written."""
        with self._lock:
            self._written += num_bytes
            if self._written <= self._max_bytes // 8:
                return
            self._written = 0
        entries = sorted(self._entries())
        left = sum(size for _, size, _ in entries)
        for _, size, path in entries:
            # Leave a quarter of the limit free: for the next writes here, and for those of other servers.
            if left <= self._max_bytes * 3 // 4:
                break
            path.unlink(missing_ok=True)
            left -= size

    def _entries(self) -> Iterator[tuple[float, int, Path]]:
        """Yield the time of last use, the size and the path of every entry. Delete abandoned
        temporary files.
        """
        now = time.time()
        for path in self._root.glob("*/*"):
            try:
                status = path.stat()
                if path.suffix == _TEMPORARY and now - status.st_mtime > _ABANDONED_SECONDS:
                    path.unlink()
                    continue
            except OSError:  # another process deleted it
                continue
            yield status.st_mtime, status.st_size, path


def _digest(key: tuple[str, ...]) -> bytes:
    """Return the SHA-256 of a key. Each part is preceded by its length, so parts may contain
    any characters.
    """
    return hashlib.sha256(b"".join(len(part).to_bytes(8) + part.encode() for part in key)).digest()


def _parse(data: bytes, digest: bytes, value_type: pa.DataType, num_rows: int) -> pa.Table:
    if data[: len(digest)] != digest:
        raise DamagedBatch("it is about something else")
    batch = unseal(pa.py_buffer(data).slice(len(digest)), _SCHEMA)
    bounds = [decode_bounds(side, value_type) for side in batch.columns[-2:]]
    if None in bounds:
        raise DamagedBatch(f"bounds that are no {value_type}")
    table = pa.Table.from_arrays([*batch.columns[:-2], *bounds], schema=statistics_schema(value_type))
    rows = batch["rows"].to_numpy()
    # The zones must follow each other and cover the whole column.
    if (
        (rows <= 0).any()
        or rows.sum() != num_rows
        or (batch["first_row"].to_numpy() != rows.cumsum() - rows).any()
    ):
        raise DamagedBatch("zones that do not make up the column")
    return table
