"""Search in a B-tree.

`page_data.lance` has a value and a row key for every row of the table, sorted by value, nulls first.
`page_lookup.lance` has the first and the last value of each page of it, which is a fixed number of rows.
A search reads only the pages whose bounds fit, unless they are a large part of a file that the cache can
hold.

Source: docs/format.md, "Index files".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.errors import CorruptFileError
from lance_core.index.index_file import IndexFile
from lance_core.index.row_sets import Bitmaps, Keys
from lance_core.index.scalar.answers import Answer, TooManyRows, from_keys
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
from lance_core.process.counters import note
from lance_core.schema.arrow_values import numbers_of, scalar_of

_LOOKUP = "page_lookup.lance"
_DATA = "page_data.lance"
_PAGE_ROWS = 4096
"""Default number of rows in a page."""
_MOST_PAGE_ROWS = 1 << 24
# If at least this share of the pages is needed, the whole file is read and kept, if it has room.
_WHOLE_SHARE = 1 / 4
_WHOLE_ROOM = 3 / 4
"""Largest share of the cache that one file may take."""
_MOST_KEPT_PAGES = 8
"""Most consecutive pages that are kept one by one. Longer runs are read at once and not kept."""
_BYTES_AT_ONCE = 16 << 20
"""Most decoded bytes of the pages that are read by one call, if these are several."""


def search(segment: OpenSegment, question: Question, most_rows: int) -> Answer | None:
    """Return the rows that answer a question; None if a B-tree does not answer it.

    Raises:
        TooManyRows: More than about `most_rows` rows answer it.
        CorruptFileError: A file contradicts the format.
        StorageError: The storage failed.
    """
    tree = _Tree(segment)
    if isinstance(question, IsNull):
        if tree.lookup.num_nulls > most_rows:
            raise TooManyRows
        return Answer(tree.nulls(), True, dict)
    ranges = ranges_of(question, tree.lookup.kind) if tree.lookup.has_order else None
    if ranges is None:
        return None
    return Answer(from_keys(tree.find(ranges, most_rows)), True, tree.nulls)


def value_type(segment: OpenSegment) -> pa.DataType:
    """Return the type of the values; errors are those of `search`."""
    return _Tree(segment).lookup.kind


def warm(segment: OpenSegment) -> Iterator[None]:
    """Read the bounds of the pages into the cache, and the pages of each file that the cache can hold.

    Errors are those of `search`.
    """
    tree = _Tree(segment)
    yield
    for name, _, count in tree.lookup.files:
        if tree.keep_whole(name, count):
            yield


@dataclass(frozen=True)
class _Lookup:
    """Bounds of the pages.

    Attributes:
        kind: Type of the values.
        page_rows: Rows of every page but the last of a file.
        numbers: Number of each page in the data, by the order of the pages.
        with_nulls: Indices of the pages with nulls.
        num_nulls: Number of nulls.
        first_bounded: Index of the first page that has a value.
        first_low: Index of the first page that begins with a value.
        lows: First values of the pages from `first_low` on.
        highs: Last values of the pages from `first_bounded` on.
        files: Name, number of the first page, and number of pages, of each file with pages.
        has_order: Whether conditions on the values can be answered.
    """

    kind: pa.DataType
    page_rows: int
    numbers: Places
    with_nulls: Places
    num_nulls: int
    first_bounded: int
    first_low: int
    lows: SortedKeys
    highs: SortedKeys
    files: tuple[tuple[str, int, int], ...]
    has_order: bool

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return 2 * self.numbers.nbytes + self.lows.nbytes + self.highs.nbytes

    def pages(self, ranges: Sequence[KeyRanges]) -> list[tuple[Places, Places]]:
        """Return for each of the ranges the indices of the first page with its keys, and of the page after
        the last.
        """
        return [
            (first + self.first_bounded, end + self.first_low)
            for first, end in (each.places(self.highs, self.lows) for each in ranges)
        ]

    def place(self, index: int) -> tuple[str, int, int]:
        """Return the name of the file with a page, the number of its pages, and the page's place in it."""
        number = int(self.numbers[index])
        return next(
            (name, count, number - first) for name, first, count in self.files if number < first + count
        )


