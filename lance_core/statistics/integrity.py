"""Every byte of a 2.x file of ours held against its checksums.

    page buffers                  CRC-32C per page, in the page statistics
    blobs in the file             counted to the page that describes them, before its buffers
    blobs in side files           CRC-32C per side file, in a buffer with one at its end
    page statistics               CRC-32C at their end
    descriptor to footer          CRC-32C in the seal before the footer
    everything between these      zero

A file without a seal has none of this: others wrote it.
Source: docs/format.md, "Page statistics and checksums".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core import kernels
from lance_core.encodings.values import flatten_lists
from lance_core.errors import CorruptFileError
from lance_core.file.columns import open_column
from lance_core.file.footer import (
    FOOTER_BYTES,
    SEAL,
    SEAL_TAG,
    TABLE_ENTRY_BYTES,
    FileVersion,
    parse_footer,
)
from lance_core.file.metadata import BufferRange, FileMetadata, read_file_metadata
from lance_core.file.side_files import CHECKSUMS_KEY, read_checksums, verify_side_file
from lance_core.proto import file_pb2
from lance_core.schema import Field, leaves, nodes
from lance_core.schema.blobs import describe_blobs
from lance_core.statistics.file_buffer import METADATA_KEY, FilePageStatistics, buffer_of, from_buffer
from lance_core.storage.base import ReadableFile

_PIECE_BYTES = 8 << 20


def verify_file(file: ReadableFile, open_side_file: Callable[[int], ReadableFile] | None = None) -> bool:
    """Check all bytes of a 2.x file against its checksums; False for a file that has none.

    Side files that it has checksums of are checked as well, where `open_side_file` opens them by number.

    Raises:
        CorruptFileError: something differs; names column and page where it is in one.
        UnsupportedFeatureError: a file version that is not read.
        StorageError: the storage failed.
    """
    checksums = FileChecksums(file, read_file_metadata(file))
    return checksums.verify_all(open_side_file)


class FileChecksums:
    """The checksums of one file; for one thread at a time."""

    def __init__(self, file: ReadableFile, metadata: FileMetadata) -> None:
        self._file = file
        self._metadata = metadata
        self._known: dict[int, list[BufferRange]] = {}
        """Checked byte ranges of each column."""

    def verify_all(self, open_side_file: Callable[[int], ReadableFile] | None = None) -> bool:
        """See `verify_file`."""
        if not self._has_checksums:
            return False
        self.verify(range(self._metadata.num_columns))
        known = [place for places in self._known.values() for place in places]
        if self._place is not None:
            known.append(self._place)
        place = self._buffer(CHECKSUMS_KEY)
        if place is not None:
            known.append(place)
            expected = read_checksums(self._file.read(*place), self._file.name)
            for blob_id, checksum in expected.items() if open_side_file else ():
                assert open_side_file is not None
                with open_side_file(blob_id) as side_file:
                    verify_side_file(side_file, checksum)
        _verify_gaps(self._file, known, self._metadata.global_buffers[0][0])
        return True

    def verify(self, columns: Iterable[int]) -> None:
        """Check the pages of some columns, once each; errors are those of `verify_file`.

        In a file without checksums there is nothing to check.
        """
        for index in columns:
            if index not in self._known and self._has_checksums:
                self._known[index] = _verify_column(self._file, self._metadata, index, self._statistics)

    @cached_property
    def _has_checksums(self) -> bool:
        return _verify_seal(self._file, self._metadata)

    @cached_property
    def _place(self) -> BufferRange | None:
        return self._buffer(METADATA_KEY)

    def _buffer(self, key: str) -> BufferRange | None:
        metadata = self._metadata
        return buffer_of(metadata.schema.metadata, metadata.global_buffers, self._file.name, key)

    @cached_property
    def _statistics(self) -> FilePageStatistics | None:
        return None if self._place is None else from_buffer(self._file.read(*self._place), self._file.name)


def page_checksum(file: ReadableFile, ranges: Sequence[BufferRange]) -> int:
    """Return the CRC-32C of parts of a file, one after the other."""
    crc = 0
    for position, size in ranges:
        for piece in _pieces(file, position, size):
            crc = kernels.crc32c(piece, crc)
    return crc


def _verify_seal(file: ReadableFile, metadata: FileMetadata) -> bool:
    start = metadata.global_buffers[0][0]
    tail = memoryview(file.read(start, file.size - start))
    footer = bytes(tail[-FOOTER_BYTES:])
    parsed = parse_footer(footer, file.size, file.name)
    end = parsed.global_table_start + TABLE_ENTRY_BYTES * parsed.num_global_buffers
    gap = file.size - FOOTER_BYTES - end
    if gap == 0:
        return False
    described = tail[: end - start]
    seal = bytes(tail[end - start : end - start + gap])
    if gap == SEAL.size:
        expected, tag = SEAL.unpack(seal)
        if tag == SEAL_TAG:
            found = kernels.crc32c(footer, kernels.crc32c(described))
            if found != expected:
                raise CorruptFileError(
                    "metadata has another checksum",
                    file=file.name,
                    expected=f"{expected:08x}",
                    found=f"{found:08x}",
                )
            return True
    raise CorruptFileError("unknown bytes before the footer", file=file.name, found=seal[:16].hex())


def _verify_column(
    file: ReadableFile, metadata: FileMetadata, index: int, statistics: FilePageStatistics | None
) -> list[BufferRange]:
    """Check the pages of a column; returns where their bytes are."""
    pages = metadata.column(index).pages
    blobs = _blob_ranges(file, metadata, index)
    checksums = statistics.checksums(index) if statistics is not None else ()
    if len(checksums) != len(pages):
        raise CorruptFileError(
            "pages without checksums", file=file.name, column=index, expected=len(pages), found=len(checksums)
        )
    known: list[BufferRange] = []
    for number, (page, expected) in enumerate(zip(pages, checksums, strict=True)):
        ranges = [*blobs[number], *page.buffers] if blobs else page.buffers
        found = page_checksum(file, ranges)
        if found != expected:
            raise CorruptFileError(
                "page has another checksum",
                file=file.name,
                column=index,
                page=number,
                expected=f"{expected:08x}",
                found=f"{found:08x}",
            )
        known += ranges
    return known


def _blob_ranges(file: ReadableFile, metadata: FileMetadata, index: int) -> list[list[BufferRange]]:
    """Return the ranges of the values that each page of a blob column describes; empty for other columns."""
    if metadata.version == FileVersion.V2_0:
        # A column is readable without those above it.
        places = [(node, node) for top in metadata.schema.fields for node in nodes(top)]
    else:
        places = [(top, leaf) for top in metadata.schema.fields for leaf in leaves(top)]
    if index >= len(places) or not (places[index][1].is_blob or places[index][1].is_blob_v2):
        return []
    top, leaf = places[index]
    if metadata.version == FileVersion.V2_0:  # and in lists it has a number of values of its own
        num_values = sum(page.num_rows for page in metadata.column(index).pages)
        metadata = replace(metadata, descriptor=file_pb2.FileDescriptor(length=num_values))
    reader = open_column(file, metadata, describe_blobs(top), {leaf.id: index})
    ranges: list[list[BufferRange]] = []
    start = 0
    for page in metadata.column(index).pages:
        ranges.append([])
        for array in reader.read(start, start + page.num_rows):
            descriptors = _descend(top, leaf, array)
            if descriptors.type.get_field_index("kind") >= 0:
                descriptors = descriptors.filter(pc.equal(descriptors.field("kind"), 0))  # in the file itself
            position, size = (
                pc.fill_null(descriptors.field(name), 0).to_pylist() for name in ("position", "size")
            )
            ranges[-1] += [place for place in zip(position, size, strict=True) if place[1]]
        start += page.num_rows
    return ranges


def _descend(field: Field, leaf: Field, array: pa.Array) -> pa.StructArray:
    """Return the values of a field that structs and lists lead to."""
    if field is leaf:
        return array
    below = array.flatten() if pa.types.is_struct(array.type) else [flatten_lists(array)]
    for child, values in zip(field.children, below, strict=True):
        if leaf in tuple(child.walk()):
            return _descend(child, leaf, values)
    raise CorruptFileError("a blob that is not in its column", column=leaf.name)


def _verify_gaps(file: ReadableFile, known: list[BufferRange], end: int) -> None:
    """Check that all bytes between the known ranges, up to `end`, are zero; raise `CorruptFileError` if
    not.
    """
    position = 0
    for start, size in sorted(known):
        if start > position:
            for piece in _pieces(file, position, start - position):
                if np.frombuffer(piece, np.uint8).any():
                    raise CorruptFileError("padding is not zero", file=file.name, found=f"at {position}")
        position = max(position, start + size)
    if position < end and np.frombuffer(file.read(position, end - position), np.uint8).any():
        raise CorruptFileError("padding is not zero", file=file.name, found=f"at {position}")


def _pieces(file: ReadableFile, position: int, size: int) -> Iterator[memoryview]:
    for start in range(position, position + size, _PIECE_BYTES):
        yield memoryview(file.read(start, min(_PIECE_BYTES, position + size - start)))
