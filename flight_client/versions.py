"""The part of a remote dataset's interface for its versions, tags, branches, settings and sizes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Self

from flight_client.actions import Actions
from flight_client.errors import InvalidInputError, RefNotFoundError
from flight_client.network.connections import Connections
from flight_client.reading.opening import open_snapshot
from flight_client.reading.scanner import Snapshot

_TIMES = ("created_at", "updated_at")
_MAIN = "main"

Reference = int | str | tuple[str | None, int | None]
"""A version: its number on the branch of the dataset, the name of a tag, or a branch (None or `main` for the
main branch) and a number (None for the latest).
"""


class _DatasetActions(Actions):
    """Actions, for the objects of one dataset."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections


class Versions:
    """Methods of a remote dataset with the names and results of `lance_core.LanceDataset`.

    Each call asks the server. Facts about one version are those of the opened version; filters of the dataset
    do not change them.
    """

    _snapshot: Snapshot

    @abstractmethod
    def _of(self, snapshot: Snapshot) -> Self:
        """Return another version with the conditions of this dataset."""

    @property
    def _actions(self) -> _DatasetActions:
        return _DatasetActions(self._snapshot.connections)

    @property
    def _name(self) -> str:
        return self._snapshot.target.name

    @property
    def _opened(self) -> dict[str, Any]:
        """Fields that name the opened version in an action."""
        fields = self._snapshot.target.fields()
        return {name: fields[name] for name in ("version", "branch", "identity") if name in fields}

    def versions(self) -> list[dict[str, Any]]:
        """Return all versions of the branch, oldest first.

        Each has `version`, `timestamp` (local time of the commit, without a zone) and `metadata` (totals).
        """
        listed = self._actions.versions(self._name, branch=self._snapshot.target.branch)
        return [_version(entry) for entry in listed]

    def version_refs(self) -> list[dict[str, int]]:
        """Return the numbers of all versions of the branch, oldest first."""
        return [{"version": entry["version"]} for entry in self.versions()]

    def get_version(self) -> dict[str, Any]:
        """Return the entry of `versions` for the opened version."""
        number, branch = self._snapshot.target.version, self._snapshot.target.branch
        (entry,) = self._actions.versions(self._name, from_version=number, to_version=number, branch=branch)
        return _version(entry)

    @property
    def latest_version(self) -> int:
        """The latest version of the branch, whichever version is opened."""
        described = self._actions.describe(self._name, branch=self._snapshot.target.branch)
        return int(described["version"])

    def checkout_version(self, version: Reference) -> Self:
        """Return another version of this dataset, with the same filters.

        Raises:
            DatasetNotFoundError: there is no such version, tag or branch.
            InvalidInputError: `version` is of another type.
        """
        branch = None if isinstance(version, str) else self._snapshot.target.branch
        number: int | str | None = None
        if isinstance(version, tuple):
            branch, number = _branch_and_number(version)
        else:
            number = version
        snapshot = self._snapshot
        return self._of(
            open_snapshot(snapshot.connections, snapshot.options, self._name, number, branch=branch)
        )

    @property
    def tags(self) -> RemoteTags:
        """The tags of the dataset."""
        target = self._snapshot.target
        return RemoteTags(self._actions, target.name, target.branch, target.version)

    @property
    def branches(self) -> RemoteBranches:
        """The branches of the dataset."""
        return RemoteBranches(self._actions, self._name)

    @property
    def data_storage_version(self) -> str:
        """File version of the data files."""
        return str(self._actions.describe(self._name, **self._opened)["data_storage_version"])

    @property
    def has_index(self) -> bool:
        """Whether the version has any index."""
        return bool(self.describe_indices())

    def describe_indices(self) -> list[dict[str, Any]]:
        """Return the indices of the version, see `Client.indices`."""
        return self._actions.indices(self._name, **self._opened)

    def fragment_ids(self) -> list[int]:
        """Return the ids of all fragments of the version."""
        return [int(each["id"]) for each in self._actions.fragments(self._name, **self._opened)]

    def count_deleted_rows(self) -> int:
        """Return the number of rows in the data files that deletion files remove."""
        listed = self._actions.fragments(self._name, **self._opened)
        return sum(int(each["physical_rows"]) - int(each["rows"]) for each in listed)

    def config(self) -> dict[str, str]:
        """Return the settings of the dataset."""
        return dict(self._actions.config(self._name, **self._opened)["config"])

    @property
    def metadata(self) -> dict[str, str]:
        """Metadata that users set on the dataset."""
        return dict(self._actions.config(self._name, **self._opened)["table_metadata"])

    @property
    def schema_metadata(self) -> dict[str, str]:
        """Metadata of the schema."""
        return dict(self._actions.config(self._name, **self._opened)["schema_metadata"])

    def validate(self) -> None:
        """Let the server check every file of the version.

        Raises:
            CorruptFileError: the first error in the files.
        """
        self._actions.validate(self._name, **self._opened)


