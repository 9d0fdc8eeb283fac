"""Update of the rows that meet a condition: they are deleted, and written again with new values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc

from lance_core.changes.retry import CONFLICT_RETRIES, RETRY_TIMEOUT
from lance_core.changes.rows.new_rows import NewRows
from lance_core.changes.rows.removal import ChosenRows, remove_rows
from lance_core.changes.rows.row_change import RowChange, commit_row_change
from lance_core.changes.stored_rows import stored_columns, stored_rows
from lance_core.errors import ArgumentTypeError, InvalidInputError, UnsupportedFeatureError
from lance_core.expressions.tree import Expression
from lance_core.hints import did_you_mean
from lance_core.scan.plan.bind import bind_filter
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.projection import expression_schema
from lance_core.schema import Field, Schema
from lance_core.table import transaction as transactions
from lance_core.table.snapshot import Snapshot
from lance_core.write.dataset_options import file_version
from lance_core.write.schema_conformer import convert


def update(
    snapshot: Snapshot,
    updates: Mapping[str, str],
    where: str | pc.Expression | None = None,
    *,
    conflict_retries: int = CONFLICT_RETRIES,
    retry_timeout: timedelta = RETRY_TIMEOUT,
    data_storage_version: str | None = None,
    transaction_id: str | None = None,
    sync: bool = True,
) -> tuple[Snapshot, int]:
    """Set columns to new values as one new version.

    A version is made even if no row changes, as in the reference.

    Args:
        snapshot: The version to search. Later changes of other rows are no conflict.
        updates: SQL expressions by column name. They see the old values, and their results are cast to the
            type of the column. If a value does not fit, overflows or is a null in a non-nullable column, the
            whole update is refused.
        where: SQL text or an Arrow expression; rows for which it is true are updated. None means all rows.
        conflict_retries, retry_timeout: See `with_retries`.
        data_storage_version: None, or the file version of the table.
        transaction_id: UUID of the transaction. Repeating it gives the first result.
        sync: On local disks make everything durable before returning.

    Returns:
        The new version and the number of updated rows.

    Raises:
        InvalidInputError: A column, expression or value is not valid; names the column.
        UnsupportedFeatureError: Rows of the table cannot be written again, or a column cannot be computed.
        CommitConflictError, CommitUnknownError: See `commit_row_change`.
    """

    def make(current: Snapshot, change: RowChange) -> None:
        schema = current.manifest.schema
        require_own_file_version(current, data_storage_version)
        options = ScanOptions(
            computed=_columns(schema, updates),
            filter=bind_filter(schema, where, blob_handling="all_binary"),
        )
        chosen = ChosenRows()
        rows = NewRows(current, schema, change, sync=sync)
        for old in stored_rows(current, options):
            columns = [
                convert(column, field) if field.name in updates else column
                for column, field in zip(old.columns, schema.fields, strict=True)
            ]
            rows.move(replace(old, columns=columns))
            chosen.add(old.addresses)
        new = rows.finish()
        removal = remove_rows(current, chosen.by_fragment(), change, sync=sync)
        modified = [node.id for field in schema.fields if field.name in updates for node in field.walk()]
        transactions.update(
            change.transaction,
            updated=removal.updated,
            removed_ids=removal.removed_ids,
            new=new,
            fields_for_preserving_frag_bitmap=modified,
        )
        change.counts["num_rows_updated"] = removal.num_rows

    made, counts = commit_row_change(
        snapshot,
        make,
        "update",
        transaction_id=transaction_id,
        conflict_retries=conflict_retries,
        retry_timeout=retry_timeout,
        sync=sync,
    )
    return made, counts.get("num_rows_updated", 0)


def require_own_file_version(snapshot: Snapshot, given: str | None) -> None:
    """Refuse a file version that is not the table's.

    Raises:
        InvalidInputError: There is no such version.
        UnsupportedFeatureError: The table has another version.
    """
    version, own = file_version(given), snapshot.manifest.data_storage_version
    if version is not None and version.name != own:
        raise UnsupportedFeatureError("data files of another version", expected=own, found=version.name)


def _columns(schema: Schema, updates: Mapping[str, str]) -> tuple[tuple[str, Expression], ...]:
    """Return all columns of the table; those in `updates` are computed."""
    if not updates:
        raise InvalidInputError("no updates are given")
    names = [field.name for field in schema.fields]
    for name in updates:
        if name not in names:
            raise InvalidInputError(f"there is no column {name!r}{did_you_mean(name, names)}")
    kept = dict(stored_columns(schema.fields))
    for field in schema.fields:
        if field.name in updates:
            kept[field.name] = _value(schema, field, updates[field.name])
    return tuple(kept.items())


def _value(schema: Schema, field: Field, text: str) -> Expression:
    # Late: the SQL parser takes longer to load than the rest of the package.
    from lance_core.expressions.builders import cast
    from lance_core.expressions.parsing.sql import parse_expression
    from lance_core.expressions.tree import columns

    if not isinstance(text, str):
        raise ArgumentTypeError(f"updates must map names to SQL text, they hold {field.name!r}: {text!r}")
    if any(node.is_blob or node.is_blob_v2 for node in field.walk()):
        raise UnsupportedFeatureError("updating a column of blobs", column=field.name)
    try:
        value = parse_expression(text, expression_schema(schema), checked=True)
        value = _json(value) if field.is_json else cast(value, field.to_arrow().type)
    except InvalidInputError as error:
        raise InvalidInputError(f"column {field.name!r}: {error}") from None
    blobs = {known.name for known in schema.fields if any(n.is_blob or n.is_blob_v2 for n in known.walk())}
    for path in columns(value):
        if path[0] in blobs:
            raise UnsupportedFeatureError("values computed from a blob column", column=path[0])
    return value


def _json(value: Expression) -> Expression:
    """Return the value of a JSON column: text, or the value of another JSON column."""
    from lance_core.expressions.builders import cast

    if isinstance(value.type, pa.JsonType):
        return value
    if not (pa.types.is_null(value.type) or pa.types.is_string(value.type)):
        raise InvalidInputError("value of a JSON column", expected="text", found=value.type)
    return cast(value, pa.utf8())
