"""Rows of an index that a search may find, and their present addresses.

An index may list rows that are deleted, or whose fragment another index segment or none covers by now. Such a
row is not found through this index.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyroaring

from lance_core.index.row_sets import Keys
from lance_core.index.segments import OpenSegment
from lance_core.index.text.partition import Partition
from lance_core.index.text.search import SegmentView, View
from lance_core.index.text.segment import open_text_segment
from lance_core.pool import run_all
from lance_core.scan.files.data_files import DataFiles
from lance_core.scan.read.live_rows import LiveRows
from lance_core.scan.read.row_columns import RowColumns
from lance_core.scan.take.keys import address_of, fragments_of, grouped, rows_of
from lance_core.table.snapshot import Snapshot


class SearchableRows:
    """Rows of one version of a table that a search may find.

    Args:
        snapshot: The version.
        files: Its open data files.
        fragments: Ids of the fragments to search.
        matching: Addresses of the rows that meet the condition of the search, ascending; None without one.
    """

    def __init__(
        self, snapshot: Snapshot, files: DataFiles, fragments: pyroaring.BitMap, matching: Keys | None
    ) -> None:
        self._snapshot = snapshot
        self._files = files
        self._fragments = fragments
        self._matching = matching

    def of_segment(self, segment: OpenSegment) -> SegmentView:
        """Return the partitions of a segment with their rows. Raise `LanceError` if a read fails."""
        text = open_text_segment(segment)
        if segment.storage.is_remote:
            run_all([call for each in text.partitions for call in each.prefetches()], is_remote=True)
        covered = pyroaring.BitMap(segment.entry.description.fragment_ids) - text.deleted_fragments
        covered &= pyroaring.BitMap(self._snapshot.manifest.fragment_ids)
        return [self._view(segment, partition, covered) for partition in text.partitions]

    def _view(self, segment: OpenSegment, partition: Partition, covered: pyroaring.BitMap) -> View:
        addresses, found = segment.kept(
            ("rows", partition.number, self._snapshot.manifest.identity),
            lambda: self._current_rows(partition, covered),
            lambda rows: sum(array.nbytes for array in rows),
        )
        allowed = found if len(found) else None
        if covered - self._fragments:
            allowed = _both(allowed, np.isin(fragments_of(addresses), np.array(self._fragments, np.uint64)))
        if self._matching is not None:
            allowed = _both(allowed, _are_in(addresses, self._matching))
        return View(partition, addresses, allowed)

    def _current_rows(
        self, partition: Partition, covered: pyroaring.BitMap
    ) -> tuple[Keys, npt.NDArray[np.uint8]]:
        """Return the address of each document, and whether its row is live in a covered fragment.

        The second array is empty if all rows are.
        """
        keys = partition.documents.row_keys
        addresses, is_there = self._addresses_of(keys)
        for fragment_id, chosen in grouped(fragments_of(addresses)):
            if fragment_id not in covered:
                is_there[chosen] = 0
                continue
            rows = rows_of(addresses[chosen])
            exists = rows < self._snapshot.manifest.fragment_by_id[fragment_id].physical_rows
            is_there[chosen] &= exists & self._live(fragment_id).are_live(rows)
        return addresses, np.empty(0, np.uint8) if is_there.all() else is_there

    def _addresses_of(self, keys: Keys) -> tuple[Keys, npt.NDArray[np.uint8]]:
        manifest = self._snapshot.manifest
        if not manifest.has_stable_row_ids:
            return keys, np.ones(len(keys), np.uint8)
        wanted, inverse = np.unique(keys, return_inverse=True)
        addresses = np.zeros(len(wanted), np.uint64)
        is_there = np.zeros(len(wanted), np.uint8)
        for fragment in manifest.fragments:
            places, rows = self._row_columns.find_row_ids(fragment, wanted)
            live = self._live(fragment.id).are_live(rows) if len(rows) else np.empty(0, np.bool_)
            addresses[places[live]] = address_of(fragment.id, rows[live])
            is_there[places[live]] = 1
        return addresses[inverse], is_there[inverse]

    def _live(self, fragment_id: int) -> LiveRows:
        fragment = self._snapshot.manifest.fragment_by_id[fragment_id]
        return LiveRows(fragment.physical_rows, self._files.deletions(self._snapshot, fragment))

    @cached_property
    def _row_columns(self) -> RowColumns:
        return RowColumns(self._snapshot, self._files)


def _both(allowed: npt.NDArray[np.uint8] | None, others: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    return others.astype(np.uint8) if allowed is None else allowed & others


def _are_in(addresses: Keys, ascending: Keys) -> npt.NDArray[np.bool_]:
    """Return for each address whether it is among some that ascend."""
    if not len(ascending):
        return np.zeros(len(addresses), np.bool_)
    places = np.minimum(np.searchsorted(ascending, addresses), len(ascending) - 1)
    found: npt.NDArray[np.bool_] = ascending[places] == addresses
    return found
