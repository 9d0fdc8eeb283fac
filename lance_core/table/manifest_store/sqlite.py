"""Manifest store in a SQLite file, for the processes of one machine."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from lance_core.errors import AlreadyExistsError, StorageError
from lance_core.storage import Storage
from lance_core.table.manifest_store.store import ManifestRow, ManifestStore

_TIMEOUT = 30.0
"""Seconds to wait for a lock of another process."""
_TABLE = """
CREATE TABLE IF NOT EXISTS manifests (
    place TEXT NOT NULL,
    version INTEGER NOT NULL,
    path TEXT NOT NULL,
    size INTEGER,
    PRIMARY KEY (place, version)
) WITHOUT ROWID
"""


class SqliteManifestStore(ManifestStore):
    """Manifest store in a file, which must be on a local disk: SQLite's locks do not work on
    network shares.
    """

    def __init__(self, path: str) -> None:
        """Use the file at `path` and create it if it is missing. Its directory must exist."""
        self._path = path
        with self._connection() as connection:
            connection.execute(_TABLE)

    def place(self, storage: Storage) -> str:
        return storage.uri.partition("?")[0].rstrip("/")

    def get(self, place: str, version: int) -> ManifestRow | None:
        return self._row("place = ? AND version = ?", place, version)

    def latest(self, place: str) -> ManifestRow | None:
        return self._row("place = ? ORDER BY version DESC LIMIT 1", place)

    def insert(self, place: str, row: ManifestRow) -> None:
        with self._connection() as connection:
            try:
                connection.execute("INSERT INTO manifests VALUES (?, ?, ?, ?)", (place, *row))
            except sqlite3.IntegrityError:
                raise AlreadyExistsError("version exists in the manifest store") from None

    def update(self, place: str, row: ManifestRow) -> None:
        with self._connection() as connection:
            changed = connection.execute(
                "UPDATE manifests SET path = ?, size = ? WHERE place = ? AND version = ?",
                (row.path, row.size, place, row.version),
            )
            if changed.rowcount != 1:
                raise StorageError(f"no version {row.version} in the manifest store")

    def forget(self, place: str) -> None:
        with self._connection() as connection:
            connection.execute("DELETE FROM manifests WHERE place = ?", (place,))

    def _row(self, condition: str, *values: object) -> ManifestRow | None:
        with self._connection() as connection:
            found = connection.execute(
                f"SELECT version, path, size FROM manifests WHERE {condition}", values
            ).fetchone()
        return None if found is None else ManifestRow(*found)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """Open a connection for one call, so that threads and forked processes share none.

        Every statement is its own transaction: it is on the disk when it returns, or it did not happen.
        """
        try:
            connection = sqlite3.connect(self._path, timeout=_TIMEOUT, isolation_level=None)
            try:
                connection.execute("PRAGMA synchronous = FULL")
                yield connection
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise StorageError(f"manifest store: {error}") from None
