"""One fragment opened for a projection: reads physical row ranges of its columns, deleted rows left out."""

from __future__ import annotations

import pyarrow as pa

from lance_core.scan.columns import Column, open_column
from lance_core.scan.deletions import LiveRows, Offsets, drop_rows
from lance_core.scan.files import FileCache, FragmentFiles
from lance_core.scan.plan import FragmentScan
from lance_core.scan.projection import Projection, RowColumn
from lance_core.scan.row_columns import RowColumns
from lance_core.table.snapshot import Snapshot


class FragmentReader:
    """The projected columns of one fragment.

    Attributes:
        columns: In output order.
        start, end: The physical rows that hold the live rows of the task.
        live_share: The share of live rows among them, above 0.
    """

    def __init__(self, task: FragmentScan, live: LiveRows, columns: tuple[Column, ...]) -> None:
        self.columns = columns
        self.start, self.end = live.physical_range(task.start, task.end)
        self.live_share = (task.end - task.start) / (self.end - self.start)
        self._live = live

    def live_rows_before(self, rows: Offsets) -> Offsets:
        """For each of some physical row numbers how many live rows come before it."""
        return self._live.live_rows_before(rows)

    def read(self, column: int, start: int, end: int) -> list[pa.Array]:
        """The live rows of the physical range `[start, end)` of one column."""
        arrays = self.columns[column].read(start, end)
        deleted = self._live.deleted_between(start, end)
        return drop_rows(arrays, deleted) if len(deleted) else arrays


class FragmentOpener:
    """Opens the fragments of one scan."""

    def __init__(self, snapshot: Snapshot, projection: Projection, files: FileCache) -> None:
        self._snapshot = snapshot
        self._projection = projection
        self._files = files
        self._row_columns = RowColumns(snapshot, files)
        self._fragments = {fragment.id: fragment for fragment in snapshot.manifest.fragments}

    def open(self, task: FragmentScan) -> FragmentReader:
        """Open the files that a task needs, and read its deletions.

        Raises:
            LanceError: a file is missing, corrupt or of a kind that is not supported.
        """
        fragment = self._fragments[task.fragment_id]
        live = LiveRows(fragment.physical_rows, self._snapshot.read_deletions(fragment))
        return FragmentReader(task, live, self.open_columns(fragment.id, live))

    def open_columns(self, fragment_id: int, live: LiveRows) -> tuple[Column, ...]:
        """The projected columns of a fragment, deleted rows included; errors are those of `open`."""
        fragment = self._fragments[fragment_id]
        files = FragmentFiles(self._snapshot, fragment, self._files)
        return tuple(
            self._row_columns.open(column.output.name, fragment, live)
            if isinstance(column, RowColumn)
            else open_column(column, files)
            for column in self._projection.columns
        )
