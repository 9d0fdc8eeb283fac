"""Pruning: the rows that may match a filter according to indices and statistics, and the conditions that
remain for them.

No data page is read here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from weakref import ref

import numpy as np
import numpy.typing as npt

from lance_core.expressions.tree import Expression, columns, conjuncts
from lance_core.kernels import candidate_ranges
from lance_core.scan.files.data_files import DataFiles, FragmentFiles
from lance_core.scan.plan.indices import FilterMasks
from lance_core.scan.plan.statistics import Gatherer, KnownStatistics, Source, TableStatistics
from lance_core.statistics.prune import decide
from lance_core.table.fragment import Fragment
from lance_core.table.snapshot import Snapshot

Offsets = npt.NDArray[np.int64]

# With more rows from indices, statistics of the conditions that are left are worth reading.
_FEW_ROWS = 4096
# Answers of statistics that a process keeps: most answers, and most candidate ranges and fragments of each
# answer.
_MOST_KEPT, _MOST_KEPT_RANGES = 256, 256
# If runs of consecutive rows are this long on average, they are candidate ranges of their own.
_DENSE_RUN = 64


class CandidateRange(NamedTuple):
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
        if start <= self.start < self.end <= end:
            return self
        start, end = max(self.start, start), min(self.end, end)
        if start >= end:
            return None
        if self.rows is None:
            return CandidateRange(start, end, self.conjuncts)
        first, last = np.searchsorted(self.rows, (start, end))
        return CandidateRange(start, end, self.conjuncts, self.rows[first:last]) if last > first else None


@dataclass(frozen=True)
class Kept:
    """Candidate ranges of one fragment, and the origin of the statistics: "file", "cache" or "none".

    `are_complete` says that scans can learn nothing more for the statistics of the filter's columns.
    """

    candidates: tuple[CandidateRange, ...]
    source: str = "none"
    are_complete: bool = False

    def between(self, start: int, end: int) -> list[CandidateRange]:
        """Return the candidate ranges inside the physical range `[start, end)`."""
        inside = [candidate.between(start, end) for candidate in self.candidates]
        return [candidate for candidate in inside if candidate is not None]


class Pruner:
    """Pruner of the fragments of one snapshot for one filter.

    Args:
        enabled: If False, no row is pruned by statistics, and none are gathered.
        asks: If False, no row is pruned by statistics, but they are gathered for other scans.
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
        asks: bool = True,
        masks: FilterMasks | None = None,
        only_indexed: bool = False,
    ) -> None:
        self._snapshot = snapshot
        self._files = files
        self._condition = condition
        self._conjuncts = conjuncts(condition)
        self._asks = enabled and asks
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
        if self._found is None:
            return self._by_statistics(fragments, is_remote, opened) if fragments else []
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

    def _narrowed(self, fragment: Fragment, candidates: Sequence[CandidateRange]) -> Sequence[CandidateRange]:
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
        files: dict[int, FragmentFiles] = {}

        def files_of(fragment: Fragment) -> FragmentFiles:
            found = files.get(fragment.id)
            if found is None:
                found = files[fragment.id] = FragmentFiles(self._snapshot, fragment, self._files)
            return found

        sources: Sequence[Source] = ["none"] * len(fragments)
        are_complete: Sequence[bool] = [False] * len(fragments)
        candidates: Sequence[Sequence[CandidateRange]]
        if self._asks:
            statistics = KnownStatistics(self._snapshot, self._paths, self._files)
            known = statistics.of_all(fragments, files_of, is_remote)
            sources, are_complete = known.sources, known.are_complete
            candidates = self._decided(known)
        else:
            everything = tuple(range(len(self._conjuncts)))
            candidates = [[CandidateRange(0, fragment.physical_rows, everything)] for fragment in fragments]
        if self._found is not None:
            candidates = [
                self._narrowed(fragment, mine) for fragment, mine in zip(fragments, candidates, strict=True)
            ]
        if opened is not None:
            left = [fragment for fragment, some in zip(fragments, candidates, strict=True) if some]
            opened |= {fragment.id: files_of(fragment) for fragment in left}
        return [
            Kept(tuple(mine), source, is_complete)
            for mine, source, is_complete in zip(candidates, sources, are_complete, strict=True)
        ]

    def _decided(self, known: TableStatistics) -> Sequence[Sequence[CandidateRange]]:
        """Return the candidate ranges that statistics leave of each fragment.

        Callers repeat filters. So small answers are kept until other statistics are known.
        """
        number = id(known), id(self._condition)
        kept = _decisions.get(number)
        if kept is not None and kept.known() is known and kept.condition() is self._condition:
            return kept.candidates
        candidates = self._decide(known)
        if sum(map(len, candidates)) + len(candidates) <= _MOST_KEPT_RANGES:
            if len(_decisions) >= _MOST_KEPT:
                _decisions.clear()
            _decisions[number] = _Answer(ref(known), ref(self._condition), candidates)
        return candidates

    def _decide(self, known: TableStatistics) -> list[list[CandidateRange]]:
        decision = decide(self._conjuncts, known.columns)
        candidates: list[list[CandidateRange]] = [[] for _ in known.sources]
        for number, start, end, asked in candidate_ranges(
            decision.kept.data, decision.sure.data, len(decision.kept), decision.edges.data, known.starts
        ):
            candidates[number].append(CandidateRange(start, end, asked))
        return candidates

    def gatherer(self, fragment: Fragment, kept: Kept, opened: FragmentFiles) -> Gatherer:
        """Return the gatherer of statistics from rows of a fragment that the filter decodes.

        `kept` is what this pruner has kept of the fragment.
        """
        paths = () if kept.are_complete else self._paths
        return Gatherer(self._snapshot, fragment, paths, self._files, opened)


class _Answer(NamedTuple):
    """Candidate ranges of each fragment, and the statistics and the condition that they come from.

    References are weak: a list of values in a condition may be large, and so may statistics.
    """

    known: ref[TableStatistics]
    condition: ref[Expression]
    candidates: Sequence[Sequence[CandidateRange]]


# The answers by the identities of their statistics and of their conditions.
_decisions: dict[tuple[int, int], _Answer] = {}


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
