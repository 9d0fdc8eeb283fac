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

Columns of all types share one table, so a bound is kept as bytes (`stored_bounds`).
Source: docs/format.md, "Page statistics and checksums".
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.errors import CorruptFileError
from lance_core.file.metadata import BufferRange
from lance_core.schema.arrow_values import array_of, numbers_of, scalar_of
from lance_core.statistics.bound_encoding import decode_bounds
from lance_core.statistics.checksummed_batch import BatchForm, DamagedBatch, unseal
from lance_core.statistics.collect import PageSummary, has_bounds
from lance_core.statistics.column_statistics import statistics_schema

METADATA_KEY = "lance_flight:page_statistics"
"""Key in the schema metadata of a file. Its value is the number of the global buffer with the statistics."""

_SCHEMA = statistics_schema(pa.binary()).append(pa.field("crc32c", pa.uint32(), nullable=False))
_NOTHING = PageSummary(None, None, None, None)
_SCHEMA = _SCHEMA.set(1, _SCHEMA.field("page").with_nullable(False))


@dataclass(frozen=True)
class PageEntry:
    """Statistics of one page, from its writer.

    Attributes:
        first_row: First top-level row of the page.
        rows: Number of top-level rows that begin in the page.
        summary: Bounds and counts; None for columns without statistics, such as list columns.
        crc32c: Checksum of the page's buffers, one after the other, without padding.
    """

    first_row: int
    rows: int
    summary: PageSummary | None
    crc32c: int


def to_buffer(columns: Mapping[int, Sequence[PageEntry]]) -> pa.Buffer:
    """Return the content of the global buffer. `columns` has the pages by column number."""
    numbered = [(number, *each) for number, pages in sorted(columns.items()) for each in enumerate(pages)]
    entries = [entry for _, _, entry in numbered]
    summaries = [entry.summary or _NOTHING for entry in entries]
    parts = [
        _numbers("i", [number for number, _, _ in numbered]),
        _numbers("i", [page for _, page, _ in numbered]),
        _numbers("q", [entry.first_row for entry in entries]),
        _numbers("q", [entry.rows for entry in entries]),
        _numbers("q", [summary.null_count for summary in summaries]),
        _numbers("q", [summary.nan_count for summary in summaries]),
        _texts([summary.least for summary in summaries]),
        _texts([summary.most for summary in summaries]),
        _numbers("I", [entry.crc32c for entry in entries]),
    ]
    return pa.py_buffer(_form().seal(len(entries), parts))


@cache
def _form() -> BatchForm:
    return BatchForm(_SCHEMA)


_Column = tuple[int, Sequence[bytes]]
"""Number of nulls, and the Arrow buffers of a column."""


def _numbers(kind: str, values: Sequence[int | None]) -> _Column:
    num_nulls, validity = _validity(values)
    return num_nulls, (validity, struct.pack(f"<{len(values)}{kind}", *[value or 0 for value in values]))


def _texts(values: Sequence[bytes | None]) -> _Column:
    num_nulls, validity = _validity(values)
    known = [value or b"" for value in values]
    ends = accumulate(map(len, known), initial=0)
    return num_nulls, (validity, struct.pack(f"<{len(values) + 1}i", *ends), b"".join(known))


def _validity(values: Sequence[object]) -> tuple[int, bytes]:
    """Return the number of Nones, and a validity bitmap if there are any."""
    num_nulls = values.count(None)
    if not num_nulls:
        return 0, b""
    bits = sum(1 << place for place, value in enumerate(values) if value is not None)
    return num_nulls, bits.to_bytes(-(-len(values) // 8), "little")


class FilePageStatistics:
    """Statistics of the pages of one file.

    Attributes:
        table: All rows; the module describes the columns.
    """

    def __init__(self, table: pa.Table, file: str) -> None:
        self.table = table
        self._file = file

    def column(self, number: int, value_type: pa.DataType) -> pa.Table | None:
        """Return the statistics of one column as a table of `lance_core.statistics.column_statistics`.

        Return None if the file has no statistics of the column, or if the type has no bounds.

        Raises:
            CorruptFileError: the stored bounds are no values of `value_type`.
        """
        rows = self._rows(number)
        if rows is None or not has_bounds(value_type):
            return None
        # A copy does not keep the statistics of all columns.
        rows = rows.take(array_of(np.arange(len(rows))))
        bounds = []
        for side in ("min", "max"):
            bound = decode_bounds(rows[side].combine_chunks(), value_type)
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
        """Return the CRC-32C of each page of a column; empty if the statistics do not contain the column."""
        rows = self._rows(number)
        return () if rows is None else rows["crc32c"].to_pylist()

    def _rows(self, number: int) -> pa.Table | None:
        first, last = np.searchsorted(self._numbers, (number, number + 1))
        return self.table.slice(first, last - first) if last > first else None

    @cached_property
    def _numbers(self) -> np.ndarray:
        return numbers_of(self.table["column"])


def buffer_of(
    metadata: Mapping[str, str], buffers: Sequence[BufferRange], file: str, key: str = METADATA_KEY
) -> BufferRange | None:
    """Return the range of the buffer that the schema metadata of the file names under `key`; None without
    one.

    Raises:
        CorruptFileError: the file has no buffer with this number.
    """
    number = metadata.get(key)
    if number is None:
        return None
    if not number.isdecimal() or len(number) > 9 or not 0 < int(number) < len(buffers):
        raise CorruptFileError(
            f"no such buffer as {key} names", file=file, expected=f"1 to {len(buffers) - 1}", found=number
        )
    return buffers[int(number)]


def from_buffer(data: pa.Buffer, file: str) -> FilePageStatistics:
    """Parse and check the content of the global buffer; `file` is the file name for messages.

    Raises:
        CorruptFileError: the checksum or the form is wrong, or numbers contradict each other.
    """
    try:
        batch = unseal(data, _SCHEMA)
    except DamagedBatch as error:
        raise CorruptFileError("page statistics are damaged", file=file, found=error) from None
    _check_numbers(batch, file)
    return FilePageStatistics(pa.Table.from_batches([batch]), file)


def _check_numbers(batch: pa.RecordBatch, file: str) -> None:
    """Check that the pages of each column follow each other, in number and in rows, and that no count is
    negative.
    """
    columns, pages, first_rows, rows = (
        numbers_of(batch[name]) for name in ("column", "page", "first_row", "rows")
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
        known = batch[name]
        counts = numbers_of(pc.fill_null(known, scalar_of(0)) if known.null_count else known)
        sound = sound and not (counts < 0).any()
    if not sound:
        raise CorruptFileError("page statistics contradict themselves", file=file)
