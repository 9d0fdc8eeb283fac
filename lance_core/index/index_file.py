"""One file of an index: an ordinary Lance file of any version, whose columns are read by row ranges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.encodings.values import concat_arrays
from lance_core.errors import CorruptFileError
from lance_core.file.column_readers import ColumnReader
from lance_core.file.data_file import ModernFile, open_data_file
from lance_core.file.footer import FileVersion
from lance_core.file.page_errors import located
from lance_core.file.page_ranges import decode_page_ranges
from lance_core.pool import run_each
from lance_core.process.counters import note
from lance_core.schema import Field, Schema, leaves, nodes
from lance_core.storage.base import ReadableFile

Rows = npt.NDArray[np.int64]


class IndexFile:
    """One open file of an index segment. Thread-safe.

    Attributes:
        schema: Schema in the file.
        arrow_schema: The same schema as Arrow shows it, without field metadata.
        names: Names of the columns.
        num_rows: Number of rows.
    """

    def __init__(self, file: ReadableFile) -> None:
        """Read the metadata of an open file, which must stay open.

        Raises:
            CorruptFileError: The bytes contradict the format.
            UnsupportedFeatureError: A file version or a type that is not supported.
            StorageError: The storage failed.
        """
        self._file = file
        self._reader = open_data_file(file)
        self.schema: Schema = self._reader.schema
        self.num_rows = self._reader.num_rows
        self._columns: list[ColumnReader] = [
            self._reader.open_column(top, columns) for top, columns in _columns_of(self._reader.version, self)
        ]
        self.arrow_schema = pa.schema(
            [pa.field(top.name, top.arrow_type, top.nullable) for top in self.schema.fields]
        )
        self.names: list[str] = self.arrow_schema.names
        self._schemas: dict[tuple[str, ...], pa.Schema] = {}

    @property
    def name(self) -> str:
        """Path of the file for messages."""
        return self._file.name

    @property
    def version(self) -> FileVersion:
        """Version of the file."""
        return self._reader.version

    @property
    def metadata(self) -> Mapping[str, bytes]:
        """Metadata of the schema."""
        return self.schema.raw_metadata

    @property
    def known_bytes(self) -> int:
        """Estimated memory of the open file and of its metadata."""
        return self._reader.known_bytes + sum(column.known_bytes for column in self._columns)

    def require(self, *names: str) -> None:
        """Raise `CorruptFileError` unless the first columns of the file have these names."""
        found = self.names[: len(names)]
        if found != list(names):
            raise CorruptFileError("columns of an index file", file=self.name, expected=names, found=found)

    def bytes_per_row(self, *names: str) -> float:
        """Return the estimated bytes of a decoded row of these columns; without names, of all columns."""
        return sum(self._column(name).bytes_per_row for name in names or self.names)

    def global_buffer(self, number: int) -> bytes:
        """Return a global buffer of a 2.x file by its number; 0 is the schema.

        Raises:
            CorruptFileError: The file has no such buffer.
        """
        ranges = self._reader.metadata.global_buffers if isinstance(self._reader, ModernFile) else ()
        if not 0 < number < len(ranges):
            raise CorruptFileError(
                "number of a global buffer", file=self.name, expected=f"1 to {len(ranges) - 1}", found=number
            )
        start, length = ranges[number]
        return bytes(memoryview(self._file.read(start, length))) if length else b""

    def global_buffers(self) -> list[bytes]:
        """Return the global buffers 1, 2, ... of the file."""
        count = len(self._reader.metadata.global_buffers) if isinstance(self._reader, ModernFile) else 1
        return [self.global_buffer(number) for number in range(1, count)]

    def read(self, start: int, end: int, names: Sequence[str] | None = None) -> pa.RecordBatch:
        """Return the rows `[start, end)` of some columns, or of all; see `read_ranges`."""
        return self.read_ranges([(start, end)], names)[0]

    def read_ranges(
        self, ranges: Sequence[tuple[int, int]], names: Sequence[str] | None = None
    ) -> list[pa.RecordBatch]:
        """Return the rows `[start, end)` of each of several ranges, of some columns or of all.

        Raises:
            CorruptFileError: A column is missing, or the bytes contradict the format.
            StorageError: The storage failed.
        """
        note("parts_loaded", len(ranges))
        names = self.names if names is None else names
        columns = [self._column(name) for name in names]  # also of a file without rows
        if self._file.is_remote:
            calls = [
                partial(column.read, start, end) if start < end else list
                for start, end in ranges
                for column in columns
            ]
            found = iter(run_each(calls, is_remote=True))
            return [self._batch(names, [next(found) for _ in columns]) for _ in ranges]
        return [self._batch(names, parts) for parts in _read(columns, ranges)]

    def take(self, rows: Rows, names: Sequence[str]) -> pa.RecordBatch:
        """Return some columns at `rows`, which are strictly ascending; errors are those of `read`.

        Little more than these rows is read.
        """
        note("parts_loaded")
        calls = [partial(self._column(name).take, rows) if len(rows) else list for name in names]
        return self._batch(names, run_each(calls, self._file.is_remote))

    def integer(self, key: str, default: int | None = None, *, most: int = 1 << 31) -> int:
        """Return a number of the metadata, `default` if it is missing.

        Raises:
            CorruptFileError: The number is missing without a default, is no number, or is not in
                `[1, most]`.
        """
        text = self.metadata.get(key)
        if text is None and default is not None:
            return default
        if text is None or not text.isdigit() or not 1 <= int(text) <= most:
            raise CorruptFileError(
                f"metadata {key!r} of an index file",
                file=self.name,
                expected=f"a number from 1 to {most}",
                found=None if text is None else text.decode("latin1"),
            )
        return int(text)

    def _batch(self, names: Sequence[str], parts: Iterable[list[pa.Array]]) -> pa.RecordBatch:
        schema = self._schemas.get(tuple(names))
        if schema is None:
            schema = pa.schema([self.arrow_schema.field(name) for name in names])
            self._schemas[tuple(names)] = schema
        arrays = []
        for field, some in zip(schema, parts, strict=True):
            if len(some) == 1:
                arrays.append(some[0])
                continue
            with located(self.name, field.name):
                arrays.append(concat_arrays(some) if some else pa.nulls(0, field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _column(self, name: str) -> ColumnReader:
        place: int = self.arrow_schema.get_field_index(name)
        if place < 0:
            raise CorruptFileError(
                "columns of an index file", file=self.name, expected=name, found=self.names
            )
        return self._columns[place]


def _read(
    columns: Sequence[ColumnReader], ranges: Sequence[tuple[int, int]]
) -> Iterator[list[list[pa.Array]]]:
    """Yield the arrays of each column for each range of rows, by one kernel call for all if it reads them."""
    planned = [
        column.page_ranges(start, end) if start < end else [] for start, end in ranges for column in columns
    ]
    decoded = decode_page_ranges([one for parts in planned for one in parts or ()])
    number, place = 0, 0
    for start, end in ranges:
        found = []
        for column in columns:
            parts = planned[number]
            num_parts = 0 if parts is None else len(parts)
            arrays = [array for array in decoded[place : place + num_parts] if array is not None]
            is_read = parts is not None and len(arrays) == num_parts
            found.append(arrays if is_read else column.read(start, end))
            number, place = number + 1, place + num_parts
        yield found


def _columns_of(version: FileVersion, file: IndexFile) -> list[tuple[Field, dict[int, int]]]:
    """Return each top-level field with the columns of the fields at and below it."""
    fields = file.schema.fields
    if version == FileVersion.V0_1:
        first = min((node.id for top in fields for node in top.walk()), default=0)
        return [(top, {node.id: node.id - first for node in top.walk()}) for top in fields]
    owners = leaves if version >= FileVersion.V2_1 else nodes
    places = {
        owner.id: number for number, owner in enumerate(owner for top in fields for owner in owners(top))
    }
    return [(top, {node.id: places[node.id] for node in top.walk() if node.id in places}) for top in fields]
