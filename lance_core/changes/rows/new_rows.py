"""The writer of moved rows, which keep their row ids, and of inserted rows after them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lance_core.changes.rows.row_change import RowChange
from lance_core.changes.stored_rows import StoredRows
from lance_core.commit.lineage_encoding import encode_row_ids, encode_versions
from lance_core.file.v0_1.dictionaries import Dictionaries
from lance_core.proto import table_pb2
from lance_core.schema import Schema
from lance_core.table.manifest_dictionaries import dictionaries_of
from lance_core.table.row_ids import RowIds
from lance_core.table.row_versions import Versions
from lance_core.table.snapshot import Snapshot
from lance_core.write.dataset import table_file_version
from lance_core.write.fragments import FragmentWriter
from lance_core.write.targets import TargetBases


class NewRows:
    """Writer of moved and inserted rows to new fragments, in bounded memory; for one thread."""

    def __init__(
        self,
        snapshot: Snapshot,
        schema: Schema,
        change: RowChange,
        targets: TargetBases | None = None,
        *,
        sync: bool,
    ) -> None:
        """Begin to write rows with the columns of `schema`; `change` gets the writer, to remove the files,
        and the puts and syncs of files.

        Raises:
            UnsupportedFeatureError: Files of the table's version cannot hold a type.
            InvalidInputError: The table does not have the base paths of `targets`.
        """
        self._stored = pa.schema([(field.name, field.arrow_type) for field in schema.fields])
        self._keeps_ids = snapshot.manifest.has_stable_row_ids
        self._ids: list[RowIds] = []
        self._created: list[Versions] = []
        version = table_file_version(None, snapshot.manifest, "append")
        dictionaries = Dictionaries(dictionaries_of(snapshot.manifest), grow=False)
        bases = snapshot.manifest.base_paths.values()
        storage = snapshot.storage.putting_later(change.writes)
        self._writer = FragmentWriter(
            storage,
            schema,
            version,
            sync=sync,
            dictionaries=dictionaries,
            targets=targets.resolve(bases, storage, snapshot.open_base) if targets else (),
        )
        change.writers.append(self._writer)

    def move(self, rows: StoredRows) -> None:
        """Write rows of the table, in the form of data files. Move all rows before inserting any.

        Raises:
            LanceError: The errors of `FragmentWriter.write`.
        """
        self.insert(rows.columns)
        if self._keeps_ids:
            self._ids.append(rows.row_ids)
            self._created.append(rows.created)

    def insert(self, columns: Sequence[pa.Array]) -> None:
        """Write new rows in the form of data files; errors are those of `move`."""
        self._writer.write(pa.RecordBatch.from_arrays(columns, schema=self._stored))

    def finish(self) -> list[table_pb2.DataFragment]:
        """Complete the files.

        Returns:
            Fragments without ids. With stable row ids they have the ids of the moved rows, and the versions
            in which these rows were created.
        """
        fragments = list(self._writer.finish())
        none = [np.empty(0, dtype=np.uint64)]
        ids, created = np.concatenate(self._ids or none), np.concatenate(self._created or none)
        for fragment in fragments if self._keeps_ids else ():
            rows = fragment.physical_rows
            fragment.inline_row_ids = encode_row_ids(ids[:rows])
            fragment.inline_created_at_versions = encode_versions(created[:rows])
            ids, created = ids[rows:], created[rows:]
        return fragments
