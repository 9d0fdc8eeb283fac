"""Writer of 2.1 and 2.2 files: rows are buffered per leaf column until they fill a page, which is then
encoded.

A pool of threads encodes a few pages while further rows arrive. Pages are written in the order in which they
were filled.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.v2_1.encoders.blob import PLACED, blob_page, blob_v2_page, blob_values
from lance_core.encodings.v2_1.encoders.encoded_page import EncodedPage, LeafColumn
from lance_core.encodings.v2_1.encoders.field_options import options_of
from lance_core.encodings.v2_1.encoders.layout_choice import encode_pages
from lance_core.encodings.v2_1.encoders.shredding import Kind, LeafRows, shred, steps_of
from lance_core.encodings.v2_1.layouts.layout import PAGE_LAYOUT
from lance_core.errors import InvalidInputError
from lance_core.file.blob_placement import place_blobs, taken_in
from lance_core.file.buffered_rows import join, waiting_rows
from lance_core.file.container_writer import ContainerWriter, described
from lance_core.file.footer import FileVersion
from lance_core.file.prepared_blobs import is_prepared, place_prepared
from lance_core.file.side_files import BlobSizes, SideFiles
from lance_core.file.stored_types import as_stored
from lance_core.file.v2_1.supported_types import check_field
from lance_core.file.writer_options import PageRecorder, WriteOptions, WrittenFile
from lance_core.pool import num_workers, worker_pool
from lance_core.proto import encodings_v2_0_pb2, file2_pb2
from lance_core.schema import Field, Schema
from lance_core.storage.base import WritableFile

_MAX_JOINED_BYTES = 1 << 30
"""Largest size of rows that go into one page together. A single batch may be larger; 32-bit offsets address
twice as much.
"""
_LEVEL_BYTES = 4
"""Bytes of a repetition and a definition level."""
_MOST_GROWTH = 4
"""Bound on the growth of values: symbol codes take at most twice the bytes of the text, and chunks are
padded.
"""
_MOST_ENTRY_BYTES = 64
"""Bound on the bytes of an entry besides its value: levels, a length and an entry of the repetition index."""
_MOST_PAGE_BYTES = 1 << 16
"""Bound on the bytes of a page besides its entries: symbol tables, headers and padding."""
_FEW_BYTES = 32 << 10
"""Rows of at most this many bytes are encoded at once: waking a thread would take longer."""


class FileWriter:
    """One 2.1 or 2.2 file that is being written; see `lance_core.file.writer`."""

    def __init__(
        self,
        file: WritableFile,
        schema: Schema,
        version: FileVersion,
        options: WriteOptions,
        side_files: SideFiles | None = None,
    ) -> None:
        """See `lance_core.file.writer.open_writer`."""
        self._file = file
        self._side_files = side_files
        self._container = ContainerWriter(file, version)
        self._schema = schema
        self._version = version
        self._page_bytes = options.page_bytes
        self._external_blobs = options.external_blobs
        self._open_uri = options.open_uri
        self._recorder = None if options.recorder is None else options.recorder()
        self._tail = options.tail
        self._columns: list[_Column] = []
        self._tops: list[tuple[Field, list[_Column]]] = []
        for top, found in _leaf_columns(schema, version, options.any_blobs):
            first = len(self._columns)
            leaves = [_Column(leaf, number, options) for number, leaf in enumerate(found, first)]
            self._columns += leaves
            self._tops.append((top, leaves))
        self._encoding: deque[_Pending] = deque()
        self.num_rows = 0

    @property
    def num_bytes(self) -> int:
        """Estimated size of the file so far, in bytes."""
        return self._container.position + self._waiting_bytes

    def reaches(self, num_bytes: int) -> bool:
        """See `lance_core.file.writer`. Waits for pages that are being encoded if the answer depends on
        them.
        """
        most = sum(page.most_bytes for page in self._encoding)
        if self.num_bytes + most < num_bytes:
            return False
        self._write_encoded(0)
        return self.num_bytes >= num_bytes

    @property
    def _waiting_bytes(self) -> int:
        return sum([column.num_bytes for column in self._columns])

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
            for part in self._page_slices(stored, leaves):
                for leaf, rows in zip(leaves, shred(top, part), strict=True):
                    self._append(leaf, self._placed(leaf, rows))
        self.num_rows += batch.num_rows

    def finish(self) -> WrittenFile:
        """Write the rest; see `lance_core.file.writer`."""
        for column in self._columns:
            self._fill_page(column, column.take())
        self._write_encoded(0)
        side_files = None if self._side_files is None else self._side_files.finish()
        recorded = None if self._recorder is None else self._recorder.finish()
        size = self._container.finish(
            self._schema,
            self.num_rows,
            (column.metadata for column in self._columns),
            [each for each in (recorded, side_files) if each is not None],
            self._tail(),
        )
        return WrittenFile(
            self.num_rows,
            size,
            self._version,
            tuple(column.leaf.field.id for column in self._columns),
            tuple(range(len(self._columns))),
        )

    def abort(self) -> None:
        """Discard the file."""
        self._encoding.clear()
        self._file.abort()
        if self._side_files is not None:
            self._side_files.abort()

    def _page_slices(self, array: pa.Array, leaves: Sequence["_Column"]) -> Iterator[pa.Array]:
        """Yield slices of the array that each fill the page of the fullest leaf."""
        start = 0
        while start < len(array):
            rest = array.slice(start) if start else array
            room = self._page_bytes - max([leaf.num_bytes for leaf in leaves])
            num_bytes = rest.nbytes
            if num_bytes <= room:
                yield rest
                return
            count = max(1, min(len(rest), room * len(rest) // num_bytes))
            # Rows differ in size. A page must not become larger than twice the page size.
            while count > 1 and array.slice(start, count).nbytes > room + self._page_bytes:
                count //= 2
            yield array.slice(start, count)
            start += count

    def _append(self, column: "_Column", rows: LeafRows) -> None:
        if rows.num_rows == 0:
            return
        num_bytes = _num_bytes(rows)
        if column.num_bytes + num_bytes > _MAX_JOINED_BYTES:
            self._fill_page(column, column.take())
        if column.num_bytes == 0 and num_bytes >= self._page_bytes - self._page_bytes // 8:
            self._fill_page(column, [rows])  # not copied, which is worth a slightly smaller page
            return
        column.append(rows, num_bytes)
        if column.num_bytes >= self._full:
            self._fill_page(column, column.take())

    @property
    def _full(self) -> int:
        """Size at which a page is full: slightly below the page size, which slices by average row sizes
        rarely hit exactly.
        """
        return self._page_bytes - self._page_bytes // 256

    def _fill_page(self, column: "_Column", waiting: Sequence[LeafRows]) -> None:
        if not waiting:
            return
        num_bytes = sum(map(_num_bytes, waiting))
        is_blob = column.leaf.field.is_blob or column.leaf.field.is_blob_v2
        if num_bytes <= _FEW_BYTES and not self._encoding and not is_blob:
            self._add_pages(column, _encode(waiting, column.leaf, self._recorder))
            return
        self._write_encoded(num_workers())
        if is_blob:
            (rows,) = waiting
            # Finish all earlier pages, so that the positions of blobs do not depend on the speed of encoding.
            self._write_encoded(0)
            values = rows.values.flatten()[0] if column.leaf.field.is_blob_v2 else rows.values
            places, crc = self._write_blobs(values)
            future = worker_pool().submit(_describe_blobs, rows, column.leaf, places, crc)
        else:
            future = self._encode_later(waiting, num_bytes, column.leaf)
        self._encoding.append(_Pending(column, future, _most_encoded(waiting, num_bytes)))

    def _encode_later(
        self, waiting: Sequence[LeafRows], num_bytes: int, leaf: LeafColumn
    ) -> Future[list["_Page"]]:
        """Encode rows to pages on another thread, or at once if they are few."""
        if num_bytes > _FEW_BYTES:
            return worker_pool().submit(_encode, waiting, leaf, self._recorder)
        encoded: Future[list[_Page]] = Future()
        encoded.set_result(_encode(waiting, leaf, self._recorder))
        return encoded

    def _placed(self, column: "_Column", rows: LeafRows) -> LeafRows:
        """Return the rows after writing their large blobs of version 2 to side files."""
        if column.blob_sizes is None:
            return rows
        field, sizes = column.leaf.field, column.blob_sizes
        if is_prepared(field):
            return replace(rows, values=place_prepared(rows.values, field))
        parts = [rows.values] if self._open_uri is None else taken_in(rows.values, field, self._open_uri)
        placed = [place_blobs(part, field, sizes, self._side_files, self._external_blobs) for part in parts]
        values = placed[0] if len(placed) == 1 else pa.concat_arrays(placed)
        return replace(rows, values=values)

    def _write_blobs(self, values: pa.Array) -> tuple[list[tuple[int, int]], int]:
        """Write the values of a page of blobs. Return their positions and sizes, and the CRC-32C of their
        bytes.
        """
        places, crc = [], 0
        for data in blob_values(values):
            if data is None or data.size == 0:
                places.append((0, 0))
            else:
                places.append(self._container.add_buffer(data))
                crc = crc if self._recorder is None else kernels.crc32c(data, crc)
        return places, crc

    def _write_encoded(self, most_pending: int) -> None:
        """Write encoded pages, oldest first, until at most `most_pending` pages are left."""
        while len(self._encoding) > most_pending or (self._encoding and self._encoding[0].pages.done()):
            pending = self._encoding.popleft()
            self._add_pages(pending.column, pending.pages.result())

    def _add_pages(self, column: "_Column", pages: Sequence["_Page"]) -> None:
        for page in pages:
            column.add_page(page.encoded, self._write_page(column, page))

    def _write_page(self, column: "_Column", page: "_Page") -> list[tuple[int, int]]:
        """Write the buffers of a page. Return their positions and sizes."""
        if self._recorder is None:
            return [self._container.add_buffer(data) for data in page.encoded.buffers]
        ranges, crc = self._container.add_checked_buffers(page.encoded.buffers, page.crc32c)
        self._recorder.add_page(column.number, column.num_rows, page.encoded.num_rows, page.summary, crc)
        return ranges


class _Column:
    """A leaf column: buffered rows, and the pages written so far."""

    def __init__(self, leaf: LeafColumn, number: int, options: WriteOptions) -> None:
        self.leaf = leaf
        self.number = number
        self.num_bytes = 0
        """Bytes of the buffered rows."""
        field = leaf.field
        self.blob_sizes = BlobSizes.of(field, options.blob_pack_bytes) if field.is_blob_v2 else None
        self._waiting = waiting_rows(PLACED if self.blob_sizes else field.arrow_type, options.page_bytes)
        self.num_rows = 0
        """Number of rows whose pages are written."""
        self.metadata = file2_pb2.ColumnMetadata(encoding=_PLAIN_COLUMN)

    def append(self, rows: LeafRows, num_bytes: int) -> None:
        """Keep a copy of the rows."""
        self._waiting.append(rows)
        self.num_bytes += num_bytes

    def take(self) -> list[LeafRows]:
        """Remove and return all buffered rows."""
        self.num_bytes = 0
        return self._waiting.take()

    def add_page(self, page: EncodedPage, ranges: list[tuple[int, int]]) -> None:
        """Add a page to the metadata. Its buffers are already in the file."""
        self.metadata.pages.add(
            buffer_offsets=[position for position, _ in ranges],
            buffer_sizes=[size for _, size in ranges],
            length=page.length,
            encoding=described(PAGE_LAYOUT, page.layout),
            priority=self.num_rows,
        )
        self.num_rows += page.num_rows


_LeafColumns: TypeAlias = Sequence[tuple[Field, Sequence[LeafColumn]]]


def _leaf_columns(schema: Schema, version: FileVersion, any_blobs: bool) -> _LeafColumns:
    """Return the top-level fields with their leaf columns, after `check_field`.

    They are kept with the schema: a table that changes by key gets many files of a few rows.
    """
    known = _known_columns.setdefault(schema, {})
    key = version, any_blobs
    if key not in known:
        found = []
        for top in schema.fields:
            check_field(top, version, any_blobs=any_blobs)
            leaves = [
                LeafColumn(leaf, steps, options_of(leaf, top), version >= FileVersion.V2_2)
                for leaf, steps in steps_of(top)
            ]
            found.append((top, leaves))
        known[key] = found
    return known[key]


_known_columns: WeakKeyDictionary[Schema, dict[tuple[FileVersion, bool], _LeafColumns]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class _Pending:
    """Pages of one column that are being encoded."""

    column: _Column
    pages: "Future[list[_Page]]"
    most_bytes: int
    """Bound on the size of the pages in the file, in bytes."""


@dataclass(frozen=True, slots=True)
class _Page:
    """An encoded page with its statistics and checksum."""

    encoded: EncodedPage
    summary: Any
    """Result of the recorder's `summary`."""
    crc32c: int = 0
    """CRC-32C of bytes that belong to the page and are already in the file."""


