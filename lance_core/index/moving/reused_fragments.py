"""Moves of rows that a fragment reuse index describes.

The j-th of the ascending old addresses of a group belongs to the j-th row of the new fragments. Old rows
whose address is not listed were deleted before.

Source: docs/format.md, "Fragment reuse index".
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyroaring

from lance_core.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError
from lance_core.index.moving.moved_rows import (
    FragmentGroup,
    MovedRows,
    MovesInTurn,
    NewFragment,
    OldFragment,
)
from lance_core.proto.index_pb2 import FragmentReuseIndexDetails as Details
from lance_core.table.fragment_reuse import FragmentReuse

_MOST_ROWS = 1 << 32
_MOST_DELETED = 1 << 27
"""Most deleted rows of all groups; each takes eight bytes of memory."""


def moves_of(reuse: FragmentReuse) -> MovesInTurn:
    """Return the translation of row addresses in index files to present row addresses.

    Raises:
        CorruptFileError: A group contradicts itself.
        UnsupportedFeatureError: The groups have too many deleted rows.
    """
    moves: list[MovedRows] = []
    room = _MOST_DELETED
    for version in reuse.versions:
        groups = []
        for group in version.groups:
            try:
                groups.append(_group_of(group, room))
            except (ValueError, IndexError, OverflowError) as error:
                raise CorruptFileError(
                    "moved rows of a fragment reuse index", file=reuse.file, found=error
                ) from None
            room -= sum(len(fragment.deleted) for fragment in groups[-1].old)
        moves.append(MovedRows.of(groups))
    return MovesInTurn(moves)


def present_addresses(reuse: FragmentReuse, addresses: pa.Array) -> pa.Array:
    """Return the present addresses of rows, null for removed rows.

    Raises:
        InvalidInputError: `addresses` are no array of uint64.
        LanceError: An error of `moves_of`.
    """
    if not isinstance(addresses, pa.UInt64Array):
        found = getattr(addresses, "type", type(addresses).__name__)
        raise InvalidInputError("row addresses", expected="an array of uint64", found=found)
    known = addresses.is_valid().to_numpy(zero_copy_only=False)
    present, kept = moves_of(reuse).translate(addresses.fill_null(0).to_numpy())
    return pa.array(present, mask=~(known & kept))


def group_message(group: FragmentGroup) -> Details.Group:
    """Return the message of a group of rewritten fragments."""
    message = Details.Group()
    moved = pyroaring.BitMap64()
    for old in group.old:
        message.old_fragments.add(
            id=old.id, physical_rows=old.physical_rows, num_deleted_rows=len(old.deleted)
        )
        start = old.id << 32
        moved.add_range(start, start + old.physical_rows)
        deleted = old.deleted.astype(np.uint64) + np.uint64(start)
        moved -= pyroaring.BitMap64(deleted.tolist())
    for new in group.new:
        message.new_fragments.add(id=new.id, physical_rows=new.num_rows)
    moved.run_optimize()
    message.changed_row_addrs = bytes(moved.serialize())
    return message


def _group_of(message: Details.Group, room: int) -> FragmentGroup:
    moved = pyroaring.BitMap64.deserialize(message.changed_row_addrs)
    # The addresses are listed in ascending order, whatever the order of the fragments.
    old = sorted(message.old_fragments, key=lambda fragment: fragment.id)
    new = [NewFragment(fragment.id, fragment.physical_rows) for fragment in message.new_fragments]
    if max([0, *(fragment.physical_rows for fragment in [*old, *message.new_fragments])]) > _MOST_ROWS:
        raise ValueError("a fragment has more than 2^32 rows")
    if len(moved) != sum(fragment.num_rows for fragment in new):
        raise ValueError(f"{len(moved)} rows became {sum(fragment.num_rows for fragment in new)}")
    fragments = list(_old_fragments(old, moved, room))
    if len(moved) != sum(each.physical_rows - len(each.deleted) for each in fragments):
        raise ValueError("addresses outside of the old fragments")
    return FragmentGroup(fragments, new)


def _old_fragments(
    digests: list[Details.Fragment], moved: pyroaring.BitMap64, room: int
) -> Iterator[OldFragment]:
    for digest in digests:
        rows = pyroaring.BitMap64()
        rows.add_range(digest.id << 32, (digest.id << 32) + digest.physical_rows)
        rows -= moved
        room -= len(rows)
        if room < 0:
            raise UnsupportedFeatureError("deleted rows of a fragment reuse index", expected=_MOST_DELETED)
        deleted = np.asarray(rows.to_array(), np.uint64).astype(np.uint32)
        yield OldFragment(digest.id, digest.physical_rows, deleted)
