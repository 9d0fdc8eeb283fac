"""The interface to what remembers the versions of tables."""

from abc import ABC, abstractmethod
from typing import NamedTuple

from lance_core.storage import Storage


class ManifestRow(NamedTuple):
    """One version of one table."""

    version: int
    path: str
    """Path of the manifest, relative to the root of the store; see `ManifestStore.place`."""
    size: int | None
    """Bytes of the manifest, where the row says."""


class ManifestStore(ABC):
    """Rows, unique by table and version. Safe to use from several threads and processes at once.

    What was written is read back by everybody at once. Errors are `StorageError`s.
    """

    @abstractmethod
    def place(self, storage: Storage) -> str:
        """Return the name of the table in a storage. The paths of its manifests begin with it."""

    @abstractmethod
    def get(self, place: str, version: int) -> ManifestRow | None:
        """Return the row of a version."""

    @abstractmethod
    def latest(self, place: str) -> ManifestRow | None:
        """Return the row of the highest version."""

    @abstractmethod
    def insert(self, place: str, row: ManifestRow) -> None:
        """Add the row of a version that has none; of several writers exactly one succeeds.

        Raises:
            AlreadyExistsError: the version has a row. It may be this one, where an answer was lost.
            PutUnknownError: nobody can say whether the row was added.
            StorageError: it was not.
        """

    @abstractmethod
    def update(self, place: str, row: ManifestRow) -> None:
        """Change the row of a version; one that has none is a `StorageError`."""

    @abstractmethod
    def forget(self, place: str) -> None:
        """Remove all rows of a table, after which another one can begin in its place."""
