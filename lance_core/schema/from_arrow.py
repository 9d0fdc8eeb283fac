"""Lance schemas of Arrow schemas: logical types, ids, encodings and metadata of fields.

Fields are numbered depth first, parents before children. Extension types are stored as their storage type,
with their name and parameters in the metadata. Only types that no file version can hold are refused here; the
writer of a version refuses the types that it cannot hold. Source: docs/format.md, "Schema".
"""

import ctypes
from collections.abc import Iterable, Mapping

import pyarrow as pa

from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.proto import file_pb2
from lance_core.schema.arrow_types import EXTENSION_METADATA, EXTENSION_NAME
from lance_core.schema.fields import BLOB, BLOB_V2, Schema
from lance_core.schema.logical_types import (
    ARROW_JSON,
    BFLOAT16,
    FIXED_SIZE_LIST,
    JSON,
    LANCE_JSON,
    logical_type,
)
from lance_core.schema.tree import MAX_DEPTH

_PRIMARY_KEY = "lance-schema:unenforced-primary-key"
_PRIMARY_KEY_POSITION = "lance-schema:unenforced-primary-key:position"
_RESERVED = frozenset({"_rowid", "_rowaddr", "_rowoffset"})
_VAR_BINARY = ("string", "large_string", "binary", "large_binary", JSON)


def schema_from_arrow(schema: pa.Schema, *, is_table: bool = True) -> Schema:
    """Return the Lance schema of a new table, or of an index file, with these columns.

    Args:
        schema: the columns.
        is_table: whether it is a table, in which some names are reserved.

    Raises:
        InvalidInputError: a name is used twice, is reserved, has a dot at the top level, or has a zero byte;
            metadata is not UTF-8; a blob is not a large binary.
        UnsupportedFeatureError: a type without a logical type, or too deep nesting.
    """
    _check_names(schema.names, None)
    for name in schema.names:
        if is_table and name in _RESERVED:
            raise InvalidInputError("column name is reserved", column=name)
        if "." in name:
            raise InvalidInputError("name of a top-level column contains a dot", column=name)
    messages: list[file_pb2.Field] = []
    for field in schema:
        _append(messages, field, -1, 1)
    _check_primary_key(messages)
    return Schema(messages, _schema_metadata(schema))


def with_blobs_v2(schema: pa.Schema) -> pa.Schema:
    """Return the schema with blobs of the first form changed to version 2.

    The reference does this for tables of 2.2 files, which have no blobs of the first form.
    """
    return pa.schema([_with_blobs_v2(field) for field in schema], schema.metadata)


def _with_blobs_v2(field: pa.Field) -> pa.Field:
    metadata = dict(field.metadata or {})
    if metadata.pop(BLOB.encode(), None) is not None and _holds_bytes(field.type):
        members = pa.struct([("data", pa.large_binary()), ("uri", pa.utf8())])
        return pa.field(
            field.name, members, field.nullable, {EXTENSION_NAME.encode(): BLOB_V2.encode(), **metadata}
        )
    if pa.types.is_struct(field.type):
        return field.with_type(pa.struct([_with_blobs_v2(child) for child in field.type]))
    if pa.types.is_list(field.type):
        return field.with_type(pa.list_(_with_blobs_v2(field.type.value_field)))
    if pa.types.is_large_list(field.type):
        return field.with_type(pa.large_list(_with_blobs_v2(field.type.value_field)))
    return field


def _holds_bytes(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_binary(arrow_type) or pa.types.is_large_binary(arrow_type))


def storage_type(arrow_type: pa.DataType) -> pa.DataType:
    """Return the type in which values are stored: without extension types and views, at any depth."""
    if isinstance(arrow_type, pa.BaseExtensionType):
        return storage_type(arrow_type.storage_type)
    if pa.types.is_string_view(arrow_type):
        return pa.utf8()
    if pa.types.is_binary_view(arrow_type):
        return pa.binary()
    if pa.types.is_struct(arrow_type):
        return pa.struct([_stored(field) for field in arrow_type])
    if pa.types.is_map(arrow_type):
        return pa.map_(_stored(arrow_type.key_field), _stored(arrow_type.item_field), arrow_type.keys_sorted)
    if pa.types.is_large_list(arrow_type):
        return pa.large_list(_stored(arrow_type.value_field))
    if pa.types.is_fixed_size_list(arrow_type):
        return pa.list_(_stored(arrow_type.value_field), arrow_type.list_size)
    if pa.types.is_list(arrow_type):
        return pa.list_(_stored(arrow_type.value_field))
    if pa.types.is_dictionary(arrow_type) and is_view(arrow_type.value_type):
        values = storage_type(arrow_type.value_type)
        return pa.dictionary(arrow_type.index_type, values, arrow_type.ordered)
    return arrow_type


