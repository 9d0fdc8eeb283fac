"""Pruning: the rows that may match a filter according to indices and statistics, and the conditions that
remain for them.

No data page is read here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.expressions.tree import Expression, Path, columns, conjuncts
from lance_core.pool import map_ahead
from lance_core.scan.files.data_files import DataFiles, FragmentFiles
from lance_core.scan.plan.indices import FilterMasks
from lance_core.scan.plan.statistics import FragmentStatistics, Gatherer, statistics_of
from lance_core.statistics.prune import Pruning
from lance_core.table.fragment import Fragment
from lance_core.table.snapshot import Snapshot

Range = tuple[int, int]
Offsets = npt.NDArray[np.int64]

# With more rows from indices, statistics of the conditions that are left are worth reading.
_FEW_ROWS = 4096
# If runs of consecutive rows are this long on average, they are candidate ranges of their own.
_DENSE_RUN = 64


@dataclass(frozen=True)
class CandidateRange:
    """Physical rows `[start, end)` of a fragment that may match.

    Attributes:
        conjuncts: Numbers of the filter's conjuncts that have to be evaluated; the others are true.
        rows: The rows that may match, ascending; None means all rows of the range.
    """

    start: int
    end: int
    conjuncts: tuple[int, ...]
    rows: Offsets | None = None

    @property
    def num_rows(self) -> int:
        """Number of rows that may match."""
        return self.end - self.start if self.rows is None else len(self.rows)

    def between(self, start: int, end: int) -> CandidateRange | None:
        """Return the candidate range inside the physical range `[start, end)`; None if it is empty."""
        start, end = max(self.start, start), min(self.end, end)
        if start >= end:
            return None
        if self.rows is None:
            return CandidateRange(start, end, self.conjuncts)
        first, last = np.searchsorted(self.rows, (start, end))
        return CandidateRange(start, end, self.conjuncts, self.rows[first:last]) if last > first else None


@dataclass(frozen=True)
class Kept:
    """Candidate ranges of one fragment, and the origin of the statistics: "file", "cache" or "none"."""

    candidates: tuple[CandidateRange, ...]
    source: str = "none"

    def between(self, start: int, end: int) -> list[CandidateRange]:
        """Return the candidate ranges inside the physical range `[start, end)`."""
        inside = (candidate.between(start, end) for candidate in self.candidates)
        return [candidate for candidate in inside if candidate is not None]


class Pruner:
    """Pruner of the fragments of one snapshot for one filter.

    Args:
        enabled: If False, no row is pruned and no statistics are gathered.
        masks: The rows that indices found.
        only_indexed: Whether fragments that the indices do not cover are left out.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        condition: Expression,
        files: DataFiles,
        *,
        enabled: bool = True,
        masks: FilterMasks | None = None,
        only_indexed: bool = False,
    ) -> None:
        self._snapshot = snapshot
        self._files = files
        self._conjuncts = conjuncts(condition)
        self._paths = columns(condition) if enabled else ()
        self._masks = masks
        self._found = None if masks is None else masks.found
        self._only_indexed = only_indexed

    def keep(self, fragment: Fragment) -> Kept:
        """Return the rows of a fragment that may match.

        Raises:
            LanceError: a file cannot be opened, or its statistics contradict the format.
        """
        return self.keep_all([fragment])[0]

    def keep_all(
        self,
        fragments: Sequence[Fragment],
        is_remote: bool = False,
        opened: dict[int, FragmentFiles] | None = None,
    ) -> list[Kept]:
        """Prune several fragments in one step; see `keep`.

        `opened` gets the files of the fragments that are not pruned as a whole. Errors are those of `keep`.
        """
        indexed = [self._indexed(fragment) for fragment in fragments]
        rest = [fragment for fragment, known in zip(fragments, indexed, strict=True) if known is None]
        pruned = iter(self._by_statistics(rest, is_remote, opened) if rest else ())
        kept = [next(pruned) if known is None else known for known in indexed]
        if opened is not None and len(rest) < len(fragments):
            for fragment, known in zip(fragments, kept, strict=True):
                if known.candidates and fragment.id not in opened:
                    opened[fragment.id] = FragmentFiles(self._snapshot, fragment, self._files)
        return kept

    def _indexed(self, fragment: Fragment) -> Kept | None:
        """Return the rows of a fragment that indices found; None if statistics may leave out more."""
        if self._masks is None or self._found is None:
            return None
        rows = self._found.offsets(fragment.id)
        if rows is None:
            return Kept(()) if self._only_indexed else None
        waiting = self._masks.open_conditions(fragment.id)
        if waiting and len(rows) > _FEW_ROWS:
            return None
        return Kept(tuple(_ranges(rows, waiting)))

    def _narrowed(self, fragment: Fragment, candidates: list[CandidateRange]) -> list[CandidateRange]:
        """Return the parts of candidate ranges that indices found."""
        rows = None if self._found is None else self._found.offsets(fragment.id)
        if rows is None or self._masks is None:
            return candidates
        waiting = set(self._masks.open_conditions(fragment.id))
        narrowed: list[CandidateRange] = []
        for candidate in candidates:
            first, last = np.searchsorted(rows, (candidate.start, candidate.end))
            left = tuple(number for number in candidate.conjuncts if number in waiting)
            narrowed += _ranges(rows[first:last], left)
        return narrowed

    def _by_statistics(
        self,
        fragments: Sequence[Fragment],
        is_remote: bool,
        opened: dict[int, FragmentFiles] | None,
    ) -> list[Kept]:
        files = [FragmentFiles(self._snapshot, fragment, self._files) for fragment in fragments]
        known = list(
            map_ahead(lambda pair: self._statistics(*pair), zip(fragments, files, strict=True), is_remote)
        )
        starts = [0, *accumulate(fragment.physical_rows for fragment in fragments)]
        tables = {path: _joined(path, known, starts) for path in self._paths}
        tables = {path: table for path, table in tables.items() if table is not None}
        pruning = Pruning(tables, starts[-1])
        decided = [pruning.decide(conjunct) for conjunct in self._conjuncts]
        candidates: list[list[CandidateRange]] = [[] for _ in fragments]
        for candidate in _candidates(decided, starts):
            number = bisect_right(starts, candidate.start) - 1
            first = starts[number]
            candidates[number].append(
                CandidateRange(candidate.start - first, candidate.end - first, candidate.conjuncts)
            )
        candidates = [
            self._narrowed(fragment, mine) for fragment, mine in zip(fragments, candidates, strict=True)
        ]
        if opened is not None:
            left = zip(fragments, files, candidates, strict=True)
            opened |= {fragment.id: mine for fragment, mine, some in left if some}
        return [Kept(tuple(mine), found.source) for mine, found in zip(candidates, known, strict=True)]

    def _statistics(self, fragment: Fragment, files: FragmentFiles) -> FragmentStatistics:
        return statistics_of(self._snapshot, fragment, self._paths, self._files, files)

    def gatherer(self, fragment: Fragment, opened: FragmentFiles) -> Gatherer:
        """Return the gatherer of statistics from rows of a fragment that the filter decodes."""
        return Gatherer(self._snapshot, fragment, self._paths, self._files, opened)


