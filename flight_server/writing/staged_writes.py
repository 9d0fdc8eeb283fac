"""Writes in two steps: uploads that are staged, and one commit of many. Free of Flight types."""

import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from flight_server.catalog.local import Catalog
from flight_server.logs import log_event
from flight_server.requests.names import DatasetReference
from flight_server.requests.write_command import CommitCommand, WriteCommand
from flight_server.writing.changes import OPERATIONS
from flight_server.writing.row_options import row_mode, write_options
from flight_server.writing.staging import Claim, StagedWrite, Staging
from flight_server.writing.targets import Target, Targets
from flight_server.writing.uploads import Batches, write_all
from lance_core.api.serving import (
    CompactionMetrics,
    CompactionTask,
    IndexRequest,
    StagedChange,
    StagedWriter,
    Storage,
    branch_storage,
    commit_staged,
    find_written,
    stage_columns,
    stage_compaction,
    stage_index_segment,
    stage_rows,
)
from lance_core.errors import (
    CommitConflictError,
    CommitUnknownError,
    DatasetExistsError,
    InvalidInputError,
    LanceError,
)

# If a server dies during a commit, its claim is given up after this time. The cleanup of the dataset removes
# the data files: it knows to which files versions refer.
_CLAIM_SECONDS = 7 * 24 * 3600.0


@dataclass(frozen=True)
class Committed:
    """Result of a commit of staged writes."""

    version: int
    num_rows: int | None = None
    """Number of staged rows. None if this batch of a stream was committed before."""


