"""Schemas, columns and types that clients send: their caps (threat T18), and types that no table has."""

from typing import Any

import pyarrow as pa

from flight_server.requests.json_fields import Checker, base64_bytes, boolean, check_fields, string
from flight_server.requests.names import shown
from lance_core.api.serving import Alteration, parse_type
from lance_core.errors import InvalidInputError, UnsupportedFeatureError

MAXIMUM_FIELDS = 20_000
"""Most fields of a schema, nested fields included."""
MAXIMUM_DEPTH = 64
MAXIMUM_FIELD_NAME_BYTES = 4096
MAXIMUM_METADATA_BYTES = 1 << 20
"""Largest size of the metadata of a schema and all its fields together."""


def check_schema(schema: pa.Schema) -> None:
    """Refuse a schema that exceeds a cap (threat T18) or contains text that does not decode.

    Raises:
        InvalidInputError: the schema exceeds a cap, which is named; or its text is not UTF-8.
        UnsupportedFeatureError: a type that no data file can hold.
    """
    try:
        _check_schema(schema)
    except UnicodeDecodeError:
        raise InvalidInputError("a name, time zone or metadata of the schema is not UTF-8") from None


def _check_schema(schema: pa.Schema) -> None:
    num_fields = 0
    metadata_bytes = _metadata_bytes(schema.metadata)
    level = list(schema)
    for _ in range(MAXIMUM_DEPTH):
        num_fields += len(level)
        if num_fields > MAXIMUM_FIELDS:
            raise InvalidInputError(f"the schema has more than {MAXIMUM_FIELDS} fields")
        for field in level:
            if len(field.name.encode()) > MAXIMUM_FIELD_NAME_BYTES:
                raise InvalidInputError(
                    f"name of a field is longer than {MAXIMUM_FIELD_NAME_BYTES} bytes",
                    found=shown(field.name[:64]),
                )
            if _is_never_stored(field.type):
                raise UnsupportedFeatureError(
                    "type of a column", column=shown(field.name), found=shown(str(field.type))
                )
            if pa.types.is_null(field.type) and not field.nullable:
                raise InvalidInputError(
                    f"column {shown(field.name)} has the type null, but is declared not nullable"
                )
            if pa.types.is_fixed_size_list(field.type) and field.type.list_size < 0:
                raise InvalidInputError(f"lists of column {shown(field.name)} have a negative size")
            if pa.types.is_timestamp(field.type):
                _ = field.type.tz  # decoded here for the first time
            metadata_bytes += _metadata_bytes(field.metadata)
        if metadata_bytes > MAXIMUM_METADATA_BYTES:
            raise InvalidInputError(f"the schema has more than {MAXIMUM_METADATA_BYTES} bytes of metadata")
        level = [child for field in level for child in _child_fields(field.type)]
        if not level:
            return
    raise InvalidInputError(f"the schema is nested deeper than {MAXIMUM_DEPTH}")


def _is_never_stored(data_type: pa.DataType) -> bool:
    kinds = (
        pa.types.is_union,
        pa.types.is_run_end_encoded,
        pa.types.is_list_view,
        pa.types.is_large_list_view,
    )
    return any(is_kind(data_type) for is_kind in kinds)


def _child_fields(data_type: pa.DataType) -> list[pa.Field]:
    if isinstance(data_type, pa.BaseExtensionType):
        return [pa.field("", data_type.storage_type)]
    if pa.types.is_dictionary(data_type):
        return [pa.field("", data_type.value_type)]
    return [data_type.field(index) for index in range(data_type.num_fields)]


def _metadata_bytes(metadata: dict[bytes, bytes] | None) -> int:
    """Return the size of metadata in bytes; raise UnicodeDecodeError if it is not text."""
    for text in (part for pair in (metadata or {}).items() for part in pair):
        text.decode()
    return sum(len(key) + len(value) for key, value in (metadata or {}).items())


def schema_field(field: str, value: Any) -> pa.Schema:
    """Return the schema of an IPC message in base64; errors are those of `check_schema`, too."""
    data = base64_bytes(field, value)
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(data))
    except (pa.ArrowException, OSError) as error:
        raise InvalidInputError(f"{field}: expected a schema as bytes of Arrow IPC", found=error) from None
    check_schema(schema)
    return schema


def alteration(field: str, value: Any) -> Alteration:
    """Return the change of one column: of its name, its type or its nullability."""
    fields: dict[str, Checker] = {
        "path": string,
        "name": string,
        "nullable": boolean,
        "data_type": _data_type,
        "schema": schema_field,
    }
    given = check_fields(field, value, fields, ("path",))
    if "schema" in given:  # an Arrow type: SQL has names for some of these only
        schema = given.pop("schema")
        if "data_type" in given or len(schema) != 1:
            raise InvalidInputError(f"{field}: expected a data_type, or the schema of one field of this type")
        given["data_type"] = schema.field(0).type
    return Alteration.parse(given)


def _data_type(field: str, value: Any) -> pa.DataType:
    """Return a type as SQL writes it in a CAST."""
    return parse_type(string(field, value))