class RemoteTags:
    """Tags of a dataset on a server: `RemoteDataset.tags`."""

    def __init__(self, actions: Actions, name: str, branch: str | None, version: int) -> None:
        """Use `RemoteDataset.tags`. Numbers of versions are those of `branch`."""
        self._actions = actions
        self._name = name
        self._branch = branch
        self._opened = version

    def list(self) -> dict[str, dict[str, Any]]:
        """Return the tags by name, each with `version`, `branch`, `manifest_size`, `created_at`,
        `updated_at` and `metadata`.
        """
        return {tag: _with_times(entry) for tag, entry in self._actions.tags(self._name).items()}

    def get_version(self, tag: str) -> int:
        """Return the number of the version that a tag names.

        Raises:
            RefNotFoundError: there is no such tag.
        """
        found = self._actions.tags(self._name).get(tag)
        if found is None:
            raise RefNotFoundError(f"no tag {tag!r}")
        return int(found["version"])

    def create(self, tag: str, reference: Reference | None = None) -> None:
        """Create a tag of a version; of the opened version if none is given.

        Raises:
            RefConflictError: the tag exists, with another version.
            DatasetNotFoundError: there is no such version.
            InvalidInputError: the name is not allowed.
        """
        self._actions.create_tag(self._name, tag, **self._version(reference))

    def update(self, tag: str, reference: Reference | None = None) -> None:
        """Let a tag name another version; the opened version if none is given.

        Raises:
            DatasetNotFoundError: there is no such tag or version.
        """
        self._actions.update_tag(self._name, tag, **self._version(reference))

    def delete(self, tag: str) -> None:
        """Delete a tag, not the version.

        Raises:
            RefNotFoundError: there is no such tag.
        """
        self._actions.delete_tag(self._name, tag)

    def _version(self, reference: Reference | None) -> dict[str, Any]:
        """Return the fields of an action that name a version."""
        if isinstance(reference, str):
            named = self._actions.describe(self._name, tag=reference)
            return {"branch": named["branch"], "version": named["version"]}
        if isinstance(reference, tuple):
            branch, number = _branch_and_number(reference)
            return {"branch": branch, "version": number}
        return {"branch": self._branch, "version": self._opened if reference is None else reference}


class RemoteBranches:
    """Branches of a dataset on a server: `RemoteDataset.branches`."""

    def __init__(self, actions: Actions, name: str) -> None:
        """Use `RemoteDataset.branches`."""
        self._actions = actions
        self._name = name

    def list(self) -> dict[str, dict[str, Any]]:
        """Return the branches by name, each with `parent_branch`, `parent_version`, `branch_identifier`,
        `create_at` (seconds since 1970), `manifest_size` and `metadata`.
        """
        listed = self._actions.branches(self._name)
        return {
            name: {**entry, "branch_identifier": [tuple(pair) for pair in entry["branch_identifier"]]}
            for name, entry in listed.items()
        }

    def delete(self, branch: str) -> None:
        """Delete a branch with its files.

        Raises:
            RefNotFoundError: there is no such branch.
            RefConflictError: other branches or tags need it.
        """
        self._actions.delete_branch(self._name, branch)


def _branch_and_number(reference: tuple[str | None, int | None]) -> tuple[str | None, int | None]:
    match reference:
        case (str() | None as branch, int() | None as number) if not isinstance(number, bool):
            return None if branch == _MAIN else branch, number
    raise InvalidInputError(f"version: expected a branch and a number, found {reference!r}")


def _version(entry: Mapping[str, Any]) -> dict[str, Any]:
    local = datetime.fromisoformat(entry["timestamp"]).astimezone().replace(tzinfo=None)
    return {"version": entry["version"], "timestamp": local, "metadata": entry["metadata"]}


def _with_times(entry: Mapping[str, Any]) -> dict[str, Any]:
    times = {name: entry.get(name) for name in _TIMES}
    return {**entry, **{name: text and datetime.fromisoformat(text) for name, text in times.items()}}
