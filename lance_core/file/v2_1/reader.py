"""Reader of top-level columns of 2.1 and 2.2 files, by row ranges.

A nested column is stored as its leaves, and each leaf repeats the structure above it. So structs and lists
are assembled from the layers of decoded leaves. Source: docs/format.md, "Levels".
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa

from lance_core.encodings.picking import Picking, pick, together
from lance_core.encodings.v2_1.layouts.layout import open_page
from lance_core.encodings.v2_1.layouts.miniblock import JoinedPages, runs_alike
from lance_core.encodings.v2_1.layouts.page import LeafSlice, Page, PageRead
from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.file.known_pages import KnownPages
from lance_core.file.metadata import COLUMN_BYTES, ColumnMetadata, FileMetadata
from lance_core.file.page_errors import located
from lance_core.file.page_ranges import PageRange, PlainValues, has_short_values
from lance_core.file.row_runs import Rows
from lance_core.file.v2_1.leaves import LeafField, assemble, leaf_fields
from lance_core.kernels import (
    ColumnPages,
    CorruptData,
    MiniBlocks,
    OffsetOverflow,
    PieceReader,
    PlainPages,
)
from lance_core.pool import run_each
from lance_core.schema.fields import Field
from lance_core.schema.physical_columns import owns_column
from lance_core.storage.base import ReadableFile

_NUMBERS_SHARE, _LISTS_SHARE = 1 / 8, 1 / 16
"""Dense shares of numbers, of which a kernel unpacks many at a time, and of lists."""


class ColumnReader:
    """One top-level column of one file; see `lance_core.file.column_readers`."""

    def __init__(
        self, file: ReadableFile, metadata: FileMetadata, field: Field, columns: Mapping[int, int]
    ) -> None:
        """See `lance_core.file.column_readers.open_column`."""
        self._field = field
        self._file = file
        self._leaves = [
            _Leaf(file, metadata.column(columns[leaf.field_id]), leaf)
            for leaf in leaf_fields(field)
            if leaf.field_id in columns
        ]
        if not self._leaves:
            raise UnsupportedFeatureError("column without any stored leaf", file=file.name, column=field.name)
        self._is_leaf = owns_column(field)
        self._known_pages: KnownPages | None = None
        self._plain_pages: tuple[PlainPages | None] | None = None  # set once they were asked for
        self._joined_cuts: Rows | None = None
        """First row of each run of joined pages of any leaf, and the number of rows; None until all pages are
        known.
        """
        self.num_rows = metadata.num_rows
        for leaf in self._leaves:
            if leaf.num_rows != self.num_rows:
                raise CorruptFileError(
                    "pages do not add up to the rows of the file",
                    file=file.name,
                    column=leaf.name,
                    expected=self.num_rows,
                    found=leaf.num_rows,
                )

    @property
    def page_rows(self) -> Sequence[int]:
        """First row of each page of the widest leaf, and the number of rows at the end."""
        widest = (
            max(self._leaves, key=lambda leaf: leaf.decoded_bytes)
            if len(self._leaves) > 1
            else self._leaves[0]
        )
        return widest.starts

    @cached_property
    def bytes_per_row(self) -> float:
        """Estimated bytes of a decoded row."""
        return sum([leaf.decoded_bytes for leaf in self._leaves]) / max(self.num_rows, 1)

    @property
    def dense_share(self) -> float:
        """Share of the rows of a block from which on the whole block is decoded."""
        # A kernel decodes one leaf and drops rows. Picking costs more for lists, since it reads levels.
        if len(self._leaves) > 1:
            return 3 / 4
        if not self._is_leaf:
            return _LISTS_SHARE
        return _NUMBERS_SHARE if has_short_values(self._field.arrow_type) else 3 / 5

    @property
    def known_bytes(self) -> int:
        """Estimated memory of the open column, in bytes."""
        return sum(leaf.known_bytes for leaf in self._leaves)

    def read(self, start: int, end: int) -> list[pa.Array]:
        """Return the rows `[start, end)` as arrays of the field's storage type, in order.

        An array ends where a page of a leaf ends, or where its offsets would be too large.

        Raises:
            CorruptFileError: the bytes contradict the format.
            StorageError: the storage failed.
        """
        if not 0 <= start <= end <= self.num_rows:
            raise ValueError(f"rows [{start}, {end}) of {self.num_rows}")
        if start == end:
            return []
        if all(leaf.in_one_page(start, end) for leaf in self._leaves):
            return self._read_rows(start, end)
        cuts = {start, end}
        for leaf in self._leaves:
            cuts.update(leaf.starts[bisect_left(leaf.starts, start) : bisect_left(leaf.starts, end)])
        calls = [partial(self._read_rows, begin, stop) for begin, stop in pairwise(sorted(cuts))]
        parts = run_each(calls, self._file.is_remote)
        return [array for part in parts for array in part]

    def page_ranges(self, start: int, end: int) -> list[PageRange] | None:
        """Return the page ranges that a kernel decodes for rows `[start, end)`, or None; see
        `lance_core.file.column_readers`.
        """
        reader = self._file.range_reader()
        if reader is None or len(self._leaves) != 1 or not 0 <= start < end <= self.num_rows:
            return None
        return self._leaves[0].direct(reader, start, end, None if self._is_leaf else self._field.arrow_type)

    def plain_values(self, start: int, end: int) -> PlainValues | None:
        """Return the place of rows `[start, end)` in the file, or None; see
        `lance_core.file.column_readers`.
        """
        reader = self._file.range_reader()
        if reader is None or not self._is_leaf or not 0 <= start < end <= self.num_rows:
            return None
        found = self._leaves[0].plain_bytes(start, end)
        if found is None:
            return None
        offset, num_bytes = found
        return PlainValues(reader, offset, num_bytes // (end - start), end - start)

    def plain_pages(self) -> PlainPages | None:
        """Return the places of all pages, or None; see `lance_core.file.column_readers`."""
        reader = self._file.range_reader()
        if reader is None or not self._is_leaf:
            return None
        if self._plain_pages is None:
            self._plain_pages = (self._find_plain_pages(reader),)
        return self._plain_pages[0]

    def _find_plain_pages(self, reader: PieceReader) -> PlainPages | None:
        """Return the places of all pages; None unless all have plain values of one width."""
        leaf = self._leaves[0]
        offsets, strides = [], set()
        for start, end in pairwise(leaf.starts):
            found = leaf.plain_bytes(start, end) if start < end else None
            if found is None:
                return None
            offsets.append(found[0])
            strides.add(found[1] // (end - start))
        if len(strides) != 1:
            return None
        starts = np.array(leaf.starts, np.int64)
        return PlainPages(starts.data, np.array(offsets, np.int64).data, strides.pop(), reader)

    def pages_at(self, rows: Rows) -> ColumnPages | None:
        """Return the pages for takes of the kernel, or None; see `lance_core.file.column_readers`."""
        known = self._known_pages
        if known is None:
            reader = self._file.range_reader()
            if reader is None or len(self._leaves) != 1 or not self.num_rows:
                return None
            (leaf,) = self._leaves
            known = self._known_pages = KnownPages(leaf.row_starts, leaf.page_to_take, reader)
        return known.at(rows)

    def take(self, rows: Rows) -> list[pa.Array]:
        """Return the values at ascending rows; see `lance_core.file.column_readers`."""
        try:
            return pick(self.pick(rows), self._file.read_joined)
        except OffsetOverflow:
            if len(rows) == 1:
                raise self._too_large() from None
            middle = len(rows) // 2
            return self.take(rows[:middle]) + self.take(rows[middle:])

    def pick(self, rows: Rows) -> Picking[list[pa.Array]]:
        """Return the values at ascending rows; see `lance_core.file.column_readers`."""
        if not len(rows):
            return []
        if rows[0] < 0 or rows[-1] >= self.num_rows:
            raise ValueError(f"rows {rows[0]} to {rows[-1]} of {self.num_rows}")
        if self._joined_cuts is None and all(leaf.is_known for leaf in self._leaves):
            self._joined_cuts = _union(leaf.join() for leaf in self._leaves)
        if self._joined_cuts is not None:
            try:
                return (yield from self._pick(_Leaf.pick_joined, self._joined_cuts, rows))
            except (CorruptData, CorruptFileError):
                pass  # the next line reads page by page, so that the error names the damaged page
        return (yield from self._pick(_Leaf.pick, self._cuts, rows))

    def _pick(
        self, pick_leaf: Callable[[_Leaf, Rows], Picking[LeafSlice]], cuts: Rows, rows: Rows
    ) -> Picking[list[pa.Array]]:
        """Pick rows. A leaf picks the rows between two consecutive `cuts` at once."""
        parts = [rows]
        if len(rows) > 1 and len(cuts) > 2:
            places = cuts.searchsorted(rows, side="right")
            parts = np.split(rows, np.flatnonzero(places[1:] != places[:-1]) + 1)
        slices = yield from together([pick_leaf(leaf, part) for part in parts for leaf in self._leaves])
        step = len(self._leaves)
        return [
            self._put_together(slices[number * step : (number + 1) * step], int(part[0]), len(part))
            for number, part in enumerate(parts)
        ]

    @cached_property
    def _cuts(self) -> Rows:
        """First row of each page of any leaf, and the number of rows."""
        return _union(leaf.starts for leaf in self._leaves)

    def _too_large(self) -> CorruptFileError:
        return CorruptFileError(
            "one row is larger than 32-bit offsets can address",
            file=self._file.name,
            column=self._field.name,
        )

    def _read_rows(self, start: int, end: int) -> list[pa.Array]:
        """Read rows that lie in one page of every leaf."""
        if len(self._leaves) > 1:
            self._learn_indices(start, end)
        reads = [leaf.plan(start, end) for leaf in self._leaves]
        buffers = iter(self._file.read_ranges([one for read in reads for one in read.ranges]))
        try:
            slices = [
                leaf.decode(read, [next(buffers) for _ in read.ranges], start)
                for leaf, read in zip(self._leaves, reads, strict=True)
            ]
        except OffsetOverflow:
            if end - start == 1:
                raise self._too_large() from None
            middle = (start + end) // 2
            return self._read_rows(start, middle) + self._read_rows(middle, end)
        return [self._put_together(slices, start, end - start)]

    def _learn_indices(self, start: int, end: int) -> None:
        """Read what finds rows in the pages of all leaves together, unless all of a page will be read.

        The rows `[start, end)` lie in one page of every leaf.
        """
        unknown = [(leaf, ranges) for leaf in self._leaves if (ranges := leaf.index_ranges(start, end))]
        buffers = iter(self._file.read_ranges([one for _, ranges in unknown for one in ranges]))
        for leaf, ranges in unknown:
            leaf.learn(start, [next(buffers) for _ in ranges])

    def _put_together(self, slices: Sequence[LeafSlice], first_row: int, num_rows: int) -> pa.Array:
        """Assemble the array of `num_rows` rows from the slices of all leaves. `first_row` is its first row
        in the file.
        """
        for leaf, slice_ in zip(self._leaves, slices, strict=True):
            length = slice_.layers[-1].length if slice_.layers else len(slice_.array)
            if length != num_rows:
                raise CorruptFileError(
                    "page holds a wrong number of rows",
                    file=self._file.name,
                    column=leaf.name,
                    page=leaf.page_number(first_row),
                    expected=num_rows,
                    found=length,
                )
        if self._is_leaf:
            return slices[0].array
        by_field = {leaf.field_id: slice_ for leaf, slice_ in zip(self._leaves, slices, strict=True)}
        try:
            array, _ = assemble(self._field, by_field)
        except (CorruptData, pa.ArrowInvalid) as error:
            raise CorruptFileError(str(error), file=self._file.name, column=self._field.name) from None
        return array


class _Leaf:
    """The pages of one physical column."""

    def __init__(self, file: ReadableFile, column: ColumnMetadata, field: LeafField) -> None:
        self.field_id = field.field_id
        self.name = field.name
        self._file = file
        self._column = column
        self._type = field.type
        self._pages: list[Page | None] = [None] * len(column.pages)
        self._runs: tuple[list[int], list[Page | JoinedPages]] | None = None
        self._direct: list[MiniBlocks | None] = []
        """Descriptions of the runs of joined pages for the kernel, as far as `direct` has asked for them."""
        self._lock = threading.Lock()
        self._decoded_bytes: int | None = None
        slots = field.num_slots_per_row
        self.starts = [0, *accumulate([page.num_rows // slots for page in column.pages])]
        """First row of each page, and the number of rows at the end."""

    @property
    def num_rows(self) -> int:
        return self.starts[-1]

    @property
    def decoded_bytes(self) -> int:
        if self._decoded_bytes is None:
            self._decoded_bytes = sum([self._page(i).decoded_bytes for i in range(len(self._pages))])
        return self._decoded_bytes

    @property
    def known_bytes(self) -> int:
        """Estimated memory of the open pages, in bytes."""
        pages = [page.known_bytes for page in self._pages if page is not None]
        joined = () if self._runs is None else self._runs[1]
        return (
            COLUMN_BYTES + sum(pages) + sum(run.known_bytes for run in joined if isinstance(run, JoinedPages))
        )

    def direct(
        self, reader: PieceReader, start: int, end: int, list_type: pa.DataType | None
    ) -> list[PageRange] | None:
        """Return the page ranges of rows `[start, end)`; None if the kernel cannot decode one of them.

        `list_type` is the type of the lists around the values.
        """
        if self._runs is None and self.is_known:
            self.join()
        starts, runs = (self.starts, None) if self._runs is None else self._runs
        leaf_type = self._type.arrow_type
        number = bisect_right(starts, start) - 1
        found = []
        while start < end:
            first, stop = starts[number], end
            if number + 1 < len(starts) and starts[number + 1] < end:
                stop = starts[number + 1]
            pages = None if runs is None else self._direct[number]
            if pages is None:
                with self._located(self.page_number(start)):
                    page = self._page(number) if runs is None else runs[number]
                    pages = page.direct(self._file.read_ranges)
                if pages is None:
                    return None
                if runs is not None:
                    self._direct[number] = pages
            if start < stop:
                found.append(PageRange(pages, reader, start - first, stop - first, leaf_type, list_type))
            start = stop
            number += 1
        return found

    @property
    def num_pages(self) -> int:
        return len(self._pages)

    @property
    def row_starts(self) -> memoryview:
        """First row of each page, and the number of rows, as int64."""
        return np.array(self.starts, np.int64).data

    def page_to_take(self, number: int) -> MiniBlocks | None:
        """Return a page for the kernel that takes rows by itself; None if it cannot take them."""
        with self._located(number):
            page = self._page(number).direct(self._file.read_ranges)
        return page if page is not None and page.can_take else None

    def in_one_page(self, start: int, end: int) -> bool:
        """Return whether one page has all rows `[start, end)`."""
        return end <= self.starts[bisect_right(self.starts, start)]

    def page_number(self, row: int) -> int:
        """Return the number of the page that has a row."""
        return bisect_right(self.starts, row) - 1

    def index_ranges(self, start: int, end: int) -> Sequence[tuple[int, int]]:
        """Return the byte ranges of what finds rows in the page of rows `[start, end)`; none if it was read,
        or if all of the page will be read.
        """
        number = self.page_number(start)
        is_whole = start == self.starts[number] and end == self.starts[number + 1]
        return () if is_whole else self._page(number).index_ranges

    def learn(self, start: int, buffers: Sequence[pa.Buffer]) -> None:
        """Keep the bytes of `index_ranges`."""
        number = self.page_number(start)
        with self._located(number):
            self._page(number).learn(buffers)

    def plan(self, start: int, end: int) -> PageRead:
        """Plan to read rows of one page."""
        number = self.page_number(start)
        first = self.starts[number]
        page = self._page(number)
        with self._located(number):
            return page.plan(self._file.read_ranges, start - first, end - first)

    def plain_bytes(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the place of plain rows of one page; see `Page.plain_bytes`."""
        if not self.in_one_page(start, end):
            return None
        number = self.page_number(start)
        first = self.starts[number]
        return self._page(number).plain_bytes(start - first, end - first)

    def decode(self, read: PageRead, buffers: list[pa.Buffer], start: int) -> LeafSlice:
        """Decode the bytes of a planned read of rows from `start` on."""
        with self._located(self.page_number(start)):
            return read.decode(buffers)

    def pick(self, rows: Rows) -> Picking[LeafSlice]:
        """Take rows of one page."""
        number = self.page_number(int(rows[0]))
        page = self._page(number)
        first = self.starts[number]
        with self._located(number):
            return (yield from page.pick(self._file.read_ranges, rows - first if first else rows))

    @property
    def is_known(self) -> bool:
        """Whether every page has read the data for finding rows."""
        return all(page is not None and page.is_indexed for page in self._pages)

    def join(self) -> Sequence[int]:
        """Join consecutive pages that can be joined, for `pick_joined`. All pages have to be known.

        Returns the first row of each run of joined pages, and the number of rows.
        """
        number, starts = 0, []
        runs: list[Page | JoinedPages] = []
        for run in runs_alike([self._page(number) for number in range(len(self._pages))]):
            starts.append(self.starts[number])
            number += len(run)
            runs.append(JoinedPages(run) if len(run) > 1 else run[0])
        self._direct = [None] * len(runs)
        self._runs = starts, runs
        return [*starts, self.num_rows]

    def pick_joined(self, rows: Rows) -> Picking[LeafSlice]:
        """Take rows of one run of joined pages. Errors do not name a page."""
        assert self._runs is not None
        starts, runs = self._runs
        number = bisect_right(starts, int(rows[0])) - 1
        first = starts[number]
        return runs[number].pick(self._file.read_ranges, rows - first if first else rows)

    def _page(self, number: int) -> Page:
        page = self._pages[number]
        if page is None:
            with self._located(number):
                page = open_page(self._column.pages[number], self._type)
            with self._lock:
                # Two threads may open the same page. Only one object is kept, so that its chunk index is kept
                # once.
                page = self._pages[number] = self._pages[number] or page
        return page

    def _located(self, number: int) -> located:
        """Return the context that adds file, column and page to errors."""
        return located(self._file.name, self.name, number)


def _union(rows: Iterable[Sequence[int]]) -> Rows:
    return np.array(sorted({row for some in rows for row in some}), np.int64)
