"""Editing the manifests of tables that the reference wrote."""

import struct
from collections.abc import Callable
from pathlib import Path

from lance_core.proto import table_pb2


def newest_manifest(path: Path) -> Path:
    """Return the manifest of the latest version of a table with inverted names."""
    return min((path / "_versions").glob("[0-9]*.manifest"))


def manifest_bytes(message: table_pb2.Manifest) -> bytes:
    """Return a manifest file without other sections."""
    data = message.SerializeToString()
    return struct.pack("<I", len(data)) + data + struct.pack("<QHH4s", 0, 0, 2, b"LANC")


def read_message(file: Path) -> table_pb2.Manifest:
    """Return the message of a manifest file."""
    data = file.read_bytes()
    (position,) = struct.unpack_from("<Q", data, len(data) - 16)
    (length,) = struct.unpack_from("<I", data, position)
    return table_pb2.Manifest.FromString(data[position + 4 : position + 4 + length])


def edit_manifest(path: Path, change: Callable[[table_pb2.Manifest], object]) -> None:
    """Apply `change` to the newest manifest of a table; its other sections are dropped."""
    file = newest_manifest(path)
    message = read_message(file)
    for section in ("index_section", "transaction_section", "transaction_section_deprecated"):
        message.ClearField(section)
    change(message)
    file.write_bytes(manifest_bytes(message))