def is_view(arrow_type: pa.DataType) -> bool:
    """Return whether values are string views or binary views."""
    return bool(pa.types.is_string_view(arrow_type) or pa.types.is_binary_view(arrow_type))


def holds_views(arrow_type: pa.DataType) -> bool:
    """Return whether values are views or contain views. Arrow cannot take rows of such values."""
    if isinstance(arrow_type, pa.BaseExtensionType):
        return holds_views(arrow_type.storage_type)
    if pa.types.is_dictionary(arrow_type):
        return is_view(arrow_type.value_type)
    below = (arrow_type.field(place).type for place in range(arrow_type.num_fields))
    return is_view(arrow_type) or any(map(holds_views, below))


def _stored(field: pa.Field) -> pa.Field:
    return field.with_type(storage_type(field.type))


def _append(messages: list[file_pb2.Field], field: pa.Field, parent_id: int, depth: int) -> None:
    """Append the messages of a field and of the fields below it."""
    if depth > MAX_DEPTH:
        raise UnsupportedFeatureError("nesting depth of the schema", expected=f"at most {MAX_DEPTH}")
    metadata = field_metadata(field)
    name = JSON if _is_json(field, metadata) else _name(field.type, field)
    if BLOB in metadata and name != "large_binary" and metadata.get(EXTENSION_NAME) != BLOB_V2:
        # The reference expects descriptors in every column with this key.
        raise InvalidInputError("blob", column=field.name, expected="large_binary", found=name)
    message = file_pb2.Field(
        name=field.name,
        id=len(messages),
        parent_id=parent_id,
        logical_type=name,
        nullable=field.nullable,
        encoding=_encoding(name),
        extension_name=metadata.get(EXTENSION_NAME, ""),
        metadata={key: value.encode() for key, value in metadata.items()},
        unenforced_primary_key=metadata.get(_PRIMARY_KEY, "").lower() in ("true", "1", "yes"),
        unenforced_primary_key_position=_position(metadata),
    )
    if message.encoding == file_pb2.DICTIONARY:
        message.dictionary.SetInParent()
    messages.append(message)
    for child in _children(field):
        _append(messages, child, message.id, depth + 1)


def _is_json(field: pa.Field, metadata: Mapping[str, str]) -> bool:
    """Return whether the field is JSON: text with Arrow's extension name, or large_binary with Lance's."""
    if pa.types.is_large_binary(storage_type(field.type)):
        return metadata.get(EXTENSION_NAME) == LANCE_JSON
    return _is_json_text(field)


def _is_json_text(field: pa.Field) -> bool:
    if isinstance(field.type, pa.JsonType):
        return True
    is_text = pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
    return is_text and (field.metadata or {}).get(EXTENSION_NAME.encode()) == ARROW_JSON.encode()


def _schema_metadata(schema: pa.Schema) -> dict[str, bytes]:
    metadata: dict[bytes, bytes] = schema.metadata or {}
    try:
        for value in metadata.values():
            value.decode()
        return {key.decode(): value for key, value in metadata.items()}
    except UnicodeDecodeError:
        raise InvalidInputError("metadata of the schema is not UTF-8") from None


def _check_primary_key(messages: list[file_pb2.Field]) -> None:
    for message in messages:
        node = message if message.unenforced_primary_key else None
        while node is not None:
            if node.nullable:
                raise InvalidInputError("primary key, or a field around it, is nullable", column=message.name)
            node = messages[node.parent_id] if node.parent_id >= 0 else None


def _children(field: pa.Field) -> list[pa.Field]:
    """Return the child fields that the format stores for a field."""
    arrow_type = field.type
    while isinstance(arrow_type, pa.BaseExtensionType):
        arrow_type = arrow_type.storage_type
    if pa.types.is_struct(arrow_type):
        children = list(arrow_type)
        _check_names([child.name for child in children], field.name)
        return children
    if pa.types.is_map(arrow_type):
        if arrow_type.keys_sorted:
            raise UnsupportedFeatureError("map with sorted keys", column=field.name)
        entries = pa.struct([arrow_type.key_field, arrow_type.item_field])
        return [pa.field("entries", entries, nullable=False)]
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        return [arrow_type.value_field]
    if pa.types.is_fixed_size_list(arrow_type) and pa.types.is_struct(storage_type(arrow_type.value_type)):
        return [arrow_type.value_field]
    return []


