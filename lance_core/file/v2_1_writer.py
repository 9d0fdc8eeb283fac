"""Writing 2.1 and 2.2 files: rows are gathered per leaf column until they fill a page, which is then encoded.

Pages are encoded on a pool of threads while further rows arrive, a few at a time, and written in the order in
which they were filled. What is gathered is copied before the batches that it came with take much memory: a
batch that came over the network is one block that a slice of its narrowest column would keep alive.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.v2_1.encoders.blob import blob_page, blob_v2_page, blob_values, plain_rows
from lance_core.encodings.v2_1.encoders.encoded import EncodedPage, LeafColumn
from lance_core.encodings.v2_1.encoders.options import options_of
from lance_core.encodings.v2_1.encoders.page import encode_pages
from lance_core.encodings.v2_1.encoders.shred import Kind, LeafRows, shred, steps_of
from lance_core.encodings.v2_1.layout import PAGE_LAYOUT
from lance_core.encodings.values import as_buffer, fixed_bits
from lance_core.errors import InvalidInputError
from lance_core.file.container_writer import ContainerWriter, described
from lance_core.file.footer import FileVersion
from lance_core.file.stored import as_stored
from lance_core.file.v2_1_types import check_field
from lance_core.file.written import PageRecorder, WriteOptions, WrittenFile
from lance_core.pool import num_workers, worker_pool
from lance_core.proto import encodings_v2_0_pb2, file2_pb2
from lance_core.schema import Field, Schema
from lance_core.storage.base import Bytes, WritableFile

_COLUMN_ENCODING = "lance.encodings.ColumnEncoding"
_MAX_BORROWED_BYTES = 16 << 20
"""Memory of batches that waiting rows may keep alive."""
_LEVEL_BYTES = 4
"""A repetition and a definition level."""


class FileWriter:
    """One 2.1 or 2.2 file in the making; see `lance_core.file.writer`."""

    def __init__(
        self, file: WritableFile, schema: Schema, version: FileVersion, options: WriteOptions
    ) -> None:
        """See `lance_core.file.writer.open_writer`."""
        self._file = file
        self._container = ContainerWriter(file, version)
        self._schema = schema
        self._version = version
        self._page_bytes = options.page_bytes
        self._recorder = None if options.recorder is None else options.recorder()
        is_2_2 = version >= FileVersion.V2_2
        self._columns: list[_Column] = []
        self._tops: list[tuple[Field, list[_Column]]] = []
        for top in schema.fields:
            check_field(top, version)
            leaves = [
                _Column(LeafColumn(leaf, steps, options_of(leaf, top), is_2_2), len(self._columns) + number)
                for number, (leaf, steps) in enumerate(steps_of(top))
            ]
            self._columns += leaves
            self._tops.append((top, leaves))
        self._encoding: deque[tuple[_Column, Future[list[_Page]]]] = deque()
        self._borrowed_bytes = 0
        self.num_rows = 0

    @property
    def num_bytes(self) -> int:
        """About how large the file is so far."""
        return self._container.position + sum(column.num_bytes for column in self._columns)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows; see `lance_core.file.writer`."""
        if batch.num_columns != len(self._tops):
            raise InvalidInputError(
                "wrong number of columns", expected=len(self._tops), found=batch.num_columns
            )
        for (top, leaves), array in zip(self._tops, batch.columns, strict=True):
            stored = as_stored(array, top.arrow_type, top.name)
            if not top.nullable and stored.null_count:
                raise InvalidInputError("null in a column that allows none", column=top.name)
            for piece in self._pieces(stored, leaves):
                for leaf, rows in zip(leaves, shred(top, piece), strict=True):
                    self._append(leaf, rows)
        self.num_rows += batch.num_rows
        self._borrowed_bytes += batch.get_total_buffer_size()
        if self._borrowed_bytes > _MAX_BORROWED_BYTES:
            for column in self._columns:
                column.own()
            self._borrowed_bytes = 0

    def finish(self) -> WrittenFile:
        """Write the rest; see `lance_core.file.writer`."""
        for column in self._columns:
            self._fill_page(column)
        self._write_encoded(0)
        size = self._container.finish(
            self._schema,
            self.num_rows,
            (column.metadata for column in self._columns),
            None if self._recorder is None else self._recorder.finish(),
        )
        return WrittenFile(
            self.num_rows,
            size,
            self._version,
            tuple(column.leaf.field.id for column in self._columns),
            tuple(range(len(self._columns))),
        )

    def abort(self) -> None:
        """Drop the file."""
        self._encoding.clear()
        self._file.abort()

    def _pieces(self, array: pa.Array, leaves: Sequence["_Column"]) -> Iterator[pa.Array]:
        """Slices that fill the page of the fullest leaf, one after the other."""
        start = 0
        while start < len(array):
            rest = array.slice(start)
            room = self._page_bytes - max(leaf.num_bytes for leaf in leaves)
            num_bytes = rest.nbytes
            count = len(rest)
            if num_bytes > room:
                count = max(1, min(count, room * count // num_bytes))
                # Rows differ in size; a page of twice the size is the most there should be.
                while count > 1 and array.slice(start, count).nbytes > room + self._page_bytes:
                    count //= 2
            yield array.slice(start, count)
            start += count

    def _append(self, column: "_Column", rows: LeafRows) -> None:
        column.append(rows)
        if column.num_bytes >= self._full:
            self._fill_page(column)

    @property
    def _full(self) -> int:
        """A page is full when little is missing: cutting by average sizes rarely hits the mark."""
        return self._page_bytes - self._page_bytes // 16

    def _fill_page(self, column: "_Column") -> None:
        waiting = column.take()
        if not waiting:
            return
        self._write_encoded(num_workers())
        if column.leaf.field.is_blob or column.leaf.field.is_blob_v2:
            (rows,) = _pages_of(waiting)
            if column.leaf.field.is_blob_v2:
                rows = plain_rows(rows, column.leaf)
            places, crc = self._write_blobs(rows)
            future = worker_pool().submit(_describe_blobs, rows, column.leaf, self._recorder, places, crc)
        else:
            future = worker_pool().submit(_encode, waiting, column.leaf, self._recorder)
        self._encoding.append((column, future))

    def _write_blobs(self, rows: LeafRows) -> tuple[list[tuple[int, int]], int]:
        """Write the values of a page of blobs; returns their places, and the CRC-32C of their bytes."""
        places, crc = [], 0
        for data in blob_values(rows):
            if data is None or data.size == 0:
                places.append((0, 0))
            else:
                places.append(self._container.add_buffer(data))
                crc = crc if self._recorder is None else kernels.crc32c(data, crc)
        return places, crc

    def _write_encoded(self, most_pending: int) -> None:
        """Write encoded pages, oldest first, until at most so many are left."""
        while len(self._encoding) > most_pending or (self._encoding and self._encoding[0][1].done()):
            column, future = self._encoding.popleft()
            for page in future.result():
                if self._recorder is not None:
                    self._recorder.add_page(
                        column.number, column.num_rows, page.encoded.num_rows, page.bounds, page.crc32c
                    )
                buffers = page.encoded.buffers
                column.add_page(page.encoded, [self._container.add_buffer(data) for data in buffers])


class _Column:
    """A leaf column: rows that wait for their page, and the pages written so far."""

    def __init__(self, leaf: LeafColumn, number: int) -> None:
        self.leaf = leaf
        self.number = number
        self.num_bytes = 0
        self._rows: list[LeafRows] = []
        self._num_owned = 0
        """The first of them, which are copies."""
        self.num_rows = 0
        self.metadata = file2_pb2.ColumnMetadata(
            encoding=described(_COLUMN_ENCODING, _plain_column()),
        )

    def append(self, rows: LeafRows) -> None:
        """Add rows, which hold on to the batch that they came with."""
        self._rows.append(rows)
        self.num_bytes += _num_bytes(rows)

    def own(self) -> None:
        """Let go of all batches: copy what has not been copied yet."""
        borrowed, self._rows = self._rows[self._num_owned :], self._rows[: self._num_owned]
        borrowed = [rows for rows in borrowed if rows.num_rows]
        if borrowed:
            try:
                self._rows.append(_joined(borrowed))
            except pa.ArrowInvalid:  # dictionaries that together outgrow their index type
                self._rows += [_joined([rows]) for rows in borrowed]
        self._num_owned = len(self._rows)

    def take(self) -> list[LeafRows]:
        """All waiting rows, which wait no more."""
        waiting, self._rows, self.num_bytes, self._num_owned = self._rows, [], 0, 0
        return [rows for rows in waiting if rows.num_rows]

    def add_page(self, page: EncodedPage, ranges: list[tuple[int, int]]) -> None:
        """Note a page whose buffers are in the file."""
        self.metadata.pages.add(
            buffer_offsets=[position for position, _ in ranges],
            buffer_sizes=[size for _, size in ranges],
            length=page.length,
            encoding=described(PAGE_LAYOUT, page.layout),
            priority=self.num_rows,
        )
        self.num_rows += page.num_rows


@dataclass(frozen=True, slots=True)
class _Page:
    """An encoded page and what the file says about it."""

    encoded: EncodedPage
    bounds: pa.RecordBatch | None
    crc32c: int


def _encode(waiting: Sequence[LeafRows], column: LeafColumn, recorder: PageRecorder | None) -> list[_Page]:
    """What is done on another thread: the pages of rows that have waited."""
    # Values of lists are not those of rows.
    has_bounds = recorder is not None and all(step.kind is Kind.ITEM for step in column.steps)
    pages = []
    for rows in _pages_of(waiting):
        for page, part in encode_pages(rows, column):
            bounds = recorder.bounds(part.values, page.items) if recorder and has_bounds else None
            pages.append(_Page(page, bounds, _checksum(page, recorder, 0)))
    return pages


def _describe_blobs(
    rows: LeafRows,
    column: LeafColumn,
    recorder: PageRecorder | None,
    places: Sequence[tuple[int, int]],
    crc: int,
) -> list[_Page]:
    """The same for blobs at `places`, whose bytes have the checksum `crc`."""
    describe = blob_v2_page if column.field.is_blob_v2 else blob_page
    page = describe(rows, column, places)
    return [_Page(page, None, _checksum(page, recorder, crc))]


def _checksum(page: EncodedPage, recorder: PageRecorder | None, crc: int) -> int:
    if recorder is not None:
        for data in page.buffers:
            crc = kernels.crc32c(data, crc)
    return crc


def _pages_of(waiting: Sequence[LeafRows]) -> Sequence[LeafRows]:
    """The rows of one page, or of several where they do not go together."""
    if len(waiting) > 1:
        try:
            return [_joined(waiting)]
        except pa.ArrowInvalid:  # dictionaries that together outgrow their index type
            pass
    return waiting


def _num_bytes(rows: LeafRows) -> int:
    levels = 0 if rows.rep is None else _LEVEL_BYTES * rows.num_entries
    return int(rows.values.nbytes) + levels


def _joined(pieces: Sequence[LeafRows]) -> LeafRows:
    return LeafRows(
        _joined_values([piece.values for piece in pieces]),
        sum(piece.num_rows for piece in pieces),
        sum(piece.num_entries for piece in pieces),
        _joined_levels([(piece.rep, piece.num_entries) for piece in pieces]),
        _joined_levels([(piece.def_, piece.num_entries) for piece in pieces]),
    )


def _joined_values(arrays: Sequence[pa.Array]) -> pa.Array:
    """One array with memory of its own; of plain values in blocks that are used again and again."""
    arrow_type = arrays[0].type
    bits = fixed_bits(arrow_type)
    is_plain = bits % 8 == 0 and bits > 0 and not pa.types.is_dictionary(arrow_type)
    if not is_plain or any(array.null_count for array in arrays):
        return pa.concat_arrays(arrays)
    width = bits // 8
    parts = [array.buffers()[1].slice(array.offset * width, len(array) * width) for array in arrays]
    data = as_buffer(kernels.join_bytes(parts))
    return pa.Array.from_buffers(arrow_type, sum(map(len, arrays)), [None, data])


def _joined_levels(parts: Sequence[tuple[Bytes | None, int]]) -> Bytes | None:
    """Levels of several pieces; a piece without any has zeros."""
    if all(levels is None for levels, _ in parts):
        return None
    return np.concatenate(
        [np.zeros(n, "<u2") if levels is None else np.frombuffer(levels, "<u2") for levels, n in parts]
    ).data


def _plain_column() -> encodings_v2_0_pb2.ColumnEncoding:
    message = encodings_v2_0_pb2.ColumnEncoding()
    message.values.SetInParent()
    return message
