"""Writes in two steps: files first, in as many places as one likes, then one commit of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath
from typing import Any, Self

from lance_core.api.opened import OpenedDataset
from lance_core.api.operations import LanceOperation, Transaction
from lance_core.commit.commit import commit
from lance_core.commit.next_manifest import TableSettings
from lance_core.commit.transaction_lookup import find_committed
from lance_core.errors import (
    CommitConflictError,
    DatasetNotFoundError,
    InvalidInputError,
    UnsupportedFeatureError,
)
from lance_core.schema import Schema
from lance_core.storage import storage_for
from lance_core.table.snapshot import Snapshot, open_snapshot
from lance_core.table.versions import latest_version


class Committing(OpenedDataset):
    """Committing operations whose files are there already."""

    @property
    def lance_schema(self) -> Schema:
        """The columns with their field ids."""
        return self._snapshot.manifest.schema

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
        sync: bool = True,
    ) -> Self:
        """Make a version out of an operation.

        Args:
            base_uri: path or URL of the dataset, or an open one.
            operation: what to do; or a whole transaction, whose id makes that it is done once.
            read_version: the version that the operation was made on; not needed for an overwrite or a
                restore, nor where a transaction says it.
            commit_lock, detached: not supported.
            storage_options: settings of the storage that the URI names.
            enable_v2_manifest_paths: how a new dataset names its manifests; newest first if not given.
            max_retries: how often other writers may be faster. With 0 an overwrite is refused if there is any
                version after the one that was read.
            commit_message: noted in the transaction.
            enable_stable_row_ids: let the rows of a new dataset keep their ids when they are moved.
            sync: on local disks make everything durable before returning.

        Returns:
            The dataset at the new version.

        Raises:
            InvalidInputError: the operation, or its arguments, make no sense.
            UnsupportedFeatureError: what is not supported.
            CommitConflictError: another version makes this one impossible.
            CommitUnknownError: nobody can say whether the version was made.
            TypeError: `operation` is something else.
        """
        if not isinstance(operation, LanceOperation.BaseOperation | Transaction):
            raise TypeError(
                f"operation must be one of LanceOperation, or a Transaction, got {type(operation).__name__}"
            )
        if commit_lock is not None or detached:
            raise UnsupportedFeatureError("commit_lock" if commit_lock is not None else "detached commits")
        opened = base_uri if isinstance(base_uri, OpenedDataset) else None
        uri = opened.uri if opened is not None else fspath(base_uri)  # type: ignore[arg-type]
        storage = opened.snapshot.storage if opened is not None else storage_for(uri, storage_options)
        if isinstance(operation, Transaction):
            if commit_message is not None:
                raise InvalidInputError("commit_message", expected="none beside a transaction")
            message = operation.to_message()
            earlier = find_committed(storage, message.uuid, (str(message.WhichOneof("operation")),))
            if earlier is not None:
                return cls(uri, storage_options=storage_options, snapshot=Snapshot(storage, earlier))
        else:
            read_version = _read_version(cls._latest(storage), operation, read_version)
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
            return cls(uri, storage_options=options, snapshot=open_snapshot(storage, manifest.version))
        return cls(uri, storage_options=options, snapshot=Snapshot(storage, manifest))

    @staticmethod
    def _latest(storage: Any) -> int:
        try:
            return latest_version(storage)
        except DatasetNotFoundError:
            return 0


def _read_version(latest: int, operation: LanceOperation.BaseOperation, given: int | None) -> int:
    if given is not None:
        return given
    if isinstance(operation, LanceOperation.Overwrite | LanceOperation.Restore):
        return latest
    raise InvalidInputError("read_version is required for all operations except Overwrite and Restore")