def _name(arrow_type: pa.DataType, field: pa.Field) -> str:
    stored = storage_type(arrow_type)
    if pa.types.is_fixed_size_list(stored):
        return f"{FIXED_SIZE_LIST}:{_item_name(arrow_type, field)}:{stored.list_size}"
    if pa.types.is_struct(stored):
        return "struct"
    if pa.types.is_map(stored):
        return "map"
    for is_kind, name in ((pa.types.is_list, "list"), (pa.types.is_large_list, "large_list")):
        if is_kind(stored):
            return f"{name}.struct" if pa.types.is_struct(stored.value_type) else name
    try:
        return logical_type(stored)
    except UnsupportedFeatureError:
        raise UnsupportedFeatureError("type of a column", column=field.name, found=stored) from None


def _item_name(arrow_type: pa.DataType, field: pa.Field) -> str:
    """Return the logical type of the items of a fixed-size list. Only items that are structs have a field of
    their own.
    """
    while isinstance(arrow_type, pa.BaseExtensionType):
        arrow_type = arrow_type.storage_type
    if arrow_type.list_size == 0:
        raise UnsupportedFeatureError(
            "fixed-size list: its dimension must be a positive integer", column=field.name, found=0
        )
    item = arrow_type.value_field
    if holds_views(item.type) and not pa.types.is_struct(storage_type(item.type)):
        raise UnsupportedFeatureError("fixed-size list of views", column=field.name, found=field.type)
    return BFLOAT16 if field_metadata(item).get(EXTENSION_NAME) == BFLOAT16 else _name(item.type, field)


def _encoding(name: str) -> file_pb2.Encoding:
    """Return the encoding of a field in 0.1 files. Later versions store it too, but do not use it."""
    if name in ("struct", "null"):
        return file_pb2.NONE
    if name in _VAR_BINARY:
        return file_pb2.VAR_BINARY
    return file_pb2.DICTIONARY if name.startswith("dict:") else file_pb2.PLAIN


def _position(metadata: Mapping[str, str]) -> int:
    text = metadata.get(_PRIMARY_KEY_POSITION, "")
    return int(text) if text.isdecimal() else 0


def _check_names(names: Iterable[str], parent: str | None) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidInputError(f"name {name!r} is used twice", column=parent or name)
        if "\0" in name:  # Arrow's C interface ends the name there, and the reference aborts the process
            raise InvalidInputError(f"name {name!r} contains a zero byte", column=parent or name)
        seen.add(name)


def field_metadata(field: pa.Field) -> dict[str, str]:
    """Return the metadata of a field, including the name and the parameters of its extension type.

    Raises:
        InvalidInputError: metadata that is not UTF-8.
    """
    raw = _extension(field) if isinstance(field.type, pa.BaseExtensionType) else field.metadata
    try:
        metadata = {key.decode(): value.decode() for key, value in (raw or {}).items()}
    except UnicodeDecodeError:
        raise InvalidInputError("metadata of a field is not UTF-8", column=field.name) from None
    if _is_json_text(field):
        # Lance stores JSON as binary JSON under its own extension name.
        metadata |= {EXTENSION_NAME: LANCE_JSON, EXTENSION_METADATA: ""}
    return metadata


class _CSchema(ctypes.Structure):
    """The first members of `ArrowSchema` in Arrow's C data interface."""

    _fields_ = (
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_void_p),
    )


def _extension(field: pa.Field) -> dict[bytes, bytes]:
    """Return the metadata of a field with an extension type, as Arrow exports it to other libraries.

    pyarrow has no other way to get the parameters of its own extension types.
    """
    capsule = field.__arrow_c_schema__()
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    address = _CSchema.from_address(get_pointer(capsule, b"arrow_schema")).metadata
    metadata: dict[bytes, bytes] = {}

    def number() -> int:
        nonlocal address
        value = ctypes.c_int32.from_address(address).value
        address += 4
        return value

    def text() -> bytes:
        nonlocal address
        length = number()
        value = ctypes.string_at(address, length)
        address += length
        return value

    for _ in range(number()):
        key = text()
        metadata[key] = text()
    return metadata