def _encode(waiting: Sequence[LeafRows], column: LeafColumn, recorder: PageRecorder | None) -> list[_Page]:
    """Encode buffered rows to pages. Runs on another thread."""
    # Statistics are per row, and list items are not rows.
    has_summary = recorder is not None and all(step.kind is Kind.ITEM for step in column.steps)
    pages = []
    for rows in join(waiting):
        for page, part in encode_pages(rows, column):
            summary = (
                recorder.summary(part.values, page.items, page.bounds) if recorder and has_summary else None
            )
            pages.append(_Page(page, summary))
    return pages


def _describe_blobs(
    rows: LeafRows,
    column: LeafColumn,
    places: Sequence[tuple[int, int]],
    crc: int,
) -> list[_Page]:
    """Encode a page of blobs that are already at `places` in the file. `crc` is the CRC-32C of their
    bytes.
    """
    describe = blob_v2_page if column.field.is_blob_v2 else blob_page
    return [_Page(describe(rows, column, places), None, crc)]


def _most_encoded(waiting: Sequence[LeafRows], num_bytes: int) -> int:
    """Return a bound on the encoded size of rows with `num_bytes`, whatever their encoding."""
    num_entries = sum([rows.num_entries for rows in waiting])
    return _MOST_GROWTH * num_bytes + _MOST_ENTRY_BYTES * num_entries + _MOST_PAGE_BYTES * len(waiting)


def _num_bytes(rows: LeafRows) -> int:
    levels = 0 if rows.rep is None else _LEVEL_BYTES * rows.num_entries
    return int(rows.values.nbytes) + levels


def _plain_column() -> file2_pb2.Encoding:
    message = encodings_v2_0_pb2.ColumnEncoding()
    message.values.SetInParent()
    return described("lance.encodings.ColumnEncoding", message)


_PLAIN_COLUMN = _plain_column()