def _read_lookup(segment: OpenSegment) -> _Lookup:
    name, files = _LOOKUP, None
    if not segment.has_file(_LOOKUP):
        name, files = _single_part(segment)
    has_data = segment.storage.is_remote and _DATA in segment.entry.files
    file, *_ = segment.open_files((name, _DATA) if has_data else (name,))
    file.require("min", "max", "null_count", "page_idx")
    rows = file.read(0, file.num_rows)
    lows, highs = rows.column(0), rows.column(1)
    numbers = numbers_of(rows.column(3).cast(pa.int64()).fill_null(scalar_of(-1)))
    nulls = numbers_of(rows.column(2).cast(pa.int64()).fill_null(scalar_of(0)))
    if not np.array_equal(np.sort(numbers), np.arange(len(numbers))):
        raise CorruptFileError("numbers of the pages of an index", file=file.name, found=numbers[:5].tolist())
    page_rows = file.integer("batch_size", _PAGE_ROWS, most=_MOST_PAGE_ROWS)
    kind = lows.type
    first_low, first_bounded = lows.null_count, highs.null_count
    if has_order(kind):
        bounds = []
        for side, missing in ((lows, first_low), (highs, first_bounded)):
            keys, order = sorted_keys(side.slice(missing))
            if side.slice(missing).null_count or order is not None:
                raise CorruptFileError("pages of an index are not in order", file=file.name)
            bounds.append(keys)
    else:
        bounds = [sorted_keys(pa.nulls(0, pa.int8()))[0]] * 2
    return _Lookup(
        kind,
        page_rows,
        numbers,
        np.flatnonzero(nulls),
        int(nulls.sum()),
        first_bounded,
        first_low,
        bounds[0],
        bounds[1],
        files or _page_files(segment, file, len(numbers)),
        has_order(kind),
    )


def _page_files(segment: OpenSegment, lookup: IndexFile, num_pages: int) -> tuple[tuple[str, int, int], ...]:
    """Return the files with pages: one, or one for each range of values in indices of old releases."""
    if lookup.metadata.get("range_partitioned", b"false") != b"true":
        return ((_DATA, 0, num_pages),)
    text = lookup.metadata.get("page_num_per_range_partition", b"")
    try:
        parts = [(int(part), int(count)) for part, count in json.loads(text)]
        if (
            any(part < 0 or count < 0 for part, count in parts)
            or sum(count for _, count in parts) != num_pages
        ):
            raise ValueError
    except (ValueError, TypeError):
        raise CorruptFileError(
            "pages of each file of an index", file=lookup.name, found=text[:100].decode("latin1")
        ) from None
    files, first = [], 0
    for part, count in parts:
        files.append((f"part_{part}_{_DATA}", first, count))
        first += count
    return tuple(files)


def _single_part(segment: OpenSegment) -> tuple[str, tuple[tuple[str, int, int], ...]]:
    """Return the lookup file and the data file of a segment that a distributed build of an old release
    left in one part.
    """
    names = segment.list_files()
    lookups = [name for name in names if name.startswith("part_") and name.endswith(f"_{_LOOKUP}")]
    if len(lookups) != 1:
        raise CorruptFileError("an index without its file", file=segment.path(_LOOKUP))
    data = lookups[0].removesuffix(_LOOKUP) + _DATA
    return lookups[0], ((data, 0, segment.open_file(lookups[0]).num_rows),)


@dataclass(frozen=True)
class _Rows:
    """Rows of one or more pages: the keys that are not null, their row keys, and the row keys of nulls."""

    keys: SortedKeys
    ids: Keys
    null_ids: Keys

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.keys.nbytes + self.ids.nbytes + self.null_ids.nbytes

    def find(self, ranges: KeyRanges) -> Iterator[Keys]:
        """Yield the row keys of the keys in the ranges."""
        starts, ends = ranges.places(self.keys, self.keys)
        if len(starts) == 1:
            yield self.ids[starts[0] : ends[0]]
        else:
            found = starts < ends
            yield self.ids[rows_in(starts[found], ends[found])]


