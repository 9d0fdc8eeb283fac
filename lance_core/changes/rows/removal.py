"""Removal of rows: deletion files for fragments, and the removal of fragments without live rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.changes.checked_reads import addresses_for_change
from lance_core.changes.rows.row_change import RowChange
from lance_core.expressions.tree import Expression
from lance_core.number_sets import union
from lance_core.pool import run_all, run_each
from lance_core.proto import table_pb2
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.projection import ROW_ADDRESS
from lance_core.scan.session import session_of
from lance_core.schema.arrow_values import numbers_of
from lance_core.table.deletions import (
    Offsets,
    new_deletion_file,
    path_of,
    store_deletions,
    sync_deletions,
)
from lance_core.table.snapshot import Snapshot

Addresses = npt.NDArray[np.uint64]
_OFFSET_BITS = np.uint64(32)


class ChosenRows:
    """Rows to remove, gathered from row addresses; four bytes per row."""

    def __init__(self) -> None:
        self._parts: dict[int, list[Offsets]] = {}

    def add(self, addresses: Addresses) -> None:
        """Add rows in any order. No row may be added twice."""
        if not len(addresses):
            return
        fragments = addresses >> _OFFSET_BITS
        cuts = np.flatnonzero(fragments[1:] != fragments[:-1]) + 1
        for part in np.split(addresses, cuts):
            self._parts.setdefault(int(part[0] >> _OFFSET_BITS), []).append(part.astype(np.uint32))

    def by_fragment(self) -> dict[int, Offsets]:
        """Return the physical offsets of the rows in each fragment, ascending."""
        return {
            fragment_id: np.sort(np.concatenate(self._parts[fragment_id]))
            for fragment_id in sorted(self._parts)
        }


@dataclass(frozen=True)
class Removal:
    """The fragments that rows were deleted from, after the deletion."""

    updated: tuple[table_pb2.DataFragment, ...]
    """Fragments that keep rows, with new deletion files."""
    removed_ids: tuple[int, ...]
    """Ids of fragments that keep no rows."""
    num_rows: int
    """Number of deleted rows."""


def passing_addresses(
    snapshot: Snapshot, condition: Expression | None, fragments: tuple[int, ...] | None = None
) -> Iterator[Addresses]:
    """Yield the addresses of the rows that meet a condition, ascending in each array.

    Args:
        snapshot: The version to search.
        condition: The condition; None means all rows.
        fragments: Ids of the fragments to search; None means all.

    Raises:
        LanceError: Something cannot be read, or the condition cannot be computed for a row.
    """
    options = ScanOptions(columns=(), filter=condition, fragments=fragments, with_row_address=True)
    return addresses_for_change(snapshot, options)


def addresses_of(batch: pa.RecordBatch) -> Addresses:
    """Return the row addresses of a batch of a scan with `with_row_address`."""
    addresses: Addresses = numbers_of(batch.column(ROW_ADDRESS))
    return addresses


def remove_rows(snapshot: Snapshot, rows: Mapping[int, Offsets], change: RowChange, *, sync: bool) -> Removal:
    """Remove rows of each fragment, besides the rows that were deleted before.

    `change` gets the rows, the paths of the deletion files, and their writes.

    Args:
        snapshot: The version that has the rows.
        rows: Physical offsets by fragment id.
        change: The change that removes the rows.
        sync: On local disks the writes make the files durable.

    Raises:
        LanceError: A deletion file cannot be read.
    """
    fragments, files = snapshot.manifest.fragment_by_id, session_of(snapshot).files
    change.affected_rows = rows
    writes: list[Callable[[], None]] = []

    def remove(fragment_id: int) -> table_pb2.DataFragment | None:
        """Return the fragment with a new deletion file, which has the rows deleted before, too.

        If no row is left, there is no file and the result is None.
        """
        fragment = fragments[fragment_id]
        deleted = union(files.deletions(snapshot, fragment), rows[fragment_id])
        if len(deleted) == fragment.physical_rows:
            return None
        was_bitmap = fragment.deletion_file is not None and fragment.deletion_file.is_bitmap
        entry = new_deletion_file(snapshot.manifest.version, deleted, as_bitmap=True if was_bitmap else None)
        path = path_of(fragment_id, entry)
        change.files.append(path)
        writes.append(partial(store, path, entry, deleted))
        message = table_pb2.DataFragment()
        message.CopyFrom(fragment.message)
        message.deletion_file.CopyFrom(entry)
        return message

    def store(path: str, entry: table_pb2.DeletionFile, deleted: Offsets) -> None:
        store_deletions(snapshot.storage, path, entry, deleted, sync=sync)
        files.keep_deletions(snapshot.storage, path, deleted)

    def write() -> None:
        run_all(writes, is_remote=True)  # each waits for the disk or for round trips
        if sync:
            sync_deletions(snapshot.storage)

    calls = [partial(remove, fragment_id) for fragment_id in rows]
    left = run_each(calls, snapshot.storage.is_remote)
    if writes:
        change.writes.append(write)
    return Removal(
        updated=tuple(message for message in left if message is not None),
        removed_ids=tuple(number for number, message in zip(rows, left, strict=True) if message is None),
        num_rows=sum(map(len, rows.values())),
    )
