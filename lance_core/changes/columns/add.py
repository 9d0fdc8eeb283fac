"""New columns: with values in new files, or with nulls, which need no files."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lance_core.changes.columns.column_change import ColumnChange, commit_column_change, write_columns
from lance_core.changes.columns.column_file import delete_files
from lance_core.changes.columns.column_sources import ColumnSource, ExpressionColumns
from lance_core.changes.columns.schema_evolution import with_fields
from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.file.external_blobs import ExternalBlobs
from lance_core.file.footer import FileVersion
from lance_core.proto import table_pb2
from lance_core.schema import Schema
from lance_core.table.fragment import Fragment
from lance_core.table.snapshot import Snapshot
from lance_core.write.schema_conformer import Conformer
from lance_core.write.targets import DIRECTORY


def add_columns(
    snapshot: Snapshot,
    source: ColumnSource,
    *,
    external_blobs: ExternalBlobs | None = None,
    transaction_id: str | None = None,
    sync: bool = True,
) -> Snapshot:
    """Add columns whose values come from `source`. Expressions that are all null write no files.

    `external_blobs` says which blobs may stay outside the dataset. By default none may.

    Raises:
        InvalidInputError: A column exists already, or the source has not exactly one value per row.
        UnsupportedFeatureError: Files of the table's version cannot hold a type, or a new column is the child
            of a struct.
        LanceError: The errors of `commit_column_change` and of the source.
    """

    def plan(current: Snapshot) -> ColumnChange:
        change = plan_columns(current, source, external_blobs)
        has_holes = current.manifest.data_storage_version != FileVersion.V0_1.name
        if isinstance(source, ExpressionColumns) and source.are_nulls and has_holes:
            return _without_values(change.schema)
        return change

    return commit_column_change(snapshot, plan, transaction_id=transaction_id, sync=sync)


def plan_columns(
    snapshot: Snapshot, source: ColumnSource, external_blobs: ExternalBlobs | None = None
) -> ColumnChange:
    """Return the columns of `source` as a change of one version; errors are those of `add_columns`."""
    manifest = snapshot.manifest
    given = source.schema(snapshot)
    schema, new_fields = with_fields(manifest, given)
    for field in new_fields.fields:
        if field.id in manifest.schema.field_by_id:
            raise UnsupportedFeatureError("adding children with values to a column", column=field.name)
    conformer = Conformer(new_fields, given)

    def batches(fragment: Fragment) -> Iterator[pa.RecordBatch]:
        return map(conformer.conform, source.batches(snapshot, fragment))

    rules = external_blobs or ExternalBlobs()
    return ColumnChange(schema, new_fields, batches, source.finish, source.is_ordered, rules)


def write_fragment_columns(
    snapshot: Snapshot,
    fragment: Fragment,
    source: ColumnSource,
    *,
    external_blobs: ExternalBlobs | None = None,
    sync: bool = True,
) -> tuple[table_pb2.DataFragment, Schema]:
    """Write the columns of `source` for one fragment, without a commit.

    Returns:
        The fragment with the new file, and the schema of the table with the new columns.

    Raises:
        LanceError: The errors of `add_columns`.
    """
    change = plan_columns(snapshot, source, external_blobs)
    file = write_columns(snapshot, fragment, change, sync=sync)
    try:
        change.finish()
        if sync:
            snapshot.storage.sync_directory(DIRECTORY)
    except BaseException:
        delete_files(snapshot.storage, [file.path])
        raise
    message = table_pb2.DataFragment()
    message.CopyFrom(fragment.message)
    message.files.append(file)
    return message, change.schema


def add_null_columns(
    snapshot: Snapshot, columns: pa.Schema, *, transaction_id: str | None = None, sync: bool = True
) -> Snapshot:
    """Add columns of nulls, or children of structs, also of structs in lists. No data files are written.

    Raises:
        InvalidInputError: A column exists already, or is not nullable.
        UnsupportedFeatureError: Files of a 0.1 table must have all columns.
        LanceError: The errors of `commit_column_change`.
    """

    def plan(current: Snapshot) -> ColumnChange:
        manifest = current.manifest
        if manifest.data_storage_version == FileVersion.V0_1.name:
            raise UnsupportedFeatureError("columns without values in a 0.1 table", file=manifest.name)
        schema, new_fields = with_fields(manifest, columns)
        known = manifest.schema.field_by_id
        for field in new_fields.field_by_id.values():
            is_outermost = field.parent_id not in new_fields.field_by_id or field.parent_id in known
            if field.id not in known and is_outermost and not field.nullable:
                raise InvalidInputError("column without values must be nullable", column=field.name)
        return _without_values(schema)

    return commit_column_change(snapshot, plan, transaction_id=transaction_id, sync=sync)


def _without_values(schema: Schema) -> ColumnChange:
    """Return the change to a schema whose new columns have no files, and so only nulls."""
    return ColumnChange(schema, Schema([], {}), _no_batches, _do_nothing)


def _no_batches(fragment: Fragment) -> Iterator[pa.RecordBatch]:
    return iter(())


def _do_nothing() -> None:
    pass
