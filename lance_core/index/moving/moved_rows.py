"""Translation of row addresses after a compaction.

A row address is `fragment id << 32 | offset`. A compaction keeps the order of the rows of a group of
fragments and leaves out deleted rows. Therefore the new address of a row follows from the number of live rows
before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyroaring

Addresses = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]
_Numbers = npt.NDArray[np.int64]

_OFFSET_BITS = np.uint64(32)
_OFFSET_MASK = np.uint64((1 << 32) - 1)


class Moves(Protocol):
    """Translation of row addresses."""

    def translate(self, addresses: Addresses) -> tuple[Addresses, Flags]:
        """Return the new addresses, and flags that are false for removed rows, which keep an old address."""


@dataclass(frozen=True)
class OldFragment:
    """Fragment that was rewritten."""

    id: int
    physical_rows: int
    deleted: npt.NDArray[np.uint32]
    """Offsets of deleted rows, ascending and unique."""


@dataclass(frozen=True)
class NewFragment:
    """Fragment that a compaction wrote."""

    id: int
    num_rows: int


@dataclass(frozen=True)
class FragmentGroup:
    """Fragments that were rewritten together, and the new fragments with their live rows in the
    same order.
    """

    old: Sequence[OldFragment]
    new: Sequence[NewFragment]

    @property
    def old_ids(self) -> pyroaring.BitMap:
        """Ids of the old fragments."""
        return pyroaring.BitMap([fragment.id for fragment in self.old])


@dataclass(frozen=True)
class MovedRows:
    """Translation of row addresses. It needs eight bytes per deleted row of the groups."""

    _old_ids: Addresses
    """Ids of the rewritten fragments, ascending."""
    _physical_rows: _Numbers
    _first_row: _Numbers
    """By old fragment: number of its first live row among the live rows of all groups."""
    _first_deleted: _Numbers
    """By old fragment: index of its first entry in `_deleted`."""
    _deleted: Addresses
    """Addresses of deleted rows, ascending."""
    _new_ids: Addresses
    """Ids of the new fragments in the order of their rows."""
    _new_starts: _Numbers
    """By new fragment: number of its first row among the rows of all groups."""
    _is_known: Flags
    """By old fragment: whether the index covers it."""

    @classmethod
    def of(cls, groups: Iterable[FragmentGroup]) -> MovedRows:
        """Return the translation for all groups. Each old fragment must be in one group only."""
        groups = list(groups)
        old = [fragment for group in groups for fragment in group.old]
        new = [fragment for group in groups for fragment in group.new]
        live = [fragment.physical_rows - len(fragment.deleted) for fragment in old]
        by_id = np.argsort(np.array([fragment.id for fragment in old], np.uint64))
        in_order = [old[place] for place in by_id.tolist()]
        deleted = [
            (np.uint64(fragment.id) << _OFFSET_BITS) | fragment.deleted.astype(np.uint64)
            for fragment in in_order
        ]
        return cls(
            np.array([fragment.id for fragment in in_order], np.uint64),
            np.array([fragment.physical_rows for fragment in in_order], np.int64),
            _starts(live)[by_id],
            _starts([len(each) for each in deleted]),
            np.concatenate(deleted) if deleted else np.empty(0, np.uint64),
            np.array([fragment.id for fragment in new], np.uint64),
            _starts([fragment.num_rows for fragment in new]),
            np.ones(len(old), np.bool_),
        )

    @property
    def num_bytes(self) -> int:
        """Estimated bytes in memory."""
        return self._deleted.nbytes + 48 * (len(self._old_ids) + len(self._new_ids))

    def known_to(self, covered: pyroaring.BitMap) -> MovedRows:
        """Return the translation for an index that covers the fragments `covered`.

        Rows of other old fragments count as removed.
        """
        known = [fragment in covered for fragment in self._old_ids.tolist()]
        return replace(self, _is_known=np.array(known, np.bool_))

    def translate(self, addresses: Addresses) -> tuple[Addresses, Flags]:
        """Translate row addresses.

        Returns:
            The new addresses, and flags that are false for removed rows. Addresses in other fragments are
            unchanged. A removed row keeps its old address.
        """
        if not len(self._old_ids):
            return addresses, np.ones(len(addresses), np.bool_)
        fragments = addresses >> _OFFSET_BITS
        places = np.searchsorted(self._old_ids, fragments)
        places[places == len(self._old_ids)] = 0
        moved = self._old_ids[places] == fragments
        old, places = addresses[moved], places[moved]
        offsets = (old & _OFFSET_MASK).astype(np.int64)
        before = np.searchsorted(self._deleted, old)
        left = self._is_known[places] & (offsets < self._physical_rows[places])
        if len(self._deleted):
            left &= self._deleted[np.minimum(before, len(self._deleted) - 1)] != old
        rows = self._first_row[places] + offsets - (before - self._first_deleted[places])
        rows = rows[left]
        # If several fragments start at the same row, all but the last are empty.
        new = np.searchsorted(self._new_starts, rows, side="right") - 1
        translated, kept = addresses.copy(), np.ones(len(addresses), np.bool_)
        kept[moved] = left
        translated[np.flatnonzero(moved)[left]] = (self._new_ids[new] << _OFFSET_BITS) | (
            rows - self._new_starts[new]
        ).astype(np.uint64)
        return translated, kept


@dataclass(frozen=True)
class MovesInTurn:
    """Translation by several translations, one after the other."""

    parts: Sequence[MovedRows | MovesInTurn]

    @property
    def num_bytes(self) -> int:
        """Estimated bytes in memory."""
        return sum(part.num_bytes for part in self.parts)

    def translate(self, addresses: Addresses) -> tuple[Addresses, Flags]:
        """Translate row addresses, see `Moves.translate`."""
        kept = np.ones(len(addresses), np.bool_)
        for part in self.parts:
            if kept.all():
                addresses, kept = part.translate(addresses)
                continue
            translated, still = part.translate(addresses[kept])
            addresses = addresses.copy()
            addresses[kept] = translated
            kept[kept] = still
        return addresses, kept


def _starts(counts: Sequence[int]) -> _Numbers:
    """Return for each count the sum of the counts before it."""
    sums = np.cumsum([0, *counts], dtype=np.int64)
    return sums[:-1]


def with_new_addresses(batch: pa.RecordBatch, place: int, rows: Moves) -> tuple[pa.RecordBatch, Flags]:
    """Return a batch with new row addresses in column `place`, and flags that are false for removed rows."""
    addresses, kept = rows.translate(batch.column(place).to_numpy().astype(np.uint64))
    return batch.set_column(place, batch.schema.field(place), pa.array(addresses)), kept
