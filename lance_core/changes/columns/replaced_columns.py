"""Other values for columns of whole fragments, in files that take the place of those that hold them now.

One writer per fragment streams a row for every physical row, so that deletions meanwhile do no harm; one
commit puts all files in, or none. A version that moved rows of such a fragment, or wrote the same columns, is
in the way: what was streamed was meant for the rows that stood there before.
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
    """Other values for columns of one fragment, in a file that belongs to no version yet."""

    fragment_id: int
    file: table_pb2.DataFile


class ReplacedColumnsWriter(FragmentColumnsWriter):
    """Writes other values for all physical rows of one fragment; for one thread."""

    def __init__(self, snapshot: Snapshot, fragment_id: int, schema: pa.Schema, *, sync: bool = True) -> None:
        """Begin a file for the columns of `schema`: all that one file of the fragment holds, or columns that
        none of its files holds, whose values are null so far.

        Raises:
            InvalidInputError: there is no such fragment or column, or these are other columns.
            UnsupportedFeatureError: a 0.1 table.
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
    """Make one version out of columns that were written for different fragments.

    The files are left alone when it fails.

    Args:
        storage: of the table.
        transaction: lacks its operation; it was made on the version that the files were written for, or an
            older one.
        replaced: the new files.
        sync: make everything durable before returning.

    Raises:
        InvalidInputError: nothing is replaced, one fragment twice, or different columns.
        CommitConflictError: a version since then moved rows of these fragments, wrote these columns or
            removed them. Not retryable: the values would be written to other rows than they were meant for.
        LanceError: as `commit` does.
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
    """Refuse columns of which no file of the fragment holds just these, unless none holds any of them."""
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
