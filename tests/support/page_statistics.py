"""Files of the reference with page statistics put in, as our writers leave them."""

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from lance_core.file.metadata import read_file_metadata
from lance_core.proto import file_pb2
from lance_core.statistics.file_buffer import METADATA_KEY, PageEntry, to_buffer
from lance_core.storage import LocalStorage
from support.manifests import edit_manifest


def add_page_statistics(dataset: Path, columns: Mapping[int, Sequence[PageEntry]]) -> None:
    """Write the only data file of a dataset again, with a global buffer of statistics."""
    (path,) = (dataset / "data").iterdir()
    add_global_buffer(path, to_buffer(columns), "1")
    size = path.stat().st_size
    edit_manifest(dataset, lambda manifest: setattr(manifest.fragments[0].files[0], "file_size_bytes", size))


def add_global_buffer(path: Path, content: pa.Buffer, number: str) -> None:
    """Put a global buffer into a 2.x file, and `number` where its metadata names the one with statistics."""
    data = path.read_bytes()
    with LocalStorage(str(path.parent)).open_file(path.name) as file:
        metadata = read_file_metadata(file)
    footer = struct.unpack("<QQQIIHH4s", data[-40:])
    descriptor = file_pb2.FileDescriptor()
    descriptor.CopyFrom(metadata.descriptor)
    descriptor.schema.metadata[METADATA_KEY] = number.encode()
    out = bytearray(data[: metadata.global_buffers[0][0]])
    out += bytes(-len(out) % 64)
    buffers = [(len(out), content.size)]
    out += memoryview(content)
    out += bytes(-len(out) % 64)
    buffers.insert(0, (len(out), len(descriptor.SerializeToString())))
    out += descriptor.SerializeToString()
    start = len(out)
    moved = start - footer[0]
    out += data[footer[0] : footer[1]]
    columns_table = len(out)
    for position, size in struct.iter_unpack("<QQ", data[footer[1] : footer[1] + 16 * footer[4]]):
        out += struct.pack("<QQ", position + moved, size)
    buffers_table = len(out)
    for position, size in buffers:
        out += struct.pack("<QQ", position, size)
    out += struct.pack("<QQQIIHH4s", start, columns_table, buffers_table, 2, *footer[4:])
    path.write_bytes(out)
