"""One change of rows: write its files, commit it once, and repeat it after conflicts."""

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
"""Key of the transaction property with the counts as JSON. A repeated change returns them again."""

Counts = dict[str, int]


@dataclass
class RowChange:
    """Transaction, files and counts of one attempt at a change.

    Attributes:
        transaction: The transaction. It has an operation when the change is complete.
        affected_rows: Physical offsets of the rows that the change removes, by fragment id.
        counts: Numbers of rows for the caller.
        files: Paths of files that no version names yet.
        writes: Writes of deletion files, puts and syncs, which have to end before a version names the files.
        writers: Writers of its data files.
    """

    transaction: transaction_pb2.Transaction
    affected_rows: Mapping[int, Offsets] = field(default_factory=dict)
    counts: Counts = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    writes: list[Callable[[], None]] = field(default_factory=list)
    writers: list[FragmentWriter] = field(default_factory=list)

    def discard(self, storage: Storage) -> None:
        """Remove the files. If one cannot be removed, a cleanup removes it later."""
        for writer in self.writers:
            with suppress(StorageError):
                writer.abort()
        for path in self.files:
            with suppress(StorageError):
                storage.delete_file(path)
        self.files.clear()


Maker = Callable[[Snapshot, RowChange], None]
"""Function that writes the data files of a change and completes its transaction.

It adds each file, and the writes of deletion files, to the change.
"""


def make_row_change(
    snapshot: Snapshot, make: Maker, transaction_id: str | None = None, *, defer_writes: bool = False
) -> RowChange:
    """Return a complete change of a version. If something fails, the files are removed.

    With `defer_writes`, the caller runs `RowChange.writes`.

    Raises:
        LanceError: The errors of `make`, or a deletion file cannot be written.
    """
    change = RowChange(new_transaction(snapshot.manifest.version, uuid=transaction_id))
    try:
        make(snapshot, change)
        for write in () if defer_writes else change.writes:
            write()
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
    """Make a change and commit it. After a conflict, make it again on the newest version.

    If the transaction id was committed before, return the version of that commit.

    Args:
        snapshot: The version to change.
        make: Writes the files and completes the transaction.
        operation: Field name of the operation in the transaction.
        transaction_id: UUID of the transaction; a new one if None.
        conflict_retries, retry_timeout: See `with_retries`.
        sync: On local disks make everything durable before returning.

    Returns:
        The new version and the counts of the change.

    Raises:
        CommitConflictError: Another commit is in conflict with the change, or there were too many commits.
        CommitUnknownError: The storage did not tell whether the version was made; files are kept.
        LanceError: The errors of `make`. Nothing was committed, and written files are removed.
    """

    def attempt(current: Snapshot) -> Manifest:
        change = make_row_change(current, make, transaction_id, defer_writes=True)
        try:
            return commit(
                current.storage,
                change.transaction,
                read=current.manifest,
                affected_rows=change.affected_rows,
                writes=change.writes,
                sync=sync,
            )
        except CommitUnknownError:
            raise
        except LanceError:  # other exceptions do not tell whether the version was made
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
    # The counts come from the committed transaction: a concurrent repetition may have committed first.
    return made, _counts(made.storage, made.manifest)


def _counts(storage: Storage, manifest: Manifest) -> Counts:
    """Return the counts in the transaction of a version; empty if it has none."""
    noted = read_transaction(storage, manifest).transaction_properties.get(COUNTS, "{}")
    counts: Counts = json.loads(noted)
    return counts
