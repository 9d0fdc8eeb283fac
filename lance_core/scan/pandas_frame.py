"""Rows of a scan as a pandas frame, with blobs as files, bytes or descriptors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.scan.plan.bind import bind_filter
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.projection import ROW_ADDRESS, DataColumn, project
from lance_core.scan.plan.scan_plan import plan_scan
from lance_core.scan.read.blobs import BlobFile
from lance_core.scan.rows import plan_table
from lance_core.scan.session import session_of
from lance_core.scan.take.blobs import locate_blobs
from lance_core.schema import Field
from lance_core.table.snapshot import Snapshot

if TYPE_CHECKING:
    import pandas as pd

_MODES = ("lazy", "bytes", "descriptions")


def pandas_frame(snapshot: Snapshot, options: ScanOptions, blob_mode: str, **arguments: Any) -> pd.DataFrame:
    """Return the rows of a scan; see `LanceScanner.to_pandas`."""
    if blob_mode not in _MODES:
        raise InvalidInputError(f"blob_mode must be one of {', '.join(_MODES)}", found=repr(blob_mode))
    if blob_mode == "bytes":
        condition = bind_filter(snapshot.manifest.schema, options.filter, blob_handling="all_binary")
        options = replace(options, blob_handling="all_binary", filter=condition)
    blobs = list(_blobs(snapshot, options)) if blob_mode == "lazy" else []
    if not blobs or options.blob_handling == "all_binary":
        return _table(snapshot, options).to_pandas(**arguments)
    if options.include_deleted_rows:
        raise UnsupportedFeatureError(
            "blobs of deleted rows cannot be opened as files: use blob_mode='bytes' or 'descriptions'"
        )
    names = project(snapshot.manifest.schema, options).schema.names
    table = _table(snapshot, replace(options, with_row_address=True))
    files = {path: _files(snapshot, table, path, field) for path, field in blobs}
    others = table.select([name for name in names if (name,) not in files])
    frame = others.to_pandas(**arguments)
    if not others.num_columns:
        frame = frame.reindex(range(len(table)))
    for (name, *inner), values in files.items():
        if inner:
            _put_below(frame[name].tolist(), inner, values)
        else:
            place = sum(each in frame.columns for each in names[: names.index(name)])
            frame.insert(place, name, values)
    return frame


def _table(snapshot: Snapshot, options: ScanOptions) -> pa.Table:
    session = session_of(snapshot)
    return plan_table(snapshot, plan_scan(snapshot, options), session.budget, session.files_for(options))


def _blobs(snapshot: Snapshot, options: ScanOptions) -> Iterator[tuple[tuple[str, ...], Field]]:
    """Yield the path in the result, and the field, of each column of blobs outside lists."""
    for column in project(snapshot.manifest.schema, options).columns:
        if isinstance(column, DataColumn):
            field = column.field
            for child in column.path:
                field = field.children[child]
            for path, blob in _blobs_below(field):
                yield (column.output.name, *path), blob


def _blobs_below(field: Field) -> Iterator[tuple[tuple[str, ...], Field]]:
    if field.is_blob_descriptor:
        yield (), field
    elif field.logical_type == "struct":
        for child in field.children:
            for path, blob in _blobs_below(child):
                yield (child.name, *path), blob


def _files(snapshot: Snapshot, table: pa.Table, path: tuple[str, ...], field: Field) -> list[BlobFile | None]:
    """Return the blobs of all rows of a column of descriptors."""
    array = table[path[0]].combine_chunks()
    for name in path[1:]:
        array = array.flatten()[array.type.get_field_index(name)]
    addresses = table[ROW_ADDRESS].combine_chunks()
    column = ".".join(path)
    found = locate_blobs(snapshot, session_of(snapshot).files, field.id, column, array, addresses)
    return [None if place is None else BlobFile(place) for place in found.places]


def _put_below(rows: list[Any], path: list[str], values: list[BlobFile | None]) -> None:
    """Replace blob descriptors by `values`, one per row.

    The rows are dicts. All but the last name of `path` are the structs around the descriptor.
    """
    *around, name = path
    for row, value in zip(rows, values, strict=True):
        inner = row
        for each in around:
            inner = inner and inner[each]
        if inner is not None:
            inner[name] = value
