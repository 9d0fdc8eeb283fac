"""Groups of consecutive small fragments, and the columns of all fragments of a group."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain, groupby

import pyarrow as pa

from lance_core.encodings.file_pages import TooManyBytes
from lance_core.encodings.values import concat_arrays
from lance_core.scan.files.data_files import DataFiles
from lance_core.scan.plan.projection import Projection
from lance_core.scan.plan.scan_plan import FragmentScan
from lance_core.scan.read.fragments import FragmentOpener, FragmentReader
from lance_core.scan.read.joined_fragments import JoinedFragments, shape_of
from lance_core.scan.read.live_rows import Offsets
from lance_core.scan.run.readahead import ColumnRead, run_reads
from lance_core.table.snapshot import Snapshot

_LEAST_GROWTH = 1 / 2
"""Least decoded bytes that are assumed for a byte of a file. It bounds the bytes of files in memory."""

ColumnArrays = list[list[pa.Array]]
"""Arrays of each column, in the order of the rows."""


class FragmentGroup:
    """Consecutive small fragments. The files of those that can be joined are read once for all columns."""

    def __init__(
        self,
        snapshot: Snapshot,
        files: DataFiles,
        scans: Sequence[FragmentScan],
        runs: Sequence[tuple[Sequence[FragmentScan], JoinedFragments | None]] | None = None,
    ) -> None:
        """Make a group of fragment scans. `runs` has runs of scans with their joined fragments, if known."""
        self.scans = scans
        self._snapshot = snapshot
        self._files = files
        self.runs = list(self._joined_runs()) if runs is None else runs

    def some(self, numbers: Offsets) -> FragmentGroup:
        """Return the group of the fragments with these numbers."""
        if len(numbers) == len(self.scans):
            return self
        runs, first = [], 0
        for scans, joined in self.runs:
            low, high = numbers.searchsorted((first, first + len(scans)))
            chosen = numbers[low:high] - first
            if len(chosen):
                some = [scans[number] for number in chosen]
                runs.append((some, None if joined is None else joined.some(chosen)))
            first += len(scans)
        return FragmentGroup(self._snapshot, self._files, [scan for scans, _ in runs for scan in scans], runs)

    def _joined_runs(self) -> Iterator[tuple[Sequence[FragmentScan], JoinedFragments | None]]:
        """Yield runs of scans, with their fragments if these can be joined."""
        fragments = self._snapshot.manifest.fragment_by_id

        def shape(scan: FragmentScan) -> object:
            fragment = fragments[scan.fragment_id]
            is_whole = scan.start == 0 and scan.end == fragment.num_rows
            return shape_of(fragment) if is_whole and not self._files.checks else None

        for one, scans in groupby(self.scans, shape):
            run = list(scans)
            alike = [fragments[scan.fragment_id] for scan in run]
            yield run, None if one is None else JoinedFragments(self._snapshot, self._files, alike)


class GroupReader:
    """Reader of some columns of groups of fragments."""

    def __init__(
        self, snapshot: Snapshot, projection: Projection, files: DataFiles, group_bytes: int
    ) -> None:
        self._group_bytes = group_bytes
        self._projection = projection
        self._fragments = snapshot.manifest.fragment_by_id
        self._opener = FragmentOpener(snapshot, projection, files)
        # Decoded bytes of the columns for each byte of the files. This is known from the group before.
        self._growth = 1.0

    def fit(self, scans: Sequence[FragmentScan]) -> int:
        """Return how many of the first scans, at least one, have about `group_bytes` of decoded columns."""
        room = self._group_bytes / self._growth
        for number, scan in enumerate(scans):
            room -= self._file_bytes(scan)
            if room < 0:
                return number + 1
        return len(scans)

    def read(self, group: FragmentGroup) -> ColumnArrays:
        """Return all rows of the fragments of a group.

        Raises:
            TooManyBytes: the columns of several fragments take far more than `group_bytes`.
        """
        most_bytes = 2 * self._group_bytes if len(group.scans) > 1 else sys.maxsize
        columns: ColumnArrays = [[] for _ in self._projection.columns]
        for scans, joined in group.runs:
            for column, arrays in zip(columns, self._read_run(scans, joined, most_bytes), strict=True):
                column += arrays
        for number, arrays in enumerate(columns):
            if len(arrays) > 1:
                # More text or items of dictionaries than one array holds stay in several arrays.
                with suppress(pa.ArrowCapacityError):
                    columns[number] = [concat_arrays(arrays)]
        num_bytes = sum([array.get_total_buffer_size() for arrays in columns for array in arrays])
        self._growth = max(_LEAST_GROWTH, num_bytes / max(1, sum(map(self._file_bytes, group.scans))))
        return columns

    def _read_run(
        self, scans: Sequence[FragmentScan], joined: JoinedFragments | None, most_bytes: int
    ) -> ColumnArrays:
        """Return the rows of fragments, which may be joined."""
        columns: list[list[pa.Array] | None] = [None] * len(self._projection.columns)
        num_bytes = 0
        if joined is not None:
            for number, column in enumerate(self._projection.columns):
                arrays = columns[number] = joined.read(column, most_bytes - num_bytes)
                num_bytes += sum([array.get_total_buffer_size() for array in arrays or ()])
                if num_bytes > most_bytes:
                    raise TooManyBytes(f"{num_bytes} bytes")
        others = [number for number, arrays in enumerate(columns) if arrays is None]
        if others:
            opened = [self._opener.open(scan) for scan in scans]
            estimated = num_bytes + sum([_estimated_bytes(fragment, others) for fragment in opened])
            if estimated > most_bytes:
                raise TooManyBytes(f"{estimated} bytes")
            for number in others:
                reads = [ColumnRead(part, number, part.start, part.end, 1) for part in opened]
                columns[number] = list(chain.from_iterable(run_reads(reads)))
        return [arrays for arrays in columns if arrays is not None]

    def _file_bytes(self, scan: FragmentScan) -> int:
        return sum([file.size for file in self._fragments[scan.fragment_id].files])


def _estimated_bytes(fragment: FragmentReader, columns: Sequence[int]) -> float:
    width = sum([fragment.columns[number].bytes_per_row for number in columns])
    return (fragment.scan.end - fragment.scan.start) * width
