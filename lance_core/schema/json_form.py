"""Arrow schemas as data for JSON, in the form of the reference.

A field is `{"name", "type", "nullable", "metadata"}`. A type is `{"type"}` with the logical type of the
format, `"fields"` for nested types and `"length"` for types of a fixed size.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from lance_core.errors import UnsupportedFeatureError
from lance_core.schema.arrow_types import EXTENSION_NAME, resolve_extensions
from lance_core.schema.from_arrow import field_metadata
from lance_core.schema.logical_types import ARROW_JSON, LANCE_JSON, leaf_type, logical_type


def json_of(schema: pa.Schema) -> dict[str, Any]:
    """Return a schema as data for JSON.

    Raises:
        UnsupportedFeatureError: a type that the form lacks.
        InvalidInputError: metadata that is not UTF-8.
    """
    described: dict[str, Any] = {"fields": [_describe(field) for field in schema]}
    if schema.metadata:
        described["metadata"] = {key.decode(): value.decode() for key, value in schema.metadata.items()}
    return described


def schema_of_json(described: Mapping[str, Any]) -> pa.Schema:
    """Return the schema of `json_of`.

    Raises:
        UnsupportedFeatureError: an unknown type.
        LookupError, TypeError, ValueError, AttributeError: the data has another structure.
    """
    fields = [_field(field) for field in described["fields"]]
    return resolve_extensions(pa.schema(fields, described.get("metadata")))


def _describe(field: pa.Field) -> dict[str, Any]:
    metadata = field_metadata(field)
    described = {"name": field.name, "type": _describe_type(field.type), "nullable": field.nullable}
    if metadata.get(EXTENSION_NAME) == LANCE_JSON and not pa.types.is_large_binary(field.type):
        metadata[EXTENSION_NAME] = ARROW_JSON  # text here, unlike in data files
    return {**described, "metadata": metadata} if metadata else described


def _describe_type(data_type: pa.DataType) -> dict[str, Any]:
    if isinstance(data_type, pa.BaseExtensionType):
        return _describe_type(data_type.storage_type)
    types = pa.types
    if types.is_struct(data_type):
        return {"type": "struct", "fields": [_describe(field) for field in data_type]}
    if types.is_fixed_size_list(data_type):
        fields = [_describe(data_type.value_field)]
        return {"type": "fixed_size_list", "fields": fields, "length": data_type.list_size}
    if types.is_list(data_type) or types.is_large_list(data_type):
        name = "list" if types.is_list(data_type) else "large_list"
        return {"type": name, "fields": [_describe(data_type.value_field)]}
    if types.is_fixed_size_binary(data_type):
        return {"type": "fixed_size_binary", "length": data_type.byte_width}
    return {"type": logical_type(data_type)}


def _field(described: Mapping[str, Any]) -> pa.Field:
    data_type = _type(described["type"])
    return pa.field(described["name"], data_type, described["nullable"], described.get("metadata"))


def _type(described: Mapping[str, Any]) -> pa.DataType:
    match described["type"]:
        case "struct":
            return pa.struct([_field(field) for field in described["fields"]])
        case "list":
            return pa.list_(_item(described["fields"]))
        case "large_list":
            return pa.large_list(_item(described["fields"]))
        case "fixed_size_list":
            return pa.list_(_item(described["fields"]), described["length"])
        case "fixed_size_binary":
            return pa.binary(described["length"])
        case str(name):
            return leaf_type(name)
        case other:
            raise UnsupportedFeatureError("type", found=other)


def _item(fields: Sequence[Mapping[str, Any]]) -> pa.Field:
    (item,) = map(_field, fields)
    return item
