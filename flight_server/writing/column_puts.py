"""Versions made of uploaded columns: new ones, and other values of those that there are."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

import pyarrow as pa

from flight_server.requests.write_command import WriteCommand
from flight_server.writing.uploads import Abandonable, Batches
from lance_core.changes.columns.add import add_columns
from lance_core.changes.columns.column_file import delete_files
from lance_core.changes.columns.column_sources import StreamColumns
from lance_core.changes.columns.join import join_columns, require_lasting_keys
from lance_core.changes.columns.replaced_columns import ReplacedColumnsWriter, commit_replaced_columns
from lance_core.changes.columns.staged_columns import StagedColumnsWriter, commit_staged_columns
from lance_core.changes.source_rows import SourceRows
from lance_core.errors import CommitUnknownError, LanceError
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import Snapshot
from lance_core.table.transaction import new_transaction

T_co = TypeVar("T_co", covariant=True)


def put_columns(base: Snapshot, command: WriteCommand, upload: Batches, abandonable: Abandonable) -> Manifest:
    """Make a version of uploaded columns; what they are the mode, `fragment_id` and `on` of the command say.

    Raises:
        CommitUnknownError: nobody can say whether the version was made.
        LanceError: others mean that the columns cannot be written; nothing was.
    """
    transaction_id = command.transaction_id
    if command.mode == "replace_columns":
        assert command.fragment_id is not None  # the command was checked
        transaction = new_transaction(base.manifest.version, uuid=transaction_id)
        replaced = _written(
            ReplacedColumnsWriter(base, command.fragment_id, upload.schema), upload, abandonable
        )
        with _kept_if_committed(base, replaced.file.path):
            return commit_replaced_columns(base.storage, transaction, [replaced])
    if command.fragment_id is not None:
        staged = _written(StagedColumnsWriter(base, command.fragment_id, upload.schema), upload, abandonable)
        with _kept_if_committed(base, staged.fragment.files[-1].path):
            return commit_staged_columns(base, [staged], transaction_id=transaction_id).manifest
    if command.on:
        require_lasting_keys(base.manifest, command.on)
        with SourceRows(upload.batches(), upload.schema) as rows:
            return join_columns(base, rows, command.on, transaction_id=transaction_id).manifest
    stream = StreamColumns(upload.schema, upload.batches())
    return add_columns(base, stream, transaction_id=transaction_id).manifest


class _Writer(Protocol[T_co]):
    """Writes one row for each place of one fragment."""

    def write(self, batch: pa.RecordBatch) -> None: ...

    def finish(self) -> T_co: ...

    def abort(self) -> None: ...


def _written(writer: _Writer[T_co], upload: Batches, abandonable: Abandonable) -> T_co:
    """Return the complete file; none is left when that fails."""
    try:
        with abandonable(writer):
            for batch in upload.batches():
                writer.write(batch)
        return writer.finish()
    except BaseException:
        writer.abort()
        raise


@contextmanager
def _kept_if_committed(base: Snapshot, file: str) -> Iterator[None]:
    """Remove a data file where it is certain that no version came to name it."""
    try:
        yield
    except CommitUnknownError:
        raise
    except LanceError:
        delete_files(base.storage, [file])
        raise
