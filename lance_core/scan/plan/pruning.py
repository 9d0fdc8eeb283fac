"""Pruning: the rows that may match a filter according to statistics, and the conditions that remain for them.

No data page is read here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.expressions.tree import Expression, Path, columns, conjuncts
from lance_core.pool import map_ahead
from lance_core.scan.files.data_files import DataFiles, FragmentFiles
from lance_core.scan.plan.statistics import FragmentStatistics, Gatherer, statistics_of
from lance_core.statistics.prune import decide_rows
from lance_core.table.fragment import Fragment
from lance_core.table.snapshot import Snapshot

Range = tuple[int, int]


@dataclass(frozen=True)
class CandidateRange:
    """Physical rows `[start, end)` of a fragment that may match.

    Attributes:
        conjuncts: Numbers of the filter's conjuncts that have to be evaluated; the others are true.
    """

    start: int
    end: int
    conjuncts: tuple[int, ...]


@dataclass(frozen=True)
class Kept:
    """Candidate ranges of one fragment, and the origin of the statistics: "file", "cache" or "none"."""

    candidates: tuple[CandidateRange, ...]
    source: str = "none"

    def between(self, start: int, end: int) -> list[CandidateRange]:
        """Return the candidate ranges inside the physical range `[start, end)`."""
        return [
            CandidateRange(max(candidate.start, start), min(candidate.end, end), candidate.conjuncts)
            for candidate in self.candidates
            if candidate.start < end and candidate.end > start
        ]


class Pruner:
    """Pruner of the fragments of one snapshot for one filter.

    Args:
        enabled: If False, no row is pruned and no statistics are gathered.
    """

    def __init__(
        self, snapshot: Snapshot, condition: Expression, files: DataFiles, *, enabled: bool = True
    ) -> None:
        self._snapshot = snapshot
        self._files = files
        self._conjuncts = conjuncts(condition)
        self._paths = columns(condition) if enabled else ()

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
        files = [FragmentFiles(self._snapshot, fragment, self._files) for fragment in fragments]
        known = list(
            map_ahead(lambda pair: self._statistics(*pair), zip(fragments, files, strict=True), is_remote)
        )
        starts = [0, *accumulate(fragment.physical_rows for fragment in fragments)]
        tables = {path: _joined(path, known, starts) for path in self._paths}
        tables = {path: table for path, table in tables.items() if table is not None}
        decided = [decide_rows(conjunct, tables, starts[-1]) for conjunct in self._conjuncts]
        candidates: list[list[CandidateRange]] = [[] for _ in fragments]
        for candidate in _candidates(decided, starts):
            number = bisect_right(starts, candidate.start) - 1
            first = starts[number]
            candidates[number].append(
                CandidateRange(candidate.start - first, candidate.end - first, candidate.conjuncts)
            )
        if opened is not None:
            left = zip(fragments, files, candidates, strict=True)
            opened |= {fragment.id: mine for fragment, mine, some in left if some}
        return [Kept(tuple(mine), found.source) for mine, found in zip(candidates, known, strict=True)]

    def _statistics(self, fragment: Fragment, files: FragmentFiles) -> FragmentStatistics:
        return statistics_of(self._snapshot, fragment, self._paths, self._files, files)

    def gatherer(self, fragment: Fragment, opened: FragmentFiles) -> Gatherer:
        """Return the gatherer of statistics from rows of a fragment that the filter decodes."""
        return Gatherer(self._snapshot, fragment, self._paths, self._files, opened)


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
