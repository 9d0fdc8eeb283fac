"""Writer of 0.1 files: batches of a fixed number of rows, in which every field has one page.

    pages ... | page table | statistics | dictionary values | manifest | metadata | footer (16 bytes)

`lance_core.file.v0_1.reader` describes the layout, `lance_core.encodings.v0_1.encoders` the pages.
"""

import struct
from collections import defaultdict

import numpy as np
import pyarrow as pa
from google.protobuf.message import Message

from lance_core.encodings.v0_1.encoders import (
    Cell,
    check_field,
    write_dictionary,
    write_pages,
    write_strings,
)
from lance_core.encodings.v0_1.statistics import BatchStatistics
from lance_core.encodings.values import offset_bits
from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.file.footer import FileVersion
from lance_core.file.v0_1.dictionaries import Dictionaries
from lance_core.file.writer_options import WriteOptions, WrittenFile
from lance_core.proto import file_pb2, table_pb2
from lance_core.schema import Field, Schema, schema_from_arrow
from lance_core.storage.base import WritableFile
from lance_core.version import __version__

_FOOTER = struct.Struct("<QHH4s")
_LENGTH = struct.Struct("<I")
_MAX_ROWS = 1 << 31
"""Bound on the rows of a file, which are counted with 31 bits."""


class FileWriter:
    """One 0.1 file that is being written; see `lance_core.file.writer`."""

    def __init__(
        self,
        file: WritableFile,
        schema: Schema,
        options: WriteOptions,
        dictionaries: Dictionaries | None = None,
    ) -> None:
        """See `lance_core.file.writer.open_writer`."""
        for field in schema.fields:
            check_field(field)
            if dictionaries is None:
                _require_no_dictionary(field)
        self._file = file
        self._schema = schema
        self._dictionaries = dictionaries
        self._batch_rows = options.batch_rows
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._batch_offsets = [0]
        self._cells: defaultdict[int, list[Cell]] = defaultdict(list)
        self._statistics = None if options.recorder is None else BatchStatistics(options.recorder())

    @property
    def num_rows(self) -> int:
        """Number of rows written so far."""
        return self._batch_offsets[-1] + self._waiting_rows

    @property
    def num_bytes(self) -> int:
        """Estimated size of the file so far, in bytes."""
        waiting: int = sum(batch.nbytes for batch in self._waiting)
        return self._file.position + waiting

    def reaches(self, num_bytes: int) -> bool:
        """See `lance_core.file.writer`."""
        return self.num_bytes >= num_bytes

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows; see `lance_core.file.writer`."""
        if self.num_rows + batch.num_rows >= _MAX_ROWS:
            raise InvalidInputError("too many rows for a 0.1 file", expected=f"below {_MAX_ROWS}")
        while batch.num_rows:
            part = batch.slice(0, self._batch_rows - self._waiting_rows)
            batch = batch.slice(part.num_rows)
            self._waiting.append(part)
            self._waiting_rows += part.num_rows
            if self._waiting_rows == self._batch_rows:
                self._write_batch()

    def finish(self) -> WrittenFile:
        """Write the rest; see `lance_core.file.writer`."""
        if self._waiting_rows:
            self._write_batch()
        ids = sorted(message.id for message in self._schema.messages)
        if not ids:
            raise InvalidInputError("a 0.1 file without columns", found=f"{self.num_rows} rows")
        metadata = file_pb2.Metadata(
            batch_offsets=self._batch_offsets,
            page_table_position=self._write_table(ids, self._cells, len(self._batch_offsets) - 1),
        )
        if self._statistics is not None and self._statistics.num_batches:
            self._write_statistics(self._statistics, metadata.statistics)
        metadata.manifest_position = self._write_message(self._manifest())
        position = self._write_message(metadata)
        self._file.write(_FOOTER.pack(position, 0, 2, b"LANC"))
        self._file.close()
        return WrittenFile(self.num_rows, self._file.position, FileVersion.V0_1, tuple(ids), ())

    def abort(self) -> None:
        """Discard the file."""
        self._file.abort()

    def _write_batch(self) -> None:
        (batch,) = pa.Table.from_batches(self._waiting).combine_chunks().to_batches()
        for field, array in zip(self._schema.fields, batch.columns, strict=True):
            for field_id, cell in write_pages(field, array, self._file, self._dictionaries):
                self._cells[field_id].append(cell)
            if self._statistics is not None:
                self._statistics.add(field, array)
        self._batch_offsets.append(self._batch_offsets[-1] + self._waiting_rows)
        self._waiting, self._waiting_rows = [], 0

    def _write_table(self, ids: list[int], cells: dict[int, list[Cell]], num_batches: int) -> int:
        """Write a page table from the smallest to the largest id. Return its position."""
        table = np.zeros((ids[-1] - ids[0] + 1, num_batches, 2), "<i8")
        for field_id, pages in cells.items():
            table[field_id - ids[0]] = pages
        position = self._file.position
        self._file.write(table.reshape(-1).data)
        return position

    def _write_statistics(
        self, statistics: BatchStatistics, message: file_pb2.Metadata.StatisticsMetadata
    ) -> None:
        """Write the table of statistics, as one batch. Fields without statistics have no column in it."""
        schema = schema_from_arrow(statistics.table.schema)
        cells: defaultdict[int, list[Cell]] = defaultdict(list)
        for field, column in zip(schema.fields, statistics.table.columns, strict=True):
            for child in field.children:
                values = column.field(child.name)
                if offset_bits(values.type):
                    cells[child.id].append(write_strings(values, self._file))
                else:
                    cells[child.id] += [cell for _, cell in write_pages(child, values, self._file)]
        message.schema.extend(schema.messages)
        message.fields.extend(node.id for node in schema.messages)
        message.page_table_position = self._write_table(list(message.fields), cells, 1)

    def _manifest(self) -> table_pb2.Manifest:
        """Write the values of the dictionaries, and return the manifest of the file."""
        manifest = table_pb2.Manifest(fields=self._schema.messages, version=1)
        for message in manifest.fields:
            if message.HasField("dictionary") and self._dictionaries is not None:
                values = self._dictionaries.values.get(message.id, ())
                if len(values):
                    place = write_dictionary(values, self._file)
                    message.dictionary.offset, message.dictionary.length = place
        for key, value in self._schema.raw_metadata.items():
            manifest.schema_metadata[key] = value
        manifest.writer_version.library, manifest.writer_version.version = "lance-flight", __version__
        manifest.data_format.file_format, manifest.data_format.version = "lance", FileVersion.V0_1.name
        return manifest

    def _write_message(self, message: Message) -> int:
        position, data = self._file.position, message.SerializeToString(deterministic=True)
        self._file.write(_LENGTH.pack(len(data)) + data)
        return position


def _require_no_dictionary(field: Field) -> None:
    for node in field.walk():
        if pa.types.is_dictionary(node.arrow_type):
            raise UnsupportedFeatureError(
                "dictionary column in a 0.1 file outside of writing a whole table", column=node.name
            )
