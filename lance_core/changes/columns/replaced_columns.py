"""Other values for columns of whole fragments, in new files that replace the current files of these columns.

One writer per fragment writes one row per physical row, so concurrent deletions do no harm. One commit adds
all files, or none. A version that moved rows of such a fragment or wrote the same columns is a conflict: the
new values belong to the rows as they were before.
Source: docs/format.md, "Operations".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_core.changes.columns.fragment_columns import FragmentColumnsWriter, fragment_of
from lance_core.changes.columns.replaceable import replaceable_columns
from lance_core.commit.commit import commit
from lance_core.errors import CommitConflictError, InvalidInputError, UnsupportedFeatureError
from lance_core.file.footer import FileVersion
from lance_core.proto import table_pb2
from lance_core.proto.transaction_pb2 import Transaction
from lance_core.schema import Schema
from lance_core.schema.physical_columns import leaves, nodes
from lance_core.storage import Storage
from lance_core.table.fragment import Fragment
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import Snapshot
from lance_core.table.transaction import data_replacement


@dataclass(frozen=True)
class ReplacedColumns:
    """A file with other values for columns of one fragment. It belongs to no version yet."""

    fragment_id: int
    file: table_pb2.DataFile


class ReplacedColumnsWriter(FragmentColumnsWriter):
    """Writer of other values for all physical rows of one fragment; for one thread."""

    def __init__(self, snapshot: Snapshot, fragment_id: int, schema: pa.Schema, *, sync: bool = True) -> None:
        """Begin a file.

        Args:
            snapshot: The version that has the fragment.
            fragment_id: Id of the fragment.
            schema: The columns: all columns of one file of the fragment, or columns that none of its files
                has (their values are null so far).
            sync: Make the file and its name durable before `finish` returns.

        Raises:
            InvalidInputError: There is no such fragment or column, or a file has only some of the columns.
            UnsupportedFeatureError: The table has 0.1 files.
        """
        manifest = snapshot.manifest
        fragment = fragment_of(snapshot, fragment_id)
        if manifest.data_storage_version == FileVersion.V0_1.name:
            raise UnsupportedFeatureError("replacing columns of a 0.1 file", file=manifest.name)
        columns, _ = replaceable_columns(manifest.schema, schema)
        _check_files(fragment, columns, manifest)
        self._fragment_id = fragment_id
        super().__init__(snapshot, fragment, columns, schema, sync=sync)

    def finish(self) -> ReplacedColumns:
        """Complete the file; errors are those of `finish_file`."""
        return ReplacedColumns(self._fragment_id, self.finish_file())


def commit_replaced_columns(
    storage: Storage, transaction: Transaction, replaced: Sequence[ReplacedColumns], *, sync: bool = True
) -> Manifest:
    """Commit files of different fragments as one version. If the commit fails, the files stay.

    Args:
        storage: Storage of the table.
        transaction: A transaction without an operation, on the version that the files were written for or an
            older one.
        replaced: The new files.
        sync: Make everything durable before returning.

    Raises:
        InvalidInputError: There are no files, two files of one fragment, or files with different columns.
        CommitConflictError: A later version moved rows of these fragments, or wrote or dropped these columns.
            Not retryable: the values belong to other rows.
        LanceError: The errors of `commit`.
    """
    if not replaced:
        raise InvalidInputError("nothing is replaced")
    if len({each.fragment_id for each in replaced}) != len(replaced):
        raise InvalidInputError("columns of one fragment are replaced twice")
    if len({tuple(each.file.fields) for each in replaced}) != 1:
        raise InvalidInputError("different columns are replaced")
    data_replacement(transaction, [(each.fragment_id, each.file) for each in replaced])
    try:
        return commit(storage, transaction, sync=sync)
    except CommitConflictError as error:
        raise CommitConflictError(str(error), retryable=False) from error


def _check_files(fragment: Fragment, columns: Schema, manifest: Manifest) -> None:
    """Refuse columns unless one file of the fragment has exactly these, or no file has any of them."""
    is_2_0 = manifest.data_storage_version == FileVersion.V2_0.name
    stored = nodes if is_2_0 else leaves
    wanted = [node.id for field in columns.fields for node in stored(field)]
    for file in fragment.message.files:
        held = list(file.fields)
        if held == wanted:
            return
        if set(held).intersection(wanted):
            ids = set(held)
            names = [
                field.name
                for field in manifest.schema.fields
                if ids.intersection(node.id for node in stored(field))
            ]
            known = {node.id for field in manifest.schema.fields for node in stored(field)}
            others = " and others that the table no longer has" if ids - known else ""
            raise InvalidInputError(
                f"columns of fragment {fragment.id} are replaced together with all others of their file",
                expected=f"[{', '.join(names)}]{others}",
                found=f"[{', '.join(field.name for field in columns.fields)}]",
            )
