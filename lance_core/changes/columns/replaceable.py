"""Columns of a table that are given anew as they are: all children of structs, and of the same types."""

from __future__ import annotations

import pyarrow as pa

from lance_core.errors import InvalidInputError
from lance_core.hints import did_you_mean
from lance_core.schema import Schema
from lance_core.write.schema_conformer import Conformer


def replaceable_columns(schema: Schema, given: pa.Schema) -> tuple[Schema, Conformer]:
    """Return the fields of a table that `given` has, and what brings batches into the form that files
    hold.

    Raises:
        InvalidInputError: a column that the table does not have, of another type, or a part of a struct.
    """
    known = [field.name for field in schema.fields]
    for name in given.names:
        if name not in known:
            raise InvalidInputError(f"there is no column {name!r}{did_you_mean(name, known)}")
    ids = {node.id for field in schema.fields if field.name in given.names for node in field.walk()}
    part = schema.only(ids)
    conformer = Conformer(part, given)
    if {message.id for message in conformer.schema.messages} != ids:
        raise InvalidInputError("structs can only be replaced with all of their children")
    return part, conformer
