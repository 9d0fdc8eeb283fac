"""0.1 files put together byte by byte."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from lance_core.proto import file_pb2, table_pb2
from lance_core.schema import Schema
from lance_core.schema.fields import Field
from lance_core.storage.memory import MemoryFile

Cells = Mapping[int, Sequence[tuple[int, int]]]
NAME = "data/f.lance"


def field_message(number: int, logical_type: str, parent: int = -1, **more: object) -> file_pb2.Field:
    """Return a nullable field named after its number."""
    return file_pb2.Field(
        **{"name": f"f{number}", "id": number, "parent_id": parent, "nullable": True, **more},
        logical_type=logical_type,
    )


def fields_of(*messages: file_pb2.Field, content: bytes = b"") -> tuple[Field, ...]:
    """Return the tree of the fields; `content` is where their dictionaries are."""
    return Schema(messages, {}, file="manifest", content=content).fields


def legacy_file(
    body: bytes,
    cells: Cells,
    batch_offsets: Sequence[int],
    fields: Sequence[file_pb2.Field] = (),
    *,
    first_row: int | None = None,
    version: tuple[int, int] = (0, 2),
) -> MemoryFile:
    """Return a file of `body` and a page table with (position, items) per field id and batch.

    The table begins with the smallest id unless `first_row` says otherwise. Without `fields` no manifest is
    embedded.
    """
    data = bytearray(body)
    metadata = file_pb2.Metadata(batch_offsets=batch_offsets, page_table_position=len(data))
    num_batches = len(batch_offsets) - 1
    for number in range(min(cells) if first_row is None else first_row, max(cells) + 1):
        for cell in cells.get(number, [(0, 0)] * num_batches):
            data += struct.pack("<qq", *cell)
    if fields:
        metadata.manifest_position = len(data)
        data += _framed(table_pb2.Manifest(fields=fields, version=1).SerializeToString())
    position = len(data)
    data += _framed(metadata.SerializeToString())
    data += struct.pack("<QHH4s", position, *version, b"LANC")
    return MemoryFile(NAME, bytes(data))


def _framed(message: bytes) -> bytes:
    return struct.pack("<I", len(message)) + message
