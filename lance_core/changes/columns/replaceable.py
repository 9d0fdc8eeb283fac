"""The check of columns that are replaced as a whole: the same types, and structs with all their children."""

from __future__ import annotations

import pyarrow as pa

from lance_core.errors import InvalidInputError
from lance_core.hints import did_you_mean
from lance_core.scan.plan.projection import ROW_COLUMNS
from lance_core.schema import Schema
from lance_core.write.schema_conformer import Conformer


def replaceable_columns(schema: Schema, given: pa.Schema) -> tuple[Schema, Conformer]:
    """Return the fields of a table that `given` has, and the conformer that brings batches into their form.

    Raises:
        InvalidInputError: The table lacks a column, a column has another type, or a struct lacks children.
    """
    known = [field.name for field in schema.fields]
    for name in given.names:
        if name in ROW_COLUMNS and name not in known:
            raise InvalidInputError("metadata column of rows cannot be updated", column=name)
        if name not in known:
            raise InvalidInputError(f"there is no column {name!r}{did_you_mean(name, known)}")
    ids = {node.id for field in schema.fields if field.name in given.names for node in field.walk()}
    part = schema.only(ids)
    conformer = Conformer(part, given)
    if {message.id for message in conformer.schema.messages} != ids:
        raise InvalidInputError("structs can only be replaced with all of their children")
    return part, conformer
