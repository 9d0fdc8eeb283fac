"""Writes in two steps: uploads that are staged, and one commit of many. Free of Flight types."""

import logging
import time
from collections.abc import Sequence
from contextlib import suppress

from flight_server.catalog import Catalog
from flight_server.mutations import Batches, Mutations, Target, earlier_result, write_options
from flight_server.names import DatasetReference
from flight_server.staging import Claim, StagedWrite, Staging
from flight_server.write_command import CommitCommand, WriteCommand
from lance_core.errors import (
    CommitConflictError,
    CommitUnknownError,
    DatasetExistsError,
    FileMissingError,
    InvalidInputError,
    LanceError,
    StorageError,
)
from lance_core.pool import map_ahead
from lance_core.proto import transaction_pb2
from lance_core.storage import Storage
from lance_core.table.commit import commit
from lance_core.table.refs import branch_storage
from lance_core.table.transaction import new_transaction
from lance_core.write.dataset import DatasetWriter, Mode
from lance_core.write.fragments import DIRECTORY as DATA

# A claim of a commit that its server did not live to end is given up after this time. Its data files are
# left to the cleanup of the dataset, which knows what versions refer to.
_CLAIM_SECONDS = 7 * 24 * 3600.0

_log = logging.getLogger(__name__)


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
            DatasetNotFoundError: an append to a dataset or branch that is not there.
            DatasetExistsError: a dataset of this name is there and was to be created.
            LanceError: what is uploaded or asked for cannot be written; nothing was.
        """
        with self._mutations.target(command.dataset, creates=command.mode != "append") as target:
            if target.snapshot is not None and command.mode == "create":
                raise DatasetExistsError(f"dataset {command.dataset.name} exists")
            mode: Mode = "create" if target.snapshot is None else command.mode
            options = write_options(command)
            writer = DatasetWriter(target.storage, upload.schema, mode, options, base=target.snapshot)
            try:
                with self._mutations.abandonable(writer):
                    for batch in upload.batches():
                        writer.write(batch)
                transaction = writer.transaction()
                operation = str(transaction.WhichOneof("operation"))
                write = StagedWrite(
                    operation=operation,
                    branch=command.dataset.branch,
                    transaction=transaction,
                    settings=writer.settings,
                    files=tuple(
                        (f"{DATA}/{file.path}", file.file_size_bytes)
                        for fragment in getattr(transaction, operation).fragments
                        for file in fragment.files
                    ),
                    staged_at=time.time(),
                )
                return Staging(target.root).keep(write)
            except BaseException:
                writer.abort()
                raise

    def commit(self, command: CommitCommand) -> int:
        """Make one version of staged writes and return it, all of them or none.

        A `transaction_id` that was committed before is not committed again: its first result is given.

        Raises:
            InvalidInputError: receipts that there are not, or that do not go together; a missing file.
            CommitConflictError: another commit has a receipt, or another version makes this one impossible.
            CommitUnknownError: nobody can say whether the version was made; only the same `transaction_id`
                can find out.
            LanceError: others mean that nothing was committed; the receipts stay good.
        """
        with self._mutations.target(command.dataset, creates=command.operation == "overwrite") as target:
            earlier = earlier_result(target.storage, command.transaction_id)
            if earlier is not None:
                return earlier.version
            staging = Staging(target.root)
            writes = staging.read(command.staged)
            self._check(command, writes)
            transaction = _combined(command, writes)
            claimed = staging.claim(command.staged, Claim(transaction.uuid, transaction.read_version))
            try:
                _check_files(target.storage, writes)
                manifest = commit(target.storage, transaction, writes[0].settings)
            except CommitUnknownError:
                raise
            except LanceError:
                return self._result_after(target, command, staging, claimed)
            staging.forget(command.staged)
            return manifest.version

    def _result_after(
        self, target: Target, command: CommitCommand, staging: Staging, claimed: Sequence[str]
    ) -> int:
        """To be called while a refusal is handled: the same commit may have landed through another server."""
        earlier = earlier_result(target.storage, command.transaction_id)
        if earlier is None:
            staging.release(claimed)
            raise
        return earlier.version

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
            try:
                self._expire_below(root)
            except LanceError as error:
                _log.warning("staged writes of %s cannot be looked through: %s", path, error)

    def _expire_below(self, root: Storage) -> None:
        staging = Staging(root)
        for receipt, age, is_claimed in staging.older_than(self._expiry):
            claim = staging.claim_of(receipt) if is_claimed else None
            if claim is not None and claim.transaction_id is not None:
                if age >= _CLAIM_SECONDS:
                    staging.forget([receipt])
                continue
            with suppress(CommitConflictError):
                _remove(root, staging, receipt)
                _log.info("staged write %s expired", receipt)

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


def _combined(command: CommitCommand, writes: Sequence[StagedWrite]) -> transaction_pb2.Transaction:
    """One transaction of all; it is made on the oldest version of theirs, so that no conflict is missed."""
    read_version = min(write.transaction.read_version for write in writes)
    if command.read_version is not None:
        # What an overwrite replaces is for the caller to say. What is appended belongs to a schema.
        is_free = command.operation == "overwrite"
        read_version = command.read_version if is_free else min(read_version, command.read_version)
    transaction = new_transaction(read_version, uuid=command.transaction_id, properties=command.properties)
    first, *others = (getattr(write.transaction, command.operation) for write in writes)
    operation = getattr(transaction, command.operation)
    operation.CopyFrom(first)
    for other in others:
        if command.operation == "overwrite" and (
            list(other.schema) != list(first.schema)
            or dict(other.schema_metadata) != dict(first.schema_metadata)
        ):
            raise InvalidInputError("the staged writes have different schemas")
        operation.fragments.extend(other.fragments)
    return transaction


def _check_files(storage: Storage, writes: Sequence[StagedWrite]) -> None:
    files = [file for write in writes for file in write.files]

    def check(file: tuple[str, int]) -> None:
        try:
            storage.open_file(*file).close()
        except FileMissingError:
            raise InvalidInputError("a data file of a staged write is gone, write it again") from None

    for _ in map_ahead(check, files, storage.is_remote):
        pass


def _remove(root: Storage, staging: Staging, receipt: str) -> bool:
    """Remove one staged write with its files; whether it was there."""
    try:
        (write,) = staging.read([receipt])
    except InvalidInputError:
        if staging.claim_of(receipt) == Claim(None):
            staging.forget([receipt])
        return False
    staging.claim([receipt], Claim(None))
    storage = branch_storage(root, write.branch)
    for path, _ in write.files:
        with suppress(StorageError):
            storage.delete_file(path)
    staging.forget([receipt])
    return True
