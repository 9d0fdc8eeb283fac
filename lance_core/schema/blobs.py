"""Blob columns: large values stored outside the pages, and descriptors of them in the pages.

The schema has the values, the column has the descriptors. A descriptor of the first form (2.0, 2.1) is
position and size in the data file. A descriptor of version 2 (2.2) also has a kind: in the data file (0), in
a shared side file (1), in a side file of its own (2), or outside the dataset (3). Source: docs/format.md,
"Blobs".
"""

from collections.abc import Iterable
from dataclasses import replace

from lance_core.proto import file_pb2
from lance_core.schema.arrow_types import EXTENSION_NAME
from lance_core.schema.fields import BLOB, BLOB_V2, PACKED, Field

_DESCRIPTOR = (("position", "uint64"), ("size", "uint64"))
_DESCRIPTOR_V2 = (
    ("kind", "uint8"),
    ("position", "uint64"),
    ("size", "uint64"),
    ("blob_id", "uint32"),
    ("blob_uri", "string"),
)

_GIVEN_V2 = (("data", "large_binary"), ("uri", "string"))


def describe_blobs(field: Field) -> Field:
    """Return the field with the struct of the descriptor in place of every blob at or below it."""
    if field.is_blob:
        return _descriptor(field, _DESCRIPTOR, nullable=True, metadata={BLOB: "true"})
    if field.is_blob_v2:
        return _descriptor(field, _DESCRIPTOR_V2, nullable=False, metadata={BLOB: "true", PACKED: "true"})
    children = tuple(map(describe_blobs, field.children))
    return field if children == field.children else replace(field, children=children)


def binary_blobs(field: Field) -> Field:
    """Return the field with a large_binary field in place of every blob of version 2 at or below it."""
    if field.is_blob_v2:
        metadata = {key: value for key, value in field.metadata.items() if key != EXTENSION_NAME}
        return replace(field, logical_type="large_binary", metadata=metadata, extension_name="", children=())
    children = tuple(map(binary_blobs, field.children))
    return field if children == field.children else replace(field, children=children)


def given_blobs(field: Field) -> Field:
    """Return the field with blobs of version 2, at or below it, changed to the first form. Tables with
    version 2 accept the first form too.
    """
    if field.is_blob_v2:
        binary = binary_blobs(field)
        return replace(binary, metadata={**binary.metadata, BLOB: "true"})
    children = tuple(map(given_blobs, field.children))
    return field if children == field.children else replace(field, children=children)


def without_descriptors(messages: Iterable[file_pb2.Field]) -> list[file_pb2.Field]:
    """Return the schema in a data file with blobs of version 2 in place of their descriptors.

    The reference writes the members of descriptors there, without ids and parents. Other schemas are returned
    as they are.
    """
    given = list(messages)
    if all(message.id >= 0 for message in given):
        return given
    names = [name for name, _ in _DESCRIPTOR_V2]
    free = 1 + max(message.id for message in given)
    fields: list[file_pb2.Field] = []
    while given:
        message = given.pop(0)
        members = given[: len(names)]
        is_descriptor = message.logical_type == "struct" and BLOB in message.metadata
        if is_descriptor and [(each.id, each.name) for each in members] == [(-1, name) for name in names]:
            del given[: len(names)]
            fields += _blob_v2(message, free)
            free += len(_GIVEN_V2)
        else:
            fields.append(message)
    return fields


def _blob_v2(descriptor: file_pb2.Field, first_id: int) -> list[file_pb2.Field]:
    """Return the blob of a descriptor, and its members, whose ids begin with `first_id`."""
    blob = file_pb2.Field()
    blob.CopyFrom(descriptor)
    for key in (BLOB, PACKED):
        blob.metadata.pop(key, None)
    blob.metadata[EXTENSION_NAME] = BLOB_V2.encode()
    members = [
        file_pb2.Field(
            id=first_id + number, parent_id=blob.id, name=name, logical_type=logical_type, nullable=True
        )
        for number, (name, logical_type) in enumerate(_GIVEN_V2)
    ]
    return [blob, *members]


def _descriptor(
    field: Field, parts: tuple[tuple[str, str], ...], *, nullable: bool, metadata: dict[str, str]
) -> Field:
    children = tuple(
        Field(-1, field.id, name, logical_type, nullable, {}, "") for name, logical_type in parts
    )
    return replace(field, logical_type="struct", metadata=metadata, extension_name="", children=children)
