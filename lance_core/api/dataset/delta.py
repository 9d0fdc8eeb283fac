"""Changes between two versions, with the names, arguments and results of the reference library."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lance_core.api.dataset.operations import Transaction
from lance_core.api.dataset.transactions import from_message
from lance_core.scan.arguments import scan_options
from lance_core.scan.changes import Changes, RowSet
from lance_core.scan.plan.projection import CREATED_AT, LAST_UPDATED_AT, ROW_ID
from lance_core.scan.scanner import LanceScanner
from lance_core.table.snapshot import Snapshot

_ROW_IDS = pa.schema([(ROW_ID, pa.uint64())])


class DatasetDelta:
    """The rows that were inserted, updated and deleted between two versions; see `LanceDataset.delta`."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes

    def list_transactions(self) -> list[Transaction]:
        """Return the transactions of all versions after the earlier one, up to the later one."""
        return [from_message(message) for message in self._changes.transactions]

    def get_inserted_rows(self) -> pa.RecordBatchReader:
        """Return the rows of the later version that the earlier version lacks.

        Returns:
            All columns of the dataset, `_rowid`, `_row_created_at_version` and
            `_row_last_updated_at_version`.
        """
        return _scan(self._changes.end, self._changes.inserted)

    def get_updated_rows(self) -> pa.RecordBatchReader:
        """Return the rows of both versions that were updated in between, with their later values.

        Returns:
            The columns of `get_inserted_rows`.
        """
        return _scan(self._changes.end, self._changes.updated)

    def get_deleted_row_ids(self) -> pa.RecordBatchReader:
        """Return the row ids (`_rowid`) of the rows of the earlier version that the later version lacks.

        Without stable row ids they are the row addresses in the earlier version.
        """

        def batches() -> Iterator[pa.RecordBatch]:
            for ids, _ in self._changes.deleted():
                yield pa.record_batch([pa.array(ids)], schema=_ROW_IDS)

        return pa.RecordBatchReader.from_batches(_ROW_IDS, batches())


def _scan(snapshot: Snapshot, rows: RowSet) -> pa.RecordBatchReader:
    schema = snapshot.manifest.schema
    columns = [*(field.name for field in schema.fields), ROW_ID, CREATED_AT, LAST_UPDATED_AT]
    options = scan_options(schema, columns, rows.filter, fragments=rows.fragments)
    return LanceScanner(snapshot, options).to_reader()
