"""Rows that arrive in any order, and are read partition by partition, in bounded memory.

Rows wait until they are many. Then they are sorted by partition and written to a temporary file as one run. A
partition is read from all runs. Rows of a partition keep the order in which they came.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from types import TracebackType
from typing import IO, Any, Self

import numpy as np
import numpy.typing as npt

from lance_core.errors import StorageError

Array = npt.NDArray[Any]

_MOST_WAITING_BYTES = 128 << 20


class SpilledRows:
    """Rows by partition; use it in a `with` block. For one thread."""

    def __init__(self, num_partitions: int, most_waiting_bytes: int = _MOST_WAITING_BYTES) -> None:
        self.lengths = np.zeros(num_partitions, np.int64)
        """Rows of each partition so far."""
        self._most_waiting_bytes = most_waiting_bytes
        self._waiting: list[tuple[npt.NDArray[np.uint32], list[Array]]] = []
        self._waiting_bytes = 0
        self._runs: list[tuple[npt.NDArray[np.int64], list[Array]]] = []
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._runs.clear()
        self._waiting.clear()
        if self._file is not None:
            self._file.close()

    def add(self, partitions: npt.NDArray[np.uint32], columns: Sequence[Array]) -> None:
        """Add rows.

        Args:
            partitions: Partition of each row.
            columns: Arrays with an entry or a row of fixed width per row; the same for every call.

        Raises:
            StorageError: The temporary file cannot be written.
        """
        self._waiting.append((partitions, list(columns)))
        self._waiting_bytes += sum(column.nbytes for column in columns)
        self.lengths += np.bincount(partitions, minlength=len(self.lengths))
        if self._waiting_bytes > self._most_waiting_bytes:
            self._end_run(spill=True)

    def finish(self) -> None:
        """Say that all rows were added."""
        self._end_run(spill=False)

    def read(self, partition: int) -> list[Array]:
        """Return the columns of a partition. `finish` was called before."""
        parts = [
            [column[starts[partition] : starts[partition + 1]] for column in columns]
            for starts, columns in self._runs
        ]
        return [np.concatenate(column) for column in zip(*parts, strict=True)]

    def _end_run(self, *, spill: bool) -> None:
        if not self._waiting:
            return
        partitions = np.concatenate([each for each, _ in self._waiting])
        # NumPy sorts numbers of 16 bits in linear time.
        small = partitions.astype(np.uint16) if len(self.lengths) <= 1 << 16 else partitions
        order = np.argsort(small, kind="stable")
        starts = np.concatenate(([0], np.cumsum(np.bincount(partitions, minlength=len(self.lengths)))))
        columns = []
        for number in range(len(self._waiting[0][1])):
            column = np.concatenate([parts[number] for _, parts in self._waiting])
            for _, parts in self._waiting:
                parts[number] = np.empty(0)  # frees its memory
            columns.append(self._spill(column[order]) if spill else column[order])
        self._runs.append((starts.astype(np.int64), columns))
        self._waiting.clear()
        self._waiting_bytes = 0

    def _spill(self, column: Array) -> Array:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile()
            start = self._file.seek(0, 2)
            padding = -start % 64
            self._file.write(bytes(padding))
            column.tofile(self._file)
            self._file.flush()
            if not column.size:
                return column
            return np.memmap(self._file, column.dtype, "r", start + padding, column.shape)
        except OSError as error:
            raise StorageError(f"temporary file of an index: {error.strerror}") from None
