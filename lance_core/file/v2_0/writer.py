"""Writer of 2.0 files: rows are buffered per top-level column until they fill a page of each column below it.

Rows that fill a page by themselves are encoded at once. Buffered rows are copies. A batch from the network is
one block of memory, which a slice of its narrowest column would keep alive.
"""

import pyarrow as pa

from lance_core.encodings.v2_0.encoders.nodes import check_field, encode_node, is_struct_column
from lance_core.encodings.v2_0.encoders.pages import EncodedPage
from lance_core.encodings.values import concat_arrays
from lance_core.errors import InvalidInputError
from lance_core.file.container_writer import ContainerWriter, described
from lance_core.file.footer import FileVersion
from lance_core.file.writer_options import WriteOptions, WrittenFile
from lance_core.proto import encodings_v2_0_pb2, file2_pb2
from lance_core.schema import Field, Schema, nodes
from lance_core.storage.base import Bytes, WritableFile

_COLUMN_ENCODING = "lance.encodings.ColumnEncoding"
_ARRAY_ENCODING = "lance.encodings.ArrayEncoding"


class FileWriter:
    """One 2.0 file that is being written; see `lance_core.file.writer`."""

    def __init__(self, file: WritableFile, schema: Schema, options: WriteOptions) -> None:
        """See `lance_core.file.writer.open_writer`."""
        self._file = file
        self._container = ContainerWriter(file, FileVersion.V2_0)
        self._schema = schema
        self._page_bytes = options.page_bytes
        for field in schema.fields:
            check_field(field)
        self._columns = [_TopColumn(field) for field in schema.fields]
        self._nodes = [node for column in self._columns for node in column.nodes]
        self._numbers = {node: number for number, node in enumerate(self._nodes)}
        self._recorder = None if options.recorder is None else options.recorder()
        self._tail = options.tail
        self._placed_crc = 0
        """CRC-32C of the blobs of the next page. The checksum of a page of descriptors covers its blobs."""
        self.num_rows = 0

    @property
    def num_bytes(self) -> int:
        """Estimated size of the file so far, in bytes."""
        return self._container.position + sum(column.num_bytes for column in self._columns)

    def reaches(self, num_bytes: int) -> bool:
        """See `lance_core.file.writer`."""
        return self.num_bytes >= num_bytes

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows; see `lance_core.file.writer`."""
        if [(field.name, field.type) for field in batch.schema] != [
            (column.field.name, column.field.arrow_type) for column in self._columns
        ]:
            raise InvalidInputError(
                "batch has other columns than the file", expected=self._schema.to_arrow(), found=batch.schema
            )
        for column, array in zip(self._columns, batch.columns, strict=True):
            if column.is_page(array, self._page_bytes):
                self._write_rows(column, array)  # not copied, which is worth a slightly smaller page
            elif len(array):
                column.append(array)
                if column.num_bytes >= self._page_bytes:
                    self._write_pages(column)
        self.num_rows += batch.num_rows

    def finish(self) -> WrittenFile:
        """Write the rest; see `lance_core.file.writer`."""
        for column in self._columns:
            self._write_pages(column)
        for node in self._nodes:
            if node.has_one_page:
                struct = encodings_v2_0_pb2.ArrayEncoding(struct=encodings_v2_0_pb2.SimpleStruct())
                self._add_page(node, EncodedPage(node.num_items, struct), 0, self.num_rows)
        size = self._container.finish(
            self._schema,
            self.num_rows,
            (node.metadata for node in self._nodes),
            () if self._recorder is None else [self._recorder.finish()],
            self._tail(),
        )
        return WrittenFile(
            self.num_rows,
            size,
            FileVersion.V2_0,
            tuple(node.field.id for node in self._nodes),
            tuple(range(len(self._nodes))),
        )

    def abort(self) -> None:
        """Discard the file."""
        self._file.abort()

    def _write_pages(self, column: "_TopColumn") -> None:
        for array in column.take():
            self._write_rows(column, array)

    def _write_rows(self, column: "_TopColumn", array: pa.Array) -> None:
        pages = encode_node(column.field, array, self._place)
        for node, page in zip(column.nodes, pages, strict=True):
            if node.has_one_page:
                node.num_items += page.num_items
            else:
                self._add_page(node, page, column.num_rows, len(array))
        column.num_rows += len(array)

    def _add_page(self, node: "_Node", page: EncodedPage, first_row: int, num_rows: int) -> None:
        """Write a page of a column, which covers `num_rows` top-level rows of the file from `first_row`
        on.
        """
        if self._recorder is None:
            places = [self._container.add_buffer(data) for data in page.buffers]
        else:
            summary = None if page.values is None else self._recorder.summary(page.values)
            places, crc = self._container.add_checked_buffers(page.buffers, self._placed_crc)
            self._placed_crc = 0
            self._recorder.add_page(self._numbers[node], first_row, num_rows, summary, crc)
        node.add_page(page, places)

    def _place(self, data: Bytes) -> int:
        ((position, _),), self._placed_crc = self._container.add_checked_buffers([data], self._placed_crc)
        return position


class _Node:
    """A column of the file, and the pages written so far."""

    def __init__(self, field: Field) -> None:
        self.field = field
        self.has_one_page = is_struct_column(field)
        self.num_items = 0
        """Number of items so far, if the column has a single page."""
        kind = encodings_v2_0_pb2.ColumnEncoding()
        if field.is_blob:
            kind.blob.inner.values.SetInParent()
        else:
            kind.values.SetInParent()
        self.metadata = file2_pb2.ColumnMetadata(encoding=described(_COLUMN_ENCODING, kind))

    def add_page(self, page: EncodedPage, ranges: list[tuple[int, int]]) -> None:
        """Add a page to the metadata. Its buffers are already in the file."""
        self.metadata.pages.add(
            buffer_offsets=[position for position, _ in ranges],
            buffer_sizes=[size for _, size in ranges],
            length=page.num_items,
            encoding=described(_ARRAY_ENCODING, page.encoding),
        )


class _TopColumn:
    """A top-level column: buffered rows, and the columns of the file below it."""

    def __init__(self, field: Field) -> None:
        self.field = field
        self.nodes = [_Node(node) for node in nodes(field)]
        self.num_bytes = 0
        self.num_rows = 0
        """Number of rows whose pages are written."""
        self._waiting: list[pa.Array] = []

    def is_page(self, array: pa.Array, page_bytes: int) -> bool:
        """Return whether the rows nearly fill a page by themselves. The rows of a nested column do not: they
        are copied, because slices of Arrow's nested arrays keep offsets.
        """
        if self._waiting or self.field.children or not len(array):
            return False
        return bool(array.nbytes >= page_bytes - page_bytes // 8)

    def append(self, array: pa.Array) -> None:
        """Keep a copy of the rows."""
        self._waiting.append(concat_arrays([array]))
        self.num_bytes += array.nbytes

    def take(self) -> list[pa.Array]:
        """Remove and return all buffered rows: one array, or several if their dictionaries exceed the key
        type.
        """
        waiting, self._waiting, self.num_bytes = self._waiting, [], 0
        if len(waiting) < 2:
            return waiting
        try:
            return [concat_arrays(waiting)]
        except pa.ArrowCapacityError:
            return waiting
