"""A file with columns of one fragment, from batches with one row per physical row."""

from __future__ import annotations

import pyarrow as pa

from lance_core.changes.columns.column_file import ColumnFileWriter
from lance_core.errors import InvalidInputError
from lance_core.proto import table_pb2
from lance_core.schema import Schema
from lance_core.table.fragment import Fragment
from lance_core.table.snapshot import Snapshot
from lance_core.write.schema_conformer import Conformer
from lance_core.write.targets import DIRECTORY


class FragmentColumnsWriter:
    """Writer of columns of all physical rows of one fragment to a file; for one thread.

    The classes that inherit from it decide which columns are allowed, and describe the file for the commit.
    """

    def __init__(
        self, snapshot: Snapshot, fragment: Fragment, columns: Schema, given: pa.Schema, *, sync: bool
    ) -> None:
        """Begin a file.

        Args:
            snapshot: The version that has the fragment.
            fragment: The fragment of the rows.
            columns: Schema of the file, with the field ids that the columns have or get in the table.
            given: Schema of the batches.
            sync: Make the file and its name durable before `finish_file` returns.

        Raises:
            InvalidInputError: `given` does not fit the columns.
            UnsupportedFeatureError: Files of the table's version cannot hold a type.
        """
        self._conformer = Conformer(columns, given)
        self._storage, self._sync = snapshot.storage, sync
        self._writer = ColumnFileWriter(snapshot, fragment, columns, with_deleted_rows=True, sync=sync)

    @property
    def num_rows(self) -> int:
        """Number of rows written so far."""
        return self._writer.num_rows

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows; errors are those of `Conformer.conform` and `ColumnFileWriter.write`."""
        self._writer.write(self._conformer.conform(batch))

    def finish_file(self) -> table_pb2.DataFile:
        """Complete the file.

        Raises:
            InvalidInputError: The fragment has more rows, deleted rows included.
        """
        file = self._writer.finish()
        if self._sync:
            self._storage.sync_directory(DIRECTORY)
        return file

    def abort(self) -> None:
        """Remove the file."""
        self._writer.abort()


def fragment_of(snapshot: Snapshot, fragment_id: int) -> Fragment:
    """Return a fragment by its id.

    Raises:
        InvalidInputError: There is no such fragment.
    """
    found = snapshot.manifest.fragment_by_id.get(fragment_id)
    if found is None:
        raise InvalidInputError("no such fragment", found=fragment_id)
    return found
