"""Results of a function on disk, so that a change that was interrupted does not compute them again."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from os import PathLike, fspath, unlink

import pyarrow as pa

from lance_core.errors import InvalidInputError

_TABLE = """
CREATE TABLE IF NOT EXISTS results (
    fragment_id INTEGER, first_row INTEGER, input BLOB, result BLOB,
    PRIMARY KEY (fragment_id, first_row, input)
)
"""


class OpenCheckpoints:
    """Checkpoints whose database is open: results of the function for batches. For one thread."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def find(self, fragment_id: int, first_row: int, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Return the result for a batch, None if there is none."""
        row = self._database.execute(
            "SELECT result FROM results WHERE fragment_id = ? AND first_row = ? AND input = ?",
            (fragment_id, first_row, _digest(batch)),
        ).fetchone()
        return None if row is None else pa.ipc.open_stream(row[0]).read_next_batch()

    def keep(self, fragment_id: int, first_row: int, batch: pa.RecordBatch, result: pa.RecordBatch) -> None:
        """Store the result for a batch, durably. It replaces an earlier result."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, result.schema) as stream:
            stream.write_batch(result)
        with self._database:
            self._database.execute(
                "INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?)",
                (fragment_id, first_row, _digest(batch), memoryview(sink.getvalue())),
            )


def _digest(batch: pa.RecordBatch) -> bytes:
    """Return a digest of the names, types and values of a batch."""
    parts = hashlib.blake2b(batch.schema.serialize(), digest_size=16)
    parts.update(batch.serialize())
    return parts.digest()


class Checkpoints:
    """SQLite database with the results of a function, which a repeated attempt need not compute again.

    Their key is the fragment, the number of live rows before the batch, and a digest of the batch.

    The rows of a table may change between two attempts. Then the digest differs, and the function computes
    the batch again. Results of equal batches are kept apart, since a function may return different results
    for them, such as random numbers.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        """Open or create the SQLite database at `path`.

        Raises:
            InvalidInputError: The file is no SQLite database, or cannot be created.
        """
        self._path = fspath(path)
        try:
            with self.open():
                pass
        except sqlite3.Error as error:
            raise InvalidInputError(f"checkpoint file cannot be used: {error}", found=self._path) from None

    @contextmanager
    def open(self) -> Iterator[OpenCheckpoints]:
        """Open the database for the thread that calls."""
        with closing(sqlite3.connect(self._path)) as database:
            database.execute(_TABLE)
            yield OpenCheckpoints(database)

    def remove(self) -> None:
        """Remove the database."""
        unlink(self._path)
