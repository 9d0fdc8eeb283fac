"""Row masks: the rows that meet a condition, as far as indices know.

A mask speaks about the fragments that the indices cover, and knows nothing about other fragments. In a
covered fragment it lists candidates: every row for which the condition is true is among them. If the answer
is exact in a fragment, the condition is true for all its candidates; otherwise they have to be checked.

There is no negation of masks: the planner moves NOT to the leaves of a condition, where an index answers it
with its null rows (see `lance_core.scan.plan.indices`). So a mask has no rows for which the condition is null
or false.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyroaring

from lance_core.index.row_sets import Bitmaps, Keys
from lance_core.number_sets import bitmap_of

Offsets = npt.NDArray[np.int64]

_OFFSET_BITS = np.uint64(32)
_MOST_OFFSET = (1 << 32) - 1


@dataclass(frozen=True)
class RowMask:
    """Candidates for a condition.

    Attributes:
        rows: Physical row offsets of the candidates, by fragment id. A covered fragment without an entry has
            no candidate.
        covered: Ids of the fragments about which the mask speaks.
        exact: Ids of the covered fragments in which the condition is true for every candidate.
    """

    rows: Mapping[int, pyroaring.BitMap]
    covered: pyroaring.BitMap
    exact: pyroaring.BitMap

    def __and__(self, other: RowMask) -> RowMask:
        """Return the candidates for both conditions.

        A fragment that one mask covers is covered, but its candidates have to be checked for the condition of
        the other mask.
        """
        both = self.covered & other.covered
        rows: Bitmaps = {}
        for mine, theirs in ((self, other), (other, self)):
            for fragment, bitmap in mine.rows.items():
                if fragment not in theirs.covered:
                    rows[fragment] = bitmap
                elif fragment not in rows and fragment in theirs.rows:
                    rows[fragment] = bitmap & theirs.rows[fragment]
        kept = {fragment: bitmap for fragment, bitmap in rows.items() if bitmap}
        return RowMask(kept, self.covered | other.covered, both & self.exact & other.exact)

    def __or__(self, other: RowMask) -> RowMask:
        """Return the candidates for either condition, in the fragments that both masks cover."""
        both = self.covered & other.covered
        rows: Bitmaps = {}
        for mask in (self, other):
            for fragment, bitmap in mask.rows.items():
                if fragment in both:
                    rows[fragment] = rows[fragment] | bitmap if fragment in rows else bitmap
        return RowMask(rows, both, both & self.exact & other.exact)

    @property
    def num_rows(self) -> int:
        """Number of candidates in all covered fragments."""
        return sum(map(len, self.rows.values()))

    def offsets(self, fragment: int) -> Offsets | None:
        """Return the candidates of a fragment as ascending physical row offsets; None if it is not
        covered.
        """
        if fragment not in self.covered:
            return None
        bitmap = self.rows.get(fragment)
        return np.empty(0, np.int64) if bitmap is None else offsets_of(bitmap)

    def within(self, fragments: pyroaring.BitMap) -> RowMask:
        """Return the mask without what it says about other fragments."""
        rows = {fragment: bitmap for fragment, bitmap in self.rows.items() if fragment in fragments}
        return RowMask(rows, self.covered & fragments, self.exact & fragments)

    def inexact(self) -> RowMask:
        """Return the same candidates, all of which have to be checked."""
        return RowMask(self.rows, self.covered, pyroaring.BitMap())


def nothing_covered() -> RowMask:
    """Return the mask that knows nothing."""
    return RowMask({}, pyroaring.BitMap(), pyroaring.BitMap())


def joined(masks: Iterable[RowMask]) -> RowMask:
    """Return one mask from masks of disjoint fragments, such as those of the segments of an index."""
    masks = list(masks)
    if len(masks) == 1:
        return masks[0]
    rows: Bitmaps = {}
    for mask in masks:
        rows.update(mask.rows)
    covered, exact = (
        reduce(lambda some, more: some | more, sets, pyroaring.BitMap())
        for sets in ((mask.covered for mask in masks), (mask.exact for mask in masks))
    )
    return RowMask(rows, covered, exact)


def by_fragment(addresses: Keys) -> Bitmaps:
    """Return row addresses in any order, repeated or not, as physical row offsets by fragment id."""
    if len(addresses) <= 1:
        return {address >> 32: pyroaring.BitMap((address & _MOST_OFFSET,)) for address in addresses.tolist()}
    addresses = np.sort(addresses)
    fragments = addresses >> _OFFSET_BITS
    if fragments[0] == fragments[-1]:
        return {int(fragments[0]): bitmap_of(addresses)}
    cuts = np.flatnonzero(fragments[1:] != fragments[:-1]) + 1
    return {int(part[0] >> _OFFSET_BITS): bitmap_of(part) for part in np.split(addresses, cuts)}


def offsets_of(bitmap: pyroaring.BitMap) -> Offsets:
    """Return the numbers of a bitmap, ascending."""
    return np.asarray(bitmap.to_array(), np.uint32).astype(np.int64)
