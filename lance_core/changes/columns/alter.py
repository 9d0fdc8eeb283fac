"""Changes of names, types and nullability of columns.

Names and nullability change in the schema only. A column with another type becomes a new field, with a new
file in every fragment. The old data stays in the old files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lance_core.changes.checked_reads import scan_for_change, stored_for_change
from lance_core.changes.columns.allowed_casts import can_cast, cast_field
from lance_core.changes.columns.column_change import ColumnChange, commit_column_change
from lance_core.changes.columns.schema_evolution import (
    TOP,
    check_names,
    next_field_id,
    parents_of,
    path_of,
    preserves_nullability,
)
from lance_core.changes.retry import with_retries
from lance_core.commit.commit import commit
from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.file.footer import FileVersion
from lance_core.proto import file_pb2
from lance_core.scan.arguments import scan_options
from lance_core.schema import Field, Schema, schema_from_arrow
from lance_core.table.fragment import Fragment
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import Snapshot
from lance_core.table.transaction import new_transaction, project

_KEYS = ("name", "nullable", "data_type")
_VALUES: dict[str, tuple[tuple[type, ...], str]] = {
    "path": ((str,), "text"),
    "name": ((str,), "text"),
    "nullable": ((bool,), "True or False"),
    "data_type": ((pa.DataType, str), "a type of Arrow, or its name as in a CAST"),
}


@dataclass(frozen=True)
class Alteration:
    """Changes of one column. None leaves a property unchanged."""

    path: str
    name: str | None = None
    nullable: bool | None = None
    data_type: pa.DataType | None = None

    @staticmethod
    def parse(given: Mapping[str, Any]) -> Alteration:
        """Return the alteration from the dict that callers of the reference pass.

        Args:
            given: A dict with the names of the fields. `data_type` is an Arrow type, or its name as in a
                CAST.

        Raises:
            InvalidInputError: The argument is no dict, has no path or no change, an unknown key, or a value
                of another type.
        """
        if not isinstance(given, Mapping):
            raise InvalidInputError(
                "alter_columns takes dicts, one argument each",
                expected='alter_columns({"path": ...}, {"path": ...})',
                found=f"a {type(given).__name__}",
            )
        if "path" not in given:
            raise InvalidInputError("alteration without a path", found=given)
        unknown = [key for key in given if key not in ("path", *_KEYS)]
        if unknown:
            raise InvalidInputError("key of an alteration", expected=", ".join(_KEYS), found=unknown[0])
        if all(given.get(key) is None for key in _KEYS):
            raise InvalidInputError("alteration without a change", column=given["path"], expected=_KEYS)
        for key, (kinds, expected) in _VALUES.items():
            if given.get(key) is not None and not isinstance(given[key], kinds):
                raise InvalidInputError(f"{key} of an alteration", expected=expected, found=repr(given[key]))
        if isinstance(given.get("data_type"), str):
            from lance_core.expressions.parsing.sql import (
                parse_type,  # late: the SQL parser takes long to load
            )

            given = {**given, "data_type": parse_type(given["data_type"])}
        return Alteration(**given)


def alter_columns(
    snapshot: Snapshot,
    alterations: Sequence[Alteration],
    *,
    transaction_id: str | None = None,
    sync: bool = True,
) -> Snapshot:
    """Change names, types and nullability of columns.

    Raises:
        InvalidInputError: There is no such column, a name is taken, a cast is not allowed, a value does not
            fit the new type, a column with nulls is made non-nullable, or a column with an index gets another
            type.
        UnsupportedFeatureError: A column of this kind cannot be cast, or not be made non-nullable.
        LanceError: The errors of `commit_column_change` and `commit`.
    """
    if any(alteration.data_type is not None for alteration in alterations):
        if any(alteration.nullable is False for alteration in alterations):
            raise InvalidInputError("types and nullability cannot be changed at once: change types first")
        return commit_column_change(
            snapshot,
            lambda current: _plan_casts(current, alterations),
            transaction_id=transaction_id,
            sync=sync,
        )

    def attempt(current: Snapshot) -> Manifest:
        manifest = current.manifest
        schema = _altered(manifest.schema, alterations)
        _require_no_nulls(current, schema)
        transaction = project(
            new_transaction(manifest.version, uuid=transaction_id),
            schema,
            preserves_nullability=preserves_nullability(manifest.schema, schema),
        )
        return commit(current.storage, transaction, read=manifest, sync=sync)

    return with_retries(snapshot, attempt, "project", transaction_id=transaction_id)


def _altered(schema: Schema, alterations: Sequence[Alteration]) -> Schema:
    """Return the schema with new names and nullability. Paths are those before the change."""
    by_id = {message.id: _copy(message) for message in schema.messages}
    for alteration in alterations:
        message = by_id[schema.resolve(alteration.path).id]
        if alteration.name is not None:
            message.name = alteration.name
        if alteration.nullable is not None:
            message.nullable = alteration.nullable
    altered = Schema(list(by_id.values()), schema.raw_metadata)
    check_names(altered)
    return altered


def _require_no_nulls(snapshot: Snapshot, schema: Schema) -> None:
    """Refuse a schema that makes a column with nulls non-nullable."""
    old = snapshot.manifest.schema
    for field_id, field in schema.field_by_id.items():
        if field.nullable or not old.field_by_id[field_id].nullable:
            continue
        path = path_of(old, old.field_by_id[field_id])
        if any(parent.is_list for parent in parents_of(old, field)):
            raise UnsupportedFeatureError("making a child of a list non-nullable", column=path)
        options = scan_options(old, [], f"{path} IS NULL", limit=1)
        if scan_for_change(snapshot, options).count_rows():
            raise InvalidInputError("column has nulls and cannot be made non-nullable", column=path)


def _plan_casts(snapshot: Snapshot, alterations: Sequence[Alteration]) -> ColumnChange:
    manifest = snapshot.manifest
    altered = _altered(manifest.schema, alterations)
    types = {
        manifest.schema.resolve(alteration.path).id: alteration.data_type
        for alteration in alterations
        if alteration.data_type is not None
    }
    for field_id, data_type in types.items():
        _check_cast(manifest, manifest.schema.field_by_id[field_id], data_type)
    schema, new_ids = _with_types(altered, types, next_field_id(manifest))
    old_part = _part(manifest.schema, set(types))
    new_part = _part(schema, new_ids)

    def batches(fragment: Fragment) -> Iterator[pa.RecordBatch]:
        for batch in stored_for_change(snapshot, (fragment.id,), old_part.fields):
            arrays = [
                cast_field(array, old, new, types)
                for array, old, new in zip(batch.columns, old_part.fields, new_part.fields, strict=True)
            ]
            names = [field.name for field in new_part.fields]
            yield pa.RecordBatch.from_arrays(arrays, names)

    return ColumnChange(schema, new_part, batches, lambda: None, is_ordered=False)


def _check_cast(manifest: Manifest, field: Field, wanted: pa.DataType) -> None:
    version = FileVersion.from_name(manifest.data_storage_version)
    path = path_of(manifest.schema, field)
    parents = parents_of(manifest.schema, field)
    if field.is_blob or field.is_blob_v2 or field.is_json or any(parent.is_packed for parent in parents):
        raise UnsupportedFeatureError("casting a column of this kind", column=path, found=field.logical_type)
    if parents and version < FileVersion.V2_1:
        raise UnsupportedFeatureError(
            f"casting a child of a struct or a list in a {version} table", column=path
        )
    if not can_cast(field.arrow_type, wanted, version):
        raise InvalidInputError("cannot cast column", column=path, expected=wanted, found=field.arrow_type)
    ids = {node.id for node in field.walk()} | {parent.id for parent in parents}
    indices = sorted(
        {segment.name for segment in manifest.stored_index_segments if ids & set(segment.field_ids)}
    )
    if indices:
        raise InvalidInputError(
            "cannot cast a column with an index: drop it first", column=path, found=indices
        )


def _with_types(schema: Schema, types: Mapping[int, pa.DataType], first_id: int) -> tuple[Schema, set[int]]:
    """Return the schema in which some fields have other types, and the ids of the new fields.

    The new fields have ids from `first_id` on, and no metadata.
    """
    new_messages: dict[int, list[file_pb2.Field]] = {}
    next_id = first_id
    for field_id, data_type in types.items():
        old = schema.field_by_id[field_id]
        typed = schema_from_arrow(pa.schema([pa.field(old.name, data_type, old.nullable)]))
        new_messages[field_id] = list(map(_copy, typed.messages))
        for message in new_messages[field_id]:
            message.id += next_id
            message.parent_id = old.parent_id if message.parent_id == TOP else message.parent_id + next_id
        next_id += len(new_messages[field_id])
    replaced = {node.id for field_id in types for node in schema.field_by_id[field_id].walk()}
    messages: list[file_pb2.Field] = []
    for message in schema.messages:
        if message.id in new_messages:
            messages += new_messages[message.id]
        elif message.id not in replaced:
            messages.append(message)
    return Schema(messages, schema.raw_metadata), set(range(first_id, next_id))


def _part(schema: Schema, ids: set[int]) -> Schema:
    """Return the fields with these ids, their children, and the structs and lists around them."""
    wanted: set[int] = set()
    for field_id in ids:
        field = schema.field_by_id[field_id]
        wanted |= {node.id for node in field.walk()} | {parent.id for parent in parents_of(schema, field)}
    return schema.only(wanted)


def _copy(message: file_pb2.Field) -> file_pb2.Field:
    copied = file_pb2.Field()
    copied.CopyFrom(message)
    return copied
