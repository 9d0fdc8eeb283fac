"""The part of a dataset's interface that commits files which were written before, on one machine or many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from os import PathLike, fspath
from typing import TYPE_CHECKING, Generic, Self, TypedDict, TypeVar

from lance_core.api.dataset.methods.opened import OpenedDataset
from lance_core.errors import (
    ArgumentTypeError,
    CommitConflictError,
    DatasetNotFoundError,
    InvalidInputError,
    UnsupportedFeatureError,
)
from lance_core.storage import CommitLock, Storage, check_lock, storage_for
from lance_core.table.bases import BaseOpener, base_opener
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import Snapshot
from lance_core.table.transaction import COMMIT_MESSAGE
from lance_core.table.versions import latest_version

if TYPE_CHECKING:
    from lance_core.api.dataset.operations import LanceOperation, Transaction
    from lance_core.api.file.session import LanceFileSession
    from lance_core.api.fragment.metadata import FragmentMetadata
    from lance_core.api.schema import LanceSchema
    from lance_core.proto.transaction_pb2 import Transaction as TransactionMessage

__all__ = ["BulkCommitResult", "Committing"]

D = TypeVar("D")
"""Class of a dataset."""
DEFAULT_TIMEOUT = timedelta(minutes=30)
"""Time within which the attempts of one commit begin."""


class Committing(OpenedDataset):
    """The part of a dataset's interface that commits operations whose files exist already."""

    @property
    def lance_schema(self) -> LanceSchema:
        """The schema with the ids of its fields, for operations."""
        from lance_core.api.schema import LanceSchema  # late: most processes only read

        return LanceSchema(self._snapshot.manifest.schema)

    def new_file_session(self) -> LanceFileSession:
        """Return readers and writers of single files below the dataset. Data files are in `data/`."""
        from lance_core.api.file.session import LanceFileSession  # late: most processes only read

        return LanceFileSession.of_storage(self._snapshot.storage)

    @classmethod
    def commit(
        cls,
        base_uri: str | PathLike[str] | Self,
        operation: LanceOperation.BaseOperation | Transaction,
        read_version: int | None = None,
        commit_lock: CommitLock | None = None,
        storage_options: Mapping[str, str] | None = None,
        enable_v2_manifest_paths: bool | None = None,
        detached: bool | None = False,
        max_retries: int = 20,
        *,
        commit_message: str | None = None,
        enable_stable_row_ids: bool | None = None,
        base_store_params: Mapping[str, Mapping[str, str]] | None = None,
        commit_timeout: timedelta | None = DEFAULT_TIMEOUT,
        sync: bool = True,
    ) -> Self:
        """Commit an operation as a new version.

        Args:
            base_uri: Path or URL of the dataset, or an opened dataset.
            operation: An operation or a transaction. A transaction is committed once, however often it is
                passed: its id identifies it.
            read_version: The version that the operation was made on. Not needed for an overwrite, a restore
                or a transaction.
            commit_lock: Lock of the caller, as for `lance_core.dataset`.
            storage_options: Settings of the storage that the URI names.
            enable_v2_manifest_paths: Name the manifests of a new dataset so that the newest is listed first.
            detached: Make a version that is not part of the history. It is never the latest one, and only its
                number opens it. It is made on `read_version`, which may be detached, whatever other
                versions there are. Committing a transaction twice makes two detached versions.
            max_retries: How often other writers may be faster. With 0 an overwrite is refused if there is a
                version after `read_version`.
            commit_message: Text that is stored in the transaction.
            enable_stable_row_ids: Let the rows of a new dataset keep their row ids when they move.
            base_store_params: Settings of the storages of base paths, as for `lance_core.dataset`. An opened
                dataset keeps the settings that it was opened with.
            commit_timeout: No attempt begins later than this after the first; None means no limit. A request
                to the storage is not interrupted.
            sync: On local disks make everything durable before returning.

        Returns:
            The dataset at the new version.

        Raises:
            InvalidInputError: The operation or an argument is not valid.
            UnsupportedFeatureError: The operation or an argument is not supported.
            CommitConflictError: Another commit is in conflict with this one.
            CommitUnknownError: The storage did not tell whether the version was made.
            ArgumentTypeError: `operation` is no operation and no transaction, or `commit_lock` no function.
        """
        # Late: most processes only read.
        from lance_core.api.dataset.operations import LanceOperation, Transaction

        target = _Target.of(base_uri, commit_lock, storage_options, base_store_params)
        if isinstance(operation, Transaction):
            if commit_message is not None:
                raise InvalidInputError("commit_message", expected="none beside a transaction")
            message = operation.to_message()
            earlier = None if detached else target.committed(message)
            if earlier is not None:
                return cls(target.uri, storage_options=target.options, snapshot=earlier)
        elif isinstance(operation, LanceOperation.BaseOperation):
            if read_version is None:
                if not isinstance(operation, LanceOperation.Overwrite | LanceOperation.Restore):
                    raise InvalidInputError(
                        "read_version is required for all operations except Overwrite and Restore"
                    )
                read_version = target.latest()
            message = Transaction(read_version, operation).to_message()
            if commit_message is not None:
                message.transaction_properties[COMMIT_MESSAGE] = commit_message
        else:
            raise ArgumentTypeError(
                f"operation must be one of LanceOperation, or a Transaction, got {type(operation).__name__}"
            )
        made = target.commit(
            message,
            stable_row_ids=bool(enable_stable_row_ids),
            inverted_names=enable_v2_manifest_paths is not False,
            detached=bool(detached),
            max_retries=max_retries,
            timeout=commit_timeout,
            sync=sync,
        )
        return cls(target.uri, storage_options=target.options, snapshot=made)

    @classmethod
    def commit_batch(
        cls,
        dest: str | PathLike[str] | Self,
        transactions: Sequence[Transaction],
        commit_lock: CommitLock | None = None,
        storage_options: Mapping[str, str] | None = None,
        enable_v2_manifest_paths: bool | None = None,
        detached: bool | None = False,
        max_retries: int = 20,
        base_store_params: Mapping[str, Mapping[str, str]] | None = None,
        commit_timeout: timedelta | None = DEFAULT_TIMEOUT,
        *,
        sync: bool = True,
    ) -> BulkCommitResult[Self]:
        """Commit several appends as one version.

        The appends become one append with the fragments of all, in the given order, made on the oldest of
        their read versions. It has an id of its own, so committing the same transactions twice appends their
        fragments twice. Properties of the transactions are left out.

        Args:
            dest: Path or URL of the dataset, or an opened dataset.
            transactions: Transactions of `LanceOperation.Append`.
            commit_lock, storage_options, enable_v2_manifest_paths, detached: As for `commit`.
            max_retries, base_store_params, commit_timeout, sync: As for `commit`.

        Returns:
            The dataset at the new version, and the transaction that was committed.

        Raises:
            InvalidInputError: There is no transaction.
            UnsupportedFeatureError: A transaction is no append.
            LanceError: The errors of `commit`.
        """
        from lance_core.api.dataset.operations import LanceOperation, Transaction

        fragments: list[FragmentMetadata] = []
        for transaction in transactions:
            if not isinstance(transaction, Transaction):
                raise ArgumentTypeError("transactions", expected="Transaction", found=repr(transaction))
            if not isinstance(transaction.operation, LanceOperation.Append):
                raise UnsupportedFeatureError(
                    "committing transactions as one",
                    expected="appends",
                    found=type(transaction.operation).__name__,
                )
            fragments += transaction.operation.fragments
        if not transactions:
            raise InvalidInputError("transactions", expected="one transaction or more", found="none")
        merged = Transaction(
            min(transaction.read_version for transaction in transactions), LanceOperation.Append(fragments)
        )
        made = cls.commit(
            dest,
            merged,
            None,
            commit_lock,
            storage_options,
            enable_v2_manifest_paths,
            detached,
            max_retries,
            base_store_params=base_store_params,
            commit_timeout=commit_timeout,
            sync=sync,
        )
        return BulkCommitResult(dataset=made, merged=merged)


