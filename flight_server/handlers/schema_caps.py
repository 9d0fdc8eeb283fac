"""Caps of schemas that clients send (threat T18), and types that no table has."""

import pyarrow as pa

from flight_server.requests.names import shown
from lance_core.errors import InvalidInputError, UnsupportedFeatureError

MAXIMUM_FIELDS = 20_000
"""Fields of a schema, those below others included."""
MAXIMUM_DEPTH = 64
MAXIMUM_FIELD_NAME_BYTES = 4096
MAXIMUM_METADATA_BYTES = 1 << 20
"""Largest size of the metadata of a schema and all its fields together."""


def check_schema(schema: pa.Schema) -> None:
    """Refuse what is beyond a cap (threat T18), and what cannot be looked at.

    Raises:
        InvalidInputError: a cap, which is named; or text that is none.
        UnsupportedFeatureError: a type of which no file has values, so that nothing counts them.
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
                raise InvalidInputError(f"column {shown(field.name)} has only nulls and allows none")
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
    """Bytes of metadata; raises UnicodeDecodeError where it is not text, which is all that tables keep."""
    for text in (part for pair in (metadata or {}).items() for part in pair):
        text.decode()
    return sum(len(key) + len(value) for key, value in (metadata or {}).items())
