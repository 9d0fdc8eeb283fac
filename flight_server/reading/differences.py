"""Rows that were inserted, updated and deleted between two versions, as commands that read them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from flight_server.catalog.views import View
from flight_server.requests.commands import RowKeys, ScanCommand, TakeCommand
from flight_server.requests.names import DatasetReference
from lance_core.api.serving import (
    CREATED_AT,
    LAST_UPDATED_AT,
    ROW_ID,
    RowDifferences,
    RowSet,
    addresses_meeting,
    compare_versions,
)
from lance_core.errors import UnsupportedFeatureError

_KEYS_PER_TICKET = 40_000
"""Most keys of one ticket: a key has up to 20 digits, and a ticket at most 1 MiB."""
MAXIMUM_DELETED = 1_000_000
"""Most deleted rows that are listed. Rows of fragments that were removed as a whole do not count."""

Numbers = npt.NDArray[np.uint64]

_FRAGMENT_SHIFT = np.uint64(32)


@dataclass(frozen=True)
class DifferenceCommands:
    """Commands that read the rows that differ."""

    inserted: ScanCommand
    """Rows as they are in the later version, with the columns `_rowid`, `_row_created_at_version` and so on.
    """
    updated: ScanCommand
    """Rows as they are in the later version."""
    deleted: tuple[ScanCommand | TakeCommand, ...]
    """Rows as they were in the earlier version, with `_rowid`."""


def difference_commands(
    reference: DatasetReference, begin: int, end: int, open_version: Callable[[DatasetReference], View]
) -> DifferenceCommands:
    """Return the commands that read what differs on the branch that `reference` names.

    Raises:
        DatasetNotFoundError: there is no such dataset or version.
        InvalidInputError: `begin` is the newer version.
        UnsupportedFeatureError: the rows cannot be told apart, see `compare_versions`; or too many rows were
            deleted.
    """
    earlier, later = (replace(reference, version=version) for version in (begin, end))
    before, after = open_version(earlier), open_version(later)
    differences = compare_versions(before.snapshot, after.snapshot)
    names = tuple(field.name for field in after.schema.fields)
    columns = (*names, ROW_ID, CREATED_AT, LAST_UPDATED_AT)

    def scan(rows: RowSet) -> ScanCommand:
        return ScanCommand(later, columns=columns, filter=rows.filter, fragments=rows.fragments)

    return DifferenceCommands(
        scan(differences.inserted), scan(differences.updated), tuple(_deleted(differences, earlier, before))
    )


def _deleted(
    differences: RowDifferences, earlier: DatasetReference, view: View
) -> Iterator[ScanCommand | TakeCommand]:
    """Yield one scan of the fragments that were removed as a whole, and takes of single rows."""
    manifest = differences.begin.manifest
    columns = (*(field.name for field in view.schema.fields), ROW_ID)
    num_rows = {fragment.id: fragment.num_rows for fragment in manifest.fragments}
    whole: list[int] = []
    single: list[Numbers] = []
    for addresses in _by_fragment(differences):
        fragment_id = int(addresses[0] >> _FRAGMENT_SHIFT)
        if len(addresses) == num_rows[fragment_id]:
            whole.append(fragment_id)
        else:
            if view.guard is not None:  # tickets hold the addresses, so they are of rows that may be seen
                addresses = addresses_meeting(view.snapshot, view.guard, addresses)
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


def _by_fragment(differences: RowDifferences) -> Iterator[Numbers]:
    """Yield the addresses of the deleted rows, one array per fragment."""
    held: list[Numbers] = []
    for _, addresses in differences.deleted():
        cuts = np.flatnonzero(np.diff(addresses >> _FRAGMENT_SHIFT)) + 1
        for part in np.split(addresses, cuts):
            if held and held[-1][-1] >> _FRAGMENT_SHIFT != part[0] >> _FRAGMENT_SHIFT:
                yield np.concatenate(held)
                held = []
            held.append(part)
    if held:
        yield np.concatenate(held)
