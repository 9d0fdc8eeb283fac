"""Complete rows that get new places: moved ones, which keep their row ids, and after them inserted ones."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lance_core.errors import UnsupportedFeatureError
from lance_core.mutations.change import Change
from lance_core.proto import table_pb2
from lance_core.table.row_ids import RowIds
from lance_core.table.row_sequences import encode_row_ids
from lance_core.table.snapshot import Snapshot
from lance_core.write.conform import Conformer
from lance_core.write.dataset import table_file_version
from lance_core.write.fragments import FragmentWriter


class NewRows:
    """Writes rows of all columns of a table to new fragments. For one thread; memory is bounded."""

    def __init__(self, snapshot: Snapshot, given: pa.Schema, change: Change, *, sync: bool) -> None:
        """Get ready for batches of the schema `given`; the files are noted in `change`.

        Raises:
            InvalidInputError: columns that do not fit the table.
            UnsupportedFeatureError: a type that is not written.
        """
        schema = snapshot.manifest.schema
        for node in (node for field in schema.fields for node in field.walk()):
            if node.is_blob_v2:
                raise UnsupportedFeatureError("moving rows with blobs of the second form", column=node.name)
        self._conformer = Conformer(schema, given)
        self._keeps_ids = snapshot.manifest.has_stable_row_ids
        self._ids: list[RowIds] = []
        self._writer = FragmentWriter(
            snapshot.storage,
            self._conformer.schema,
            table_file_version(None, snapshot.manifest, "append"),
            sync=sync,
        )
        change.writers.append(self._writer)

    def move(self, batch: pa.RecordBatch, row_ids: RowIds) -> None:
        """Write rows that have these ids; all of them before the first that is inserted.

        Raises:
            InvalidInputError: a null in a column that allows none.
            LanceError: the storage failed, or the file cannot hold a value.
        """
        self.insert(batch)
        if self._keeps_ids:
            self._ids.append(row_ids)

    def insert(self, batch: pa.RecordBatch) -> None:
        """Write rows that are new; errors are those of `move`."""
        self._writer.write(self._conformer.conform(batch))

    def finish(self) -> list[table_pb2.DataFragment]:
        """Complete the files. Fragments have no ids yet, and the row ids of moved rows where these stay."""
        fragments = list(self._writer.finish())
        ids = np.concatenate(self._ids) if self._ids else np.empty(0, dtype=np.uint64)
        for fragment in fragments if self._keeps_ids else ():
            fragment.inline_row_ids = encode_row_ids(ids[: fragment.physical_rows])
            ids = ids[fragment.physical_rows :]
        return fragments
