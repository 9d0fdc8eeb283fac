"""Search in a bitmap index: one row per distinct value, with the set of the rows that have it.

The null value is the first row of the file. Files of old releases are not sorted.

Source: docs/format.md, "Index files".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from lance_core.errors import CorruptFileError
from lance_core.index.index_file import IndexFile
from lance_core.index.row_sets import Bitmaps, TreeMap, num_bytes
from lance_core.index.scalar.answers import Answer, TooManyRows, union
from lance_core.index.scalar.questions import IsNull, Question
from lance_core.index.scalar.sorted_keys import (
    KeyRanges,
    Places,
    SortedKeys,
    has_order,
    ranges_of,
    rows_in,
    sorted_keys,
)
from lance_core.index.segments import OpenSegment
from lance_core.number_sets import distinct
from lance_core.schema.arrow_values import numbers_of

FILE = "bitmap_page_lookup.lance"
_FEW_SETS = 256
"""Most sets of one answer that the cache keeps."""
_SETS_AT_ONCE = 4096
_ROWS_PER_SET = 100
"""Reading a set takes about as long as scanning this many rows of an answer that is too large."""


def search(segment: OpenSegment, question: Question, most_rows: int) -> Answer | None:
    """Return the rows that answer a question; None if a bitmap index does not answer it.

    Errors are those of the search in a B-tree.
    """
    index = BitmapFile(segment)
    if isinstance(question, IsNull):
        return Answer(index.nulls(), True, dict)
    ranges = ranges_of(question, index.kind) if has_order(index.kind) else None
    if ranges is None:
        return None
    rows = [index.rows(each) for each in ranges]
    return Answer(index.sets(distinct(np.concatenate(rows)), most_rows), True, index.nulls)


def value_type(segment: OpenSegment) -> pa.DataType:
    """Return the type of the values; errors are those of the search in a B-tree."""
    return BitmapFile(segment).kind


@dataclass(frozen=True)
class _Keys:
    """Distinct values that are not null, and the row of the file of each value and of null."""

    kind: pa.DataType
    keys: SortedKeys
    rows: Places
    null_rows: Places

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.keys.nbytes + self.rows.nbytes


class BitmapFile:
    """File with a set of rows per value, of a bitmap index or of a label list."""

    def __init__(self, segment: OpenSegment) -> None:
        """Open the file; errors are those of `OpenSegment.open_file`."""
        self._segment = segment
        self._keys = segment.kept("keys", partial(_read_keys, segment), lambda keys: keys.nbytes)

    @property
    def kind(self) -> pa.DataType:
        """Type of the values."""
        return self._keys.kind

    def rows(self, ranges: KeyRanges) -> Places:
        """Return the rows of the file whose values are in the ranges."""
        keys = self._keys
        return keys.rows[rows_in(*ranges.places(keys.keys, keys.keys))]

    def nulls(self) -> Bitmaps:
        """Return the rows of the table whose value is null."""
        return self.sets(self._keys.null_rows)

    def sets(self, rows: Places, most_rows: int | None = None) -> Bitmaps:
        """Return the union of the sets in some rows of the file, ascending.

        Raises:
            TooManyRows: The union has more than `most_rows` rows of the table, or reading it takes too long.
            CorruptFileError: A set contradicts the format.
            StorageError: The storage failed.
        """
        if most_rows is not None and len(rows) > max(_FEW_SETS, most_rows // _ROWS_PER_SET):
            raise TooManyRows
        found: list[Bitmaps] = []
        missing = rows
        if len(rows) <= _FEW_SETS:
            kept = [self._segment.find(("set", row)) for row in rows.tolist()]
            found = [bitmaps for bitmaps in kept if isinstance(bitmaps, dict)]
            missing = rows[[bitmaps is None for bitmaps in kept]] if len(rows) else rows
        if len(missing):
            file = self._segment.open_file(FILE)
            for start in range(0, len(missing), _SETS_AT_ONCE):
                some = missing[start : start + _SETS_AT_ONCE]
                sets = read_sets(file, some)
                if len(rows) <= _FEW_SETS:
                    for row, bitmaps in zip(some.tolist(), sets, strict=True):
                        self._segment.keep(("set", row), bitmaps, _num_bytes(bitmaps))
                found += sets
        num_rows = sum(len(bitmap) for bitmaps in found for bitmap in bitmaps.values())
        if most_rows is not None and num_rows > most_rows:
            raise TooManyRows
        return union(found)


def read_sets(file: IndexFile, rows: Places) -> list[Bitmaps]:
    """Return the sets in some rows of a file, ascending; errors are those of `BitmapFile.sets`."""
    column = file.take(rows, ["bitmaps"]).column(0)
    return [read_set(data, file.name) for data in column.to_pylist()]


def read_set(data: bytes | None, name: str) -> Bitmaps:
    """Return the set in `data`, which is in the file `name`.

    Raises:
        CorruptFileError: The bytes contradict the format.
    """
    try:
        return TreeMap().read(data or b"")
    except (struct.error, ValueError, IndexError) as error:
        raise CorruptFileError("a set of rows does not decode", file=name, found=error) from None


def _read_keys(segment: OpenSegment) -> _Keys:
    file = segment.open_file(FILE)
    file.require("keys", "bitmaps")
    values = file.read(0, file.num_rows, ["keys"]).column(0)
    rows = np.arange(len(values))
    null_rows = rows[:0]
    if values.null_count:
        is_null = numbers_of(values.is_null())
        null_rows, rows = rows[is_null], rows[~is_null]
        values = values.drop_null()
    if not has_order(values.type):
        return _Keys(values.type, sorted_keys(pa.nulls(0, pa.int8()))[0], rows[:0], null_rows)
    keys, order = sorted_keys(values)
    return _Keys(values.type, keys, rows if order is None else rows[order], null_rows)


def _num_bytes(bitmaps: Bitmaps) -> int:
    return sum(num_bytes(bitmap) for bitmap in bitmaps.values())