class StagedWrites:
    """Staged writes of the datasets of one catalog. Thread-safe."""

    def __init__(self, catalog: Catalog, targets: Targets, expiry: float, subject: str | None = None) -> None:
        """Keep staged writes for `expiry` seconds; then they can no longer be committed, and are removed.

        Only the subject can redeem receipts; None: whoever has them.
        """
        self._catalog = catalog
        self._targets = targets
        self._expiry = expiry
        self._subject = subject

    def stage(self, command: WriteCommand, upload: Batches) -> str:
        """Write an upload for a later commit, and return the receipt.

        Raises:
            DatasetNotFoundError: there is no such dataset or branch, and the command does not create one.
            DatasetExistsError: the dataset was to be created, and exists.
            LanceError: the upload cannot be written; nothing was.
        """
        with self._targets.target(command.dataset, creates=command.creates) as target:
            if target.snapshot is not None and command.mode == "create":
                raise DatasetExistsError(f"dataset {command.dataset.name} exists")
            change = write_all(_writer(target, command, upload.schema), upload, self._targets.abandonable)
            return self._keep(target.root, target.storage, command.dataset.branch, change)

    def execute(self, reference: DatasetReference, task: str) -> tuple[str, CompactionMetrics]:
        """Run one task of a compaction, and return the receipt and the metrics.

        Raises:
            InvalidInputError: `task` is not a task that `Upkeep.plan_compaction` returned.
            LanceError: as `stage_compaction` raises.
        """
        parsed = CompactionTask.from_json(task)
        with self._targets.opened(reference) as opened:
            change, metrics = stage_compaction(opened.snapshot, parsed)
            return self._keep(opened.root, opened.snapshot.storage, reference.branch, change), metrics

    def build_segment(
        self,
        reference: DatasetReference,
        column: str,
        index_type: str,
        fragment_ids: Sequence[int],
        *,
        name: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        model: str | None = None,
    ) -> str:
        """Build a segment of an index for a later commit, and return the receipt.

        `model` is a receipt of `train_index`: the segment uses its training.

        Raises:
            InvalidInputError: nothing is staged under `model`, or a write that is no model of the index.
            LanceError: as `stage_index_segment` raises; nothing was written.
        """
        request = IndexRequest(
            column, index_type, name, fragment_ids=fragment_ids, parameters=parameters or {}
        )
        with self._targets.opened(reference) as opened:
            trained = None
            if model is not None:
                (write,) = Staging(opened.root, self._subject).read([model])
                if write.branch != reference.branch:
                    raise InvalidInputError(
                        "the model was trained on another branch", found=write.branch or "main"
                    )
                trained = write.change
            change = stage_index_segment(opened.snapshot, request, trained)
            return self._keep(opened.root, opened.snapshot.storage, reference.branch, change)

    def train_index(
        self,
        reference: DatasetReference,
        column: str,
        index_type: str,
        *,
        fragment_ids: Sequence[int] | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> str:
        """Train an index for segments that are built apart, and return the receipt of the model.

        The model expires like a staged write, and `abort` removes it.

        Raises:
            LanceError: as `stage_index_segment` raises; nothing was written.
        """
        request = IndexRequest(
            column, index_type, fragment_ids=fragment_ids, parameters=parameters or {}, is_model=True
        )
        with self._targets.opened(reference) as opened:
            change = stage_index_segment(opened.snapshot, request)
            return self._keep(opened.root, opened.snapshot.storage, reference.branch, change)

    def commit(self, command: CommitCommand) -> Committed:
        """Make one version of staged writes, of all of them or none.

        A `transaction_id` that was committed before is not committed again: its first result is returned. A
        batch of a stream is not committed again either: if its version is gone, the latest one is returned.

        Raises:
            InvalidInputError: receipts that do not exist, or that do not fit together; a missing file.
            CommitConflictError: another commit has a receipt, or another version makes this one impossible.
            CommitUnknownError: it cannot be determined whether the version was made; a repetition with the
                same `transaction_id` can determine it.
            LanceError: others mean that nothing was committed; the receipts stay valid.
        """
        operations = OPERATIONS[command.operation]
        with self._targets.target(command.dataset, creates=command.operation == "overwrite") as target:
            earlier = find_written(target.storage, command.transaction_id, operations)
            if earlier is not None:
                return Committed(earlier.version, earlier.rows)
            properties = dict(command.properties)
            if command.stream is not None:
                # Another commit of the batch at this time has the same id, and `commit_staged` finds it.
                if target.snapshot is not None and command.stream.is_committed(
                    target.snapshot.manifest.config
                ):
                    return Committed(target.snapshot.manifest.version)
                properties |= command.stream.properties
            staging = Staging(target.root, self._subject)
            writes = staging.read(command.staged)
            self._check(command, writes)
            changes = [write.change for write in writes]
            transaction_id = command.transaction_id or str(uuid.uuid4())
            read_version = _read_version(command, changes)
            held = staging.claim(command.staged, Claim(transaction_id, read_version))
            try:
                manifest = commit_staged(
                    target.storage,
                    target.snapshot,
                    changes,
                    transaction_id=transaction_id,
                    read_version=read_version,
                    properties=properties,
                )
            except CommitUnknownError:
                raise
            except LanceError:
                # Another server may have made this commit meanwhile.
                earlier = find_written(target.storage, command.transaction_id, operations)
                if earlier is None:
                    staging.give_back(held)
                    raise
                return Committed(earlier.version, earlier.rows)
            staging.forget(command.staged)
            return Committed(manifest.version, sum(change.num_rows for change in changes))

    def abort(self, dataset: DatasetReference, receipts: Sequence[str]) -> int:
        """Remove staged writes, and return how many existed. Unknown receipts count as removed.

        Raises:
            CommitConflictError: a staged write is being committed.
        """
        with self._targets.target(dataset, creates=True) as target:
            return sum(
                _remove(target.root, Staging(target.root, self._subject), receipt) for receipt in receipts
            )

    def expire(self) -> None:
        """Remove staged writes of all subjects that have expired, in all datasets of the root."""
        for path in self._catalog.staging_paths():
            root = self._catalog.storage(path)
            staging = Staging(root)
            try:
                for receipt, age in staging.older_than(self._expiry):
                    self._expire(root, staging, receipt, age)
            except LanceError as error:
                facts = {"error": type(error).__name__, "message": str(error)}
                log_event(logging.WARNING, "sweep_failed", facts)
            self._targets.tidy(path)

    def _expire(self, root: Storage, staging: Staging, receipt: str, age: float) -> None:
        try:
            claim = staging.claim_of(receipt)
            if claim is None or claim.transaction_id is None:
                _remove(root, staging, receipt)
                log_event(logging.INFO, "expired", {"receipt": receipt})
            elif age >= _CLAIM_SECONDS:
                staging.forget([receipt])
        except CommitConflictError:
            pass  # the write is being committed at this moment
        except LanceError as error:
            facts = {"receipt": receipt, "error": type(error).__name__, "message": str(error)}
            log_event(logging.WARNING, "sweep_failed", facts)

    def _keep(self, root: Storage, storage: Storage, branch: str | None, change: StagedChange) -> str:
        """Record a staged change, and return its receipt; without a record the files are removed."""
        try:
            return Staging(root, self._subject).keep(StagedWrite(branch, change, time.time()))
        except BaseException:
            change.discard(storage)
            raise

    def _check(self, command: CommitCommand, writes: Sequence[StagedWrite]) -> None:
        for receipt, write in zip(command.staged, writes, strict=True):
            if write.change.operation != command.operation:
                raise InvalidInputError(
                    f"staged write {receipt} does not belong to this operation",
                    expected=command.operation,
                    found=write.change.operation,
                )
            if write.branch != command.dataset.branch:
                raise InvalidInputError(
                    f"staged write {receipt} was made for another branch",
                    expected=command.dataset.branch or "main",
                    found=write.branch or "main",
                )
            if time.time() - write.staged_at >= self._expiry:
                raise InvalidInputError(f"staged write {receipt} has expired")
            if write.change.settings != writes[0].change.settings:
                raise InvalidInputError(
                    "the staged writes were made with different settings, such as file versions"
                )


def _writer(target: Target, command: WriteCommand, schema: pa.Schema) -> StagedWriter:
    """Return the writer for the upload of a command; errors are those of `stage_rows`, `stage_columns`."""
    if target.snapshot is not None and command.fragment_id is not None:
        is_replacement = command.mode == "replace_columns"
        return stage_columns(target.snapshot, command.fragment_id, schema, replace=is_replacement)
    return stage_rows(
        target.storage,
        schema,
        row_mode(command, target.snapshot),
        write_options(command),
        base=target.snapshot,
        merge=command.merge,
        on=command.on,
    )


def _read_version(command: CommitCommand, changes: Sequence[StagedChange]) -> int:
    """Return the version on which a commit is made: the oldest of the writes, so that no conflict is
    missed.
    """
    oldest = min(change.read_version for change in changes)
    if command.read_version is None:
        return oldest
    # The caller decides what an overwrite replaces. Appended rows belong to a schema.
    return command.read_version if command.operation == "overwrite" else min(oldest, command.read_version)


def _remove(root: Storage, staging: Staging, receipt: str) -> bool:
    """Remove one staged write with its files, and return whether it existed."""
    try:
        (write,) = staging.read([receipt])
        staging.claim([receipt], Claim(None))
    except InvalidInputError:
        staging.sweep(receipt)
        return False
    write.change.discard(branch_storage(root, write.branch))
    staging.forget([receipt])
    return True
