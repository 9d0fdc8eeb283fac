"""One fragment opened for a projection: reads physical row ranges of its columns, deleted rows left out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.errors import CorruptFileError
from lance_core.scan.columns import Column, NumberColumn, open_column
from lance_core.scan.deletions import LiveRows, drop_rows
from lance_core.scan.files import FileCache
from lance_core.scan.plan import FragmentScan, live_rows
from lance_core.scan.projection import ROW_ADDRESS, ROW_OFFSET, Projection, RowColumn
from lance_core.table.deletions import read_deletions
from lance_core.table.fragment import Fragment
from lance_core.table.row_ids import read_row_ids
from lance_core.table.snapshot import Snapshot


class FragmentReader:
    """The projected columns of one fragment.

    Attributes:
        columns: In output order.
        start, end: The physical rows that hold the live rows of the task.
    """

    def __init__(
        self, snapshot: Snapshot, task: FragmentScan, projection: Projection, files: FileCache
    ) -> None:
        fragment = next(f for f in snapshot.manifest.fragments if f.id == task.fragment_id)
        deleted = read_deletions(snapshot.storage, fragment)
        self._live = LiveRows(fragment.physical_rows, deleted)
        if task.end > self._live.num_rows:
            raise CorruptFileError(
                f"fragment {fragment.id} has fewer live rows than the manifest says",
                expected=task.end,
                found=self._live.num_rows,
            )
        self.start, self.end = self._live.physical_range(task.start, task.end)
        self.columns: tuple[Column, ...] = tuple(
            NumberColumn(
                fragment.physical_rows, _row_numbers(column.output.name, snapshot, fragment, self._live)
            )
            if isinstance(column, RowColumn)
            else open_column(snapshot, fragment, column, files)
            for column in projection.columns
        )

    def read(self, column: int, start: int, end: int) -> list[pa.Array]:
        """The live rows of the physical range `[start, end)` of one column."""
        arrays = self.columns[column].read(start, end)
        deleted = self._live.deleted_between(start, end)
        return drop_rows(arrays, deleted) if len(deleted) else arrays


def _row_numbers(
    name: str, snapshot: Snapshot, fragment: Fragment, live: LiveRows
) -> Callable[[int, int], npt.NDArray[np.integer]]:
    """What gives the values of a row column for physical rows (Lance table format, section 5.1)."""
    if name == ROW_OFFSET:
        before = 0
        for other in snapshot.manifest.fragments:
            if other.id == fragment.id:
                break
            before += live_rows(snapshot, other)
        return lambda start, end: live.live_offsets(start, end) + before
    if name == ROW_ADDRESS or not snapshot.manifest.has_stable_row_ids:
        first = fragment.id << 32
        return lambda start, end: np.arange(first + start, first + end, dtype=np.uint64)
    row_ids = read_row_ids(fragment)
    return lambda start, end: row_ids[start:end]
