"""New columns of every fragment, and their commit: columns that are added, joined or cast.

If other writers commit meanwhile, the change is planned again. Files of fragments that still have the same
rows are used again. Rows that were deleted since then do no harm in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa

from lance_core.changes.columns.column_file import ColumnFileWriter, delete_files
from lance_core.changes.columns.schema_evolution import preserves_nullability, used_files
from lance_core.changes.retry import with_retries
from lance_core.commit.commit import commit
from lance_core.errors import CommitUnknownError, LanceError
from lance_core.file.external_blobs import ExternalBlobs
from lance_core.proto import table_pb2
from lance_core.schema import Schema
from lance_core.table.fragment import Fragment
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import Snapshot
from lance_core.table.transaction import merge, new_transaction
from lance_core.write.targets import DIRECTORY

_WRITERS = 4
"""Number of fragments that are written at once: writers often wait for the storage."""


@dataclass(frozen=True)
class ColumnChange:
    """New columns of one version."""

    schema: Schema
    """Schema of the table with the new fields."""
    new_fields: Schema
    """Fields of the new files. Without fields no files are written."""
    batches: Callable[[Fragment], Iterator[pa.RecordBatch]]
    """Yields the new columns of the live rows of a fragment, in the form of data files."""
    finish: Callable[[], None]
    """Called after the last fragment; may raise."""
    is_ordered: bool = True
    """Whether `batches` must be called in dataset order, one fragment after the other."""
    external_blobs: ExternalBlobs = field(default_factory=ExternalBlobs)
    """Rules about new blobs that stay outside the dataset."""


def commit_column_change(
    snapshot: Snapshot,
    plan: Callable[[Snapshot], ColumnChange],
    *,
    transaction_id: str | None = None,
    sync: bool = True,
) -> Snapshot:
    """Write the new columns of every fragment, and commit them.

    Args:
        snapshot: The version to change.
        plan: Returns the change of a version. It is called again after a conflict.
        transaction_id: UUID of the transaction; a new one if None.
        sync: Make everything durable before returning.

    Raises:
        CommitConflictError: Another commit is in conflict with the change.
        CommitUnknownError: The storage did not tell whether the version was made; files are kept.
        LanceError: Any other error: nothing was committed, and the files are removed.
    """
    files = _NewFiles(sync)

    def attempt(current: Snapshot) -> Manifest:
        change = plan(current)
        fragments = files.fragments(current, change)
        change.finish()
        transaction = merge(
            new_transaction(current.manifest.version, uuid=transaction_id),
            fragments,
            change.schema,
            preserves_nullability=preserves_nullability(current.manifest.schema, change.schema),
        )
        files.is_committing = True
        manifest = commit(current.storage, transaction, read=current.manifest, sync=sync)
        files.keep(manifest.message.fragments)
        return manifest

    try:
        made = with_retries(snapshot, attempt, "merge", transaction_id=transaction_id)
    except CommitUnknownError:
        raise
    except BaseException as error:
        # What stops a commit from outside leaves open whether it landed.
        if isinstance(error, LanceError) or not files.is_committing:
            files.keep([])
        raise
    files.keep(made.manifest.message.fragments)  # another commit of the same id may have been faster
    return made


def write_columns(
    snapshot: Snapshot, fragment: Fragment, change: ColumnChange, *, sync: bool = True
) -> table_pb2.DataFile:
    """Write the new columns of one fragment; when that fails no file is left.

    The name of the file is not durable before the directory is synced.

    Raises:
        InvalidInputError: the change has not one value per row.
        LanceError: something cannot be read or written.
    """
    writer = ColumnFileWriter(
        snapshot, fragment, change.new_fields, external_blobs=change.external_blobs, sync=sync
    )
    try:
        for batch in change.batches(fragment):
            writer.write(batch)
        return writer.finish()
    except BaseException:
        with suppress(Exception):  # the first error is the one to report
            writer.abort()
        raise


class _NewFiles:
    """The files that were written for one change."""

    def __init__(self, sync: bool) -> None:
        self._sync = sync
        self._written: dict[bytes, tuple[Snapshot, table_pb2.DataFile]] = {}
        """Written files by fragment and columns, see `_key`."""
        self.is_committing = False
        """Whether a version may have the files."""

    def fragments(self, snapshot: Snapshot, change: ColumnChange) -> list[table_pb2.DataFragment]:
        """Return the fragments of a version with their new files. Missing files are written."""
        self.is_committing = False
        messages = snapshot.manifest.message.fragments
        if not change.new_fields.fields:
            return used_files(messages, change.schema)
        live = [fragment for fragment in snapshot.manifest.fragments if fragment.num_rows]
        files = self._files(snapshot, live, change)
        added = []
        for message in messages:
            own = table_pb2.DataFragment()
            own.CopyFrom(message)
            if message.id in files:  # fragments without live rows need no file
                own.files.append(files[message.id])
            added.append(own)
        return used_files(added, change.schema)

    def keep(self, fragments: Iterable[table_pb2.DataFragment]) -> None:
        """Remove the files that none of `fragments` has."""
        kept = {file.path for fragment in fragments for file in fragment.files}
        for snapshot, file in self._written.values():
            if file.path not in kept:
                delete_files(snapshot.storage, [file.path])
        self._written.clear()

    def _files(
        self, snapshot: Snapshot, fragments: Sequence[Fragment], change: ColumnChange
    ) -> dict[int, table_pb2.DataFile]:
        """Return the new file of each fragment, by its id."""
        keys = {fragment.id: _key(fragment.message, change.new_fields) for fragment in fragments}
        missing = [fragment for fragment in fragments if keys[fragment.id] not in self._written]

        def write(fragment: Fragment) -> None:
            file = write_columns(snapshot, fragment, change, sync=self._sync)
            self._written[keys[fragment.id]] = (snapshot, file)

        if change.is_ordered:
            for fragment in missing:
                write(fragment)
        else:
            _write_at_once(write, missing)
        if missing and self._sync:
            snapshot.storage.sync_directory(DIRECTORY)
        return {number: self._written[key][1] for number, key in keys.items()}


def _write_at_once(write: Callable[[Fragment], None], fragments: Sequence[Fragment]) -> None:
    """Write several fragments at the same time. After an error no further one is begun."""
    with ThreadPoolExecutor(_WRITERS) as pool:
        futures = [pool.submit(write, fragment) for fragment in fragments]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _key(fragment: table_pb2.DataFragment, fields: Schema) -> bytes:
    """Return a key that is equal for fragments with the same values in the same rows, deleted rows aside."""
    rows = table_pb2.DataFragment(id=fragment.id, files=fragment.files, physical_rows=fragment.physical_rows)
    parts = [rows, *fields.messages]
    return b"".join(part.SerializeToString(deterministic=True) for part in parts)
