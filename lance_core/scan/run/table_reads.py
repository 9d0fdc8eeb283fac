"""Reads for a table: each column is divided at its own pages, since no batches have to be cut."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lance_core.process.counters import note_rows
from lance_core.process.deferred import Lookahead
from lance_core.scan.plan.scan_plan import ScanPlan
from lance_core.scan.read.fragments import FragmentOpener
from lance_core.scan.run.page_cuts import cut_rows
from lance_core.scan.run.readahead import ColumnRead, Source

# A mini-block of a flat column has at most this many rows, a power of two (docs/format.md, "Mini-block
# pages"). Two reads that meet between two mini-blocks decode neither of them twice.
_READ_MULTIPLE = 4096
# Decoded bytes of one read.
_READ_BYTES = 16 << 20
# Most fragments of one job, whose metadata are in memory together.
_MOST_FRAGMENTS = 16


@dataclass(frozen=True)
class TableReads:
    """Reads that are worth a job together."""

    reads: tuple[ColumnRead, ...]


class TableSource(Source[TableReads]):
    """The reads of a table, fragment by fragment, column by column."""

    def __init__(self, plan: ScanPlan, opener: FragmentOpener) -> None:
        self._plan = plan
        self._opener = opener
        self._reads = Lookahead(self._all_reads())

    def take(self, num_bytes: int) -> TableReads | None:
        """Return the next reads, of about `num_bytes` together; None at the end."""
        reads: list[ColumnRead] = []
        fragments: set[int] = set()
        while num_bytes > 0 and (read := self._reads.peek(in_turn=not reads)) is not None:
            fragments.add(read.fragment.scan.fragment_id)
            if len(fragments) > _MOST_FRAGMENTS:
                break
            self._reads.take()
            reads.append(read)
            num_bytes -= read.num_bytes
        return TableReads(tuple(reads)) if reads else None

    def _all_reads(self) -> Iterator[ColumnRead]:
        for fragment in self._opener.open_all(self._plan.fragment_scans):
            note_rows(fragment.scan.fragment_id, 1, fragment.end - fragment.start)
            for index, column in enumerate(fragment.columns):
                bytes_per_row = max(column.bytes_per_row, 0.125)
                for start, end in cut_rows(
                    column.page_rows,
                    fragment.start,
                    fragment.end,
                    aimed_rows=max(1, int(_READ_BYTES / bytes_per_row)),
                    growth=1.5,
                    most_rows=None,
                    multiple=_READ_MULTIPLE,
                ):
                    yield ColumnRead(fragment, index, start, end, int(bytes_per_row * (end - start)) + 1)
