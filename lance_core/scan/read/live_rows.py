"""Live rows of a fragment: their physical row numbers, and arrays without the deleted rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.encodings.values import concat_arrays, take_values

Offsets = npt.NDArray[np.int64]

_NO_ROWS: Offsets = np.array([], np.int64)

# Up to this many runs of live rows, joining slices (a copy per run) is faster than filtering for every type,
# measured on windows of 100k rows. With more runs `filter` is faster for flat types, `take` for nested types.
_MOST_SLICES = 32


class LiveRows:
    """The live rows of a fragment.

    Args:
        physical_rows: Rows of the fragment's data files.
        deleted: Sorted unique physical offsets of deleted rows, all below `physical_rows`.
    """

    def __init__(self, physical_rows: int, deleted: npt.NDArray[np.uint32]) -> None:
        if len(deleted):
            self._deleted = deleted.astype(np.int64)
            # Live rows that come before each deleted one.
            self._live_before = self._deleted - np.arange(len(deleted))
        else:  # of most fragments
            self._deleted = self._live_before = _NO_ROWS
        self.num_rows = physical_rows - len(deleted)

    def physical_range(self, start: int, end: int) -> tuple[int, int]:
        """Return the narrowest physical range with the live rows `[start, end)`."""
        if start >= end:
            return 0, 0
        if not len(self._deleted):
            return start, end
        first, last = np.searchsorted(self._live_before, (start, end - 1), side="right")
        return start + int(first), end + int(last)

    def physical_rows(self, live: Offsets) -> Offsets:
        """Return the physical row numbers of live-row numbers."""
        if not len(self._deleted):
            return live
        return live + np.searchsorted(self._live_before, live, side="right")

    def are_live(self, rows: Offsets) -> npt.NDArray[np.bool_]:
        """Return whether each physical row is live."""
        return ~np.isin(rows, self._deleted)

    def only_live(self, rows: Offsets) -> Offsets:
        """Return ascending physical rows without the deleted rows."""
        if not len(self._deleted):
            return rows
        places = np.minimum(np.searchsorted(self._deleted, rows), len(self._deleted) - 1)
        left: Offsets = rows[self._deleted[places] != rows]
        return left

    def live_rows_before(self, rows: Offsets) -> Offsets:
        """Return the number of live rows before each physical row."""
        if not len(self._deleted):
            return rows
        return rows - np.searchsorted(self._deleted, rows)

    def live_offsets(self, start: int, end: int) -> Offsets:
        """Return the number of live rows before each physical row of `[start, end)`."""
        return self.live_rows_before(np.arange(start, end))

    def deleted_between(self, start: int, end: int) -> Offsets:
        """Return the deleted rows in the physical range `[start, end)`, counted from `start`."""
        if len(self._deleted) == 0:
            return self._deleted
        first, last = np.searchsorted(self._deleted, (start, end))
        return self._deleted[first:last] - start


def drop_rows(arrays: list[pa.Array], deleted: Offsets) -> list[pa.Array]:
    """Remove the rows at the sorted offsets `deleted`, which count from the first row of the first array."""
    kept = []
    start = 0
    for array in arrays:
        first, last = np.searchsorted(deleted, (start, start + len(array)))
        kept.append(_drop(array, deleted[first:last] - start) if last > first else array)
        start += len(array)
    return [array for array in kept if len(array)]


def _drop(array: pa.Array, deleted: Offsets) -> pa.Array:
    edges = np.concatenate(([-1], deleted, [len(array)]))
    starts, lengths = edges[:-1] + 1, np.diff(edges) - 1
    runs = lengths > 0
    if np.count_nonzero(runs) <= _MOST_SLICES:
        slices = [
            array.slice(*run) for run in zip(starts[runs].tolist(), lengths[runs].tolist(), strict=True)
        ]
        return slices[0] if len(slices) == 1 else concat_arrays(slices or [array.slice(0, 0)])
    mask = np.ones(len(array), dtype=bool)
    mask[deleted] = False
    if pa.types.is_nested(array.type):
        return take_values(array, pa.array(np.flatnonzero(mask)))
    return array.filter(pa.array(mask))
