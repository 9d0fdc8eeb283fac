"""Complete rows that get new places: moved ones, which keep their row ids, and after them inserted ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lance_core.mutations.change import Change
from lance_core.proto import table_pb2
from lance_core.schema import Schema
from lance_core.table.row_ids import RowIds
from lance_core.table.row_sequences import encode_row_ids
from lance_core.table.snapshot import Snapshot
from lance_core.write.dataset import table_file_version
from lance_core.write.fragments import FragmentWriter


class NewRows:
    """Writes rows to new fragments. For one thread; memory is bounded."""

    def __init__(self, snapshot: Snapshot, schema: Schema, change: Change, *, sync: bool) -> None:
        """Get ready for rows with the columns of `schema`; the files are noted in `change`.

        Raises:
            UnsupportedFeatureError: a type that is not written.
        """
        self._stored = pa.schema([(field.name, field.arrow_type) for field in schema.fields])
        self._keeps_ids = snapshot.manifest.has_stable_row_ids
        self._ids: list[RowIds] = []
        version = table_file_version(None, snapshot.manifest, "append")
        self._writer = FragmentWriter(snapshot.storage, schema, version, sync=sync)
        change.writers.append(self._writer)

    def move(self, columns: Sequence[pa.Array], row_ids: RowIds) -> None:
        """Write rows that have these ids; all of them before the first that is inserted.

        `columns` are in the form that files hold. Errors are those of `FragmentWriter.write`.
        """
        self.insert(columns)
        if self._keeps_ids:
            self._ids.append(row_ids)

    def insert(self, columns: Sequence[pa.Array]) -> None:
        """Write rows that are new; otherwise as `move`."""
        self._writer.write(pa.RecordBatch.from_arrays(columns, schema=self._stored))

    def finish(self) -> list[table_pb2.DataFragment]:
        """Complete the files. Fragments have no ids yet, and the row ids of moved rows where these stay."""
        fragments = list(self._writer.finish())
        ids = np.concatenate(self._ids) if self._ids else np.empty(0, dtype=np.uint64)
        for fragment in fragments if self._keeps_ids else ():
            fragment.inline_row_ids = encode_row_ids(ids[: fragment.physical_rows])
            ids = ids[fragment.physical_rows :]
        return fragments
