"""Row addresses for row offsets and row ids.

Source: docs/format.md, "Row ids and lineage".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from lance_core.errors import InvalidInputError
from lance_core.number_sets import are_among
from lance_core.scan.plan.projection import ROW_ADDRESS, ROW_ID, ROW_OFFSET
from lance_core.scan.plan.scan_plan import FragmentScan
from lance_core.scan.read.row_columns import RowColumns
from lance_core.scan.take.keys import Keys, address_of, fragments_of, grouped, rows_of
from lance_core.scan.take.open_fragments import OpenFragments
from lance_core.table.fragment import Fragment
from lance_core.table.snapshot import Snapshot


class AddressFinder:
    """Finder of the addresses of rows of one snapshot. A key that is given twice gives its address twice."""

    def __init__(self, snapshot: Snapshot, fragments: OpenFragments, row_columns: RowColumns) -> None:
        self._manifest = snapshot.manifest
        self._fragments = fragments
        self._row_columns = row_columns

    def by(self, key: str) -> Callable[[Keys], Keys]:
        """Return the method that finds addresses by one of `KEY_COLUMNS`."""
        finders: Mapping[str, Callable[[Keys], Keys]] = {
            ROW_OFFSET: self.at_offsets,
            ROW_ID: self.of_row_ids,
            ROW_ADDRESS: self.only_live,
        }
        return finders[key]

    def at_offsets(self, offsets: Keys, fragments: Sequence[Fragment] | None = None) -> Keys:
        """Return the addresses of the rows at `offsets`.

        Offsets count the live rows of `fragments`, or of the whole table if none are given.

        Raises:
            InvalidInputError: an offset is not below the number of rows.
            LanceError: deletions cannot be read.
        """
        ends = self._ends if fragments is None else _ends([fragment.num_rows for fragment in fragments])
        fragments = self._manifest.fragments if fragments is None else fragments
        # `reduce` of the ufunc: the method `max` is Python, which takes longer than one row.
        if len(offsets) and (largest := np.maximum.reduce(offsets)) >= ends[-1]:
            raise InvalidInputError(
                "row offset is out of range", expected=f"less than {ends[-1]}", found=largest
            )
        numbers = ends.searchsorted(offsets, "right") - 1
        addresses = np.empty(len(offsets), dtype=np.uint64)
        for number, chosen in grouped(numbers):
            live = self._fragments.get(fragments[number]).live
            rows = live.physical_rows((offsets[chosen] - ends[number]).astype(np.int64))
            addresses[chosen] = address_of(fragments[number].id, rows)
        return addresses

    def of_live_rows(self, scans: Sequence[FragmentScan]) -> Keys:
        """Return the addresses of live rows of fragments, in the order of a plan.

        Raises:
            LanceError: deletions cannot be read.
        """
        addresses = []
        for fragment_id, start, end in scans:
            live = self._fragments.get(self._manifest.fragment_by_id[fragment_id]).live
            addresses.append(address_of(fragment_id, live.physical_rows(np.arange(start, end))))
        return addresses[0] if len(addresses) == 1 else np.concatenate(addresses)

    def only_live(self, addresses: Keys) -> Keys:
        """Return the addresses without those of deleted rows.

        Raises:
            InvalidInputError: an address names a fragment that does not exist, or a row beyond its end.
            LanceError: deletions cannot be read.
        """
        kept = np.ones(len(addresses), dtype=bool)
        for fragment_id, chosen in grouped(fragments_of(addresses)):
            fragment = self._manifest.fragment_by_id.get(fragment_id)
            if fragment is None:
                raise InvalidInputError(
                    "row address is of a fragment that does not exist", found=addresses[chosen][0]
                )
            rows = rows_of(addresses[chosen])
            if (largest := np.maximum.reduce(rows)) >= fragment.physical_rows:
                raise InvalidInputError(
                    f"row address is out of range in fragment {fragment_id}",
                    expected=f"less than {fragment.physical_rows} rows",
                    found=largest,
                )
            if fragment.deletion_file is not None:
                kept[chosen] = self._fragments.get(fragment).live.are_live(rows)
        return addresses[kept]

    def of_live_among(self, fragment: Fragment, rows: npt.NDArray[np.int64]) -> Keys:
        """Return the addresses of physical rows of a fragment, without the deleted rows.

        Raises:
            LanceError: deletions cannot be read.
        """
        if fragment.deletion_file is not None:
            rows = self._fragments.get(fragment).live.only_live(rows)
        return address_of(fragment.id, rows)

    def are_live(self, addresses: Keys, fragment_ids: Keys) -> npt.NDArray[np.bool_]:
        """Return whether addresses are those of live rows of some fragments, whose ids are ascending.

        Raises:
            LanceError: deletions cannot be read.
        """
        fragments = fragments_of(addresses)
        is_live = are_among(fragment_ids, fragments)
        for fragment_id, chosen in grouped(fragments):
            fragment = self._manifest.fragment_by_id.get(fragment_id)
            if fragment is not None and fragment.num_rows < fragment.physical_rows:
                is_live[chosen] &= self._fragments.get(fragment).live.are_live(rows_of(addresses[chosen]))
        return is_live

    def existing(self, addresses: Keys) -> Keys:
        """Return the addresses of rows in data files, deleted ones included, in the given order."""
        kept = np.zeros(len(addresses), dtype=bool)
        for fragment_id, chosen in grouped(fragments_of(addresses)):
            fragment = self._manifest.fragment_by_id.get(fragment_id)
            if fragment is not None:
                kept[chosen] = rows_of(addresses[chosen]) < fragment.physical_rows
        return addresses[kept]

    def of_row_ids(self, row_ids: Keys) -> Keys:
        """Return the addresses of the live rows with these ids. Ids that no live row has are left out.

        Without stable row ids, ids are addresses: see `only_live`.

        Raises:
            CorruptFileError: two live rows have the same id.
            LanceError: ids or deletions cannot be read.
        """
        if not self._manifest.has_stable_row_ids:
            return self.only_live(row_ids)
        addresses, found = self.located(row_ids)
        return addresses[found]

    def located(self, row_ids: Keys) -> tuple[Keys, npt.NDArray[np.bool_]]:
        """Return the address of the live row of each stable row id, and whether there is one.

        The address of an id without a live row is 0. Errors are those of `of_row_ids`.
        """
        return self._row_columns.located(row_ids, lambda fragment: self._fragments.get(fragment).live)

    @cached_property
    def _ends(self) -> Keys:
        return _ends(self._manifest.fragment_rows)


def _ends(rows: Sequence[int]) -> Keys:
    """Return the offset of the first row of each fragment, and the number of all rows at the end.

    `rows` has the number of live rows of each fragment.
    """
    return np.cumsum([0, *rows], dtype=np.uint64)
