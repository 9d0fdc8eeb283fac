"""Base of a dataset's interface: the opened version, and the move to another version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os.path import abspath
from typing import Any, Self

import pyarrow as pa

from lance_core.arguments import named_arguments
from lance_core.errors import DatasetNotFoundError, VersionNotFoundError
from lance_core.scan.session import Session
from lance_core.storage import CommitLock, Storage, storage_for
from lance_core.storage.local import expand_home
from lance_core.table.bases import base_opener
from lance_core.table.refs import branch_storage, no_branch, read_tag
from lance_core.table.snapshot import Snapshot, open_kept

Reference = int | str | tuple[str | None, int | None]
"""A version number of the opened branch, a tag, or a pair of a branch and a version of it.

In the pair `None` means the main branch, or the latest version.
"""


@named_arguments
class OpenedDataset:
    """One version of a dataset. The classes that inherit from it add the methods for users."""

    def __init_subclass__(cls) -> None:
        named_arguments(cls)

    def __init__(
        self,
        uri: str,
        version: Reference | None = None,
        storage_options: Mapping[str, str] | None = None,
        *,
        snapshot: Snapshot | None = None,
        session: Session | None = None,
        base_store_params: Mapping[str, Mapping[str, str]] | None = None,
        default_scan_options: Mapping[str, Any] | None = None,
        commit_lock: CommitLock | None = None,
    ) -> None:
        """Open a dataset like `lance_core.dataset`; if `snapshot` is given, it is the opened version."""
        self._uri = uri
        self._storage_options = storage_options
        number = version if isinstance(version, int) else None
        self._session = session
        self._default_scan_options = dict(default_scan_options or {})
        if snapshot is None:
            opener = base_opener(storage_options, base_store_params)
            snapshot = open_kept(storage_for(uri, storage_options).locked_by(commit_lock), number, opener)
        self._snapshot = self._bound(snapshot)
        # The main branch stores tags and branches, also if another branch is opened by its path.
        self._main_uri = _main_uri(uri, self._snapshot.manifest.branch)
        self._root = self._storage
        if self._main_uri != uri:
            self._root = storage_for(self._main_uri, storage_options).locked_by(self._storage.commit_lock)
        if version is not None and number is None:
            self._snapshot = self.open_reference(version)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to unpickle. The default does not fit, since `__class__` may not be the type."""
        return _without_state, (type(self),), self.__getstate__()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle.

        Local paths become absolute, since another process may work in another directory. The session is left
        out: the other process uses its default session.
        """
        paths = {name: _absolute(getattr(self, name)) for name in ("_uri", "_main_uri")}
        return {**self.__dict__, **paths, "_session": None}

    def __repr__(self) -> str:
        return f"LanceDataset(uri={self.uri!r}, version={self.version})"

    @property
    def uri(self) -> str:
        """Path or URL of the dataset, as it was given."""
        return self._uri

    @property
    def snapshot(self) -> Snapshot:
        """The opened version: storage and manifest."""
        return self._snapshot

    @property
    def _storage(self) -> Storage:
        """Storage of the opened branch."""
        return self._snapshot.storage

    @property
    def root(self) -> Storage:
        """Storage of the main branch, which stores the tags and branches."""
        return self._root

    @property
    def schema(self) -> pa.Schema:
        """The columns, with the nullability and metadata of their fields."""
        return self._snapshot.manifest.schema.to_arrow()

    @property
    def version(self) -> int:
        """The opened version."""
        return self._snapshot.manifest.version

    def move_to(self, snapshot: Snapshot) -> None:
        """Move this object to another version of the same dataset, which is open already."""
        self._snapshot = self._bound(snapshot)

    def at(self, snapshot: Snapshot) -> Self:
        """Return the same dataset at another version, which is open already."""
        other = object.__new__(type(self))
        other.__dict__ |= self.__dict__
        other._snapshot = self._bound(snapshot)
        return other

    def _bound(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with the session of the dataset, if the dataset was opened with one."""
        return snapshot if self._session is None else replace(snapshot, session=self._session)

    def open_reference(self, reference: Reference) -> Snapshot:
        """Open a version of the same dataset; errors are those of `LanceDataset.checkout_version`."""
        if isinstance(reference, int):
            return self._bound(open_kept(self._storage, reference, self._snapshot.open_base))
        if isinstance(reference, str):
            tag = read_tag(self._root, reference)
            reference = (tag.branch, tag.version)
        branch, number = reference
        storage = branch_storage(self._root, branch)
        try:
            return self._bound(open_kept(storage, number, self._snapshot.open_base))
        except VersionNotFoundError:
            raise
        except DatasetNotFoundError:
            raise no_branch(self._root, str(branch)) from None


def _without_state(kind: type[OpenedDataset]) -> OpenedDataset:
    return object.__new__(kind)


def branch_uri(uri: str, branch: str) -> str:
    """Return the path or URL of a branch; `uri` is that of the main branch."""
    path, query = _parts(uri)
    return f"{path}/tree/{branch}{query}"


def _absolute(uri: str) -> str:
    """Return a local path as an absolute path."""
    return uri if "://" in uri else abspath(expand_home(uri))


def _main_uri(uri: str, branch: str | None) -> str:
    """Return the path or URL of the main branch; `uri` is that of the opened branch.

    If the branch was moved away from its dataset, return `uri` itself.
    """
    path, query = _parts(uri)
    suffix = f"/tree/{branch}"
    return path.removesuffix(suffix) + query if branch is not None and path.endswith(suffix) else uri


def _parts(uri: str) -> tuple[str, str]:
    """Return the path of a dataset, and the query of its URL with the question mark, or an empty text."""
    path, mark, query = uri.partition("?") if "://" in uri else (uri, "", "")
    return path.rstrip("/"), mark + query
