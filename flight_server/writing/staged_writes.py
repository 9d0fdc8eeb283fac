"""Writes in two steps: uploads that are staged, and one commit of many. Free of Flight types."""

import logging
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass

from flight_server.catalog.local import Catalog
from flight_server.logs import log_event
from flight_server.requests.names import DatasetReference
from flight_server.requests.write_command import CommitCommand, WriteCommand
from flight_server.writing.changes import (
    OPERATIONS,
    Mutations,
    earlier_result,
)
from flight_server.writing.staged_commits import commit_writes
from flight_server.writing.staged_uploads import files_of, staged_writer
from flight_server.writing.staging import Claim, StagedWrite, Staging
from flight_server.writing.uploads import Batches
from lance_core.changes.compaction import CompactionTask, RewriteResult, discard, execute
from lance_core.commit.next_manifest import TableSettings
from lance_core.errors import (
    CommitConflictError,
    CommitUnknownError,
    CorruptFileError,
    DatasetExistsError,
    FileMissingError,
    InvalidInputError,
    LanceError,
    StorageError,
)
from lance_core.file.side_files import delete_data_file
from lance_core.pool import map_ahead
from lance_core.storage import Storage
from lance_core.table.refs import branch_storage
from lance_core.table.transaction import new_transaction, rewrite

# A claim of a commit that its server did not live to end is given up after this time. Its data files are
# left to the cleanup of the dataset, which knows what versions refer to.
_CLAIM_SECONDS = 7 * 24 * 3600.0


@dataclass(frozen=True)
class Committed:
    """Result of a commit of staged writes."""

    version: int
    num_rows: int | None = None
    """Rows that were staged. None where the batch of a stream was committed before."""


