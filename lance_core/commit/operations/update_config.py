"""UpdateConfig: changes of settings, and of metadata of the table, its schema and its fields."""

from collections.abc import Mapping, MutableMapping
from typing import TypeVar

from lance_core.commit.operations.context import Context
from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.proto import file_pb2, table_pb2
from lance_core.proto.transaction_pb2 import Transaction
from lance_core.schema.arrow_types import EXTENSION_NAME

_PRIMARY_KEY = "lance-schema:unenforced-primary-key"
_CLUSTERING_KEY = "lance-schema:unenforced-clustering-key"
_POSITION = ":position"
_Text = TypeVar("_Text", str, bytes)


def apply(message: table_pb2.Manifest, operation: Transaction.UpdateConfig, context: Context) -> None:
    """Change the settings and metadata that the operation names.

    Raises:
        InvalidInputError: the table lacks a field, or the change would replace an existing primary key.
        UnsupportedFeatureError: the operation has the form of old libraries.
    """
    if operation.upsert_values or operation.delete_keys or operation.schema_metadata:
        raise UnsupportedFeatureError("config updates of old libraries")
    if operation.field_metadata:
        raise UnsupportedFeatureError("updates of field metadata of old libraries")
    _change(message.config, operation.config_updates, _same)
    _change(message.table_metadata, operation.table_metadata_updates, _same)
    _change(message.schema_metadata, operation.schema_metadata_updates, str.encode)
    fields = {field.id: field for field in message.fields}
    keys = {name: _key_fields(message, name) for name in (_PRIMARY_KEY, _CLUSTERING_KEY)}
    for field_id, changes in operation.field_metadata_updates.items():
        if field_id not in fields:
            raise InvalidInputError(f"no field with id {field_id}")
        _change(fields[field_id].metadata, changes, str.encode)
        _follow_metadata(fields[field_id])
    for name, before in keys.items():
        is_named = any(
            entry.key in (name, name + _POSITION)
            for changes in operation.field_metadata_updates.values()
            for entry in changes.update_entries
        )
        after = _key_fields(message, name)
        if before != after and before:
            raise InvalidInputError(f"{name} cannot be changed", expected=before, found=after)
        if is_named and (before or not after):
            raise InvalidInputError(f"{name} cannot be changed" if before else f"{name} has no valid value")
        if is_named and name == _PRIMARY_KEY:
            _require_values(fields, [field_id for field_id, _ in after])


def _same(text: str) -> str:
    return text


def _change(target: MutableMapping[str, _Text], changes: Transaction.UpdateMap, convert: object) -> None:
    if changes.replace:
        target.clear()
    for entry in changes.update_entries:
        if entry.HasField("value"):
            target[entry.key] = convert(entry.value)  # type: ignore[operator]
        else:
            target.pop(entry.key, None)


def _key_fields(message: table_pb2.Manifest, name: str) -> list[tuple[int, int]]:
    """Return the fields of a key with their positions in it."""
    if name == _PRIMARY_KEY:
        return [
            (field.id, field.unenforced_primary_key_position)
            for field in message.fields
            if field.unenforced_primary_key
        ]
    return [
        (field.id, field.unenforced_clustering_key_position)
        for field in message.fields
        if field.unenforced_clustering_key
    ]


def _require_values(fields: Mapping[int, file_pb2.Field], key: list[int]) -> None:
    """Refuse a nullable primary key, because the reference cannot open such a table."""
    for field_id in key:
        while field_id in fields:
            if fields[field_id].nullable:
                raise InvalidInputError("a primary key must not be nullable", column=fields[field_id].name)
            field_id = fields[field_id].parent_id


def _follow_metadata(field: file_pb2.Field) -> None:
    """Update the attributes of a field that repeat its metadata."""
    metadata: Mapping[str, bytes] = field.metadata
    field.extension_name = metadata.get(EXTENSION_NAME, b"").decode()
    position = _position(metadata.get(_PRIMARY_KEY + _POSITION))
    is_marked = metadata.get(_PRIMARY_KEY, b"").lower() in (b"true", b"1", b"yes")
    field.unenforced_primary_key = position is not None or is_marked
    field.unenforced_primary_key_position = position or 0
    position = _position(metadata.get(_CLUSTERING_KEY + _POSITION))
    field.unenforced_clustering_key = position is not None
    field.unenforced_clustering_key_position = position or 0


def _position(text: bytes | None) -> int | None:
    return int(text) if text is not None and text.isdigit() and int(text) < 1 << 32 else None
