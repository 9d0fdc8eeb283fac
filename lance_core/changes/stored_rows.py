"""Rows of a table in the form of data files, to be written again to other fragments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from lance_core.changes.checked_reads import rows_at, rows_for_change
from lance_core.changes.rows.removal import Addresses, addresses_of
from lance_core.errors import UnsupportedFeatureError
from lance_core.expressions.tree import Column
from lance_core.scan.plan.options import Computed, ScanOptions
from lance_core.scan.plan.projection import CREATED_AT, ROW_ID
from lance_core.scan.read.blobs import blob_descriptors
from lance_core.scan.run.stored_scan import with_places
from lance_core.schema import Field
from lance_core.schema.arrow_values import numbers_of
from lance_core.table.row_ids import RowIds
from lance_core.table.row_versions import Versions
from lance_core.table.snapshot import Snapshot

_EXTERNAL = 3
"""Kind of a blob outside the dataset, in blob descriptors."""


@dataclass(frozen=True)
class StoredRows:
    """Some rows of a table.

    Attributes:
        columns: Values of the rows, one array per column.
        row_ids: Row ids; without stable row ids the row addresses.
        created: Versions in which the rows were created; meaningful only with stable row ids.
        addresses: Row addresses.
    """

    columns: list[pa.Array]
    row_ids: RowIds
    created: Versions
    addresses: Addresses

    def __len__(self) -> int:
        return len(self.addresses)

    def part(self, rows: slice, columns: list[pa.Array]) -> StoredRows:
        """Return a range of the rows with other values."""
        return StoredRows(columns, self.row_ids[rows], self.created[rows], self.addresses[rows])


def stored_columns(fields: Iterable[Field]) -> Computed:
    """Return the argument of `stored_rows` that reads columns unchanged."""
    return tuple((field.name, Column((field.name,), field.to_arrow().type)) for field in fields)


def stored_rows(
    snapshot: Snapshot, options: ScanOptions, addresses: Addresses | None = None
) -> Iterator[StoredRows]:
    """Yield rows with some columns, a batch at a time.

    Args:
        snapshot: The version to read.
        options: The scan; `computed` names the columns. Unchanged columns have the form of data files,
            computed values have their own types.
        addresses: Addresses of the rows, in the order in which they are wanted; None: the rows of the scan.

    Raises:
        UnsupportedFeatureError: A row has a blob outside the dataset.
        LanceError: Something cannot be read or computed.
    """
    computed = options.computed or ()
    created = (CREATED_AT, Column((CREATED_AT,), pa.uint64()))
    whole = replace(
        options, computed=(*computed, created), stored=True, with_row_id=True, with_row_address=True
    )
    fields = {field.name: field for field in snapshot.manifest.schema.fields}
    kept = [value.path == (name,) if isinstance(value, Column) else False for name, value in computed]
    names = [name for name, _ in computed]
    kept_names = [name for name, keep in zip(names, kept, strict=True) if keep]
    refuse_external_blobs(snapshot, options, kept_names, addresses)
    for batch in _batches(snapshot, whole, addresses):
        columns = [
            with_places(column, fields[name]) if keep else column
            for column, name, keep in zip(batch.columns, names, kept, strict=False)
        ]
        row_ids, created_at = (numbers_of(batch.column(name)) for name in (ROW_ID, CREATED_AT))
        yield StoredRows(columns, row_ids, created_at, addresses_of(batch))


def _batches(
    snapshot: Snapshot, options: ScanOptions, addresses: Addresses | None
) -> Iterator[pa.RecordBatch]:
    if addresses is None:
        return rows_for_change(snapshot, options)
    return rows_at(snapshot, options, addresses)


def refuse_external_blobs(
    snapshot: Snapshot, options: ScanOptions, names: Iterable[str], addresses: Addresses | None = None
) -> None:
    """Refuse to copy blobs from outside the dataset into it.

    Args:
        snapshot: The version to read.
        options: Filter and fragments of the scan.
        names: Names of the columns.
        addresses: See `stored_rows`.

    Raises:
        UnsupportedFeatureError: A row has a blob outside the dataset.
    """
    chosen = set(names)
    for top in snapshot.manifest.schema.fields:
        if top.name not in chosen or not any(field.is_blob_v2 for field in top.walk()):
            continue
        described = ScanOptions(columns=(top.name,), filter=options.filter, fragments=options.fragments)
        for batch in _batches(snapshot, described, addresses):
            for found in blob_descriptors(top, batch.column(0)):
                if pc.any(pc.equal(found.field("kind"), _EXTERNAL)).as_py():
                    raise UnsupportedFeatureError("copying blobs outside the dataset", column=top.name)
