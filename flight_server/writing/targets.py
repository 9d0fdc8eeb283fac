"""Datasets that calls of this server change. No dataset is dropped while a call changes it.

Without Flight types.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import Self

from flight_server.catalog.local import Catalog
from flight_server.errors import DrainingError
from flight_server.requests.names import DatasetReference
from flight_server.writing.uploads import Abortable
from lance_core.api.serving import Snapshot, Storage, branch_storage
from lance_core.errors import CommitConflictError, DatasetNotFoundError


@dataclass(frozen=True)
class Target:
    """Dataset and branch that a call changes."""

    root: Storage
    """Storage of the main branch."""
    storage: Storage
    """Storage of the branch."""
    snapshot: Snapshot | None
    """The latest version of the branch; None if there is no dataset yet."""


@dataclass(frozen=True)
class Opened:
    """Existing dataset that a call changes."""

    root: Storage
    """Storage of the main branch."""
    snapshot: Snapshot
    """The latest version of the branch."""


class Targets:
    """Datasets of one catalog that are being changed or dropped. Thread-safe."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._writing: Counter[str] = Counter()
        """Number of running changes, by the path of the dataset."""
        self._dropping: set[str] = set()
        """Paths of datasets whose files are being removed."""
        self._unfinished: set[Abortable] = set()
        """Writers of uploads that have not reached their commit."""
        self._closed = threading.Event()
        self._lock = threading.Lock()

    def of(self, catalog: Catalog) -> Self:
        """Return these targets, found in the catalog of one caller. What is running is known to both."""
        targets = copy(self)
        targets._catalog = catalog
        return targets

    @contextmanager
    def target(self, reference: DatasetReference, *, creates: bool = False) -> Iterator[Target]:
        """Yield the dataset and branch to change. While the block runs, the dataset is not dropped.

        Args:
            reference: the dataset and branch.
            creates: whether there may be no dataset yet.

        Raises:
            DatasetNotFoundError: there is no dataset or branch of this name.
            CommitConflictError: the dataset is being dropped.
        """
        name, branch = reference.name, reference.branch
        with self._lock:
            is_there = not creates or self._catalog.has(name)
            path = self._catalog.locate(name) if is_there else self._catalog.place(name)
            self._check_dropped(path, name)
            self._writing[path] += 1
        try:
            root = self._catalog.storage(path)
            snapshot = self._newest(reference, creates) if is_there else None
            if snapshot is None and branch is not None:
                raise self._catalog.missing(name)
            yield Target(
                root, branch_storage(root, branch) if snapshot is None else snapshot.storage, snapshot
            )
        finally:
            with self._lock:
                self._writing[path] -= 1
                if not self._writing[path]:
                    del self._writing[path]
                    self._catalog.remove_unfinished(path)

    def _newest(self, reference: DatasetReference, creates: bool) -> Snapshot | None:
        """Return the version to change; None if a dataset is to be created, and has no version yet.

        Another writer may be creating the dataset: the directory of its versions is there before the first
        version. The commit decides which of both writers creates the dataset.
        """
        try:
            return self._catalog.open(reference)
        except DatasetNotFoundError:
            if not creates or reference.branch is not None:
                raise
            return None

    @contextmanager
    def opened(self, reference: DatasetReference) -> Iterator[Opened]:
        """Yield an existing dataset to change, as `target` does; with the same errors."""
        with self.target(reference) as target:
            assert target.snapshot is not None
            yield Opened(target.root, target.snapshot)

    @contextmanager
    def abandonable(self, writer: Abortable) -> Iterator[None]:
        """Let `close` abort the writer while the block runs; then raise DrainingError after the block."""
        with self._lock:
            self._unfinished.add(writer)
        try:
            yield
        finally:
            with self._lock:
                self._unfinished.discard(writer)
        if self._closed.is_set():
            raise DrainingError("the server stopped before the upload was complete")

    def drop(self, name: str) -> None:
        """Remove a dataset and all its versions and branches.

        Raises:
            DatasetNotFoundError: there is no such dataset.
            CommitConflictError: the dataset is being changed or dropped through this server.
            UnsupportedFeatureError: the dataset is reached through a link.
            StorageError: the storage failed; of a store, see `StoreCatalog.hide`.
        """
        with self._lock:
            path = self._catalog.locate(name)
            if self._writing[path]:
                raise CommitConflictError(f"dataset {name} is being written", retryable=True)
            self._check_dropped(path, name)
            self._dropping.add(path)
        try:
            self._catalog.delete(self._catalog.hide(name))
        finally:
            with self._lock:
                self._dropping.discard(path)

    def tidy(self, path: str) -> None:
        """Remove the empty directories of a dataset whose creation failed, unless another call creates it
        now.
        """
        with self._lock:
            if not self._writing[path]:
                del self._writing[path]
                self._catalog.remove_unfinished(path)

    def close(self) -> None:
        """Stop the uploads that wait for their clients, as the last thing before the process ends.

        Commits that have begun are left alone, and none begins from now on.
        """
        with self._lock:
            self._closed.set()
            for writer in self._unfinished:
                writer.abort()
            for path in self._writing:
                self._catalog.remove_unfinished(path)

    def _check_dropped(self, path: str, name: str) -> None:
        """Refuse a dataset that is being dropped: a new one would lose its files."""
        if path in self._dropping:
            raise CommitConflictError(f"dataset {name} is being dropped", retryable=True)
