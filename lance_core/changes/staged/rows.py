"""Rows of staged files, read before any version has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from lance_core.changes.checked_reads import scan_for_change
from lance_core.changes.staged.change import StagedChange
from lance_core.errors import InvalidInputError
from lance_core.proto.transaction_pb2 import Transaction
from lance_core.scan.plan.options import ScanOptions
from lance_core.schema.blobs import given_blobs
from lance_core.table.manifest import describe_rows
from lance_core.table.snapshot import Snapshot


def joined_overwrite(changes: Sequence[StagedChange]) -> Transaction.Overwrite:
    """Return the overwrite that adds the rows of all overwrites in `changes`, in order.

    Raises:
        InvalidInputError: the schemas differ.
    """
    first, *others = (change.transaction.overwrite for change in changes)
    joined = Transaction.Overwrite()
    joined.CopyFrom(first)
    for other in others:
        if (list(other.schema), dict(other.schema_metadata)) != (
            list(first.schema),
            dict(first.schema_metadata),
        ):
            raise InvalidInputError("the staged writes have different schemas")
        joined.fragments.extend(other.fragments)
    return joined


def staged_rows(snapshot: Snapshot, changes: Sequence[StagedChange]) -> pa.RecordBatchReader:
    """Return the rows that were staged for a merge or a join, as they were uploaded.

    Args:
        snapshot: the version to be changed, which is on the same branch as the staged files.
        changes: staged changes, whose rows come in this order.

    Raises:
        InvalidInputError: the schemas of the changes differ.
        LanceError: something cannot be read; raised by the reader, too.
    """
    joined = joined_overwrite(changes)
    rows = describe_rows(joined.schema, joined.schema_metadata, joined.fragments)
    schema = pa.schema([given_blobs(field).to_arrow() for field in rows.schema.fields])
    scan = scan_for_change(replace(snapshot, manifest=rows), ScanOptions(blob_handling="all_binary"))
    return pa.RecordBatchReader.from_batches(
        schema, (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in scan.to_batches())
    )
