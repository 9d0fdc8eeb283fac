"""How the work of a scan is cut: windows of batches for a stream, pieces of columns for a table.

The batches of a stream are cut by estimates that the metadata gives, and by nothing else; so they are the
same however many of them are decoded together.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lance_core.scan.cuts import cut_rows
from lance_core.scan.fragment import FragmentOpener, FragmentReader
from lance_core.scan.options import ScanOptions
from lance_core.scan.plan import ScanPlan
from lance_core.scan.readahead import Read
from lance_core.scan.sizes import Counts

# Batches that begin at a byte of every validity bitmap are sent without shifting bits.
_BATCH_MULTIPLE = 64
# Mini-blocks hold a power of two of at most this many rows of a flat column (Lance file format 2.1,
# section 5): pieces that begin between two blocks decode none of them twice.
_PIECE_MULTIPLE = 4096
# What one thread reads of one column for a table.
_PIECE_BYTES = 16 << 20


@dataclass(frozen=True)
class Window:
    """All columns of a range of rows.

    Attributes:
        reads: One per column.
        cuts: Where batches begin and end, counted in live rows of the window, first and last included.
    """

    reads: tuple[Read, ...]
    cuts: Counts


class Windows:
    """The windows of a stream, as large as they are asked for."""

    def __init__(self, plan: ScanPlan, opener: FragmentOpener) -> None:
        self._plan = plan
        self._opener = opener
        self._fragments = self._open_fragments()
        self._batches = next(self._fragments, None)

    def is_ready(self) -> bool:
        return True

    def take(self, num_bytes: int) -> Window | None:
        """The next window of about `num_bytes`, at least one batch; `None` at the end."""
        while self._batches is not None:
            window = self._batches.take(num_bytes)
            if window is not None:
                return window
            self._batches = next(self._fragments, None)
        return None

    def _open_fragments(self) -> Iterator[_FragmentBatches]:
        for fragment in self._opener.open_all(self._plan.tasks):
            yield _FragmentBatches(fragment, self._plan.options)


class _FragmentBatches:
    """The batches of one fragment and which of them were taken."""

    def __init__(self, fragment: FragmentReader, options: ScanOptions) -> None:
        self._fragment = fragment
        self._widths = [column.bytes_per_row for column in fragment.columns]
        self._width = max(sum(self._widths), 0.125)
        widest = fragment.columns[self._widths.index(max(self._widths))]
        pieces = cut_rows(
            widest.page_rows,
            fragment.start,
            fragment.end,
            rows_per_piece=max(1, int(options.batch_bytes / self._width / fragment.live_share)),
            most_rows=options.batch_rows,
            multiple=_BATCH_MULTIPLE,
        )
        self._edges = [fragment.start, *(end for _, end in pieces)]
        self._taken = 0

    def take(self, num_bytes: int) -> Window | None:
        """The next batches that make `num_bytes`, at least one; `None` when all are taken."""
        while self._taken < len(self._edges) - 1:
            first = self._taken
            last_row = self._edges[first] + int(num_bytes / self._width)
            self._taken = max(first + 1, bisect_right(self._edges, last_row) - 1)
            window = self._window(self._edges[first : self._taken + 1])
            if window.cuts[-1] > 0:
                return window
        return None

    def _window(self, edges: list[int]) -> Window:
        live_rows = self._fragment.live_rows_before(np.array(edges))
        start, end = edges[0], edges[-1]
        reads = (
            Read(self._fragment, column, start, end, int(width * (end - start)) + 1)
            for column, width in enumerate(self._widths)
        )
        return Window(tuple(reads), live_rows - live_rows[0])


@dataclass(frozen=True)
class Pieces:
    """Reads for a table, which are worth a thread together."""

    reads: tuple[Read, ...]


class TablePieces:
    """The pieces of a table, fragment by fragment, column by column; each column is cut at its own pages."""

    def __init__(self, plan: ScanPlan, opener: FragmentOpener) -> None:
        self._plan = plan
        self._opener = opener
        self._reads = self._all_reads()

    def is_ready(self) -> bool:
        return True

    def take(self, num_bytes: int) -> Pieces | None:
        """The next pieces, at least `num_bytes` of them; `None` at the end."""
        reads: list[Read] = []
        left = num_bytes
        while left > 0 and (read := next(self._reads, None)) is not None:
            reads.append(read)
            left -= read.num_bytes
        return Pieces(tuple(reads)) if reads else None

    def _all_reads(self) -> Iterator[Read]:
        for fragment in self._opener.open_all(self._plan.tasks):
            for index, column in enumerate(fragment.columns):
                width = max(column.bytes_per_row, 0.125)
                for start, end in cut_rows(
                    column.page_rows,
                    fragment.start,
                    fragment.end,
                    rows_per_piece=max(1, int(_PIECE_BYTES / width)),
                    most_rows=None,
                    multiple=_PIECE_MULTIPLE,
                ):
                    yield Read(fragment, index, start, end, int(width * (end - start)) + 1)