@dataclass(frozen=True)
class _OrderedRanges:
    """Disjoint ranges of keys, in the order of the pages that they are in.

    Attributes:
        firsts: Index of the first page of each range, ascending.
        ends: Index of the page after the last one of each range, ascending, too.
    """

    ranges: KeyRanges
    firsts: Places
    ends: Places

    @classmethod
    def of(cls, ranges: KeyRanges, firsts: Places, ends: Places) -> _OrderedRanges:
        if len(firsts) > 1:
            order = np.lexsort((ends, firsts))
            return cls(ranges.at(order), firsts[order], ends[order])
        return cls(ranges, firsts, ends)

    def in_pages(self, start: int, stop: int) -> KeyRanges:
        """Return the ranges that may have keys in the pages `[start, stop)`."""
        if len(self.firsts) == 1:
            return self.ranges
        first = int(self.ends.searchsorted(start, "right"))
        return self.ranges.between(first, int(self.firsts.searchsorted(stop)))


class _Tree:
    """Pages of one B-tree."""

    def __init__(self, segment: OpenSegment) -> None:
        self._segment = segment
        self.lookup = segment.kept("pages", lambda: _read_lookup(segment), lambda lookup: lookup.nbytes)

    def find(self, ranges: Sequence[KeyRanges], most_rows: int) -> Iterator[Keys]:
        """Yield the row keys of all keys in the ranges; raises TooManyRows before anything is read."""
        lookup = self.lookup
        places = lookup.pages(ranges)
        first, end = places[0]
        if len(places) == 1 and len(first) == 1 and end[0] - first[0] == 1:
            rows = self._page(int(first[0]))
            note("index_comparisons", len(rows.ids))
            yield from rows.find(ranges[0])
            return
        # The pages between the first and the last page of a range have no other keys.
        num_inner = sum(int(np.maximum(end - first - 2, 0).sum()) for first, end in places)
        if num_inner * lookup.page_rows > most_rows:
            raise TooManyRows
        indices = [rows_in(first, end) for first, end in places]
        pages = indices[0] if len(indices) == 1 else np.concatenate(indices)
        if len(indices) > 1 or len(places[0][0]) > 1:  # ranges may share pages
            pages = distinct(pages)
        ordered = [_OrderedRanges.of(each, *found) for each, found in zip(ranges, places, strict=True)]
        for rows, start, stop in self._rows(pages):
            note("index_comparisons", len(rows.ids))
            for each in ordered:
                yield from rows.find(each.in_pages(start, stop))

    def _page(self, index: int) -> _Rows:
        """Return the rows of one page, or of all pages of its file, if the cache has these."""
        name, count, page = self.lookup.place(index)
        if self._segment.has(("rows", name)):
            return self._whole(name, count)

        def read() -> _Rows:
            return self._read(self._file(name, count), [(page, page + 1)])[0]

        return self._segment.kept(("rows", name, page), read, _num_bytes)

    def nulls(self) -> Bitmaps:
        """Return the row keys of nulls."""
        return from_keys(rows.null_ids for rows, _, _ in self._rows(self.lookup.with_nulls))

    def _rows(self, pages: Places) -> Iterator[tuple[_Rows, int, int]]:
        """Yield the rows of pages, with the index of the first page and of the page after the last.

        There may be rows of other pages among them.
        """
        numbers = self.lookup.numbers[pages]
        for name, first, count in self.lookup.files:
            mine = np.flatnonzero((numbers >= first) & (numbers < first + count))
            if not len(mine):
                continue
            file = self._file(name, count)
            if self._segment.has(("rows", name)) or self._takes_whole(file, len(mine), count):
                yield self._whole(name, count), 0, len(self.lookup.numbers)
                continue
            chosen = pages[mine]
            places = numbers[mine]
            has_gap = (chosen[1:] - chosen[:-1] > 1) | (places[1:] - places[:-1] != 1)
            starts = [0, *(np.flatnonzero(has_gap) + 1).tolist(), len(chosen)]
            runs = [(int(chosen[start]), int(chosen[end - 1]) + 1) for start, end in pairwise(starts)]
            yield from self._runs(file, name, runs, first)

    def keep_whole(self, name: str, count: int) -> bool:
        """Read all `count` pages of a file into the cache. Return False if the cache cannot hold them."""
        if not self._has_room(self._file(name, count)):
            return False
        self._whole(name, count)
        return True

    def _whole(self, name: str, count: int) -> _Rows:
        return self._segment.kept(
            ("rows", name), lambda: self._read(self._file(name, count), [(0, count)])[0], _num_bytes
        )

    def _has_room(self, file: IndexFile) -> bool:
        room = _WHOLE_ROOM * self._segment.cache.max_bytes
        return file.num_rows * self._row_bytes(file) <= room

    def _row_bytes(self, file: IndexFile) -> float:
        return file.bytes_per_row(*_columns(file))

    def _takes_whole(self, file: IndexFile, num_pages: int, count: int) -> bool:
        """Return whether all `count` pages of a file are read if `num_pages` of them are needed."""
        return num_pages >= max(2, _WHOLE_SHARE * count) and self._has_room(file)

    def _runs(
        self, file: IndexFile, name: str, runs: Sequence[tuple[int, int]], first: int
    ) -> Iterator[tuple[_Rows, int, int]]:
        """Yield the rows of the pages with the indices `[start, end)` of each run, whose numbers follow each
        other.

        `first` is the number of the first page of the file.
        """
        most = 1  # of one page the size of a row, for which all pages are opened, does not matter
        if len(runs) > 1 or runs[0][1] - runs[0][0] > 1:
            most = max(1, int(_BYTES_AT_ONCE // (self._row_bytes(file) * self.lookup.page_rows + 1)))
        wanted: list[int] = []  # pages that are kept one by one
        for start, end in runs:
            if end - start <= _MOST_KEPT_PAGES:
                wanted += range(start, end)
                continue
            for some in range(start, end, most):
                count = min(most, end - some)
                page = int(self.lookup.numbers[some]) - first
                yield self._read(file, [(page, page + count)])[0], some, some + count
        for begin in range(0, len(wanted), most):
            yield from self._kept_pages(file, name, wanted[begin : begin + most], first)

    def _kept_pages(
        self, file: IndexFile, name: str, indices: Sequence[int], first: int
    ) -> Iterator[tuple[_Rows, int, int]]:
        """Yield the rows of pages with ascending indices. Pages that the cache lacks are read by one call,
        and kept one by one.
        """
        segment, numbers = self._segment, self.lookup.numbers
        found, missing = {}, []
        for index in indices:
            page = int(numbers[index]) - first
            rows = segment.find(("rows", name, page))
            if isinstance(rows, _Rows):
                found[index] = rows
            else:
                missing.append((index, page))
        if missing:
            read = self._read(file, [(page, page + 1) for _, page in missing])
            for (index, page), rows in zip(missing, read, strict=True):
                found[index] = segment.keep(("rows", name, page), rows, rows.nbytes)
        yield from ((rows, index, index + 1) for index, rows in found.items())

    def _file(self, name: str, num_pages: int) -> IndexFile:
        """Return a file with pages, open. CorruptFileError if it has not the rows of these pages."""
        file = self._segment.open_file(name)
        most = num_pages * self.lookup.page_rows
        if not most - self.lookup.page_rows < file.num_rows <= most:
            raise CorruptFileError(
                "rows of an index",
                file=file.name,
                expected=f"{num_pages} pages of {self.lookup.page_rows}",
                found=file.num_rows,
            )
        return file

    def _read(self, file: IndexFile, pages: Sequence[tuple[int, int]]) -> list[_Rows]:
        """Read the pages `[start, end)` of each of several ranges of a file."""
        page_rows, most = self.lookup.page_rows, file.num_rows
        ranges = [(start * page_rows, min(end * page_rows, most)) for start, end in pages]
        return [self._rows_of(file, batch) for batch in file.read_ranges(ranges, _columns(file))]

    def _rows_of(self, file: IndexFile, batch: pa.RecordBatch) -> _Rows:
        values, ids = batch.columns
        if values.type != self.lookup.kind or ids.type != pa.uint64() or ids.null_count:
            raise CorruptFileError(
                "types of the columns of an index",
                file=file.name,
                expected=f"{self.lookup.kind} and uint64 without nulls",
                found=f"{values.type} and {ids.type}",
            )
        numbers: npt.NDArray[np.uint64] = numbers_of(ids)
        null_ids = numbers[:0]
        if values.null_count:
            is_null = numbers_of(values.is_null())
            null_ids, numbers = numbers[is_null], numbers[~is_null]
            values = values.drop_null()
        keys, order = sorted_keys(values)
        return _Rows(keys, numbers if order is None else numbers[order], null_ids)


def _num_bytes(rows: _Rows) -> int:
    return rows.nbytes


def _columns(file: IndexFile) -> list[str]:
    """Return the names of the columns with the values and the row keys. Releases before 0.21 have others."""
    old = ["values", "row_ids"]
    if file.names[:2] == old:
        return old
    file.require("values", "ids")
    return ["values", "ids"]
