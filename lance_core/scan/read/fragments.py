"""Fragments opened for a projection: readers of row ranges of their columns, without deleted rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import overload

import numpy as np
import pyarrow as pa

from lance_core.pool import map_ahead
from lance_core.process.derived import Derived
from lance_core.scan.files.data_files import DataFiles, FragmentFiles
from lance_core.scan.files.opened import ProjectedColumns
from lance_core.scan.plan.projection import (
    ROW_ADDRESS,
    ROW_ID,
    ComputedColumn,
    DataColumn,
    Projection,
    RowColumn,
)
from lance_core.scan.plan.scan_plan import FragmentScan
from lance_core.scan.read.columns import (
    Column,
    ExpressionColumn,
    Parts,
    find_parts,
    open_column,
)
from lance_core.scan.read.live_rows import LiveRows, Offsets, places
from lance_core.scan.read.page_trace import Trace
from lance_core.scan.read.row_columns import LiveColumn, RowColumns
from lance_core.schema.blobs import describe_blobs
from lance_core.schema.fields import Field
from lance_core.schema.physical_columns import leaves
from lance_core.table.fragment import Fragment, HeldFields
from lance_core.table.snapshot import Snapshot


class FragmentReader:
    """The projected columns of one fragment.

    Attributes:
        scan: The fragment scan: which live rows are read.
        columns: In output order.
        start, end: The physical rows with the live rows of the fragment scan.
        live_share: The share of live rows among them, above 0.
    """

    def __init__(self, scan: FragmentScan, live: LiveRows, columns: Sequence[Column]) -> None:
        self.scan = scan
        self.columns = columns
        self.start, self.end = live.physical_range(scan.start, scan.end)
        self.live_share = (scan.end - scan.start) / (self.end - self.start)
        self._live = live

    def first_columns(self, count: int) -> FragmentReader:
        """Return the reader of the first columns alone."""
        if count == len(self.columns):
            return self
        return FragmentReader(self.scan, self._live, self.columns[:count])

    def live_rows_before(self, rows: Offsets) -> Offsets:
        """Return the number of live rows before each physical row."""
        return self._live.live_rows_before(rows)

    def physical_rows(self, live: Offsets) -> Offsets:
        """Return the physical row numbers of live-row numbers of the fragment."""
        return self._live.physical_rows(live)

    def num_live_rows(self, start: int, end: int) -> int:
        """Return the number of live rows of the physical range `[start, end)`."""
        return self._live.num_live(start, end)

    def live_rows(self, start: int, end: int) -> Offsets:
        """Return the numbers of the live rows of the physical range `[start, end)`."""
        return self._live.live_between(start, end)

    def only_live(self, rows: Offsets) -> Offsets:
        """Return ascending physical rows without the deleted rows."""
        return self._live.only_live(rows)

    def rows_at(self, start: int, mask: pa.BooleanArray) -> Offsets:
        """Return the numbers of those live rows from the physical row `start` on for which a mask is true."""
        return self._live.physical_rows(places(mask, self._live.num_live(0, start)))

    def read(self, column: int, start: int, end: int) -> list[pa.Array]:
        """Return the live rows of the physical range `[start, end)` of one column."""
        return self.live(self.columns[column].read(start, end), start)

    def live(self, arrays: list[pa.Array], start: int) -> list[pa.Array]:
        """Drop the deleted rows from arrays, whose rows are the physical rows from `start` on."""
        return self._live.drop_deleted(arrays, start)


class FragmentOpener:
    """Opener of the fragments of one scan.

    `trace` records the pages that are read. With `deleted`, deleted rows are read like live rows, but their
    row ids and row addresses are null.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        projection: Projection,
        files: DataFiles,
        trace: Trace | None = None,
        *,
        deleted: bool = False,
    ) -> None:
        self._snapshot = snapshot
        self._trace = trace
        self._reads_deleted = deleted
        self._projection = projection
        self._files = files
        self._row_columns = RowColumns(snapshot, files)
        self._fragments = snapshot.manifest.fragment_by_id
        self._parts: dict[tuple[HeldFields, ...], dict[tuple[Field, tuple[int, ...]], Parts]] = {}
        """Files of each field and path, for fragments whose files have the same fields: few combinations."""
        self._first = _first_stored.of(projection)

    def fragment(self, scan: FragmentScan) -> Fragment:
        """Return the fragment of a fragment scan, as the manifest describes it."""
        return self._fragments[scan.fragment_id]

    @property
    def is_remote(self) -> bool:
        """Whether the files are in a remote store."""
        return self._snapshot.storage.is_remote

    def open_all(self, scans: Iterable[FragmentScan]) -> Iterator[FragmentReader]:
        """Yield the reader of each fragment scan, in order; see `open`. Remote fragments are opened ahead."""
        return map_ahead(self.open, scans, self.is_remote)

    def open(self, scan: FragmentScan, files: FragmentFiles | None = None) -> FragmentReader:
        """Open the files that a fragment scan needs, and read the deletions of the fragment.

        `files` has the files of the fragment, if the caller opens them, too.

        Raises:
            LanceError: a file is missing, corrupt, or of an unsupported kind.
        """
        fragment = self.fragment(scan)
        live = LiveRows(fragment.physical_rows, self._files.deletions(self._snapshot, fragment))
        columns = self.open_columns(fragment.id, live, files)
        if self._reads_deleted:
            live = LiveRows(fragment.physical_rows, np.array([], np.uint32))
        return FragmentReader(scan, live, columns)

    def open_columns(
        self, fragment_id: int, live: LiveRows, files: FragmentFiles | None = None
    ) -> Sequence[Column]:
        """Return the projected columns of a fragment, deleted rows included.

        Each column is opened when it is first needed, with the errors of `open`: a scan with a filter needs
        most columns only in fragments with matching rows. Columns of remote files are opened here, because
        callers open several fragments at a time.
        """
        fragment = self._fragments[fragment_id]
        files = files or FragmentFiles(self._snapshot, fragment, self._files)
        projected = self._projected(files)
        known = None if projected is None else projected.get(self._projection, files.data_files[0].held)
        if known is None:
            known = [None] * len(self._projection.columns)
            if projected is not None:
                projected.keep(self._projection, files.data_files[0].held, known)
        columns = _Columns(known, partial(self._open_column, fragment, live, files))
        if self._trace is None:
            return tuple(columns) if self.is_remote else columns
        return tuple(
            self._trace.follow(fragment_id, shown.output.name, column)
            for shown, column in zip(self._projection.columns, columns, strict=True)
        )

    def _projected(self, files: FragmentFiles) -> ProjectedColumns | None:
        """Return the kept columns of the only file of a fragment; None if the projection may not need it, or
        needs more.
        """
        if self._first is None or len(files.data_files) != 1:
            return None
        (data_file,) = files.data_files
        return files.open(data_file).projected if self._first in data_file.held.columns else None

    def _open_column(self, fragment: Fragment, live: LiveRows, files: FragmentFiles, number: int) -> Column:
        """Open the projected column with this number."""
        return self._opened(self._projection.columns[number], fragment, live, files)

    # This is a method, because a nested function that calls itself is a reference cycle: it would keep the
    # files of the fragment open until the garbage collector runs.
    def _opened(
        self,
        column: DataColumn | RowColumn | ComputedColumn,
        fragment: Fragment,
        live: LiveRows,
        files: FragmentFiles,
    ) -> Column:
        if isinstance(column, RowColumn):
            name = column.output.name
            numbers = self._row_columns.open(name, fragment, live)
            is_hidden = self._reads_deleted and name in (ROW_ID, ROW_ADDRESS)
            return LiveColumn(numbers, live) if is_hidden else numbers
        if isinstance(column, ComputedColumn):
            inputs = {read.output.name: self._opened(read, fragment, live, files) for read in column.inputs}
            return ExpressionColumn(column, fragment.physical_rows, inputs)
        held = tuple([data_file.held for data_file in files.data_files])
        parts = self._parts.setdefault(held, {})
        key = column.field, column.path
        found = parts.get(key)
        if found is None:
            whole = self._snapshot.manifest.schema.field_by_id[column.field.id]
            found = parts[key] = find_parts(column, describe_blobs(whole), held)
        return open_column(column, files, found, None if self._reads_deleted else live)


