"""Single rows from readers of row ranges: neighbouring rows are read together, the other rows dropped.

This is for pages from which no single rows can be decoded.
"""

from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.encodings.values import take_values
from lance_core.schema.arrow_values import array_of

Rows = npt.NDArray[np.int64]

# Rows that are at most this many decoded bytes apart are read together: a separate read costs as much as
# decoding about two mini-blocks.
_GAP_BYTES = 64 << 10
# Most decoded bytes of a run of rows that is read at once.
_RUN_BYTES = 16 << 20


class RangeReader(Protocol):
    """Reader of row ranges, such as a column."""

    @property
    def bytes_per_row(self) -> float: ...

    def read(self, start: int, end: int) -> list[pa.Array]: ...


def read_rows(column: RangeReader, rows: Rows) -> list[pa.Array]:
    """Return the values at strictly ascending `rows` of a column, as arrays in order; errors are those of
    `read`.
    """
    if not len(rows):
        return []
    taken = []
    for chosen in np.split(rows, _run_starts(rows, max(column.bytes_per_row, 0.125))):
        first, end = int(chosen[0]), int(chosen[-1]) + 1
        begin = first
        for array in column.read(first, end):
            inside = chosen[np.searchsorted(chosen, begin) : np.searchsorted(chosen, begin + len(array))]
            if len(inside) == len(array):
                taken.append(array)
            elif len(inside):
                taken.append(take_values(array, array_of(inside - begin)))
            begin += len(array)
    return taken


def _run_starts(rows: Rows, bytes_per_row: float) -> Rows:
    """Return the positions in `rows` at which a new run of neighbouring rows begins, without the first."""
    apart = np.diff(rows) > max(1, int(_GAP_BYTES / bytes_per_row))
    is_long = np.diff(rows // max(1, int(_RUN_BYTES / bytes_per_row))) > 0
    return np.flatnonzero(apart | is_long) + 1
