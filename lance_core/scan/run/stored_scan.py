"""Scans of rows in the form of data files, to be written again: without extension types, JSON as stored.

The values of blobs are read, since the new file stores them at its own positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from lance_core.scan.files.data_files import DataFiles
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.projection import Projection, stored_column
from lance_core.scan.plan.scan_plan import FragmentScan, ScanPlan
from lance_core.scan.read.blobs import fields_below, values_below, with_children
from lance_core.scan.run.budget import MemoryBudget
from lance_core.scan.run.execute import scan_projection
from lance_core.schema import Field
from lance_core.schema.blobs import binary_blobs
from lance_core.table.snapshot import Snapshot


def scan_stored(
    snapshot: Snapshot,
    fragment_ids: Iterable[int],
    fields: Sequence[Field],
    budget: MemoryBudget,
    files: DataFiles,
    *,
    batch_rows: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of fragments that are not deleted, in order.

    Args:
        snapshot: the version that is read.
        fragment_ids: the fragments, in this order.
        fields: top-level fields, or parts of them with fewer children; one or more.
        budget, files: as for `scan_batches`.
        batch_rows: most rows of a batch; sized by bytes where not given.

    Returns:
        Batches whose columns have the names and storage types of `fields`. A blob of the second form is the
        struct that its values are given in, with the bytes in it.

    Raises:
        LanceError: something cannot be read.
    """
    columns = tuple(map(stored_column, fields))
    schema = pa.schema([column.output for column in columns])
    fragments = snapshot.manifest.fragment_by_id
    rows = ((number, fragments[number].num_rows) for number in fragment_ids)
    scans = [FragmentScan(number, 0, count) for number, count in rows if count]
    plan = ScanPlan(ScanOptions(batch_rows=batch_rows), schema, (), 0).with_fragment_scans(scans)
    stored = pa.schema([pa.field(field.name, field.arrow_type, field.nullable) for field in fields])
    for batch in scan_projection(snapshot, plan, Projection(columns, schema), budget, files):
        arrays = [with_places(array, field) for array, field in zip(batch.columns, fields, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=stored)


def with_places(array: pa.Array, field: Field) -> pa.Array:
    """Return the array with blobs of the second form, at any depth, as structs of bytes and a position."""
    if field.is_blob_v2:
        children = [
            array if child.name == "data" else pa.nulls(len(array), child.arrow_type)
            for child in field.children
        ]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(field.arrow_type), mask=mask)
    if binary_blobs(field) == field:
        return array
    children = [
        with_places(values, child) for child, values in zip(field.children, values_below(array), strict=True)
    ]
    return with_children(array, children, fields_below(field.arrow_type))