class BulkCommitResult(TypedDict, Generic[D]):
    """Result of `commit_batch`."""

    dataset: D
    merged: Transaction
    """The append with the fragments of all transactions."""


@dataclass(frozen=True)
class _Target:
    """Dataset that is committed to."""

    uri: str
    options: Mapping[str, str] | None
    storage: Storage
    open_base: BaseOpener
    session: object | None

    @classmethod
    def of(
        cls,
        dataset: object,
        lock: CommitLock | None,
        storage_options: Mapping[str, str] | None,
        base_store_params: Mapping[str, Mapping[str, str]] | None,
    ) -> _Target:
        """Return the target for the arguments of `commit`."""
        check_lock(lock)
        opener = base_opener(storage_options, base_store_params)
        if not isinstance(dataset, OpenedDataset):
            if not isinstance(dataset, str | PathLike):
                raise ArgumentTypeError("base_uri", expected="a path or a dataset", found=repr(dataset))
            uri = fspath(dataset)
            storage = storage_for(uri, storage_options).locked_by(lock)
            return cls(uri, storage_options, storage, opener, None)
        opened = dataset.snapshot
        if base_store_params is None:
            opener = opened.open_base
        return cls(
            dataset.uri, opened.storage.options, opened.storage.locked_by(lock), opener, opened.session
        )

    def latest(self) -> int:
        """Return the latest version, 0 if there is no dataset."""
        try:
            return latest_version(self.storage)
        except DatasetNotFoundError:
            return 0

    def committed(self, message: TransactionMessage) -> Snapshot | None:
        """Return the version that this transaction made before, None if it made none."""
        from lance_core.commit.transaction_lookup import find_committed

        found = find_committed(self.storage, message.uuid, (str(message.WhichOneof("operation")),))
        return None if found is None else self._opened(found)

    def commit(
        self,
        message: TransactionMessage,
        *,
        stable_row_ids: bool,
        inverted_names: bool,
        detached: bool,
        max_retries: int,
        timeout: timedelta | None,
        sync: bool,
    ) -> Snapshot:
        """Commit the transaction; see `Committing.commit`."""
        from lance_core.commit.commit import commit
        from lance_core.commit.detached import commit_detached
        from lance_core.commit.next_manifest import TableSettings

        settings = TableSettings(stable_row_ids=stable_row_ids)
        if detached:
            return self._opened(commit_detached(self.storage, message, settings, sync=sync))
        latest = self.latest() if max_retries == 0 and message.HasField("overwrite") else 0
        if latest > message.read_version:
            raise CommitConflictError(
                f"Commit conflict for version {message.read_version + 1}: another writer made it, and with"
                " max_retries=0 the commit does not go on to the next version",
                retryable=True,
            )
        manifest = commit(
            self.storage,
            message,
            settings,
            inverted_names=inverted_names,
            sync=sync,
            max_attempts=max(max_retries, 1),
            timeout=timeout,
        )
        return self._opened(manifest)

    def _opened(self, manifest: Manifest) -> Snapshot:
        made = Snapshot(self.storage, manifest, self.open_base, self.session)
        return made.with_manifest(manifest)
