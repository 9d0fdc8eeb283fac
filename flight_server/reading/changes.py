"""Rows that were inserted, updated and deleted between two versions, as plans with tickets."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from flight_server.requests.commands import RowKeys, ScanCommand, TakeCommand
from flight_server.requests.names import DatasetReference
from lance_core.errors import UnsupportedFeatureError
from lance_core.scan.changes import Changes, Numbers, RowSet, compare_versions
from lance_core.scan.plan.projection import CREATED_AT, LAST_UPDATED_AT, ROW_ID
from lance_core.table.snapshot import Snapshot

_KEYS_PER_TICKET = 40_000
"""A key has up to 20 digits, and a ticket at most 1 MiB."""
MAXIMUM_DELETED = 1_000_000
"""Rows that were deleted one by one; whole fragments do not count."""

_FRAGMENT_SHIFT = np.uint64(32)


@dataclass(frozen=True)
class ChangeCommands:
    """Commands that read the changes."""

    inserted: ScanCommand
    """In the later version, with the columns `_rowid`, `_row_created_at_version` and so on."""
    updated: ScanCommand
    """Rows as they are in the later version."""
    deleted: tuple[ScanCommand | TakeCommand, ...]
    """Rows as they were in the earlier version, with `_rowid`."""


def change_commands(
    reference: DatasetReference, begin: int, end: int, open_version: Callable[[DatasetReference], Snapshot]
) -> ChangeCommands:
    """Return the commands that read the changes on the branch that `reference` names.

    Raises:
        DatasetNotFoundError: there is no such dataset or version.
        InvalidInputError: the versions are the wrong way round.
        UnsupportedFeatureError: nobody can tell, see `compare_versions`; or too many rows were deleted.
    """
    earlier, later = (replace(reference, version=version) for version in (begin, end))
    changes = compare_versions(open_version(earlier), open_version(later))
    names = tuple(field.name for field in changes.end.manifest.schema.fields)
    columns = (*names, ROW_ID, CREATED_AT, LAST_UPDATED_AT)

    def scan(rows: RowSet) -> ScanCommand:
        return ScanCommand(later, columns=columns, filter=rows.filter, fragments=rows.fragments)

    return ChangeCommands(scan(changes.inserted), scan(changes.updated), tuple(_deleted(changes, earlier)))


def _deleted(changes: Changes, earlier: DatasetReference) -> Iterator[ScanCommand | TakeCommand]:
    """Whole fragments as one scan, single rows as takes."""
    manifest = changes.begin.manifest
    columns = (*(field.name for field in manifest.schema.fields), ROW_ID)
    num_rows = {fragment.id: fragment.num_rows for fragment in manifest.fragments}
    whole: list[int] = []
    single: list[Numbers] = []
    for addresses in _by_fragment(changes):
        fragment_id = int(addresses[0] >> _FRAGMENT_SHIFT)
        if len(addresses) == num_rows[fragment_id]:
            whole.append(fragment_id)
        else:
            single.append(addresses)
            if sum(map(len, single)) > MAXIMUM_DELETED:
                raise UnsupportedFeatureError(
                    f"more than {MAXIMUM_DELETED} rows were deleted; compare versions that are closer"
                )
    if whole:
        yield ScanCommand(earlier, columns=columns, fragments=tuple(whole))
    rows = np.concatenate([np.empty(0, np.uint64), *single])
    for start in range(0, len(rows), _KEYS_PER_TICKET):
        keys = RowKeys("row_addresses", tuple(rows[start : start + _KEYS_PER_TICKET].tolist()))
        yield TakeCommand(earlier, keys, columns)


def _by_fragment(changes: Changes) -> Iterator[Numbers]:
    """Yield the addresses of the deleted rows, those of one fragment together."""
    held: list[Numbers] = []
    for _, addresses in changes.deleted():
        cuts = np.flatnonzero(np.diff(addresses >> _FRAGMENT_SHIFT)) + 1
        for part in np.split(addresses, cuts):
            if held and held[-1][-1] >> _FRAGMENT_SHIFT != part[0] >> _FRAGMENT_SHIFT:
                yield np.concatenate(held)
                held = []
            held.append(part)
    if held:
        yield np.concatenate(held)
