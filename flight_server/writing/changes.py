"""Changes of datasets: puts, and actions that create or drop a dataset. Free of Flight types."""

import json
import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from flight_server.catalog.local import Catalog
from flight_server.errors import DrainingError
from flight_server.requests.names import DatasetReference, shown
from flight_server.requests.write_command import WriteCommand
from flight_server.writing.column_puts import put_columns
from flight_server.writing.uploads import Abortable, Batches
from lance_core.changes.rows.merge_insert import merge_insert
from lance_core.changes.rows.row_change import COUNTS
from lance_core.changes.source_rows import SourceRows
from lance_core.commit.transaction_lookup import find_committed
from lance_core.errors import (
    CommitConflictError,
    DatasetExistsError,
    DatasetNotFoundError,
)
from lance_core.storage import Storage
from lance_core.table.manifest import Manifest
from lance_core.table.refs import branch_storage
from lance_core.table.snapshot import Snapshot
from lance_core.table.transaction import read_transaction
from lance_core.write.dataset import DatasetWriter, Mode
from lance_core.write.dataset_options import DatasetWriteOptions, file_version
from lance_core.write.fragments import FileLimits

OPERATIONS: Mapping[str, Collection[str]] = {
    "create": ("overwrite",),
    "append": ("append",),
    "overwrite": ("overwrite",),
    "merge_insert": ("update",),
    "add_columns": ("merge",),
    "replace_columns": ("data_replacement",),
    "rewrite": ("rewrite",),
}
"""Operations of transactions, by the mode of an upload and the operation of a commit; see
`find_committed`.
"""


@dataclass(frozen=True)
class Written:
    """Version, rows and bytes that a write added."""

    version: int
    """The version that the write made."""
    rows: int
    bytes: int
    """Size of the new data files, as far as the transaction distinguishes them from others."""
    fragments: int
    """New ones."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Rows that a merge inserted, updated and deleted."""


@dataclass(frozen=True)
class Target:
    """Dataset and branch that a call changes."""

    root: Storage
    """Storage of the main branch."""
    storage: Storage
    """Storage of the branch."""
    snapshot: Snapshot | None
    """The latest version of the branch; None when there is no dataset yet."""


@dataclass(frozen=True)
class Opened:
    """A dataset that is changed."""

    root: Storage
    """Storage of the main branch."""
    snapshot: Snapshot
    """The latest version of the branch."""


class Mutations:
    """Changes to the datasets of one catalog. Thread-safe."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._writing: Counter[str] = Counter()
        """Number of running puts, by the path of the dataset."""
        self._dropping: set[str] = set()
        """Paths of datasets whose files are being removed."""
        self._unfinished: set[Abortable] = set()
        """Uploads of puts that have not reached their commit."""
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
        with self.target(command.dataset, creates=command.creates) as target:
            storage, base = target.storage, target.snapshot
            earlier = earlier_result(storage, command.transaction_id, OPERATIONS[command.mode])
            if earlier is not None:
                for _ in upload.batches():
                    pass
                return earlier
            if base is not None and command.mode == "create":
                raise DatasetExistsError(f"dataset {command.dataset.name} exists")
            if base is not None and command.merge is not None:
                with SourceRows(upload.batches(), upload.schema) as source:
                    made, _ = merge_insert(base, source, command.merge, transaction_id=command.transaction_id)
                return written_by(storage, made.manifest)
            if base is not None and command.mode in ("add_columns", "replace_columns"):
                return written_by(storage, put_columns(base, command, upload, self.abandonable))
            mode = row_mode(command, base)
            with DatasetWriter(storage, upload.schema, mode, write_options(command), base=base) as writer:
                with self.abandonable(writer):
                    for batch in upload.batches():
                        writer.write(batch)
                snapshot = writer.commit()
            return written_by(storage, snapshot.manifest)

    @contextmanager
    def opened(self, reference: DatasetReference) -> Iterator[Opened]:
        """A dataset to change, see `target`."""
        with self.target(reference) as target:
            assert target.snapshot is not None
            yield Opened(target.root, target.snapshot)

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

    def tidy(self, path: str) -> None:
        """Remove the directories of a dataset that was not made after all, unless it is being made."""
        with self._lock:
            if not self._writing[path]:
                del self._writing[path]
                self._catalog.remove_unfinished(path)

    @contextmanager
    def abandonable(self, writer: Abortable) -> Iterator[None]:
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
            CommitConflictError: somebody is writing to the dataset, or drops it, through this server.
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

    @contextmanager
    def target(self, reference: DatasetReference, *, creates: bool = False) -> Iterator[Target]:
        """The dataset and branch to change, as they are now; nobody drops the dataset while the block runs.

        Args:
            reference: what is changed.
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
            snapshot = self._catalog.open(reference) if is_there else None
            if snapshot is None and branch is not None:
                raise DatasetNotFoundError(f"no dataset is named {shown(name)}")
            yield Target(
                root, branch_storage(root, branch) if snapshot is None else snapshot.storage, snapshot
            )
        finally:
            with self._lock:
                self._writing[path] -= 1
                if not self._writing[path]:
                    del self._writing[path]
                    self._catalog.remove_unfinished(path)

    def _check_dropped(self, path: str, name: str) -> None:
        """Refuse a dataset that is being dropped: a new one would lose its files."""
        if path in self._dropping:
            raise CommitConflictError(f"dataset {name} is being dropped", retryable=True)


def row_mode(command: WriteCommand, base: Snapshot | None) -> Mode:
    """Return the mode with which a `DatasetWriter` writes the rows of a command."""
    if base is None:
        return "create"
    return "append" if command.mode == "append" else "overwrite"


def write_options(command: WriteCommand) -> DatasetWriteOptions:
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


def earlier_result(
    storage: Storage, transaction_id: str | None, operations: Collection[str] | None = None
) -> Written | None:
    """Return the result of the transaction with this id; None if it made no version.

    Errors are those of `find_committed`, which also says what `operations` are.
    """
    manifest = None if transaction_id is None else find_committed(storage, transaction_id, operations)
    return None if manifest is None else written_by(storage, manifest)


def written_by(storage: Storage, manifest: Manifest) -> Written:
    """Return what the transaction of a version added; errors are those of `read_transaction`."""
    transaction = read_transaction(storage, manifest)
    operation = transaction.WhichOneof("operation")
    name = {"append": "fragments", "overwrite": "fragments", "update": "new_fragments"}.get(str(operation))
    fragments = getattr(getattr(transaction, operation), name) if name else []
    files = [file for fragment in fragments for file in fragment.files]
    files += [each.new_file for each in transaction.data_replacement.replacements]
    return Written(
        version=manifest.version,
        rows=sum(fragment.physical_rows for fragment in fragments),
        bytes=sum(file.file_size_bytes for file in files),
        fragments=len(fragments),
        counts=json.loads(transaction.transaction_properties.get(COUNTS, "{}")),
    )
