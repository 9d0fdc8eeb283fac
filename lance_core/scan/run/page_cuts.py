"""Division of a range of rows into pieces: a pure function of sizes, so that the result is always the
same.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence


def cut_rows(
    boundaries: Sequence[int],
    start: int,
    end: int,
    *,
    rows_per_piece: int,
    growth: float,
    most_rows: int | None,
    multiple: int,
) -> Iterator[tuple[int, int]]:
    """Cut `[start, end)` into pieces of about `rows_per_piece` rows, at `boundaries` where that fits.

    Rows between two boundaries lie in one array; a piece that stays between them is a slice that costs no
    copy. So neighbouring stretches between boundaries are gathered up to one piece, grown, and a longer
    stretch is divided evenly.

    Args:
        boundaries: Sorted row numbers; those outside the range are ignored.
        rows_per_piece: Aimed number of rows, at least 1.
        growth: How many times as many rows a piece may have so that it fits better.
        most_rows: No piece has more rows. Where this is what limits a piece, pieces have exactly so many.
        multiple: Cuts inside a stretch lie at multiples of this from its start, unless pieces are so small
            that it would change their size by more than an eighth.
    """
    most = max(1, int(rows_per_piece * growth))
    is_limited = most_rows is not None and most_rows <= rows_per_piece
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
                rows = most if is_limited else _even_rows(num_rows, rows_per_piece, most, multiple)
                yield from _divide(first, boundary, rows)
                first = boundary
        last = boundary
    if last > first:
        yield first, last


def _even_rows(num_rows: int, rows_per_piece: int, most: int, multiple: int) -> int:
    rows = -(-num_rows // max(round(num_rows / rows_per_piece), -(-num_rows // most)))
    if rows >= 8 * multiple:
        rows = min(-(-rows // multiple), most // multiple) * multiple
    return rows


def _divide(start: int, end: int, rows: int) -> Iterator[tuple[int, int]]:
    for first in range(start, end, rows):
        yield first, min(first + rows, end)
