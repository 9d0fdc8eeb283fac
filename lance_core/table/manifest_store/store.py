"""Interface of manifest stores."""

from abc import ABC, abstractmethod
from typing import NamedTuple

from lance_core.storage import Storage


class ManifestRow(NamedTuple):
    """Row of a manifest store: one version of one table."""

    version: int
    path: str
    """Path of the manifest. It begins with the name that `ManifestStore.place` returns."""
    size: int | None
    """Bytes of the manifest; None if the row does not say."""


class ManifestStore(ABC):
    """Store with one row per table and version, safe to use from several threads and processes.

    Reads are consistent: every process sees a row as soon as the write has returned. All errors are
    `StorageError`s.
    """

    @abstractmethod
    def place(self, storage: Storage) -> str:
        """Return the name of the table in the store. The paths of its manifests begin with this name."""

    @abstractmethod
    def get(self, place: str, version: int) -> ManifestRow | None:
        """Return the row of a version; None if there is none."""

    @abstractmethod
    def latest(self, place: str) -> ManifestRow | None:
        """Return the row of the highest version; None if the table has no row."""

    @abstractmethod
    def insert(self, place: str, row: ManifestRow) -> None:
        """Add the row of a version. If several writers add the row of one version, exactly one succeeds.

        Raises:
            AlreadyExistsError: the version has a row. After a lost answer, that row may be this one.
            PutUnknownError: the store did not answer, so the row may or may not have been added.
            StorageError: the row was not added.
        """

    @abstractmethod
    def update(self, place: str, row: ManifestRow) -> None:
        """Change the row of a version. Raise `StorageError` if the version has no row."""

    @abstractmethod
    def forget(self, place: str) -> None:
        """Remove all rows of a table, so that another table can be created at its place."""
