"""Commits: a transaction becomes the next manifest, or it is refused.

  transaction file -> next manifest, put exclusively -> done

The writer that puts the manifest of a version first has made this version. A slower writer reads the
transactions of the versions since, applies its transaction to the newest version, and tries again. A commit
has one of three outcomes:

  landed    the version exists, and on local files it survives a power failure
  refused   nothing happened; `CommitConflictError`, or the error of the storage
  unknown   the storage did not answer, or the version may be outside the history (see
            `lance_core.table.versions.require_in_history`); `CommitUnknownError`. Nothing is deleted or tried
            again.

Source: docs/format.md, "Writing a version".
"""

import math
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from lance_core.commit.conflict_rules import touched_fragments
from lance_core.commit.conflicts import Verdict, check_conflict
from lance_core.commit.file_changes import look_at_later
from lance_core.commit.index_section import DeferredMoves
from lance_core.commit.next_manifest import TableSettings, dictionary_values, next_manifest
from lance_core.commit.rebase import changed_fragments, drop_whole_fragments, forget_columns, rebase
from lance_core.commit.transaction_lookup import require_operation
from lance_core.errors import (
    AlreadyExistsError,
    CommitConflictError,
    CommitUnknownError,
    InvalidInputError,
    LanceError,
    PutUnknownError,
    StorageError,
    VersionNotFoundError,
)
from lance_core.maintenance.auto_cleanup import auto_clean_up
from lance_core.pool import run_all
from lance_core.process.counters import COMMITS, CONFLICTS, RETRIES
from lance_core.proto import table_pb2
from lance_core.proto.transaction_pb2 import Transaction
from lance_core.storage import Storage
from lance_core.table.deletions import Offsets
from lance_core.table.manifest import Manifest, serialize_manifest, written_manifest
from lance_core.table.manifest_dictionaries import place_dictionaries
from lance_core.table.snapshot import counted_manifest, read_manifest
from lance_core.table.transaction import DIRECTORY, file_name, read_transaction, write_transaction
from lance_core.table.versions import (
    HINT,
    LISTED_AT_ONCE,
    Listing,
    Published,
    is_detached,
    list_manifests,
    prepare_manifest,
    version_path,
)

MAX_ATTEMPTS = 20
_FIRST_WAIT_SECONDS = 0.01
_MAX_DOUBLINGS = 7


def commit(
    storage: Storage,
    transaction: Transaction,
    settings: TableSettings | None = None,
    *,
    read: Manifest | None = None,
    affected_rows: Mapping[int, Offsets] | None = None,
    writes: Sequence[Callable[[], object]] = (),
    inverted_names: bool = True,
    sync: bool = True,
    max_attempts: int = MAX_ATTEMPTS,
    timeout: timedelta | None = None,
    deferred_moves: DeferredMoves | None = None,
) -> Manifest:
    """Make the next version from a transaction, whose data files are complete.

    If a version since the read version was made by this transaction, that version is returned and nothing is
    committed.

    Args:
        storage: storage of the table, or of the new table.
        transaction: transaction with an operation. Versions after its read version are checked for conflicts.
        settings: settings of new tables and of overwrites, see `TableSettings`.
        read: manifest of the version that the transaction was made on, if the caller has it. Parts of it that
            are the same in the newest version are not parsed again. If it is the newest version, and its tag
            is known, it is not read again.
        affected_rows: by fragment id, the physical offsets of the rows that a delete or an update deletes.
            With them the transaction can be rebased if other writers deleted other rows of the fragment. The
            fragment's deletion file in the transaction contains these rows, too.
        writes: writes of files that the transaction names. They run beside the write of the transaction file,
            because each of them waits for the disk or for the network.
        inverted_names: naming scheme of the manifests of a new table, see `versions`. Other tables keep their
            scheme.
        sync: make everything durable before the commit is acknowledged.
        max_attempts: number of attempts, each of which may lose against another writer.
        timeout: no attempt begins later than this after the first; None means no limit. It must be positive.
        deferred_moves: moves of a rewrite that leaves index files as they are.

    Returns:
        The manifest of the new version.

    Raises:
        InvalidInputError: another operation has used the id of the transaction, the read version is detached,
            or `timeout` is not positive.
        CommitConflictError: another version prevents this commit. `retryable` says whether computing the
            change again on that version can help.
        CommitUnknownError: the version may or may not exist in the history; the message says why.
        LanceError: another error; nothing was committed.
    """
    if timeout is not None and timeout <= timedelta(0):
        raise InvalidInputError("commit_timeout", expected="a non-zero, positive duration", found=timeout)
    deadline = math.inf if timeout is None else time.monotonic() + timeout.total_seconds()
    attempt = _Attempt(
        storage,
        transaction,
        settings or TableSettings(),
        read,
        affected_rows or {},
        writes,
        inverted_names,
        sync,
        deferred_moves,
    )
    operation = _operation_of(transaction)
    try:
        for number in range(max_attempts):
            if number:
                RETRIES.add(operation, "outpaced")
                _wait(number)
            if number and time.monotonic() > deadline:
                max_attempts = number
                break
            manifest = attempt.run()
            if manifest is not None:
                attempt.tidy_up()
                attempt.clean_up(manifest)
                COMMITS.add(operation, "landed")
                return manifest
    except _CommittedBeforeError as found:
        # Remove nothing: one of our attempts may have made that version, although the storage reported a
        # failure.
        COMMITS.add(operation, "repeated")
        return found.manifest
    except CommitUnknownError:
        COMMITS.add(operation, "unknown")
        raise
    except LanceError as error:
        COMMITS.add(operation, "conflict" if isinstance(error, CommitConflictError) else "failed")
        attempt.discard()
        raise
    COMMITS.add(operation, "conflict")
    attempt.discard()
    raise CommitConflictError(
        f"other writers were faster {max_attempts} times", retryable=True, outpaced=True
    )


