"""Changes with a stream of batches that can be read once, as a server or a command gets it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from lance_core.changes.columns.add import add_columns
from lance_core.changes.columns.column_sources import StreamColumns
from lance_core.changes.columns.join import join_columns, require_lasting_keys
from lance_core.changes.rows.merge_insert import merge_insert
from lance_core.changes.rows.merge_plan import MergePlan
from lance_core.changes.source_rows import SourceRows
from lance_core.table.snapshot import Snapshot


def merge_stream(
    snapshot: Snapshot,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    plan: MergePlan,
    *,
    transaction_id: str | None = None,
) -> Snapshot:
    """Merge rows into a dataset; errors are those of `merge_insert`, and those that the stream raises."""
    with SourceRows(batches, schema) as source:
        made, _ = merge_insert(snapshot, source, plan, transaction_id=transaction_id)
    return made


def join_stream(
    snapshot: Snapshot,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    on: Sequence[str],
    *,
    transaction_id: str | None = None,
) -> Snapshot:
    """Add columns, joined to the rows of the dataset by the keys `on`.

    Raises:
        InvalidInputError: keys that may mean other rows by now: see `require_lasting_keys`.
        LanceError: as `lance_core.changes.columns.join.join_columns` raises, or the stream does.
    """
    require_lasting_keys(snapshot.manifest, on)
    with SourceRows(batches, schema) as source:
        return join_columns(snapshot, source, on, transaction_id=transaction_id)


def add_stream(
    snapshot: Snapshot,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    *,
    transaction_id: str | None = None,
) -> Snapshot:
    """Add columns whose values come in the order of the rows; errors are those of `add_columns`."""
    return add_columns(snapshot, StreamColumns(schema, iter(batches)), transaction_id=transaction_id)
