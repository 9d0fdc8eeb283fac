"""The fields that own a column of a data file.

In 2.0 files every field owns a column, except the members of packed structs and blobs (docs/format.md,
"2.0"). In 2.1 and 2.2 files only leaves own columns. Structs, lists and maps are rebuilt from the levels that
each leaf stores (docs/format.md, "Columns").
"""

from lance_core.schema.fields import Field


def owns_column(field: Field) -> bool:
    """Return whether the field owns a column of a 2.1 or 2.2 file."""
    return not field.children or field.is_packed or field.is_blob or field.is_blob_v2


def leaves(field: Field) -> tuple[Field, ...]:
    """Return the fields at or below `field` that own a column, in column order."""
    if owns_column(field):
        return (field,)
    return tuple(leaf for child in field.children for leaf in leaves(child))


def nodes(field: Field) -> tuple[Field, ...]:
    """Return the fields at or below `field` that own a column of a 2.0 file, in column order."""
    if owns_column(field):
        return (field,)
    return (field, *(node for child in field.children for node in nodes(child)))