class _CommittedBeforeError(Exception):
    """Signal that this transaction has already made a version after its read version."""

    def __init__(self, manifest: Manifest) -> None:
        super().__init__()
        self.manifest = manifest


@dataclass(frozen=True)
class _Plan:
    """Manifest of the next version, and what it is made of."""

    current: Manifest | None
    """Version before it; None for a new table."""
    message: table_pb2.Manifest
    transaction: bytes
    """Serialized transaction."""
    index_section: bytes | None
    data: bytes
    """Content of the manifest file."""


class _Attempt:
    """State that the attempts of one commit share."""

    def __init__(
        self,
        storage: Storage,
        transaction: Transaction,
        settings: TableSettings,
        read: Manifest | None,
        affected_rows: Mapping[int, Offsets],
        writes: Sequence[Callable[[], object]],
        inverted_names: bool,
        sync: bool,
        deferred_moves: DeferredMoves | None,
    ) -> None:
        self._storage = storage
        self._deferred_moves = deferred_moves
        self._transaction = Transaction()
        self._transaction.CopyFrom(transaction)
        self._settings = settings
        self._read = read
        self._affected_rows = affected_rows
        self._writes = writes
        """Writes that have to end before a version is made."""
        self._inverted_names = inverted_names
        self._sync = sync
        self._made_on = transaction.read_version
        self._checked = transaction.read_version
        """Newest version that was checked for conflicts."""
        self._based_on = read if read is not None and read.version == transaction.read_version else None
        """Version to which the fragments of the transaction belong, if it is known."""
        self._current: Manifest | None = None
        """Version to which the last attempt applied the transaction."""
        self._has_forgotten_hint = False
        self._may_assume = storage.is_remote
        """Whether the next attempt may assume that the read version is the newest; see `_begin`."""
        self._transaction_path: str | None = None
        """Path of the transaction file; None before it is written, or if another commit wrote it."""
        self._stored_transaction: bytes | None = None
        """Content of the transaction file that was last written or found."""
        self._written: list[str] = []
        """Files that this commit wrote. Nothing refers to them unless it lands."""
        self._replaced = drop_whole_fragments(self._transaction)
        """Files that nothing refers to after the commit has landed."""

    def run(self) -> Manifest | None:
        """Try to commit once; return None if another writer made the version first."""
        plan, listing = self._begin()
        if plan is None:
            plan = self._plan(None if listing is None else self._check(listing))
        self._current = plan.current
        message = plan.message
        writes = self._writes_of(plan)
        if listing and listing.may_have_hint and not self._has_forgotten_hint:
            writes.append(self._forget_hint)
        inverted = listing.is_inverted if listing else self._inverted_names
        made = written_manifest(
            message,
            plan.transaction,
            plan.index_section,
            version_path(message.version, inverted),
            plan.data,
            self._storage.read_range,
        )
        look = look_at_later(self._storage, made, lambda: plan.current)
        prepared: list[Callable[[], Published]] = []

        def prepare() -> None:
            prepared.append(
                prepare_manifest(self._storage, message.version, plan.data, inverted, self._sync, look)
            )

        run_all([*writes, prepare], is_remote=True)  # each waits for the disk or for the network
        self._writes = ()
        try:
            tag = prepared[0]().tag
        except AlreadyExistsError:
            return None
        except PutUnknownError as error:
            raise CommitUnknownError(
                f"version {message.version} may or may not exist in the history of the table: {error}"
            ) from error
        if message.transaction_file and self._transaction_path != f"{DIRECTORY}/{message.transaction_file}":
            self._keep_name(f"{DIRECTORY}/{message.transaction_file}")
        made = replace(made, tag=tag)
        return made if plan.current is None else made.sharing(plan.current)

    def _begin(self) -> tuple["_Plan | None", Listing | None]:
        """Return a plan if it is made on the newest version already, and the listing of the versions.

        In a remote storage, the first attempt assumes that the read version is the newest. Then its writes
        run beside the listing, and if the tag in the listing is that of the read manifest, this manifest is
        not read again. A tag tells the read version from one with the same number in a table that was dropped
        and made again.
        """
        plan = self._assumed_plan()
        self._may_assume = False
        if plan is None:
            return None, list_manifests(self._storage)
        listings: list[Listing | None] = []

        def list_versions() -> None:
            listings.append(list_manifests(self._storage))

        writes = self._writes_of(plan)
        if plan.message.version > LISTED_AT_ONCE:
            writes.append(self._forget_hint)  # the listing does not tell whether there is one
        run_all([*writes, list_versions], is_remote=True)
        self._writes = ()
        [listing] = listings
        if plan.current is None:
            is_newest = listing is None
        else:
            newest = plan.current.version, plan.current.tag
            is_newest = listing is not None and (listing.latest, listing.tag) == newest
        return (plan if is_newest else None), listing

    def _assumed_plan(self) -> "_Plan | None":
        """Return the plan on the read version; None if a listing cannot tell that this version is the newest,
        or if there is no plan on it.
        """
        version, read = self._transaction.read_version, self._read
        if read is None:
            is_known = version == 0  # a new table
        else:
            is_known = read.tag is not None and read.version == version and not is_detached(version)
        if not (self._may_assume and is_known):
            return None
        with suppress(LanceError):  # the newest version tells the error
            return self._plan(read)
        return None

    def _plan(self, current: Manifest | None) -> "_Plan":
        """Return the version after `current`, which is None for a new table.

        Errors are those of `next_manifest`.
        """
        message, index_section = next_manifest(
            current,
            self._transaction,
            self._settings,
            read_version=lambda version: self._counted(read_manifest(self._storage, version)),
            deferred_moves=self._deferred_moves,
        )
        serialized = self._transaction.SerializeToString()
        head = place_dictionaries(
            message, dictionary_values(self._storage, current, self._transaction, self._settings)
        )
        data = serialize_manifest(message, serialized, index_section, head)
        return _Plan(current, message, serialized, index_section, data)

    def _writes_of(self, plan: "_Plan") -> list[Callable[[], object]]:
        """Return the writes that are left to be done before the version of a plan is made."""
        writes = list(self._writes)
        if plan.message.transaction_file:
            writes.append(partial(self._write_transaction, plan.transaction))
        return writes

    def _counted(self, manifest: Manifest) -> Manifest:
        """Return an earlier manifest with its row counts.

        Old releases stored none or wrong ones. The new version names this library as its writer, so that
        readers trust the counts. Errors are those of `counted_manifest`.
        """
        return counted_manifest(self._storage, manifest)

    def discard(self) -> None:
        """Remove the files that this commit wrote, because nothing refers to them. Failures are ignored.

        Another process may commit the same transaction id and rely on our transaction file, whose name
        `find_committed` searches. Both sides check: the other commit looks for the file after it has made a
        version, see `_keep_name`. This commit looks for such a version after it has removed the file. The
        later check finds the other side.
        """
        path = self._transaction_path
        self._delete([*self._written, *([path] if path else [])])
        if path and self._has_landed_elsewhere():
            self._keep_name(path)

    def _has_landed_elsewhere(self) -> bool:
        """Return whether this transaction has made an unchecked version, or whether that cannot be
        determined.
        """
        try:
            listing = list_manifests(self._storage)
            latest = listing.latest if listing else 0
            return any(
                read_manifest(self._storage, version).transaction_uuid == self._transaction.uuid
                for version in range(self._checked + 1, latest + 1)
            )
        except LanceError:
            return True

    def _keep_name(self, path: str) -> None:
        """Write the transaction file if it is missing."""
        with suppress(StorageError):  # the usual error: the file exists
            self._storage.put_if_absent(path, self._transaction.SerializeToString(), sync=self._sync)

    def tidy_up(self) -> None:
        """Remove the replaced files after the commit has landed."""
        self._delete(self._replaced)

    def clean_up(self, made: Manifest) -> None:
        """Run the automatic cleanup after the commit has landed, if the settings of the table ask for it."""
        if self._current is not None:
            auto_clean_up(self._storage, self._current, made)

    def _delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            with suppress(StorageError):
                self._storage.delete_file(path)

    def _write_transaction(self, serialized: bytes) -> None:
        name = file_name(self._transaction)
        path = f"{DIRECTORY}/{name}"
        if serialized == self._stored_transaction:
            return
        is_new = write_transaction(self._storage, name, serialized, sync=self._sync)
        self._stored_transaction = serialized
        if not is_new:
            # a commit of the same id wrote it; the check of newer versions finds what that commit makes
            return
        if self._transaction_path is not None:  # the file of the transaction before it was rebased
            self._replaced.append(self._transaction_path)
            self._written.append(self._transaction_path)
        self._transaction_path = path

    def _check(self, listing: Listing) -> Manifest:
        """Return the newest version, after checking all versions since the last check for conflicts."""
        current = read_manifest(self._storage, listing.latest, listing.path)
        current = self._counted(current if self._read is None else current.sharing(self._read))
        if is_detached(self._transaction.read_version):
            raise InvalidInputError(
                "a version of the history cannot be made on a detached version; commit with detached=True",
                found=f"version {self._transaction.read_version}",
            )
        if current.version < self._transaction.read_version:
            raise CommitConflictError(
                f"version {self._transaction.read_version} was read, {current.version} is the latest",
                retryable=True,
            )
        shared: set[int] = set()
        for version in range(self._checked + 1, current.version + 1):
            try:
                other = current if version == current.version else read_manifest(self._storage, version)
                committed = read_transaction(self._storage, other)
            except VersionNotFoundError:
                raise CommitConflictError(
                    f"version {version} was removed before it could be compared", retryable=True
                ) from None
            if committed.uuid == self._transaction.uuid:
                require_operation(committed, (str(self._transaction.WhichOneof("operation")),), version)
                raise _CommittedBeforeError(other)
            verdict = check_conflict(self._transaction, committed)
            if verdict is not Verdict.OK:
                CONFLICTS.add(_operation_of(self._transaction), _operation_of(committed), verdict.value)
            if verdict is Verdict.REBASE and committed.HasField("project"):
                forget_columns(self._transaction, committed.project, current.version)
            elif verdict is Verdict.REBASE:
                shared |= touched_fragments(self._transaction) & touched_fragments(committed)
            if verdict in (Verdict.RETRY, Verdict.FAIL):
                mine, theirs = (each.WhichOneof("operation") for each in (self._transaction, committed))
                raise CommitConflictError(
                    f"{mine} is in conflict with {theirs or 'an unknown operation'} of version {version}",
                    retryable=verdict is Verdict.RETRY,
                )
        if self._based_on is not None:
            # A version outside the history may have the number of one that changed them.
            shared |= changed_fragments(self._based_on, current, touched_fragments(self._transaction))
        if shared:
            rebase(
                self._storage,
                current,
                self._transaction,
                self._affected_rows,
                shared,
                made_on=self._made_on,
                written=self._written,
                replaced=self._replaced,
                sync=self._sync,
            )
        self._checked = current.version
        self._based_on = current
        return current

    def _forget_hint(self) -> None:
        """Remove the hint, because the reference trusts it; without a hint the reference lists
        the versions.

        This runs beside the other writes, so that it costs no time of its own.
        """
        with suppress(StorageError):  # a low hint only costs time as long as no version is missing
            self._storage.delete_file(HINT)
            self._has_forgotten_hint = True


def _operation_of(transaction: Transaction) -> str:
    """Return the field name of the operation, as it is counted."""
    return transaction.WhichOneof("operation") or "unknown"


def _wait(attempt: int) -> None:
    time.sleep(random.uniform(0, _FIRST_WAIT_SECONDS * 2 ** min(attempt, _MAX_DOUBLINGS)))
