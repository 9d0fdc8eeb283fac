"""New columns out of other data, joined by key: a left join with the dataset on the left."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lance_core.errors import CommitConflictError, InvalidInputError
from lance_core.mutations.add_columns import add_columns
from lance_core.mutations.join import KeyedRows
from lance_core.scan.scanner import LanceScanner, scan_options
from lance_core.table.fragment import Fragment
from lance_core.table.snapshot import Snapshot

_PLACES = ("_rowid", "_rowaddr")
"""Keys that may mean other rows in another version."""


def merge(
    snapshot: Snapshot,
    rows: pa.Table,
    left_on: str,
    right_on: str | None = None,
    *,
    transaction_id: str | None = None,
    sync: bool = True,
) -> Snapshot:
    """Add the columns of `rows` to the rows of the same key; others get nulls.

    Args:
        snapshot: the version to change.
        rows: the new columns and their key; held in memory.
        left_on: the key of the dataset, `_rowid` and `_rowaddr` included.
        right_on: the key of `rows`; the same name if not given.

    Raises:
        InvalidInputError: there is no such key, keys of different types, a column that exists already, or
            a row without a value for a column that allows no nulls.
        UnsupportedFeatureError: a type of keys that are not compared.
        LanceError: as `add_columns` does.
    """
    source = JoinedColumns(rows, left_on, right_on)
    return add_columns(snapshot, source, transaction_id=transaction_id, sync=sync)


class JoinedColumns:
    """Columns of other rows with the same key; see `lance_core.mutations.new_columns.NewColumns`."""

    is_ordered = False

    def __init__(self, rows: pa.Table, left_on: str, right_on: str | None = None) -> None:
        self._rows = KeyedRows(rows, right_on or left_on)
        self._left_on = left_on
        self._read_version: int | None = None
        if not self._rows.columns.column_names:
            raise InvalidInputError("data to merge has no column besides its key", column=right_on or left_on)

    def schema(self, snapshot: Snapshot) -> pa.Schema:
        self._scanner(snapshot)
        if self._read_version is None:
            self._read_version = snapshot.manifest.version
        return self._rows.columns.schema.remove_metadata()

    def batches(self, snapshot: Snapshot, fragment: Fragment) -> Iterator[pa.RecordBatch]:
        if self._left_on in _PLACES and snapshot.manifest.version != self._read_version:
            raise CommitConflictError(
                f"fragment {fragment.id} is new, and {self._left_on} may name other rows now", retryable=False
            )
        for batch in self._scanner(snapshot, (fragment.id,)).to_batches():
            joined = self._rows.columns.take(self._rows.find(batch.column(0)))
            yield from joined.combine_chunks().replace_schema_metadata(None).to_batches()

    def finish(self) -> None:
        pass

    def _scanner(self, snapshot: Snapshot, fragments: tuple[int, ...] | None = None) -> LanceScanner:
        return LanceScanner(
            snapshot, scan_options(snapshot.manifest.schema, [self._left_on], fragments=fragments)
        )
