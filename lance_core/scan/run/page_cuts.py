"""Division of a range of rows at the ends of pages. The result follows from its arguments alone."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence


def cut_rows(
    boundaries: Sequence[int],
    start: int,
    end: int,
    *,
    aimed_rows: int,
    growth: float,
    most_rows: int | None,
    multiple: int,
) -> Iterator[tuple[int, int]]:
    """Yield consecutive row ranges of about `aimed_rows` rows that make up `[start, end)`.

    Rows between two boundaries lie in one array, so a range that stays between them is a slice and costs no
    copy. Ranges end at boundaries if that fits their size; longer distances between boundaries are divided
    evenly.

    Args:
        boundaries: Sorted row numbers; those outside `[start, end)` are ignored.
        aimed_rows: Aimed number of rows, at least 1.
        growth: A range may have up to this many times the aimed rows, to end at a boundary.
        most_rows: Most rows of a range. If this is less than `aimed_rows`, ranges have exactly `most_rows`.
        multiple: Between boundaries, cuts lie at multiples of this from the boundary, unless that changes the
            size of ranges by more than an eighth.
    """
    most = max(1, int(aimed_rows * growth))
    is_limited = most_rows is not None and most_rows <= aimed_rows
    if most_rows is not None:
        most = min(most, most_rows)
    inside = boundaries[bisect_right(boundaries, start) : bisect_left(boundaries, end)]
    first = last = start
    for boundary in (*inside, end):
        if boundary - first > most:
            if last > first:
                yield first, last
                first = last
            if boundary - first > most:
                num_rows = boundary - first
                rows = most if is_limited else _even_rows(num_rows, aimed_rows, most, multiple)
                yield from _divide(first, boundary, rows)
                first = boundary
        last = boundary
    if last > first:
        yield first, last


def _even_rows(num_rows: int, aimed_rows: int, most: int, multiple: int) -> int:
    rows = -(-num_rows // max(round(num_rows / aimed_rows), -(-num_rows // most)))
    if rows >= 8 * multiple:
        rows = min(-(-rows // multiple), most // multiple) * multiple
    return rows


def _divide(start: int, end: int, rows: int) -> Iterator[tuple[int, int]]:
    for first in range(start, end, rows):
        yield first, min(first + rows, end)