class _Columns(Sequence[Column]):
    """Columns that are opened when they are first asked for. `known` has those that are open, and gets the
    others.
    """

    def __init__(self, known: list[Column | None], open_number: Callable[[int], Column]) -> None:
        self._known = known
        self._open = open_number

    def __len__(self) -> int:
        return len(self._known)

    @overload
    def __getitem__(self, index: int) -> Column: ...
    @overload
    def __getitem__(self, index: slice) -> list[Column]: ...
    def __getitem__(self, index: int | slice) -> Column | list[Column]:
        if isinstance(index, slice):
            columns = self._known[index]
            opened = [column for column in columns if column is not None]
            if len(opened) == len(columns):
                return opened
            return [self[number] for number in range(len(self))[index]]
        column = self._known[index]
        if column is None:  # two threads may open a column; the results are equal
            column = self._known[index] = self._open(index)
        return column

    def __iter__(self) -> Iterator[Column]:
        return iter(self[:])


def _find_first_stored(projection: Projection) -> int | None:
    """Return the id of a field that data files have for a projection of stored columns alone, without values
    of blobs, whose columns keep their fragment; None for other projections.
    """
    columns = [
        column for column in projection.columns if isinstance(column, DataColumn) and column.described is None
    ]
    if not columns or len(columns) < len(projection.columns):
        return None
    return leaves(columns[0].field)[0].id


# Callers repeat projections.
_first_stored: Derived[Projection, int | None] = Derived(_find_first_stored)
