"""Other values for columns of one fragment, found by key and written to a new file, without a commit."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_core.changes.checked_reads import scan_for_change, stored_for_change
from lance_core.changes.columns.column_file import ColumnFileWriter
from lance_core.changes.columns.key_lookup import KeyLookup, key_columns
from lance_core.changes.columns.replaceable import replaceable_columns
from lance_core.encodings.concatenation import concatenated
from lance_core.encodings.values import take_values, uncut
from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.file.footer import FileVersion
from lance_core.proto import table_pb2
from lance_core.scan.arguments import scan_options
from lance_core.scan.read.columns import holds_dictionary
from lance_core.scan.read.live_rows import LiveRows
from lance_core.schema import Schema
from lance_core.table.deletions import Offsets
from lance_core.table.fragment import TOMBSTONE, Fragment
from lance_core.table.snapshot import Snapshot
from lance_core.write.targets import DIRECTORY


@dataclass(frozen=True)
class UpdatedFragment:
    """A fragment with a new file that replaces some of its columns."""

    message: table_pb2.DataFragment
    fields_modified: tuple[int, ...]
    """Ids of the fields in the new file."""
    matched_offsets: Offsets
    """Physical offsets of the rows that got other values."""


def update_columns(
    snapshot: Snapshot,
    fragment: Fragment,
    rows: pa.Table,
    left_on: str = "_rowid",
    right_on: str | None = None,
    *,
    sync: bool = True,
) -> UpdatedFragment:
    """Write columns to a new file of the fragment: new values for rows whose key is in `rows`, else old ones.

    Args:
        snapshot: The version that has the fragment.
        fragment: The fragment to change.
        rows: Keys and new values; held in memory. Structs are replaced with all their children.
        left_on: Key column of the dataset; `_rowid` and `_rowaddr` are possible. It is not updated.
        right_on: Key column of `rows`; the same name if None.
        sync: Make the file and its name durable before returning.

    Raises:
        InvalidInputError: There is no such key or column, or it has another type.
        UnsupportedFeatureError: The table has 0.1 files.
        LanceError: Something cannot be read or written; no file is left.
    """
    manifest = snapshot.manifest
    if FileVersion.from_name(manifest.data_storage_version) == FileVersion.V0_1:
        raise UnsupportedFeatureError("replacing columns of a 0.1 file", file=manifest.name)
    key = right_on or left_on
    index = KeyLookup(key_columns(rows, [key]))
    columns = rows.drop_columns([key])
    if left_on in columns.column_names:
        raise InvalidInputError("the key column cannot be updated", column=left_on)
    schema, new_values = _stored(manifest.schema, columns)
    keys = scan_for_change(
        snapshot, scan_options(manifest.schema, [left_on], fragments=(fragment.id,))
    ).to_table()
    found = index.find(keys)
    writer = ColumnFileWriter(snapshot, fragment, schema, sync=sync)
    try:
        start = 0
        for batch in stored_for_change(snapshot, (fragment.id,), schema.fields):
            writer.write(_replaced(batch, new_values, found.slice(start, batch.num_rows)))
            start += batch.num_rows
        file = writer.finish()
        if sync:
            snapshot.storage.sync_directory(DIRECTORY)
    except BaseException:
        with suppress(Exception):  # the first error is the one to report
            writer.abort()
        raise
    live = LiveRows(fragment.physical_rows, snapshot.read_deletions(fragment))
    matched = np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False))
    return UpdatedFragment(
        replace_columns(fragment, file), tuple(file.fields), live.physical_rows(matched).astype(np.uint32)
    )


def replace_columns(fragment: Fragment, file: table_pb2.DataFile) -> table_pb2.DataFragment:
    """Return the fragment with a further file, whose fields are removed from the older files."""
    message = table_pb2.DataFragment()
    message.CopyFrom(fragment.message)
    fields = set(file.fields)
    for old in message.files:
        for position, field_id in enumerate(old.fields):
            if field_id in fields:
                old.fields[position] = TOMBSTONE
    message.files.append(file)
    return message


def _stored(schema: Schema, given: pa.Table) -> tuple[Schema, pa.Table]:
    """Return the fields of the table that `given` has, and its values in the form of data files."""
    part, conformer = replaceable_columns(schema, given.schema)
    batches = [conformer.conform(batch) for batch in given.to_batches()]
    stored = pa.schema([pa.field(field.name, field.arrow_type, field.nullable) for field in part.fields])
    if len(batches) > 1 and any(holds_dictionary(field.type) for field in stored):
        # One chunk per column: `take` on several chunks would make Arrow join the dictionaries.
        parts = zip(*(batch.columns for batch in batches), strict=True)
        columns = [_joined(arrays, name) for arrays, name in zip(parts, stored.names, strict=True)]
        batches = [pa.RecordBatch.from_arrays(columns, schema=stored)]
    columns = [
        pa.chunked_array(map(uncut, column.chunks), column.type)
        for column in pa.Table.from_batches(batches, stored).columns
    ]
    return part, pa.Table.from_arrays(columns, schema=stored)


def _joined(arrays: Sequence[pa.Array], name: str) -> pa.Array:
    try:
        return concatenated(list(arrays))
    except pa.ArrowCapacityError as error:
        raise UnsupportedFeatureError(
            "more values than the indices of a dictionary can count", column=name, found=error
        ) from None


def _replaced(batch: pa.RecordBatch, values: pa.Table, found: pa.Array) -> pa.RecordBatch:
    """Return the batch; where `found` has a row number, the values come from that row of `values`."""
    matched = found.is_valid().to_numpy(zero_copy_only=False)
    if not matched.any():
        return batch
    chosen = values.take(found.drop_null())
    rows = np.arange(batch.num_rows)
    rows[matched] = batch.num_rows + np.arange(len(chosen))
    arrays = [
        take_values(_joined([old, *new.chunks], name), pa.array(rows))
        for old, new, name in zip(batch.columns, chosen.columns, batch.schema.names, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)
