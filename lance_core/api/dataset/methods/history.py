"""The part of a dataset's interface for its versions, branches, clones and settings."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Self, TypedDict

from lance_core.api.dataset.methods.opened import OpenedDataset, Reference, branch_uri
from lance_core.errors import InvalidInputError
from lance_core.scan.history import summarize_version
from lance_core.storage import Storage, storage_for
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import Snapshot, open_snapshot, read_manifests
from lance_core.table.versions import latest_version, list_versions, listed_manifests

if TYPE_CHECKING:
    from lance_core.api.dataset.operations import Transaction
    from lance_core.changes.settings import Entries
    from lance_core.maintenance.cleanup import CleanupExplanation, CleanupStats

_DEFAULT_AGE = timedelta(days=14)


class Version(TypedDict):
    """One entry of `LanceDataset.versions`."""

    version: int
    timestamp: datetime
    """Time of the commit, in the local time zone, without a zone."""
    metadata: dict[str, str]
    """Totals of the version, see `summarize_version`."""


class History(OpenedDataset):
    """Methods for the versions of a dataset."""

    @property
    def latest_version(self) -> int:
        """The latest version of the opened branch, whichever version is opened."""
        return latest_version(self._storage)

    def versions(self) -> list[Version]:
        """Return all versions, oldest first, with the local time of the commit and a summary of each."""
        return [
            _describe(manifest) for manifest in read_manifests(self.snapshot, listed_manifests(self._storage))
        ]

    def get_version(self) -> Version:
        """Return the entry of `versions` for the opened version."""
        return _describe(self._snapshot.manifest)

    def migrate_manifest_paths_v2(self) -> None:
        """Rename the manifests of the opened branch so that the newest is listed first, and move to it.

        Datasets on object stores open faster then. Does nothing if the manifests have such names already.
        No writer may run meanwhile, of whatever library: two writers could make the same version. If the
        call is interrupted, the dataset can be read, and the call can be repeated.

        Raises:
            UnsupportedFeatureError: A manifest store knows the manifests by their names.
            StorageError: The storage failed; repeat the call.
        """
        from lance_core.maintenance.manifest_names import rename_manifests

        rename_manifests(self._storage)
        self.move_to(self.snapshot.open_version())

    def create_branch(
        self,
        branch: str,
        reference: Reference | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> Self:
        """Create a branch that begins with a version.

        A branch is a table of its own. It begins with the files of that version; no data is copied.

        Args:
            branch: Name of the branch: letters, digits, ".", "-" and "_", and single slashes.
            reference: The version, as for `checkout_version`; the opened version if left out.
            storage_options: Settings of the storage of the branch; those of this dataset if left out.

        Returns:
            The branch at its first version, which has the number of the version that it began with.

        Raises:
            InvalidInputError: The name is not allowed.
            RefConflictError: The branch exists.
            DatasetNotFoundError: There is no such version.
        """
        from lance_core.maintenance.branches import create_branch

        created = create_branch(self.root, branch, self._source(reference))
        other = self.at(created)
        other._uri = branch_uri(self._main_uri, branch)
        other._storage_options = storage_options or self._storage_options
        return other

    def shallow_clone(
        self,
        target_path: str | PathLike[str],
        reference: Reference,
        storage_options: Mapping[str, str] | None = None,
        **arguments: Any,
    ) -> Self:
        """Create another dataset that begins with a version of this one; no data is copied.

        A cleanup of this dataset breaks the clone, unless a tag keeps the version.

        Args:
            target_path: Path or URL of the clone. There must be no dataset.
            reference: The version, as for `checkout_version`.
            storage_options: Settings of the storage of the clone; those of this dataset if left out.
            arguments: Other arguments of `LanceDataset`.

        Raises:
            DatasetExistsError: There is a dataset at `target_path`.
            DatasetNotFoundError: There is no such version.
        """
        from lance_core.maintenance.clone import clone_table

        return self._clone(clone_table, target_path, reference, storage_options, arguments)

    def deep_clone(
        self,
        target_path: str | PathLike[str],
        reference: Reference,
        storage_options: Mapping[str, str] | None = None,
        **arguments: Any,
    ) -> Self:
        """Create another dataset that begins with a version of this one, with copies of all its files.

        Blobs that are given by a URI, or lie below a base path, stay where they are.

        Args:
            target_path: Path or URL of the clone. There must be no dataset.
            reference: The version, as for `checkout_version`.
            storage_options: Settings of the storage of the clone; those of this dataset if left out.
            arguments: Other arguments of `LanceDataset`.

        Raises:
            DatasetExistsError: There is a dataset at `target_path`.
            DatasetNotFoundError: There is no such version.
            StorageError: The storage failed, or a cleanup removed a file meanwhile; nothing was made.
        """
        from lance_core.maintenance.deep_clone import copy_table

        return self._clone(copy_table, target_path, reference, storage_options, arguments)

    def _clone(
        self,
        make: Callable[[Snapshot, Storage], Snapshot],
        target_path: str | PathLike[str],
        reference: Reference,
        storage_options: Mapping[str, str] | None,
        arguments: Mapping[str, Any],
    ) -> Self:
        """Make another dataset of a version of this one, and open it."""
        target = fspath(target_path)
        options = self._storage_options if storage_options is None else storage_options
        snapshot = make(self._source(reference), storage_for(target, options))
        return type(self)(target, storage_options=options, snapshot=snapshot, **arguments)

    def read_transaction(self, version: int) -> Transaction | None:
        """Return the transaction of a version of the opened branch, None if the version has none.

        Old libraries stored no transactions.

        Raises:
            DatasetNotFoundError: There is no such version.
        """
        from lance_core.api.dataset.transactions import transaction_of

        return transaction_of(open_snapshot(self._storage, version, self.snapshot.open_base))

    def get_transactions(self, recent_transactions: int = 10) -> list[Transaction | None]:
        """Return the transactions of the opened version and of earlier versions, newest first.

        Args:
            recent_transactions: Largest number of versions to look at; values below 1 count as 1.
        """
        versions = [number for number in list_versions(self._storage) if number <= self.version]
        recent = versions[-max(recent_transactions, 1) :]
        return [self.read_transaction(number) for number in reversed(recent)]

    def restore(self) -> None:
        """Make a new latest version with the content of the opened version, and move to it.

        Raises:
            CommitConflictError: Another commit is in conflict with this one.
            CommitUnknownError: The storage did not tell whether the version was made.
        """
        from lance_core.changes.settings import restore_version

        self._snapshot = restore_version(self.snapshot)

    def update_config(self, values: Entries, *, replace: bool = False) -> dict[str, str]:
        """Change settings of the table and move to the new version.

        Args:
            values: New values of settings; None removes a setting.
            replace: Remove all settings that are not named.

        Returns:
            All settings.

        Raises:
            CommitConflictError: Another commit changed one of these settings since the opened version.
        """
        self._update(config=values, replace=replace)
        return dict(self.snapshot.manifest.config)

    def delete_config_keys(self, keys: Sequence[str]) -> None:
        """Remove settings of the table and move to the new version.

        Settings that do not exist are ignored.
        """
        self._update(config=dict.fromkeys(keys))

    def update_metadata(self, values: Entries, *, replace: bool = False) -> dict[str, str]:
        """Change the metadata of the table like `update_config`; return all of it."""
        self._update(table_metadata=values, replace=replace)
        return dict(self.snapshot.manifest.table_metadata)

    def update_schema_metadata(self, values: Entries, *, replace: bool = False) -> dict[str, str]:
        """Change the metadata of the schema like `update_config`; return all of it."""
        self._update(schema_metadata=values, replace=replace)
        return dict(self.snapshot.manifest.schema.metadata)

    def replace_schema_metadata(self, new_metadata: Mapping[str, str]) -> None:
        """Replace the metadata of the schema. Deprecated: use `update_schema_metadata`."""
        _warn("replace_schema_metadata", "update_schema_metadata(metadata, replace=True)")
        self.update_schema_metadata(new_metadata, replace=True)

    def update_field_metadata(self, field_updates: Mapping[str, Entries], *, replace: bool = False) -> None:
        """Change the metadata of fields, and move to the new version.

        Args:
            field_updates: New values by the dotted path of the field; None removes a key.
            replace: Remove all keys of these fields that are not named.

        Raises:
            InvalidInputError: There is no such field.
            CommitConflictError: Another commit changed the schema or its metadata.
        """
        self._update(field_metadata=field_updates, replace=replace)

    def replace_field_metadata(self, field_name: str, new_metadata: Mapping[str, str]) -> None:
        """Replace the metadata of a field. Deprecated: use `update_field_metadata`."""
        _warn("replace_field_metadata", "update_field_metadata with field paths and replace=True")
        self.update_field_metadata({field_name: new_metadata}, replace=True)

    def cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        *,
        delete_unverified: bool = False,
        error_if_tagged_old_versions: bool = True,
        delete_rate_limit: int | None = None,
        versions: Sequence[int] | None = None,
        delete_concurrency: int | None = None,
    ) -> CleanupStats:
        """Remove old versions of the opened branch, and files that no version needs.

        The opened version and later versions stay. So do versions with a tag and versions that a branch began
        with. Of the other versions those are removed that meet every given condition; without a condition,
        those older than two weeks.

        Args:
            older_than: Remove only versions of at least this age. While others write, it must be longer than
                a commit takes.
            retain_versions: Keep this number of the newest versions.
            delete_unverified: Also remove young files that no version refers to. They may belong to a commit
                that is under way. Otherwise such files stay for seven days.
            error_if_tagged_old_versions: If a version to remove has a tag, refuse instead of keeping it.
            delete_rate_limit: Largest number of files to remove per second.
            versions: Remove only these versions.
            delete_concurrency: Number of files to remove at the same time.

        Raises:
            InvalidInputError: A number is out of range.
            RefConflictError: A version to remove has a tag.
            CorruptFileError: A manifest or ref cannot be read; nothing was removed.
        """
        from lance_core.maintenance.cleanup import CleanupPolicy, clean_up

        policy = CleanupPolicy(
            older_than=_age(older_than, retain_versions, versions),
            retain_versions=retain_versions,
            versions=versions,
            delete_unverified=delete_unverified,
            error_if_tagged_old_versions=error_if_tagged_old_versions,
            delete_rate_limit=delete_rate_limit,
            delete_concurrency=delete_concurrency,
        )
        return clean_up(self.snapshot, self.root, policy)

    def explain_cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        *,
        delete_unverified: bool = False,
        error_if_tagged_old_versions: bool = True,
        delete_rate_limit: int | None = None,
        versions: Sequence[int] | None = None,
        include_files: bool = False,
        max_files: int = 1000,
    ) -> CleanupExplanation:
        """Return what `cleanup_old_versions` would remove, and remove nothing.

        Args:
            older_than, retain_versions, delete_unverified, error_if_tagged_old_versions, versions: As for
                `cleanup_old_versions`.
            delete_rate_limit: Has no effect.
            include_files: Also list the files.
            max_files: Largest number of files to list.

        Raises:
            ValueError: `max_files` is not positive.
        """
        from lance_core.maintenance.cleanup import CleanupPolicy, explain_cleanup

        if max_files <= 0:
            raise InvalidInputError("max_files must be positive")
        policy = CleanupPolicy(
            older_than=_age(older_than, retain_versions, versions),
            retain_versions=retain_versions,
            versions=versions,
            delete_unverified=delete_unverified,
            error_if_tagged_old_versions=error_if_tagged_old_versions,
        )
        return explain_cleanup(
            self.snapshot, self.root, policy, include_files=include_files, max_files=max_files
        )

    def _update(self, **changes: Any) -> None:
        from lance_core.changes.settings import update_settings

        self._snapshot = update_settings(self.snapshot, **changes)

    def _source(self, reference: Reference | None) -> Snapshot:
        return self.snapshot if reference is None else self.open_reference(reference)


def _warn(old: str, new: str) -> None:
    warnings.warn(f"{old} is deprecated. Use {new} instead.", DeprecationWarning, stacklevel=4)


def _age(
    older_than: timedelta | None, retain_versions: int | None, versions: Sequence[int] | None
) -> timedelta | None:
    if older_than is None and retain_versions is None and versions is None:
        return _DEFAULT_AGE
    return older_than


def _describe(manifest: Manifest) -> Version:
    # The reference reports local times without a zone.
    timestamp = manifest.timestamp.astimezone().replace(tzinfo=None)
    return Version(version=manifest.version, timestamp=timestamp, metadata=summarize_version(manifest))
