"""What changes datasets: puts, and actions that make or drop one. Free of Flight types."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from flight_server.catalog import Catalog
from flight_server.errors import DrainingError
from flight_server.names import shown
from flight_server.write_command import WriteCommand
from lance_core.errors import (
    CommitConflictError,
    DatasetExistsError,
    DatasetNotFoundError,
    FileMissingError,
)
from lance_core.storage import Storage
from lance_core.table.manifest import Manifest
from lance_core.table.refs import branch_storage
from lance_core.table.snapshot import Snapshot, read_manifest
from lance_core.table.transaction import DIRECTORY as TRANSACTIONS
from lance_core.table.transaction import read_transaction
from lance_core.table.versions import list_versions
from lance_core.write.dataset import DatasetWriter, Mode
from lance_core.write.fragments import FileLimits
from lance_core.write.options import DatasetWriteOptions, file_version


@dataclass(frozen=True)
class Written:
    """What a write added."""

    version: int
    """The one that it made."""
    rows: int
    bytes: int
    """Of the new data files."""
    fragments: int
    """New ones."""


class Batches(Protocol):
    """Where rows come from. The iteration ends only when all have come, and raises when they will not."""

    @property
    def schema(self) -> pa.Schema: ...

    def batches(self) -> Iterator[pa.RecordBatch]: ...


@dataclass(frozen=True)
class NoRows:
    """Nothing to write but columns."""

    schema: pa.Schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        return iter(())


class Mutations:
    """Changes to the datasets of one catalog. Thread-safe."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._writing: Counter[str] = Counter()
        """How many puts are under way, by the path of the dataset."""
        self._unfinished: set[DatasetWriter] = set()
        """Those of puts that have not come to their commit."""
        self._is_closed = False
        self._lock = threading.Lock()

    def put(self, command: WriteCommand, upload: Batches) -> Written:
        """Make a version of what is uploaded; nothing is seen of it before it is complete.

        A `transaction_id` that was committed before is not committed again: its first result is given.

        Raises:
            DatasetNotFoundError: an append to a dataset or branch that is not there.
            DatasetExistsError: a dataset of this name is there and was to be created.
            LanceError: what is uploaded or asked for cannot be written; nothing was.
        """
        with self._target(command) as (storage, base):
            earlier = None if base is None else _earlier(storage, command.transaction_id)
            if earlier is not None:
                for _ in upload.batches():
                    pass
                return earlier
            if base is not None and command.mode == "create":
                raise DatasetExistsError(f"dataset {command.dataset.name} exists")
            mode: Mode = "create" if base is None else command.mode
            with DatasetWriter(storage, upload.schema, mode, _options(command), base=base) as writer:
                with self._abandonable(writer):
                    for batch in upload.batches():
                        writer.write(batch)
                snapshot = writer.commit()
            return written_by(storage, snapshot.manifest)

    def close(self) -> None:
        """Give up the puts that wait for their clients, as the last thing before the process ends.

        Commits that have begun are left alone, and none begins from now on.
        """
        with self._lock:
            self._is_closed = True
            for writer in self._unfinished:
                writer.abort()
            for path in self._writing:
                self._catalog.remove_unfinished(path)

    @contextmanager
    def _abandonable(self, writer: DatasetWriter) -> Iterator[None]:
        """A time in which `close` may abort the writer; raises DrainingError at the end of it if it did."""
        with self._lock:
            self._unfinished.add(writer)
        try:
            yield
        finally:
            with self._lock:
                self._unfinished.discard(writer)
                is_closed = self._is_closed
        if is_closed:
            raise DrainingError("the server stopped before the upload was complete")

    def drop(self, name: str) -> None:
        """Remove a dataset and all its versions and branches.

        Raises:
            DatasetNotFoundError: there is none.
            CommitConflictError: somebody is writing to it through this server.
            UnsupportedFeatureError: it is reached through a link.
        """
        with self._lock:
            path = self._catalog.locate(name)
            if self._writing[path]:
                raise CommitConflictError(f"dataset {name} is being written", retryable=True)
            hidden = self._catalog.hide(name)
        self._catalog.delete(hidden)

    @contextmanager
    def _target(self, command: WriteCommand) -> Iterator[tuple[Storage, Snapshot | None]]:
        """Where to write, and the version to write on (None: there is no dataset yet)."""
        name, branch = command.dataset.name, command.dataset.branch
        with self._lock:
            path = self._path(command)
            self._writing[path] += 1
        try:
            root = self._catalog.storage(path)
            snapshot = self._catalog.open(command.dataset) if self._catalog.has(name) else None
            if snapshot is None and branch is not None:
                raise DatasetNotFoundError(f"no dataset is named {shown(name)}")
            yield branch_storage(root, branch), snapshot
        finally:
            with self._lock:
                self._writing[path] -= 1
                if not self._writing[path]:
                    del self._writing[path]
                    self._catalog.remove_unfinished(path)

    def _path(self, command: WriteCommand) -> str:
        name = command.dataset.name
        if command.mode == "append" or self._catalog.has(name):
            return self._catalog.locate(name)
        return self._catalog.place(name)


def _options(command: WriteCommand) -> DatasetWriteOptions:
    given = {
        "max_rows": command.max_rows_per_file,
        "max_bytes": command.max_bytes_per_file,
    }
    limits = FileLimits(**{name: value for name, value in given.items() if value is not None})
    return DatasetWriteOptions(
        file_version=file_version(command.data_storage_version),
        enable_stable_row_ids=bool(command.enable_stable_row_ids),
        limits=limits,
        transaction_properties=command.properties,
        transaction_id=command.transaction_id,
    )


def _earlier(storage: Storage, transaction_id: str | None) -> Written | None:
    """What a transaction of this id did; None when no version was made by it."""
    if transaction_id is None:
        return None
    read_version = _read_version(storage, transaction_id)
    if read_version is None:
        return None
    for version in list_versions(storage):
        if version > read_version:
            manifest = read_manifest(storage, version)
            if manifest.transaction_uuid == transaction_id:
                return written_by(storage, manifest)
    return None


def _read_version(storage: Storage, transaction_id: str) -> int | None:
    """The version that a transaction was made on, from the name of its file; None when it has none.

    Tables that keep transactions in their manifests alone are searched from the beginning.
    """
    suffix = f"-{transaction_id}.txn"
    try:
        names = storage.list_names(TRANSACTIONS)
    except FileMissingError:
        return 0
    read_versions = [number for name in names if (number := name.removesuffix(suffix)).isdecimal()]
    return min(map(int, read_versions), default=None)


def written_by(storage: Storage, manifest: Manifest) -> Written:
    """What the transaction of a version added; errors are those of `read_transaction`."""
    transaction = read_transaction(storage, manifest)
    operation = transaction.WhichOneof("operation")
    fragments = getattr(transaction, operation).fragments if operation in ("append", "overwrite") else []
    return Written(
        version=manifest.version,
        rows=sum(fragment.physical_rows for fragment in fragments),
        bytes=sum(file.file_size_bytes for fragment in fragments for file in fragment.files),
        fragments=len(fragments),
    )
