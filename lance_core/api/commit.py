"""The commit of files that were written before, on one machine or many."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Self

from lance_core.api.opened import OpenedDataset
from lance_core.errors import (
    CommitConflictError,
    DatasetNotFoundError,
    InvalidInputError,
    UnsupportedFeatureError,
)
from lance_core.storage import storage_for
from lance_core.table.bases import base_opener
from lance_core.table.snapshot import Snapshot, open_snapshot
from lance_core.table.versions import latest_version

if TYPE_CHECKING:
    from lance_core.api.file_session import LanceFileSession
    from lance_core.api.operations import LanceOperation, Transaction
    from lance_core.api.schema import LanceSchema

__all__ = ["CommitConflictError", "Committing"]


class Committing(OpenedDataset):
    """The part of a dataset's interface that commits operations whose files exist already."""

    @property
    def lance_schema(self) -> LanceSchema:
        """The schema with the ids of its fields, for operations."""
        from lance_core.api.schema import LanceSchema  # late: most processes only read

        return LanceSchema(self._snapshot.manifest.schema)

    def new_file_session(self) -> LanceFileSession:
        """Return readers and writers of single files below the dataset. Data files are in `data/`."""
        from lance_core.api.file_session import LanceFileSession  # late: most processes only read

        return LanceFileSession.of_storage(self._snapshot.storage)

    @classmethod
    def commit(
        cls,
        base_uri: str | PathLike[str] | Self,
        operation: LanceOperation.BaseOperation | Transaction,
        read_version: int | None = None,
        commit_lock: object = None,
        storage_options: Mapping[str, str] | None = None,
        enable_v2_manifest_paths: bool | None = None,
        detached: bool | None = False,
        max_retries: int = 20,
        *,
        commit_message: str | None = None,
        enable_stable_row_ids: bool | None = None,
        base_store_params: Mapping[str, Mapping[str, str]] | None = None,
        sync: bool = True,
    ) -> Self:
        """Commit an operation as a new version.

        Args:
            base_uri: Path or URL of the dataset, or an opened dataset.
            operation: An operation or a transaction. A transaction is committed once, however often it is
                passed: its id identifies it.
            read_version: The version that the operation was made on. Not needed for an overwrite, a restore
                or a transaction.
            commit_lock, detached: Not supported.
            storage_options: Settings of the storage that the URI names.
            enable_v2_manifest_paths: Name the manifests of a new dataset so that the newest is listed first.
            max_retries: How often other writers may be faster. With 0 an overwrite is refused if there is a
                version after `read_version`.
            commit_message: Text that is stored in the transaction.
            enable_stable_row_ids: Let the rows of a new dataset keep their row ids when they move.
            base_store_params: Settings of the storages of base paths, as for `lance_core.dataset`. An opened
                dataset keeps the settings that it was opened with.
            sync: On local disks make everything durable before returning.

        Returns:
            The dataset at the new version.

        Raises:
            InvalidInputError: The operation or an argument is not valid.
            UnsupportedFeatureError: The operation or an argument is not supported.
            CommitConflictError: Another commit is in conflict with this one.
            CommitUnknownError: The storage did not tell whether the version was made.
            TypeError: `operation` is no operation and no transaction.
        """
        # Late: most processes only read.
        from lance_core.api.operations import LanceOperation, Transaction
        from lance_core.commit.commit import commit
        from lance_core.commit.next_manifest import TableSettings
        from lance_core.commit.transaction_lookup import find_committed

        if not isinstance(operation, LanceOperation.BaseOperation | Transaction):
            raise TypeError(
                f"operation must be one of LanceOperation, or a Transaction, got {type(operation).__name__}"
            )
        if commit_lock is not None or detached:
            raise UnsupportedFeatureError("commit_lock" if commit_lock is not None else "detached commits")
        opened = base_uri if isinstance(base_uri, OpenedDataset) else None
        uri = opened.uri if opened is not None else fspath(base_uri)  # type: ignore[arg-type]
        storage = opened.snapshot.storage if opened is not None else storage_for(uri, storage_options)
        opener = base_opener(storage_options, base_store_params)
        if opened is not None and base_store_params is None:
            opener = opened.snapshot.open_base
        if isinstance(operation, Transaction):
            if commit_message is not None:
                raise InvalidInputError("commit_message", expected="none beside a transaction")
            message = operation.to_message()
            earlier = find_committed(storage, message.uuid, (str(message.WhichOneof("operation")),))
            if earlier is not None:
                return cls(uri, storage_options=storage_options, snapshot=Snapshot(storage, earlier, opener))
        else:
            if read_version is None:
                if not isinstance(operation, LanceOperation.Overwrite | LanceOperation.Restore):
                    raise InvalidInputError(
                        "read_version is required for all operations except Overwrite and Restore"
                    )
                read_version = cls._latest(storage)
            message = Transaction(read_version, operation).to_message()
            if commit_message is not None:
                message.transaction_properties["__lance_commit_message"] = commit_message
        if max_retries == 0 and message.HasField("overwrite") and cls._latest(storage) > message.read_version:
            raise CommitConflictError("there is a newer version than the one that was read", retryable=True)
        manifest = commit(
            storage,
            message,
            TableSettings(stable_row_ids=bool(enable_stable_row_ids)),
            inverted_names=enable_v2_manifest_paths is not False,
            sync=sync,
            max_attempts=max(max_retries, 1),
        )
        options = opened.snapshot.storage.options if opened is not None else storage_options
        if not manifest.has_row_counts:  # libraries before 0.8 left them out
            return cls(
                uri, storage_options=options, snapshot=open_snapshot(storage, manifest.version, opener)
            )
        return cls(uri, storage_options=options, snapshot=Snapshot(storage, manifest, opener))

    @staticmethod
    def _latest(storage: Any) -> int:
        try:
            return latest_version(storage)
        except DatasetNotFoundError:
            return 0
