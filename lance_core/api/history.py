"""Settings, branches, clones, going back to older versions and removing them, as the reference names it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from datetime import timedelta
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Self

from lance_core.api.opened import OpenedDataset, Reference, branch_uri
from lance_core.storage import storage_for
from lance_core.table.snapshot import Snapshot, open_snapshot
from lance_core.table.versions import list_versions

if TYPE_CHECKING:
    from lance_core.api.operations import Transaction
    from lance_core.changes.settings import Entries
    from lance_core.maintenance.cleanup import CleanupExplanation, CleanupStats

_DEFAULT_AGE = timedelta(days=14)


class History(OpenedDataset):
    """Methods for the versions of a dataset."""

    def create_branch(
        self,
        branch: str,
        reference: Reference | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> Self:
        """Begin a branch with a version, the opened one if none is given.

        A branch is a table of its own that begins with the files of that version; no data is copied.

        Args:
            branch: Its name: segments of letters, digits, ".", "-" and "_" between single slashes.
            reference: As for `checkout_version`.
            storage_options: Settings for the branch that is returned, where they are others.

        Returns:
            The branch, at its first version, which has the number of the version that it began with.

        Raises:
            InvalidInputError: no branch may have this name.
            RefConflictError: there is such a branch.
            DatasetNotFoundError: there is no such version.
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
        """Begin another dataset with a version of this one; no data is copied.

        Cleaning up this dataset breaks the clone, unless a tag keeps the version.

        Args:
            target_path: Path or URL where no dataset is.
            reference: As for `checkout_version`.
            storage_options: Settings of the storage of the clone; those of this dataset if not given.
            arguments: Others of `LanceDataset`.

        Raises:
            DatasetExistsError: there is a dataset at `target_path`.
            DatasetNotFoundError: there is no such version.
        """
        from lance_core.maintenance.clone import clone_table

        target = fspath(target_path)
        options = self._storage_options if storage_options is None else storage_options
        snapshot = clone_table(self._source(reference), storage_for(target, options))
        return type(self)(target, storage_options=options, snapshot=snapshot, **arguments)

    def read_transaction(self, version: int) -> Transaction | None:
        """Return the transaction of a version of the opened branch; None if it left none, as old libraries
        did.

        Raises:
            DatasetNotFoundError: there is no such version.
        """
        from lance_core.api.transactions import transaction_of

        return transaction_of(open_snapshot(self._storage, version, self.snapshot.open_base))

    def get_transactions(self, recent_transactions: int = 10) -> list[Transaction | None]:
        """Return the transactions of the opened version and of earlier versions, newest first.

        Args:
            recent_transactions: Most versions to look at; there is at least one.
        """
        versions = [number for number in list_versions(self._storage) if number <= self.version]
        recent = versions[-max(recent_transactions, 1) :]
        return [self.read_transaction(number) for number in reversed(recent)]

    def restore(self) -> None:
        """Make the opened version the latest one again, as a new version, and move to it.

        Raises:
            CommitConflictError: other commits make this one impossible.
            CommitUnknownError: nobody can say whether the version was made.
        """
        from lance_core.changes.settings import restore_version

        self._snapshot = restore_version(self.snapshot)

    def update_config(self, values: Entries, *, replace: bool = False) -> dict[str, str]:
        """Change settings of the table and move to the new version.

        Args:
            values: Settings; None removes one.
            replace: Drop the settings that are not named.

        Returns:
            All settings.

        Raises:
            CommitConflictError: another commit changed one of them since the opened version.
        """
        self._update(config=values, replace=replace)
        return dict(self.snapshot.manifest.config)

    def delete_config_keys(self, keys: Sequence[str]) -> None:
        """Remove settings of the table, those of them that are there, and move to the new version."""
        self._update(config=dict.fromkeys(keys))

    def update_metadata(self, values: Entries, *, replace: bool = False) -> dict[str, str]:
        """Change what is noted on the table, as `update_config` does with settings; returns all of it."""
        self._update(table_metadata=values, replace=replace)
        return dict(self.snapshot.manifest.table_metadata)

    def update_schema_metadata(self, values: Entries, *, replace: bool = False) -> dict[str, str]:
        """Change the metadata of the schema, as `update_config` does with settings; returns all of it."""
        self._update(schema_metadata=values, replace=replace)
        return dict(self.snapshot.manifest.schema.metadata)

    def replace_schema_metadata(self, new_metadata: Mapping[str, str]) -> None:
        """Replace the metadata of the schema. Deprecated: `update_schema_metadata` does it, too."""
        _warn("replace_schema_metadata", "update_schema_metadata(metadata, replace=True)")
        self.update_schema_metadata(new_metadata, replace=True)

    def update_field_metadata(self, field_updates: Mapping[str, Entries], *, replace: bool = False) -> None:
        """Change the metadata of fields, and move to the new version.

        Args:
            field_updates: Changes by the dotted path of the field; None removes a key.
            replace: Drop keys that are not named, of these fields.

        Raises:
            InvalidInputError: there is no such field.
            CommitConflictError: another commit changed the schema or its metadata.
        """
        self._update(field_metadata=field_updates, replace=replace)

    def replace_field_metadata(self, field_name: str, new_metadata: Mapping[str, str]) -> None:
        """Replace the metadata of a field. Deprecated: `update_field_metadata` does it, too."""
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

        The opened version and those after it stay, and so do versions with tags and those that branches began
        with. Versions go that every given limit lets go; without any, those older than two weeks.

        Args:
            older_than: Only versions of this age. While others write it has to be longer than a commit takes.
            retain_versions: Number of the newest versions to keep.
            delete_unverified: Remove also young files that no version refers to. They may belong to a commit
                that is under way; without this they stay for seven days.
            error_if_tagged_old_versions: Refuse when a version that would go has a tag; else it stays.
            delete_rate_limit: Most files to remove in a second.
            versions: Only these versions.
            delete_concurrency: Files to remove at the same time.

        Raises:
            InvalidInputError: a limit makes no sense.
            RefConflictError: a version that would go has a tag.
            CorruptFileError: a manifest or ref cannot be read; nothing was removed.
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
        """Return what `cleanup_old_versions` would remove; nothing is removed.

        Args:
            older_than, retain_versions, delete_unverified, error_if_tagged_old_versions, versions: As there.
            delete_rate_limit: Has no effect.
            include_files: Name the files, too.
            max_files: Most files to name.
        """
        from lance_core.maintenance.cleanup import CleanupPolicy, explain_cleanup

        if max_files <= 0:
            raise ValueError("max_files must be positive")
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
    warnings.warn(f"{old} is deprecated. Use {new} instead.", DeprecationWarning, stacklevel=3)


def _age(
    older_than: timedelta | None, retain_versions: int | None, versions: Sequence[int] | None
) -> timedelta | None:
    if older_than is None and retain_versions is None and versions is None:
        return _DEFAULT_AGE
    return older_than
