"""Data files put together by hand from page descriptions and buffers.

For pages that the reference reads but never writes. The container around them is the plainest one.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import lance
import pyarrow as pa
from google.protobuf.any_pb2 import Any
from lance.fragment import DataFile, FragmentMetadata

from lance_core.proto import encodings_v2_1_pb2 as pb
from lance_core.proto import file2_pb2, file_pb2

ALIGNMENT = 64


@dataclass(frozen=True)
class HandmadePage:
    """One page of the only column of a file."""

    layout: pb.PageLayout
    buffers: tuple[bytes, ...]
    rows: int


def write_handmade(path: Path, field: pa.Field, version: str, pages: Sequence[HandmadePage]) -> None:
    """A dataset of one column whose data file holds the pages."""
    donor = lance.write_dataset(
        pa.table([pa.array([None], field.type)], pa.schema([field])), str(path), data_storage_version=version
    )
    donor_file = donor.get_fragments()[0].metadata.files[0]
    content = _container((path / "data" / donor_file.path).read_bytes(), pages)
    (path / "data" / "handmade.lance").write_bytes(content)
    file = DataFile(
        "handmade.lance",
        donor_file.fields,
        donor_file.column_indices,
        donor_file.file_major_version,
        donor_file.file_minor_version,
        len(content),
    )
    rows = sum(page.rows for page in pages)
    operation = lance.LanceOperation.Overwrite(pa.schema([field]), [FragmentMetadata(0, [file], rows)])
    lance.LanceDataset.commit(str(path), operation, read_version=donor.version)


def _container(donor: bytes, pages: Sequence[HandmadePage]) -> bytes:
    """Pages, descriptor, column metadata, offset tables, footer; schema and column encoding of the donor."""
    _, cmo_start, gbo_start, *_, major, minor = struct.unpack("<QQQIIHH", donor[-40:-4])
    descriptor = file_pb2.FileDescriptor.FromString(_slice(donor, gbo_start))
    column = file2_pb2.ColumnMetadata.FromString(_slice(donor, cmo_start))
    descriptor.length = sum(page.rows for page in pages)
    del column.pages[:]

    data = bytearray()
    row = 0
    for page in pages:
        written = column.pages.add(length=page.rows, priority=row)
        for buffer in page.buffers:
            written.buffer_offsets.append(_append(data, buffer))
            written.buffer_sizes.append(len(buffer))
        description = Any(type_url="/lance.encodings21.PageLayout", value=page.layout.SerializeToString())
        written.encoding.direct.encoding = description.SerializeToString()
        row += page.rows
    described, columns = descriptor.SerializeToString(), column.SerializeToString()
    descriptor_start = _append(data, described)
    column_start = _append(data, columns)
    data += struct.pack("<QQ", column_start, len(columns))
    data += struct.pack("<QQ", descriptor_start, len(described))
    table = len(data) - 32
    data += struct.pack("<QQQIIHH4s", column_start, table, table + 16, 1, 1, major, minor, b"LANC")
    return bytes(data)


def _slice(data: bytes, table: int) -> bytes:
    start, size = struct.unpack_from("<QQ", data, table)
    return data[start : start + size]


def _append(data: bytearray, buffer: bytes) -> int:
    data += bytes(-len(data) % ALIGNMENT)
    start = len(data)
    data += buffer
    return start


# --- mini-blocks --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chunk:
    """One mini-block: `values` is what its exponent or, for the last one, the page's total says."""

    values: int
    buffers: tuple[bytes, ...]
    rep: bytes | None = None
    def_: bytes | None = None
    levels: int = 0
    exponent: int | None = None


def mini_blocks(version: str, chunks: Sequence[Chunk]) -> tuple[bytes, bytes]:
    """(chunk metadata words, chunks) of a page."""
    large = version == "2.2"
    words, data = b"", b""
    for number, chunk in enumerate(chunks):
        body = _mini_block(chunk, "<I" if large else "<H")
        last = number == len(chunks) - 1
        exponent = 0 if last else chunk.values.bit_length() - 1
        if chunk.exponent is not None:
            exponent = chunk.exponent
        words += struct.pack("<I" if large else "<H", (len(body) // 8 - 1) << 4 | exponent)
        data += body
    return words, data


def _mini_block(chunk: Chunk, size_format: str) -> bytes:
    levels = [part for part in (chunk.rep, chunk.def_) if part is not None]
    header = struct.pack("<H", chunk.levels)
    header += b"".join(struct.pack("<H", len(part)) for part in levels)
    header += b"".join(struct.pack(size_format, len(part)) for part in chunk.buffers)
    return b"".join(part + b"\xfe" * (-len(part) % 8) for part in (header, *levels, *chunk.buffers))


def mini_block_page(
    version: str,
    chunks: Sequence[Chunk],
    values: pb.CompressiveEncoding,
    rows: int,
    *,
    layers: Sequence[int] = (1,),
    extra_buffers: Sequence[bytes] = (),
    **fields: object,
) -> HandmadePage:
    """Return a page in the mini-block layout; `fields` are further fields of its message."""
    layout = pb.PageLayout()
    body = layout.mini_block_layout
    body.value_compression.CopyFrom(values)
    body.layers.extend(layers)
    body.num_buffers = len(chunks[0].buffers)
    body.num_items = sum(chunk.values for chunk in chunks)
    body.has_large_chunk = version == "2.2"
    for name, value in fields.items():
        if isinstance(value, pb.CompressiveEncoding):
            getattr(body, name).CopyFrom(value)
        else:
            setattr(body, name, value)
    return HandmadePage(layout, (*mini_blocks(version, chunks), *extra_buffers), rows)


# --- compressive encodings ----------------------------------------------------------------------------


def flat(bits: int) -> pb.CompressiveEncoding:
    return pb.CompressiveEncoding(flat=pb.Flat(bits_per_value=bits))


def variable(bits: int = 32) -> pb.CompressiveEncoding:
    return pb.CompressiveEncoding(variable=pb.Variable(offsets=flat(bits)))


def inline_bitpacking(bits: int) -> pb.CompressiveEncoding:
    return pb.CompressiveEncoding(inline_bitpacking=pb.InlineBitpacking(uncompressed_bits_per_value=bits))


def out_of_line_bitpacking(bits: int, packed_bits: int) -> pb.CompressiveEncoding:
    packed = pb.OutOfLineBitpacking(uncompressed_bits_per_value=bits, values=flat(packed_bits))
    return pb.CompressiveEncoding(out_of_line_bitpacking=packed)


def rle(bits: int, length_bits: int = 8) -> pb.CompressiveEncoding:
    return pb.CompressiveEncoding(rle=pb.Rle(values=flat(bits), run_lengths=flat(length_bits)))


def general(scheme: int, values: pb.CompressiveEncoding) -> pb.CompressiveEncoding:
    compression = pb.BufferCompression(scheme=scheme)
    return pb.CompressiveEncoding(general=pb.General(compression=compression, values=values))


def fsst(table: bytes) -> pb.CompressiveEncoding:
    return pb.CompressiveEncoding(fsst=pb.Fsst(symbol_table=table, values=variable()))
