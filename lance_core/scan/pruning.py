"""What statistics say about a filter before anything is decoded: the rows that may pass, and what of the
filter has still to be asked of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_core.expressions.tree import Expression, columns, conjuncts
from lance_core.scan.deletions import Offsets
from lance_core.scan.files import FileCache
from lance_core.scan.statistics import Gatherer, statistics_of
from lance_core.statistics.prune import decide_rows
from lance_core.table.fragment import Fragment
from lance_core.table.snapshot import Snapshot

Range = tuple[int, int]


@dataclass(frozen=True)
class Segment:
    """Physical rows `[start, end)` of a fragment that may pass.

    Attributes:
        conjuncts: Which of the filter's conjuncts have to be evaluated, by number; the others are true.
    """

    start: int
    end: int
    conjuncts: tuple[int, ...]


@dataclass(frozen=True)
class Kept:
    """What is left of one fragment, and where the statistics came from: "file", "cache" or "none"."""

    segments: tuple[Segment, ...]
    source: str = "none"

    def between(self, start: int, end: int) -> list[Segment]:
        """The segments inside the physical range `[start, end)`."""
        return [
            Segment(max(segment.start, start), min(segment.end, end), segment.conjuncts)
            for segment in self.segments
            if segment.start < end and segment.end > start
        ]


class Pruner:
    """Prunes the fragments of one snapshot for one filter, and learns about what has to be decoded.

    Args:
        enabled: Without, nothing is pruned and nothing learnt.
    """

    def __init__(
        self, snapshot: Snapshot, condition: Expression, files: FileCache, *, enabled: bool = True
    ) -> None:
        self._snapshot = snapshot
        self._files = files
        self._conjuncts = conjuncts(condition)
        self._paths = columns(condition) if enabled else ()

    def keep(self, fragment: Fragment) -> Kept:
        """What may pass of a fragment; reads no data pages.

        Raises:
            LanceError: a file cannot be opened, or its statistics contradict the format.
        """
        num_rows = fragment.physical_rows
        known = statistics_of(self._snapshot, fragment, self._paths, self._files)
        if not known.tables:
            return Kept((Segment(0, num_rows, tuple(range(len(self._conjuncts)))),))
        decided = []
        for conjunct in self._conjuncts:
            decided.append(decide_rows(conjunct, known.tables, num_rows))
            if not decided[-1][0]:
                return Kept((), known.source)
        return Kept(tuple(_segments(decided, num_rows)), known.source)

    def gatherer(self, fragment: Fragment) -> Gatherer:
        """What is to be told of the rows of a fragment that are decoded for the filter."""
        return Gatherer(self._snapshot, fragment, self._paths, self._files)


def _segments(decided: Sequence[tuple[Sequence[Range], Sequence[Range]]], num_rows: int) -> list[Segment]:
    """The rows in which every conjunct may be true, cut where others of them are in doubt."""
    ranges = [pair for kept, sure in decided for pair in (*kept, *sure)]
    edges = np.unique([0, num_rows, *(edge for pair in ranges for edge in pair)])
    starts = edges[:-1]
    is_kept = np.logical_and.reduce([_covers(kept, starts) for kept, _ in decided])
    in_doubt = np.array([~_covers(sure, starts) for _, sure in decided])
    segments: list[Segment] = []
    for place in np.flatnonzero(is_kept).tolist():
        asked = tuple(np.flatnonzero(in_doubt[:, place]).tolist())
        start, end = int(edges[place]), int(edges[place + 1])
        if segments and segments[-1].end == start and segments[-1].conjuncts == asked:
            start = segments.pop().start
        segments.append(Segment(start, end, asked))
    return segments


def _covers(ranges: Sequence[Range], rows: Offsets) -> npt.NDArray[np.bool_]:
    """Whether each row is in one of the sorted ranges."""
    if not ranges:
        return np.zeros(len(rows), dtype=bool)
    starts, ends = np.array(ranges).T
    place = np.searchsorted(starts, rows, side="right") - 1
    inside: npt.NDArray[np.bool_] = (place >= 0) & (rows < ends[place])
    return inside