class StagedWrites:
    """Staged writes of the datasets of one catalog. Thread-safe."""

    def __init__(self, catalog: Catalog, mutations: Mutations, expiry: float) -> None:
        """`expiry`: seconds after which a staged write can no longer be committed, and is removed."""
        self._catalog = catalog
        self._mutations = mutations
        self._expiry = expiry

    def stage(self, command: WriteCommand, upload: Batches) -> str:
        """Write what is uploaded, for a commit to come; returns the receipt.

        Raises:
            DatasetNotFoundError: there is no such dataset or branch, and the command does not create one.
            DatasetExistsError: a dataset of this name is there and was to be created.
            LanceError: what is uploaded or asked for cannot be written; nothing was.
        """
        with self._mutations.target(command.dataset, creates=command.creates) as target:
            if target.snapshot is not None and command.mode == "create":
                raise DatasetExistsError(f"dataset {command.dataset.name} exists")
            writer = staged_writer(target, command, upload.schema)
            try:
                with self._mutations.abandonable(writer):
                    for batch in upload.batches():
                        writer.write(batch)
                return Staging(target.root).keep(writer.staged())
            except BaseException:
                writer.abort()
                raise

    def execute(self, reference: DatasetReference, task: CompactionTask) -> tuple[str, RewriteResult]:
        """Run one task of a compaction; the receipt, and what it did.

        Raises:
            LanceError: as `CompactionTask.execute` does.
        """
        with self._mutations.opened(reference) as opened:
            result = execute(opened.snapshot, task)
            try:
                transaction = rewrite(new_transaction(task.read_version), [(result.original, result.new)])
                write = StagedWrite(
                    operation="rewrite",
                    branch=reference.branch,
                    transaction=transaction,
                    settings=TableSettings(),
                    files=files_of(result.new),
                    staged_at=time.time(),
                )
                return Staging(opened.root).keep(write), result
            except BaseException:
                discard(opened.snapshot.storage, [result])
                raise

    def commit(self, command: CommitCommand) -> Committed:
        """Make one version of staged writes, of all of them or none.

        A `transaction_id` that was committed before is not committed again: its first result is given. Nor
        is a batch of a stream: where its version is gone, the latest one is given.

        Raises:
            InvalidInputError: receipts that there are not, or that do not go together; a missing file.
            CommitConflictError: another commit has a receipt, or another version makes this one impossible.
            CommitUnknownError: nobody can say whether the version was made; only the same `transaction_id`
                can find out.
            LanceError: others mean that nothing was committed; the receipts stay good.
        """
        operations = OPERATIONS[command.operation]
        with self._mutations.target(command.dataset, creates=command.operation == "overwrite") as target:
            earlier = earlier_result(target.storage, command.transaction_id, operations)
            if earlier is not None:
                return Committed(earlier.version, earlier.rows)
            properties = dict(command.properties)
            if command.stream is not None:
                # Another commit of the batch at this time has the same id, and `commit_writes` finds it.
                if target.snapshot is not None and command.stream.is_committed(
                    target.snapshot.manifest.config
                ):
                    return Committed(target.snapshot.manifest.version)
                properties |= command.stream.properties
            staging = Staging(target.root)
            writes = staging.read(command.staged)
            self._check(command, writes)
            transaction = new_transaction(
                _read_version(command, writes), uuid=command.transaction_id, properties=properties
            )
            held = staging.claim(command.staged, Claim(transaction.uuid, transaction.read_version))
            try:
                _check_files(target.storage, writes)
                manifest = commit_writes(command.operation, target, transaction, writes)
            except CommitUnknownError:
                raise
            except LanceError:
                # The same commit may have landed through another server meanwhile.
                earlier = earlier_result(target.storage, command.transaction_id, operations)
                if earlier is None:
                    staging.give_back(held)
                    raise
                return Committed(earlier.version, earlier.rows)
            staging.forget(command.staged)
            return Committed(manifest.version, sum(write.num_rows for write in writes))

    def abort(self, dataset: DatasetReference, receipts: Sequence[str]) -> int:
        """Remove staged writes; how many there were. Those that there are not are as good as removed.

        Raises:
            CommitConflictError: one of them is being committed.
        """
        with self._mutations.target(dataset, creates=True) as target:
            return sum(_remove(target.root, Staging(target.root), receipt) for receipt in receipts)

    def expire(self) -> None:
        """Remove what was staged and never committed, when its time is over, in all datasets of the root."""
        for path in self._catalog.staging_paths():
            root = self._catalog.storage(path)
            staging = Staging(root)
            try:
                for receipt, age in staging.older_than(self._expiry):
                    self._expire(root, staging, receipt, age)
            except LanceError as error:
                facts = {"error": type(error).__name__, "message": str(error)}
                log_event(logging.WARNING, "sweep_failed", facts)
            self._mutations.tidy(path)

    def _expire(self, root: Storage, staging: Staging, receipt: str, age: float) -> None:
        try:
            claim = staging.claim_of(receipt)
            if claim is None or claim.transaction_id is None:
                _remove(root, staging, receipt)
                log_event(logging.INFO, "expired", {"receipt": receipt})
            elif age >= _CLAIM_SECONDS:
                staging.forget([receipt])
        except CommitConflictError:
            pass  # it is being committed at this moment
        except LanceError as error:
            facts = {"receipt": receipt, "error": type(error).__name__, "message": str(error)}
            log_event(logging.WARNING, "sweep_failed", facts)

    def _check(self, command: CommitCommand, writes: Sequence[StagedWrite]) -> None:
        for receipt, write in zip(command.staged, writes, strict=True):
            if write.operation != command.operation:
                raise InvalidInputError(
                    f"staged write {receipt} is of another kind",
                    expected=command.operation,
                    found=write.operation,
                )
            if write.branch != command.dataset.branch:
                raise InvalidInputError(f"staged write {receipt} is for branch {write.branch or 'main'}")
            if time.time() - write.staged_at >= self._expiry:
                raise InvalidInputError(f"staged write {receipt} has expired")
            if write.settings != writes[0].settings:
                raise InvalidInputError("the staged writes are of different file versions")


def _read_version(command: CommitCommand, writes: Sequence[StagedWrite]) -> int:
    """Return the version on which a commit is made: the oldest of the writes, so that no conflict is
    missed.
    """
    oldest = min(write.transaction.read_version for write in writes)
    if command.read_version is None:
        return oldest
    # What an overwrite replaces is for the caller to say. What is appended belongs to a schema.
    return command.read_version if command.operation == "overwrite" else min(oldest, command.read_version)


def _check_files(storage: Storage, writes: Sequence[StagedWrite]) -> None:
    """Raise InvalidInputError if a staged file is gone, CorruptFileError if it has another size."""
    files = [file for write in writes for file in write.files]

    def check(file: tuple[str, int]) -> None:
        path, size = file
        try:
            # The size is not passed on: a remote storage would believe it and ask for nothing.
            with closing(storage.open_file(path)) as opened:
                if opened.size != size:
                    raise CorruptFileError(
                        "file has the wrong size", file=path, expected=size, found=opened.size
                    )
        except FileMissingError:
            raise InvalidInputError("a data file of a staged write is gone, write it again") from None

    for _ in map_ahead(check, files, storage.is_remote):
        pass


def _remove(root: Storage, staging: Staging, receipt: str) -> bool:
    """Remove one staged write with its files; whether it was there."""
    try:
        (write,) = staging.read([receipt])
        staging.claim([receipt], Claim(None))
    except InvalidInputError:
        staging.sweep(receipt)
        return False
    storage = branch_storage(root, write.branch)
    for path, _ in write.files:
        with suppress(StorageError):
            delete_data_file(storage, path)
    staging.forget([receipt])
    return True
