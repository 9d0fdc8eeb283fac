"""Values of chosen rows, from decoded arrays or from columns.

If many rows of a range are wanted, decoding the whole range and dropping the other rows is cheaper. If few
are wanted, the column picks single rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.values import concat_arrays, take_values
from lance_core.file.page_ranges import decode_masked, decode_page_ranges
from lance_core.scan.read.columns import Column, StoredColumn
from lance_core.scan.read.live_rows import Offsets, kept_values, places
from lance_core.schema.arrow_values import array_of

# Rows of a block, for which this is decided together: about as many as a few mini-blocks have.
_BLOCK_ROWS = 4096
# Most bytes that are decoded at once if some of the rows are dropped.
_READ_BYTES = 8 << 20
# If fewer values than this are dropped, joining the slices between them is faster than `take`.
_MOST_SLICES = 32


def select_rows(arrays: Sequence[pa.Array], rows: Offsets) -> list[pa.Array]:
    """Return the values at ascending `rows`, which count from the first value of the first array."""
    selected = []
    start = 0
    for array in arrays:
        first, last = np.searchsorted(rows, (start, start + len(array)))
        if last - first == len(array):
            selected.append(array)
        elif last > first:
            selected.append(_select(array, rows[first:last] - start))
        start += len(array)
    return selected


def keep_rows(arrays: Sequence[pa.Array], mask: pa.BooleanArray) -> list[pa.Array]:
    """Return the values for which a mask is true. The mask has no nulls, and starts at the first value."""
    kept = []
    start = 0
    for array in arrays:
        part = mask.slice(start, len(array))
        count = part.true_count
        if count == len(array):
            kept.append(array)
        elif pa.types.is_primitive(array.type):
            kept.append(kept_values(array, part))
        elif count:
            kept.append(_select(array, places(part)))
        start += len(array)
    return [array for array in kept if len(array)]


def read_rows(
    column: Column,
    rows: Offsets,
    dense_share: float | None = None,
    learn: Callable[[int, list[pa.Array]], None] | None = None,
) -> list[pa.Array]:
    """Return the values of a column at strictly ascending physical `rows`, as arrays in order.

    Args:
        dense_share: A block is decoded whole if at least this share of its rows is wanted; by default that
            of the column.
        learn: Called with the first row and the arrays of every range of blocks that is decoded whole.

    Raises:
        LanceError: a page cannot be read.
    """
    if dense_share is None:
        dense_share = column.dense_share
    arrays: list[pa.Array] = []
    for chosen, is_dense in by_density(rows, dense_share, column.page_rows[-1]):
        arrays += read_dense_rows(column, chosen, learn) if is_dense else column.take(chosen)
    return arrays


def read_dense_rows(
    column: Column, rows: Offsets, learn: Callable[[int, list[pa.Array]], None] | None = None
) -> list[pa.Array]:
    """Return the values of a column at ascending physical `rows`. All rows between them are decoded, too.

    `learn` is that of `read_rows`. Without it, a kernel drops the other rows where it decodes them.
    """
    if learn is None and isinstance(column, StoredColumn):
        ranges = column.page_ranges_at(rows, rows_at_once(column))
        found = [] if ranges is None else [one for one in decode_page_ranges(ranges) if one is not None]
        if ranges is not None and len(found) == len(ranges):
            return column.present(found)
    arrays: list[pa.Array] = []
    for some in _divided(rows, rows_at_once(column)):
        first, end = int(some[0]), int(some[-1]) + 1
        if learn is not None:  # whole blocks, so that statistics have no gap between two ranges
            first = first // _BLOCK_ROWS * _BLOCK_ROWS
            end = min(-(-end // _BLOCK_ROWS) * _BLOCK_ROWS, column.page_rows[-1])
        decoded = column.read(first, end)
        if learn is not None:
            learn(first, decoded)
        arrays += select_rows(decoded, some - first)
    return arrays


def read_masked(column: StoredColumn, start: int, mask: pa.BooleanArray) -> list[pa.Array] | None:
    """Return the values of the physical rows from `start` on for which a mask is true, as arrays in order.

    The mask has no nulls. Returns None if no kernel can do so; see `lance_core.file.page_ranges`.
    """
    ranges = column.page_ranges(start, start + len(mask))
    arrays = None if ranges is None else decode_masked(ranges, mask)
    return None if arrays is None else column.present(arrays)


def is_evenly_dense(mask: pa.BooleanArray, dense_share: float) -> bool:
    """Return whether each block of a mask without nulls is decoded whole.

    The caller has found that at least `dense_share` of all rows are wanted. So a block with half of it counts
    as dense, like a block that follows a dense one in `_are_dense`. Blocks begin with the mask here.
    """
    bits = mask.buffers()[1]
    return kernels.has_dense_blocks(bits, mask.offset, len(mask), _BLOCK_ROWS, dense_share / 2)


def rows_at_once(column: Column) -> int:
    """Return how many rows of a column are decoded at once, if some of them are dropped."""
    return max(1, int(_READ_BYTES / max(column.bytes_per_row, 0.125)))


def _divided(rows: Offsets, most_rows: int) -> list[Offsets]:
    """Divide rows into those that are decoded together: all, if no row has to be dropped."""
    if rows[-1] - rows[0] + 1 == len(rows):
        return [rows]
    cuts = np.searchsorted(rows, np.arange(rows[0] + most_rows, rows[-1] + 1, most_rows))
    return [part for part in np.split(rows, cuts) if len(part)]


def by_density(rows: Offsets, dense_share: float, num_rows: int) -> Iterator[tuple[Offsets, bool]]:
    """Yield the rows of consecutive blocks, and whether these blocks are dense: to be decoded whole.

    `num_rows` is the number of rows of the column, whose last block may have fewer rows than the others.
    """
    if not len(rows):
        return
    if dense_share <= 1 and rows[-1] - rows[0] + 1 == len(rows):
        yield rows, True
        return
    blocks = np.arange(rows[0] // _BLOCK_ROWS, rows[-1] // _BLOCK_ROWS + 2)
    edges = np.searchsorted(rows, blocks * _BLOCK_ROWS)
    counts = np.diff(edges)
    sizes = np.minimum(_BLOCK_ROWS, num_rows - blocks[:-1] * _BLOCK_ROWS)
    is_dense = _are_dense(counts, sizes, dense_share)
    # Block numbers at which dense blocks follow blocks that are not, or the other way round.
    changes = np.flatnonzero(is_dense[1:] != is_dense[:-1]) + 1
    for first, last in pairwise([0, *changes.tolist(), len(counts)]):
        if edges[last] > edges[first]:
            yield rows[edges[first] : edges[last]], bool(is_dense[first])


def _are_dense(counts: Offsets, sizes: Offsets, dense_share: float) -> npt.NDArray[np.bool_]:
    """Return whether each block is decoded whole.

    A block whose share is near `dense_share` is read like the block before it. If random rows match, such
    blocks would alternate, and the many short reads would cost more than either way to read all blocks.

    Args:
        counts: Wanted rows of each block.
        sizes: Rows of each block.
    """
    surely = counts >= np.maximum(1, min(2 * dense_share, (1 + dense_share) / 2) * sizes)
    surely_not = counts < np.maximum(1, dense_share / 2 * sizes)
    decided = np.where(surely | surely_not, np.arange(len(counts)), -1)
    latest = np.maximum.accumulate(decided)
    are_dense: npt.NDArray[np.bool_] = np.where(
        latest < 0, counts.sum() >= dense_share * sizes.sum(), surely[latest]
    )
    return are_dense


def _select(array: pa.Array, rows: Offsets) -> pa.Array:
    """Return the values of an array at ascending `rows`."""
    if rows[-1] - rows[0] + 1 - len(rows) >= _MOST_SLICES:
        # `pyarrow.compute.filter` is slower, whatever the share.
        return take_values(array, array_of(rows))
    breaks = np.flatnonzero(np.diff(rows) > 1) + 1
    slices = [
        array.slice(int(rows[first]), last - first)
        for first, last in pairwise([0, *breaks.tolist(), len(rows)])
    ]
    return slices[0] if len(slices) == 1 else concat_arrays(slices)
