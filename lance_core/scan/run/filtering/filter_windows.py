"""The first phase of a filtered scan: windows of the rows that pruning left, to find matching rows in.

A window is read by one worker thread, which decodes only the columns that the filter names.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import pyarrow as pa

from lance_core.file.page_ranges import PageRange
from lance_core.pool import map_ahead
from lance_core.process.counters import note_rows
from lance_core.process.deferred import Lookahead
from lance_core.scan.files.data_files import FragmentFiles
from lance_core.scan.plan.pruning import CandidateRange, Pruner
from lance_core.scan.plan.scan_plan import FragmentScan, ScanPlan
from lance_core.scan.plan.statistics import Gatherer
from lance_core.scan.read.columns import StoredColumn
from lance_core.scan.read.fragments import FragmentOpener, FragmentReader
from lance_core.scan.run.filtering.row_filter import Matches, RowFilter
from lance_core.scan.run.readahead import DirectRead, Source

# Windows begin between two mini-blocks of a flat column (docs/format.md, "Mini-block pages").
_WINDOW_MULTIPLE = 4096
# Most rows of a window, however narrow the columns of the filter are: a row number takes eight bytes.
_MOST_ROWS = 1 << 20
# Matching rows are decoded after the windows that have begun. So that they come soon, the windows of a stream
# are not larger, whatever is asked for.
_MOST_BYTES = 8 << 20
_ROW_BYTES = 9.0
# Most fragments that are pruned together.
_MOST_FRAGMENTS = 256
# The first ones of a stream, so that its first batch comes soon. Each step of pruning has a price of its own.
_FIRST_FRAGMENTS = 8
_FIRST_FRAGMENTS_FAR = 16
# Most small fragments of one window, since each window has a price of its own.
_MOST_TOGETHER = 32
# A range costs about as much as decoding this many bytes. Gaps that save less are read, too. A remote range
# is a request, which stores charge like some 30 ms of a processor.
_GAP_BYTES = 512 << 10
_FAR_GAP_BYTES = 4 << 20


@dataclass
class FilterRead(DirectRead):
    """Read of the filter's columns in some candidate ranges of one fragment; gives the matching rows.

    Attributes:
        num_bytes: Estimated size of the columns that are decoded for this, and of narrow columns that may be.
        first_number: Add this to a live-row number of the fragment to get the row's number in the whole plan.
        is_alone: Whether its window has no other read.
    """

    fragment: FragmentReader
    gatherer: Gatherer
    row_filter: RowFilter
    candidates: tuple[CandidateRange, ...]
    num_bytes: int
    first_number: int
    is_alone: bool = False

    def run(self) -> list[Matches]:
        return self._with_outputs(
            [
                self.row_filter.matches(self.fragment, candidate, self.gatherer)
                for candidate in self.candidates
            ]
        )

    def apart(self) -> Iterator[FilterRead]:
        """Yield a read of each candidate range, so that the requests for them run side by side."""
        num_rows = sum(candidate.num_rows for candidate in self.candidates)
        for candidate in self.candidates:
            num_bytes = int(self.num_bytes * candidate.num_rows / num_rows) + 1
            yield replace(self, candidates=(candidate,), num_bytes=num_bytes)

    def page_ranges(self) -> list[PageRange] | None:
        """Return the page range of the column that is read first, if one page range has all rows to read.

        Small fragments are such reads: the kernel decodes the column for many of them at once.
        """
        first = None if self.is_alone else self._first_column()
        if first is None or self.row_filter.is_on_pages(self.fragment, self.candidates[0], self.gatherer):
            return None
        some = first.page_ranges(self.candidates[0].start, self.candidates[0].end)
        return some if some is not None and len(some) == 1 else None

    def from_arrays(self, arrays: list[pa.Array]) -> list[Matches]:
        first = self._first_column()
        assert first is not None
        (candidate,) = self.candidates
        return self._with_outputs(
            [self.row_filter.matches(self.fragment, candidate, self.gatherer, first.present(arrays))]
        )

    def _with_outputs(self, found: list[Matches]) -> list[Matches]:
        """Decode columns that the scan returns, if their values fit into the estimated size of this read."""
        for matches in found:
            self.row_filter.hold_outputs(matches, self.num_bytes - sum(some.num_bytes for some in found))
        return found

    def _first_column(self) -> StoredColumn | None:
        # Statistics have no say here: another scan may gather some between `page_ranges` and `from_arrays`.
        if len(self.candidates) != 1 or self.candidates[0].rows is not None:
            return None
        index = self.row_filter.first_column(self.fragment, self.candidates[0])
        column = None if index is None else self.fragment.columns[index]
        return column if isinstance(column, StoredColumn) else None


@dataclass(frozen=True)
class FilterWindow:
    """Rows of one or more fragments that one job filters."""

    reads: tuple[FilterRead, ...]

    @property
    def num_bytes(self) -> int:
        """Estimated size of the columns of the filter, in bytes."""
        return sum([read.num_bytes for read in self.reads])


class FilterWindows(Source[FilterWindow]):
    """The windows of a plan without the rows that statistics rule out, in order."""

    def __init__(
        self,
        plan: ScanPlan,
        opener: FragmentOpener,
        pruner: Pruner,
        row_filter: RowFilter,
        *,
        is_stream: bool,
    ) -> None:
        self._plan = plan
        self._opener = opener
        self._is_stream = is_stream
        self._pruner = pruner
        self._filter = row_filter
        self._fragments = Lookahead(self._open_fragments())
        self._most_together = 1 if is_stream else _MOST_TOGETHER

    def take(self, num_bytes: int) -> FilterWindow | None:
        """Return the next window; None at the end. The decoded columns have about `num_bytes` in it."""
        if self._is_stream:
            num_bytes = min(num_bytes, _MOST_BYTES)
        reads: list[FilterRead] = []
        while num_bytes > 0 and len(reads) < self._most_together:
            fragment = self._fragments.peek(in_turn=not reads)
            if fragment is None:
                break
            read = fragment.take(num_bytes)
            if read is None:
                self._fragments.take()
            else:
                reads += read.apart() if self._opener.is_remote else (read,)
                num_bytes -= read.num_bytes
                if fragment.has_more:  # a few rows to fill the window would cost as much as thousands
                    break
        self._most_together = min(2 * self._most_together, _MOST_TOGETHER)
        if len(reads) == 1:
            reads[0].is_alone = True
        return FilterWindow(tuple(reads)) if reads else None

    def only_window(self, most_bytes: int) -> FilterWindow | None:
        """Return one window of all rows; None if the columns of the filter have more than `most_bytes` there,
        or if the plan has many fragments: a reader may need only the first of them.

        Call it before `take`, if at all. After None, `take` returns all windows.
        """
        if len(self._plan.fragment_scans) > _FIRST_FRAGMENTS:
            return None
        fragments = self._open_fragments()
        few: list[_CandidateRanges] = []
        num_bytes = 0
        with suppress(Exception):  # `take` raises the error in its turn
            while (fragment := next(fragments, None)) is not None:
                few.append(fragment)
                num_bytes += fragment.num_bytes
                if num_bytes > most_bytes:
                    self._fragments = Lookahead(chain(few, fragments))
                    return None
            reads = [read for fragment in few if (read := fragment.take(most_bytes)) is not None]
            for read in reads:
                read.is_alone = len(reads) == 1
            return FilterWindow(tuple(reads))
        return None

    def _open_fragments(self) -> Iterator[_CandidateRanges]:
        done = 0
        opener, is_remote = self._opener, self._opener.is_remote
        gap_bytes = _FAR_GAP_BYTES if is_remote else _GAP_BYTES
        for scans in self._batches():
            files: dict[int, FragmentFiles] = {}  # of the fragments that are not pruned
            kept = self._pruner.keep_all([opener.fragment(scan) for scan in scans], is_remote, files)
            left = [scan for scan in scans if scan.fragment_id in files]
            opened = map_ahead(partial(self._open, files), left, is_remote)
            for scan, found in zip(scans, kept, strict=True):
                if scan.fragment_id in files:
                    fragment = next(opened)
                    opened_files = files.pop(scan.fragment_id)
                    gatherer = self._pruner.gatherer(opener.fragment(scan), found, opened_files)
                    candidates = found.between(fragment.start, fragment.end)
                    yield _CandidateRanges(
                        fragment, gatherer, self._filter, candidates, done - scan.start, gap_bytes
                    )
                done += scan.end - scan.start

    def _open(self, files: Mapping[int, FragmentFiles], scan: FragmentScan) -> FragmentReader:
        return self._opener.open(scan, files[scan.fragment_id])

    def _batches(self) -> Iterator[Sequence[FragmentScan]]:
        """Yield the fragment scans that are pruned together: few at first if a reader waits for a batch."""
        start, count = 0, _MOST_FRAGMENTS
        if self._is_stream:
            count = _FIRST_FRAGMENTS_FAR if self._opener.is_remote else _FIRST_FRAGMENTS
        while start < len(self._plan.fragment_scans):
            yield self._plan.fragment_scans[start : start + count]
            start += count
            count = min(2 * count, _MOST_FRAGMENTS)


class _CandidateRanges:
    """Candidate ranges of one fragment that are not taken yet."""

    def __init__(
        self,
        fragment: FragmentReader,
        gatherer: Gatherer,
        row_filter: RowFilter,
        candidates: Sequence[CandidateRange],
        first_number: int,
        gap_bytes: int,
    ) -> None:
        """Read gaps between candidate ranges too that have less than `gap_bytes`."""
        self._fragment = fragment
        self._gatherer = gatherer
        self._filter = row_filter
        self._first_number = first_number
        widths = {index: fragment.columns[index].bytes_per_row for index in row_filter.columns}
        self._width = sum(widths.values()) + _ROW_BYTES
        gap = int(gap_bytes / self._width)
        everything = tuple(range(len(row_filter.conjuncts)))
        self._candidates = list(reversed(_joined(candidates, gap, everything)))
        widest = max(widths, key=lambda index: widths[index], default=None)
        self._boundaries = () if widest is None else fragment.columns[widest].page_rows

    @property
    def num_bytes(self) -> int:
        """Estimated size of the columns of the filter in the rows that are not taken yet."""
        return int(sum(candidate.num_rows for candidate in self._candidates) * self._width)

    @property
    def has_more(self) -> bool:
        """Whether there are rows that are not taken yet."""
        return bool(self._candidates)

    def take(self, num_bytes: int) -> FilterRead | None:
        """Return a read of the next rows, of about `num_bytes`; None if all are taken."""
        width = self._width + self._filter.output_bytes
        room = min(_MOST_ROWS, max(1, int(num_bytes / width)))
        chosen: list[CandidateRange] = []
        num_rows = 0
        while self._candidates and num_rows < room:
            candidate = self._candidates.pop()
            end = self._end(candidate, room - num_rows)
            part, rest = candidate.between(candidate.start, end), candidate.between(end, candidate.end)
            if part is not None:
                chosen.append(part)
                num_rows += part.num_rows
            if rest is not None:
                self._candidates.append(rest)
                break
        if not chosen:
            return None
        num_bytes = int(num_rows * width) + 1
        note_rows(self._fragment.scan.fragment_id, len(chosen), num_rows)
        return FilterRead(
            self._fragment, self._gatherer, self._filter, tuple(chosen), num_bytes, self._first_number
        )

    def _end(self, candidate: CandidateRange, room: int) -> int:
        """Return a row at which to divide a candidate range: a page end of the widest column, if one is near.

        `room` is the aimed number of rows before it.
        """
        if candidate.num_rows <= room + room // 2:
            return candidate.end
        if candidate.rows is not None:
            return int(candidate.rows[room])
        end = candidate.start + room
        after = bisect_left(self._boundaries, end - room // 2)
        if after < len(self._boundaries) and self._boundaries[after] <= end + room // 2:
            return self._boundaries[after]
        even = end // _WINDOW_MULTIPLE * _WINDOW_MULTIPLE
        return even if even > candidate.start else end


def _joined(
    candidates: Sequence[CandidateRange], gap: int, everything: tuple[int, ...]
) -> list[CandidateRange]:
    """Return the candidate ranges, joined if less than `gap` rows lie between them.

    In a joined range all conjuncts, which are `everything`, have to be evaluated.
    """
    joined: list[CandidateRange] = []
    for candidate in candidates:
        is_whole = candidate.rows is None and (not joined or joined[-1].rows is None)
        if joined and is_whole and 0 < candidate.start - joined[-1].end < gap:
            candidate = CandidateRange(joined.pop().start, candidate.end, everything)
        joined.append(candidate)
    return joined
