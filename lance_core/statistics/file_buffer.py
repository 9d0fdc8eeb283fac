"""Page statistics and checksums inside 2.x files that this package wrote.

The file's schema metadata names a global buffer under `lance_flight:page_statistics`. It holds an Arrow IPC
stream of one uncompressed record batch, and behind its end a CRC-32C (u32) of everything before. A row stands
for one page of one column of the file:

    column      int32   index of the column in the file
    page        int32   0, 1, 2, ... within the column; rows are sorted by column and page
    first_row   int64   top-level row that the page begins with
    rows        int64   top-level rows that begin in the page
    null_count  int64   null where it is not known
    nan_count   int64   null where it is not known
    min, max    binary  the bytes of the bound, null where there is none
    crc32c      uint32  of the page's buffers, one after the other, without padding

Columns of all types share one table, so a bound is kept as the bytes that the type has in an Arrow buffer:
little-endian integers and floats of their width, a byte 0 or 1 for a boolean, the text of a string.
Source: docs/format.md, "Page statistics and checksums in 2.x files".
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core import kernels
from lance_core.encodings.values import as_buffer, fixed_bits, offset_bits
from lance_core.errors import CorruptFileError
from lance_core.file.metadata import BufferRange
from lance_core.statistics.table import statistics_schema

METADATA_KEY = "lance_flight:page_statistics"
"""In the schema metadata of a file: the number of the global buffer with its statistics."""

_SCHEMA = statistics_schema(pa.binary()).append(pa.field("crc32c", pa.uint32(), nullable=False))
_SCHEMA = _SCHEMA.set(1, _SCHEMA.field("page").with_nullable(False))
_CRC = struct.Struct("<I")


@dataclass(frozen=True)
class PageEntry:
    """What a writer knows of one page.

    Attributes:
        first_row: Top-level row that the page begins with.
        rows: Top-level rows that begin in it.
        bounds: One row of `collect.page_bounds` or `collect.merge_bounds`; None for columns without
            statistics, such as those of lists.
        crc32c: Of the page's buffers, one after the other, without padding.
    """

    first_row: int
    rows: int
    bounds: pa.RecordBatch | None
    crc32c: int


def to_buffer(columns: Mapping[int, Sequence[PageEntry]]) -> pa.Buffer:
    """The content of the global buffer, from the pages of each column of the file."""
    parts = [_entries(number, pages) for number, pages in sorted(columns.items()) if pages]
    batch = pa.Table.from_batches(parts, _SCHEMA).combine_chunks().to_batches()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _SCHEMA) as stream:
        stream.write_batch(batch[0] if batch else pa.RecordBatch.from_pylist([], _SCHEMA))
    sink.flush()
    written = sink.getvalue()
    return pa.py_buffer(b"".join((written, _CRC.pack(kernels.crc32c(written)))))


class FilePageStatistics:
    """The statistics of one file.

    Attributes:
        table: All rows, checked: see the module.
    """

    def __init__(self, table: pa.Table, file: str) -> None:
        self.table = table
        self._file = file

    def column(self, number: int, value_type: pa.DataType) -> pa.Table | None:
        """The statistics of one column in the form of `lance_core.statistics.table`; None where it has none.

        Raises:
            CorruptFileError: bounds are no values of this type.
        """
        rows = self._rows(number)
        if rows is None or not (fixed_bits(value_type) or offset_bits(value_type)):
            return None
        bounds = []
        for side in ("min", "max"):
            stored = rows[side].combine_chunks()
            if stored.null_count == len(stored):
                bounds.append(pa.nulls(len(stored), value_type))
                continue
            bound = _decode(stored, value_type)
            if bound is None:
                raise CorruptFileError(
                    "page statistics hold bounds of another type",
                    file=self._file,
                    column=number,
                    expected=value_type,
                )
            bounds.append(bound)
        kept = [rows[name] for name in _SCHEMA.names[:6]]
        return pa.Table.from_arrays([*kept, *bounds], schema=statistics_schema(value_type))

    def checksums(self, number: int) -> Sequence[int]:
        """The CRC-32C of each page of a column; empty for a column that the statistics do not name."""
        rows = self._rows(number)
        return () if rows is None else rows["crc32c"].to_pylist()

    def _rows(self, number: int) -> pa.Table | None:
        first, last = np.searchsorted(self._numbers, (number, number + 1))
        return self.table.slice(first, last - first) if last > first else None

    @cached_property
    def _numbers(self) -> np.ndarray:
        return np.asarray(self.table["column"])


def buffer_of(metadata: Mapping[str, str], buffers: Sequence[BufferRange], file: str) -> BufferRange | None:
    """Where the statistics of a file are, by its schema metadata; None for files without.

    Raises:
        CorruptFileError: the metadata names a buffer that the file does not have.
    """
    number = metadata.get(METADATA_KEY)
    if number is None:
        return None
    if not number.isdecimal() or len(number) > 9 or not 0 < int(number) < len(buffers):
        raise CorruptFileError(
            "no such buffer of page statistics", file=file, expected=f"1 to {len(buffers) - 1}", found=number
        )
    return buffers[int(number)]


def from_buffer(data: pa.Buffer, file: str) -> FilePageStatistics:
    """Read and check the content of the global buffer; `file` is its name for messages.

    Raises:
        CorruptFileError: the checksum or the form is wrong, or numbers contradict each other.
    """
    if data.size < _CRC.size:
        raise CorruptFileError("page statistics are cut off", file=file, found=data.size)
    written = data.slice(0, data.size - _CRC.size)
    (expected,) = _CRC.unpack(data.slice(written.size))
    found = kernels.crc32c(written)
    if found != expected:
        raise CorruptFileError(
            "page statistics have a wrong checksum",
            file=file,
            expected=f"{expected:08x}",
            found=f"{found:08x}",
        )
    try:
        batch = _read_batch(written)
    except (pa.ArrowException, OSError, struct.error, ValueError) as error:
        raise CorruptFileError("page statistics do not decode", file=file, found=error) from None
    if batch is None or any(
        column.null_count for column, field in zip(batch.columns, _SCHEMA, strict=True) if not field.nullable
    ):
        raise CorruptFileError("page statistics have a wrong form", file=file, expected=_SCHEMA.names)
    _check_numbers(batch, file)
    return FilePageStatistics(pa.Table.from_batches([batch]), file)


def _read_batch(data: pa.Buffer) -> pa.RecordBatch | None:
    """The one batch of the stream; None where it has another form."""
    messages = pa.ipc.MessageReader.open_stream(data)
    try:
        first, message = messages.read_next_message(), messages.read_next_message()
    except StopIteration:
        return None
    # Arrow takes what it is given for a schema, whatever it is.
    if (first.type, message.type) != ("schema", "record batch") or _is_compressed(message.metadata):
        return None
    schema = pa.ipc.read_schema(first)
    if not schema.equals(_SCHEMA):
        return None
    batch = pa.ipc.read_record_batch(message, schema)
    batch.validate(full=True)  # the first touch: reading has checked the structure only
    return batch


def _is_compressed(message: pa.Buffer) -> bool:
    """Whether a message holds a compressed batch, which could be of any size when it is read.

    A FlatBuffers table begins with the distance back to its layout: u16 size of that, u16 size of the table,
    and for each field a u16 offset in the table, 0 where it is left out. The header of a message is its
    third field and the compression of a record batch its fourth (Arrow columnar format, Message.fbs).
    """
    data = memoryview(message)
    (root,) = struct.unpack_from("<I", data)
    header = root + _field(data, root, 2)
    (distance,) = struct.unpack_from("<I", data, header)
    return _field(data, header + distance, 3) != 0


def _field(data: memoryview, table: int, number: int) -> int:
    (back,) = struct.unpack_from("<i", data, table)
    layout = table - back
    if layout < 0:
        raise ValueError("a layout before the message")
    (size,) = struct.unpack_from("<H", data, layout)
    if 4 + 2 * number >= size:
        return 0
    (offset,) = struct.unpack_from("<H", data, layout + 4 + 2 * number)
    return int(offset)


def _check_numbers(batch: pa.RecordBatch, file: str) -> None:
    """Pages of a column follow each other, in number and in rows, and counts fit in them."""
    columns, pages, first_rows, rows = (
        batch[name].to_numpy() for name in ("column", "page", "first_row", "rows")
    )
    begins = np.concatenate(([True], columns[1:] != columns[:-1]))[: len(columns)]
    follows = ~begins[1:]
    sound = (
        not (columns < 0).any()
        and not (np.diff(columns) < 0).any()
        and not ((rows < 0) | (first_rows < 0) | (first_rows > (1 << 62)) | (rows > (1 << 62))).any()
        and not pages[begins].any()
        and not first_rows[begins].any()
        and (pages[1:] == pages[:-1] + 1)[follows].all()
        and (first_rows[1:] == first_rows[:-1] + rows[:-1])[follows].all()
    )
    for name in ("null_count", "nan_count"):
        counts = pc.fill_null(batch[name], 0).to_numpy()
        sound = sound and not (counts < 0).any()
    if not sound:
        raise CorruptFileError("page statistics contradict themselves", file=file)


def _entries(number: int, pages: Sequence[PageEntry]) -> pa.RecordBatch:
    known = [page.bounds for page in pages if page.bounds is not None]
    nulls, nans = (_spread(pages, name) for name in ("null_count", "nan_count"))
    if known and not pa.types.is_null(known[0].schema.field("min").type):
        bounds = pa.Table.from_batches(known)
        at = np.cumsum([page.bounds is not None for page in pages]) - 1
        places = pa.array(at, mask=np.array([page.bounds is None for page in pages]))
        least, most = (_encode(bounds[side].combine_chunks()).take(places) for side in ("min", "max"))
    else:
        least = most = pa.nulls(len(pages), pa.binary())
    return pa.RecordBatch.from_arrays(
        [
            pa.array(np.full(len(pages), number, np.int32)),
            pa.array(np.arange(len(pages), dtype=np.int32)),
            pa.array([page.first_row for page in pages], pa.int64()),
            pa.array([page.rows for page in pages], pa.int64()),
            nulls,
            nans,
            least,
            most,
            pa.array([page.crc32c for page in pages], pa.uint32()),
        ],
        schema=_SCHEMA,
    )


def _spread(pages: Sequence[PageEntry], name: str) -> pa.Array:
    return pa.array(
        [None if page.bounds is None else page.bounds[name][0].as_py() for page in pages], pa.int64()
    )


def _encode(bounds: pa.Array) -> pa.Array:
    """Bounds as the bytes they have in a buffer."""
    kind, count = bounds.type, len(bounds)
    if offset_bits(kind):
        return bounds.cast(pa.binary())
    if pa.types.is_boolean(kind):
        bounds, width = bounds.cast(pa.uint8()), 1
    else:
        width = fixed_bits(kind) // 8
    valid = pc.is_valid(bounds)
    offsets = np.arange(count + 1, dtype=np.int32) * width
    data = bounds.buffers()[1].slice(bounds.offset * width)
    every = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), data])
    return pc.if_else(valid, every, pa.scalar(None, pa.binary()))


def _decode(stored: pa.Array, value_type: pa.DataType) -> pa.Array | None:
    """The bounds whose bytes these are; None where they are none."""
    if offset_bits(value_type):
        try:
            return stored.cast(value_type)
        except pa.ArrowInvalid:  # not UTF-8
            return None
    width = max(fixed_bits(value_type) // 8, 1)
    dense = pc.fill_null(stored, bytes(width))
    lengths = pc.min_max(pc.binary_length(dense)).as_py()
    if lengths != {"min": width, "max": width}:
        return None
    _, offsets, data = dense.buffers()
    first = int(np.frombuffer(offsets, np.int32)[dense.offset])
    data = data.slice(first, width * len(dense))
    if pa.types.is_boolean(value_type):
        data = as_buffer(kernels.bytes_to_bits(data))
    validity = pc.is_valid(stored).buffers()[1] if stored.null_count else None
    return pa.Array.from_buffers(value_type, len(dense), [validity, data])
