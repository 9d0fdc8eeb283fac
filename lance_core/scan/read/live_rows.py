"""Live rows of a fragment: their physical row numbers, and arrays without the deleted rows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.values import as_buffer, concat_arrays, take_values
from lance_core.schema.arrow_values import array_of, bytes_of
from lance_core.table.fragment import MAX_ROWS

Offsets = npt.NDArray[np.int64]

# Up to this many runs of live rows, joining slices (a copy per run) is faster than filtering for every type,
# measured on windows of 100k rows. With more runs `filter` is faster for texts, `take` for nested types.
_MOST_SLICES = 32


def places(mask: pa.BooleanArray, first: int = 0) -> Offsets:
    """Return the places of the true values of a mask without nulls, ascending from `first` on."""
    if not len(mask):
        return np.empty(0, np.int64)
    found = pa.py_buffer(kernels.set_positions(mask.buffers()[1], mask.offset, len(mask), first))
    rows: Offsets = np.frombuffer(found, np.int64)
    return rows


def kept_values(array: pa.Array, mask: pa.BooleanArray) -> pa.Array:
    """Return the values of a primitive type for which a mask without nulls is true."""
    count = mask.true_count
    if not count:
        return array.slice(0, 0)
    (_, bits), (validity, data) = mask.buffers(), array.buffers()
    num_rows, first = len(array), array.offset
    if pa.types.is_boolean(array.type):
        values = kernels.kept_bits(data, first, bits, mask.offset, num_rows)
    else:
        values = kernels.kept_values(bytes_of(array), array.type.bit_width // 8, bits, mask.offset, num_rows)
    are_valid = None
    if array.null_count:
        are_valid = as_buffer(kernels.kept_bits(validity, first, bits, mask.offset, num_rows))
    return pa.Array.from_buffers(array.type, count, [are_valid, as_buffer(values)])


def kept_rows(rows: Offsets, mask: pa.BooleanArray) -> Offsets:
    """Return the row numbers for which a mask without nulls is true."""
    if not len(rows):
        return rows
    found = kernels.kept_values(rows.data, 8, mask.buffers()[1], mask.offset, len(rows))
    kept: Offsets = np.frombuffer(as_buffer(found), np.int64)
    return kept


def joined_rows(parts: Sequence[Offsets]) -> Offsets:
    """Join at least one array of row numbers. There is at least one row number.

    The result is in memory of the pool, since mapping fresh memory takes longer than the copy.
    """
    if len(parts) == 1:
        return parts[0]
    joined: Offsets = np.frombuffer(as_buffer(kernels.Block(8 * sum(map(len, parts)))), np.int64)
    return np.concatenate(parts, out=joined)


class LiveRows:
    """The live rows of a fragment.

    Args:
        physical_rows: Rows of the fragment's data files.
        deleted: Sorted unique physical offsets of deleted rows, all below `physical_rows`.
    """

    def __init__(self, physical_rows: int, deleted: npt.NDArray[np.uint32]) -> None:
        # Fresh memory for wider numbers would take longer than most scans. But they must hold the end, too.
        self._deleted = deleted if physical_rows < MAX_ROWS else deleted.astype(np.int64)
        self._physical_rows = physical_rows
        self.num_rows = physical_rows - len(deleted)

    def physical_range(self, start: int, end: int) -> tuple[int, int]:
        """Return the narrowest physical range with the live rows `[start, end)`."""
        if start >= end:
            return 0, 0
        if not len(self._deleted):
            return start, end
        places = range(len(self._deleted))
        first, last = (
            bisect_right(places, row, key=lambda place: int(self._deleted[place]) - place)
            for row in (start, end - 1)
        )
        return start + first, end + last

    def physical_rows(self, live: Offsets) -> Offsets:
        """Return the physical row numbers of live-row numbers."""
        if not len(self._deleted):
            return live
        return live + self._live_before.searchsorted(self._as_stored(live), side="right")

    def are_live(self, rows: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
        """Return whether each physical row is live. Rows beyond the end count as live."""
        if not len(self._deleted):
            return np.ones(len(rows), np.bool_)
        wanted = self._as_stored(rows)
        places = np.minimum(self._deleted.searchsorted(wanted), len(self._deleted) - 1)
        is_live: npt.NDArray[np.bool_] = self._deleted[places] != wanted
        return is_live

    def only_live(self, rows: Offsets) -> Offsets:
        """Return ascending physical rows without the deleted rows."""
        return rows[self.are_live(rows)] if len(self._deleted) else rows

    def live_rows_before(self, rows: Offsets) -> Offsets:
        """Return the number of live rows before each physical row."""
        if not len(self._deleted):
            return rows
        return rows - self._deleted.searchsorted(self._as_stored(rows))

    def live_offsets(self, start: int, end: int) -> Offsets:
        """Return the number of live rows before each physical row of `[start, end)`."""
        return self.live_rows_before(np.arange(start, end))

    def num_live(self, start: int, end: int) -> int:
        """Return the number of live rows in the physical range `[start, end)`."""
        if not len(self._deleted):
            return end - start
        return end - start - len(self._deleted_between(start, end))

    def live_between(self, start: int, end: int) -> Offsets:
        """Return the live rows in the physical range `[start, end)`."""
        if not len(self._deleted_between(start, end)):
            return np.arange(start, end)
        return places(self._is_live.slice(start, end - start), start)

    def drop_deleted(self, arrays: list[pa.Array], start: int) -> list[pa.Array]:
        """Return arrays, whose rows are the physical rows from `start` on, without the deleted rows."""
        kept = []
        for array in arrays:
            kept.append(self._without_deleted(array, start) if len(self._deleted) else array)
            start += len(array)
        return [array for array in kept if len(array)]

    def _without_deleted(self, array: pa.Array, start: int) -> pa.Array:
        end = start + len(array)
        deleted = self._deleted_between(start, end)
        if not len(deleted):
            return array
        gaps = np.flatnonzero(deleted[1:] - deleted[:-1] > 1)
        if len(gaps) < _MOST_SLICES:
            begins = [start, *(deleted[gaps] + 1).tolist(), int(deleted[-1]) + 1]
            ends = [int(deleted[0]), *deleted[gaps + 1].tolist(), end]
            slices = [
                array.slice(first - start, last - first)
                for first, last in zip(begins, ends, strict=True)
                if first < last
            ]
            return slices[0] if len(slices) == 1 else concat_arrays(slices or [array.slice(0, 0)])
        is_live = self._is_live.slice(start, len(array))
        if pa.types.is_primitive(array.type):
            return kept_values(array, is_live)
        if pa.types.is_nested(array.type):
            return take_values(array, array_of(places(is_live)))
        return array.filter(is_live)

    @cached_property
    def _live_before(self) -> npt.NDArray[np.integer]:
        """Live rows that come before each deleted one."""
        live_before: npt.NDArray[np.integer] = np.arange(len(self._deleted), dtype=self._deleted.dtype)
        np.subtract(self._deleted, live_before, out=live_before)
        return live_before

    @cached_property
    def _is_live(self) -> pa.BooleanArray:
        """Whether each physical row is live."""
        bits = kernels.bits_except(self._deleted.astype(np.uint32, copy=False).data, self._physical_rows)
        return pa.BooleanArray.from_buffers(pa.bool_(), self._physical_rows, [None, as_buffer(bits)])

    def _deleted_between(self, start: int, end: int) -> npt.NDArray[np.integer]:
        if not len(self._deleted):
            return self._deleted
        return self._deleted[bisect_left(self._deleted, start) : bisect_left(self._deleted, end)]

    def _as_stored(self, rows: npt.NDArray[np.integer]) -> npt.NDArray[np.integer]:
        """Return rows in the type of the deleted ones, which a search would otherwise copy."""
        return rows.astype(self._deleted.dtype)
