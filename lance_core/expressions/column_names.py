"""Resolution of column names: from the parts of a name in a text to a column of the schema."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lance_core.errors import InvalidInputError
from lance_core.expressions.tree import Column
from lance_core.hints import did_you_mean


def resolve_column(parts: Sequence[str], schema: pa.Schema, *, exact: bool = False) -> Column:
    """Return the column, or the child of a struct column, that dotted or quoted `parts` name.

    A top-level name that the schema does not contain as written is matched without case, and the match must
    be unique. `exact` (a name in backticks) forbids this. Children of structs are matched as written, as in
    the reference.

    Raises:
        InvalidInputError: no column or child has the name, or several columns do; the message suggests
            similar names.
    """
    place = schema.get_field_index(parts[0])
    if place < 0:  # the schema does not have the name as written, or has it several times
        place = _place_of_similar(parts[0], schema, exact)
    found = schema.field(place)
    path: tuple[str, ...] = (found.name,)
    data_type = found.type
    for part in parts[1:]:
        path, data_type = (*path, part), child_type(path, data_type, part)
    return Column(path, data_type)


def _place_of_similar(name: str, schema: pa.Schema, exact: bool) -> int:
    """Return the place of the only column whose name differs from `name` in case alone; see
    `resolve_column`.
    """
    if name in schema.names:
        matches = [name]
    else:
        matches = [] if exact else [known for known in schema.names if known.lower() == name.lower()]
    if not matches:
        raise InvalidInputError(f"there is no column {name!r}{did_you_mean(name, schema.names)}")
    if len(matches) > 1 or schema.names.count(matches[0]) > 1:
        raise InvalidInputError(f"the column name {name!r} is ambiguous: {', '.join(matches)}")
    place: int = schema.get_field_index(matches[0])
    return place


def as_compared(column: Column) -> Column:
    """Return a column of UUIDs as a column of 16 bytes, and any other column unchanged.

    Expressions compare UUIDs by their bytes, as in the reference.
    """
    is_uuid = isinstance(column.data_type, pa.UuidType)
    return Column(column.path, column.data_type.storage_type) if is_uuid else column


def child_type(path: Sequence[str], data_type: pa.DataType, name: str) -> pa.DataType:
    """Return the type of the child `name` of a struct; `path` names the struct in messages.

    Raises:
        InvalidInputError: the type is not a struct, or has no such child.
    """
    column = ".".join(path)
    if not pa.types.is_struct(data_type):
        raise InvalidInputError(f"column {column!r} is of type {data_type}, which has no child {name!r}")
    if data_type.get_field_index(name) < 0:
        names = [field.name for field in data_type]
        raise InvalidInputError(f"column {column!r} has no child {name!r}{did_you_mean(name, names)}")
    return data_type.field(name).type
