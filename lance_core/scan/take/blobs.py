"""Blobs of single rows as files."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from lance_core.errors import InvalidInputError
from lance_core.scan.files.data_files import DataFiles, FragmentFiles
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.projection import ROW_ADDRESS, DataColumn, project
from lance_core.scan.read.blobs import BlobFile, BlobSource
from lance_core.scan.take.row_taker import RowTaker
from lance_core.schema import leaves
from lance_core.table.snapshot import Snapshot


def take_blobs(
    snapshot: Snapshot, files: DataFiles, column: str, take: Callable[[RowTaker], pa.RecordBatch]
) -> list[BlobFile | None]:
    """Return the blobs of the rows that `take` returns; None for null values.

    Raises:
        InvalidInputError: the column does not exist or has no blobs.
        LanceError: a page or a deletion file cannot be read.
    """
    projected = project(snapshot.manifest.schema, ScanOptions(columns=(column,))).columns[0]
    if not isinstance(projected, DataColumn):
        raise InvalidInputError("column has no blobs", column=column)
    (blob, *others) = leaves(projected.field)
    is_listed = any(field.children and field.logical_type != "struct" for field in projected.field.walk())
    if others or not blob.is_blob_descriptor or is_listed:
        raise InvalidInputError("column has no blobs", column=column)
    rows = take(RowTaker(snapshot, (column, ROW_ADDRESS), files))
    descriptors, addresses = rows.columns
    for _ in projected.path:  # taken rows have the structs around the field
        (descriptors,) = descriptors.flatten()
    fragment_ids = addresses.to_numpy() >> np.uint64(32)
    blobs: list[BlobFile | None] = [None] * len(descriptors)
    fragments = snapshot.manifest.fragment_by_id
    for fragment_id in np.unique(fragment_ids).tolist():
        chosen = np.flatnonzero(fragment_ids == fragment_id)
        source = _source(FragmentFiles(snapshot, fragments[fragment_id], files), blob.id, column)
        if source is None:
            continue
        places = source.locate(descriptors.take(pa.array(chosen)))
        for row, place in zip(chosen.tolist(), places, strict=True):
            blobs[row] = None if place is None else BlobFile(place)
    return blobs


def _source(files: FragmentFiles, field_id: int, column: str) -> BlobSource | None:
    """Return the file of a fragment that describes the blobs of a field; None if no file has it."""
    for data_file in files.data_files:
        if field_id in data_file.columns:
            return BlobSource.open(files, data_file, column)
    return None
