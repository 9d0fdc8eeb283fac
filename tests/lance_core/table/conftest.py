"""Editing the files of a table that the reference wrote."""

import struct
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from lance_core.proto import table_pb2

Change = Callable[[table_pb2.Manifest], object]
EditManifest = Callable[[Path, Change], None]


def newest_manifest(path: Path) -> Path:
    """The manifest of the latest version of a table with inverted names."""
    return min((path / "_versions").glob("[0-9]*.manifest"))


def manifest_bytes(message: table_pb2.Manifest) -> bytes:
    """A manifest file without other sections."""
    data = message.SerializeToString()
    return struct.pack("<I", len(data)) + data + struct.pack("<QHH4s", 0, 0, 2, b"LANC")


def read_message(file: Path) -> table_pb2.Manifest:
    data = file.read_bytes()
    (position,) = struct.unpack_from("<Q", data, len(data) - 16)
    (length,) = struct.unpack_from("<I", data, position)
    return table_pb2.Manifest.FromString(data[position + 4 : position + 4 + length])


@pytest.fixture
def edit_manifest() -> EditManifest:
    """Apply a change to the newest manifest of a table; its other sections are dropped."""

    def edit(path: Path, change: Change) -> None:
        file = newest_manifest(path)
        message = read_message(file)
        for section in ("index_section", "transaction_section", "transaction_section_deprecated"):
            message.ClearField(section)
        change(message)
        file.write_bytes(manifest_bytes(message))

    return edit


@pytest.fixture
def table() -> pa.Table:
    """Ten rows of a number, a text and a struct."""
    return pa.table(
        {
            "number": pa.array(range(10), pa.int32()),
            "text": [f"row {row}" for row in range(10)],
            "point": [{"x": row, "y": float(row)} for row in range(10)],
        }
    )
