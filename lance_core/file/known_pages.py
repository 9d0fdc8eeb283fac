"""Pages of a column from which a kernel takes single rows, found when rows of them are wanted."""

from __future__ import annotations

from collections.abc import Callable

from lance_core.file.row_runs import Rows
from lance_core.kernels import ColumnPages, FlatPage, MiniBlocks, PieceReader


class KnownPages:
    """The pages of a column of a local file that are known by now. Thread-safe.

    Args:
        starts: First row of each page, and the number of rows (int64).
        page_to_take: Returns the description of a page; None if the kernel cannot take rows from it.
    """

    def __init__(
        self,
        starts: memoryview,
        page_to_take: Callable[[int], MiniBlocks | FlatPage | None],
        reader: PieceReader,
    ) -> None:
        self._starts = starts
        self._page_to_take = page_to_take
        self._reader = reader
        self._pages = ColumnPages([None] * (len(starts) - 1), starts, reader)

    def at(self, rows: Rows) -> ColumnPages | None:
        """Return the pages, of which those with `rows` are known; None if rows of one cannot be taken."""
        known = self._pages
        if unknown := known.unknown(rows.data):
            pages = list(known.pages)
            for number in unknown:
                page = self._page_to_take(number)
                if page is None:
                    return None
                pages[number] = page
            # A new object, since other threads may be taking rows with the old one.
            known = self._pages = ColumnPages(pages, self._starts, self._reader)
        return known
