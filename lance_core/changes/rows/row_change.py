"""A change of rows on its way into a version: written, then committed once, however often it is asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from lance_core.changes.retry import with_retries
from lance_core.commit.commit import commit
from lance_core.errors import CommitUnknownError, LanceError, StorageError
from lance_core.proto import transaction_pb2
from lance_core.storage import Storage
from lance_core.table.deletions import Offsets
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import Snapshot
from lance_core.table.transaction import new_transaction, read_transaction
from lance_core.write.fragments import FragmentWriter

COUNTS = "lance_flight:counts"
"""Property of transactions that change rows: their counts as JSON, for the answer to a repetition."""

Counts = dict[str, int]


@dataclass
class RowChange:
    """Transaction, files and counts of one attempt at a change.

    Attributes:
        transaction: has its operation when the change is complete.
        affected_rows: physical offsets of the rows that the change takes away, by fragment.
        counts: what the caller is told.
        files: paths of files that were written for it and that no version names yet.
        writers: what writes its data files.
    """

    transaction: transaction_pb2.Transaction
    affected_rows: Mapping[int, Offsets] = field(default_factory=dict)
    counts: Counts = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    writers: list[FragmentWriter] = field(default_factory=list)

    def discard(self, storage: Storage) -> None:
        """Remove the files; what cannot be removed is an orphan, and harmless."""
        for writer in self.writers:
            with suppress(StorageError):
                writer.abort()
        for path in self.files:
            with suppress(StorageError):
                storage.delete_file(path)
        self.files.clear()


Maker = Callable[[Snapshot, RowChange], None]
"""Writes what a change needs, and completes it. Every file is noted in the change."""


def make_row_change(snapshot: Snapshot, make: Maker, transaction_id: str | None = None) -> RowChange:
    """Return a complete change on a version; files of one that fails are removed.

    Raises:
        LanceError: as `make` does.
    """
    change = RowChange(new_transaction(snapshot.manifest.version, uuid=transaction_id))
    try:
        make(snapshot, change)
    except BaseException:
        change.discard(snapshot.storage)
        raise
    change.transaction.transaction_properties[COUNTS] = json.dumps(change.counts)
    return change


def commit_row_change(
    snapshot: Snapshot,
    make: Maker,
    operation: str,
    *,
    transaction_id: str | None,
    conflict_retries: int,
    retry_timeout: timedelta,
    sync: bool,
) -> tuple[Snapshot, Counts]:
    """Make a change on a version and commit it, again on the newest version after a conflict.

    A transaction id that was committed before changes nothing: the version that it made is returned.

    Raises:
        CommitConflictError: other commits make the change impossible, or there were too many.
        CommitUnknownError: nobody can say whether the version was made; files are kept.
        LanceError: as `make` does. Nothing was committed, and what was written is removed.
    """

    def attempt(current: Snapshot) -> Manifest:
        change = make_row_change(current, make, transaction_id)
        try:
            return commit(current.storage, change.transaction, affected_rows=change.affected_rows, sync=sync)
        except CommitUnknownError:
            raise
        except LanceError:  # what else goes wrong says nothing about whether the version was made
            change.discard(current.storage)
            raise

    made = with_retries(
        snapshot,
        attempt,
        operation,
        transaction_id=transaction_id,
        conflict_retries=conflict_retries,
        retry_timeout=retry_timeout,
    )
    # Not those of the last attempt: a repetition that ran beside it may have been faster.
    return made, _counts(made.storage, made.manifest)


def _counts(storage: Storage, manifest: Manifest) -> Counts:
    """Return the counts in the transaction of a version; empty if it is of another kind."""
    noted = read_transaction(storage, manifest).transaction_properties.get(COUNTS, "{}")
    counts: Counts = json.loads(noted)
    return counts
