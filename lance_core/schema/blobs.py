"""Blob columns: large values kept outside the pages, and the descriptors that stand for them.

The schema names the values; the column stores descriptors. The first form (2.0, 2.1) tells position and
size in the data file. The second (2.2) also tells the kind of place: in the data file (0), in a side file
shared by several values (1), in one of its own (2), or outside the dataset (3).
"""

from dataclasses import replace

from lance_core.schema.arrow_types import EXTENSION_NAME
from lance_core.schema.fields import BLOB, PACKED, Field

_DESCRIPTOR = (("position", "uint64"), ("size", "uint64"))
_DESCRIPTOR_V2 = (
    ("kind", "uint8"),
    ("position", "uint64"),
    ("size", "uint64"),
    ("blob_id", "uint32"),
    ("blob_uri", "string"),
)


def describe_blobs(field: Field) -> Field:
    """Return the field with every blob, here or below, replaced by the struct of its descriptor."""
    if field.is_blob:
        return _descriptor(field, _DESCRIPTOR, nullable=True, metadata={BLOB: "true"})
    if field.is_blob_v2:
        return _descriptor(field, _DESCRIPTOR_V2, nullable=False, metadata={BLOB: "true", PACKED: "true"})
    children = tuple(map(describe_blobs, field.children))
    return field if children == field.children else replace(field, children=children)


def binary_blobs(field: Field) -> Field:
    """Return the field with every blob, here or below, replaced by the plain binary that its values are."""
    if field.is_blob_v2:
        metadata = {key: value for key, value in field.metadata.items() if key != EXTENSION_NAME}
        return replace(field, logical_type="large_binary", metadata=metadata, extension_name="", children=())
    children = tuple(map(binary_blobs, field.children))
    return field if children == field.children else replace(field, children=children)


def given_blobs(field: Field) -> Field:
    """Return the field with every blob, here or below, in the first form: so tables of the second take
    them, too.
    """
    if field.is_blob_v2:
        binary = binary_blobs(field)
        return replace(binary, metadata={**binary.metadata, BLOB: "true"})
    children = tuple(map(given_blobs, field.children))
    return field if children == field.children else replace(field, children=children)


def _descriptor(
    field: Field, parts: tuple[tuple[str, str], ...], *, nullable: bool, metadata: dict[str, str]
) -> Field:
    children = tuple(
        Field(-1, field.id, name, logical_type, nullable, {}, "") for name, logical_type in parts
    )
    return replace(field, logical_type="struct", metadata=metadata, extension_name="", children=children)