def _ranges(rows: Offsets, waiting: tuple[int, ...]) -> Iterator[CandidateRange]:
    """Yield candidate ranges for ascending rows: whole ranges if most rows of a range are wanted."""
    if not len(rows):
        return
    breaks = np.flatnonzero(np.diff(rows) > 1) + 1
    if len(rows) < _DENSE_RUN * (len(breaks) + 1):
        yield CandidateRange(int(rows[0]), int(rows[-1]) + 1, waiting, rows)
        return
    firsts, lasts = rows[np.append(0, breaks)], rows[np.append(breaks, len(rows)) - 1] + 1
    for start, end in zip(firsts.tolist(), lasts.tolist(), strict=True):
        yield CandidateRange(start, end, waiting)


def _joined(path: Path, known: Sequence[FragmentStatistics], starts: Sequence[int]) -> pa.Table | None:
    """Return the statistics of a column of several fragments; None if no fragment has any.

    Rows of the second fragment are counted on from the rows of the first, and so on.
    """
    found = [
        (statistics.tables[path], start, end)
        for statistics, (start, end) in zip(known, pairwise(starts), strict=True)
        if path in statistics.tables
    ]
    if not found:
        return None
    if len(known) == 1:
        return found[0][0]
    table = pa.concat_tables([part for part, _, _ in found])
    sizes = [len(part) for part, _, _ in found]
    begins, ends = (np.repeat([rows[side] for _, *rows in found], sizes) for side in (0, 1))
    # Statistics that claim to describe more rows than the fragment has must not reach into the next one.
    first = np.minimum(np.asarray(table["first_row"]) + begins, ends)
    rows = np.minimum(np.asarray(table["rows"]), ends - first)
    columns = dict(zip(table.column_names, table.columns, strict=True))
    columns |= {"first_row": pa.array(first), "rows": pa.array(rows)}
    return pa.table(columns, schema=table.schema)


def _candidates(
    decided: Sequence[tuple[Sequence[Range], Sequence[Range]]], starts: Sequence[int]
) -> list[CandidateRange]:
    """Return the rows in which every conjunct may be true, divided where other conjuncts are undecided.

    `starts` has the first row of each fragment, and the number of all rows. No candidate range crosses one of
    these rows.
    """
    ranges = [pair for kept, sure in decided for pair in (*kept, *sure)]
    edges = np.unique([*starts, *(edge for pair in ranges for edge in pair)])
    begins = edges[:-1]
    is_kept = np.logical_and.reduce([_covers(kept, begins) for kept, _ in decided])
    in_doubt = np.array([~_covers(sure, begins) for _, sure in decided])
    borders = set(starts)
    candidates: list[CandidateRange] = []
    for place in np.flatnonzero(is_kept).tolist():
        asked = tuple(np.flatnonzero(in_doubt[:, place]).tolist())
        start, end = int(edges[place]), int(edges[place + 1])
        if (
            candidates
            and start not in borders
            and candidates[-1].end == start
            and candidates[-1].conjuncts == asked
        ):
            start = candidates.pop().start
        candidates.append(CandidateRange(start, end, asked))
    return candidates


def _covers(ranges: Sequence[Range], rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return whether each row is in one of the sorted ranges."""
    if not ranges:
        return np.zeros(len(rows), dtype=bool)
    starts, ends = np.array(ranges).T
    place = np.searchsorted(starts, rows, side="right") - 1
    inside: npt.NDArray[np.bool_] = (place >= 0) & (rows < ends[place])
    return inside
