"""Names and the datasets behind them: every directory below the root that holds `_versions`.

The catalog of a caller has only the datasets to which the caller has rights (threat T3). The rights are
checked before anything on disk is looked at, so no answer tells a missing dataset from a forbidden one.

The search does not descend into a dataset, the root itself is none, and namespaces are plain directories.
Only a dataset's own directory may be a symbolic link, and only to a place below the root (threats T7, T8).
"""

import logging
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from typing import Any, Self

from flight_server.catalog.views import View, view_of
from flight_server.logs import log_event
from flight_server.requests.names import SUFFIX, DatasetReference, is_path_component, shown
from flight_server.rights.grants import Access, Right
from lance_core import DatasetBasePath, Session
from lance_core.api.serving import (
    BlobDirectory,
    CacheUse,
    LocalStorage,
    Snapshot,
    SnapshotCache,
    Storage,
    branch_names,
    branch_storage,
    did_you_mean,
    find_tag,
    latest_version,
    near_names,
    open_snapshot,
    scheme_of,
    tag_names,
    version_before,
)
from lance_core.errors import (
    DatasetNotFoundError,
    InvalidInputError,
    LanceError,
    RefNotFoundError,
    StorageError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)

VERSIONS_DIRECTORY = "_versions"
STAGING_DIRECTORY = "_staging"
"""Directory of the records of staged writes, in each dataset."""
MAXIMUM_NAMESPACES = 32
_WRITTEN_DIRECTORIES = ("data", "_transactions", STAGING_DIRECTORY)


class Catalog:
    """The datasets below one root directory. Thread-safe.

    Paths are resolved: absolute and without links. Files that a manifest puts into a base path are read when
    that is below the root or below one of `base_directories` (threat T11). Blobs outside their dataset are
    read only below `base_directories`: in the root are files of datasets that the caller may have no right to
    (threat T3), and the signing key.
    """

    is_remote = False
    """Whether the datasets are in a remote store."""

    def __init__(
        self,
        root: str,
        cache_bytes: int,
        base_directories: Sequence[str] = (),
        session: Session | None = None,
    ) -> None:
        """Serve the datasets below `root`, whose reads use `session`."""
        self._root = root
        self._below_root = os.path.join(root, "")
        self._base_directories = tuple(base_directories)
        self._snapshots = SnapshotCache(cache_bytes, self._open_version)
        self._session = session
        self._reported: set[str] = set()
        self._access: Access | None = None
        self._needed: tuple[Right, ...] = ()

    def on_behalf_of(self, access: Access) -> Self:
        """Return this catalog for a caller. It has no datasets before `needing` says which are looked for."""
        catalog = copy(self)
        catalog._access = access
        return catalog

    def needing(self, *rights: Right) -> Self:
        """Return this catalog with the datasets to which the caller has these rights.

        All other datasets do not exist in it. A dataset that the caller may read in part is found by `names`,
        `pin`, `refs` and `view` only.
        """
        if self._access is None or self._needed == rights:
            return self
        catalog = copy(self)
        catalog._needed = rights
        return catalog

    @property
    def manifests(self) -> CacheUse:
        """Return the number of kept manifests, their memory, and the numbers of hits and misses."""
        return self._snapshots.use()

    def probe(self) -> None:
        """List the root. Raises StorageError if it cannot be listed."""
        try:
            with os.scandir(self._root) as entries:
                next(entries, None)
        except OSError as error:
            raise StorageError(f"the root cannot be listed: {error.strerror}") from None

    def names(self) -> Iterator[str]:
        """Yield the names of the datasets of the root, sorted within each directory.

        A directory whose name is not allowed is reported in the log once; of `a` beside `a.lance` both are
        listed as one name, and opening it says why that cannot be done.

        Raises:
            StorageError: the root cannot be listed.
        """
        self.probe()
        return filter(self.admits, self._names_below("", 0))

    def admits(self, name: str) -> bool:
        """Return whether the caller has the rights to a name, perhaps to a part of the dataset. There may be
        no such dataset.
        """
        if self._access is None:
            return True
        return bool(self._needed) and self._access.to(name).held >= set(self._needed)

    def missing(self, name: str, part: str = "") -> DatasetNotFoundError:
        """Return the error for a name without a dataset, and for a dataset without the rights to it.

        `part` says of which part of the dataset the caller does not have the rights.
        """
        rights = "" if self._access is None else f" that you may {' and '.join(self._needed)}{part}"
        return DatasetNotFoundError(f"no dataset{rights} is named {shown(name)}{self._hint(name)}")

    def _check_whole(self, name: str) -> None:
        """Refuse a dataset to which the caller does not have the rights, or not to the whole dataset."""
        if self._access is not None and not self._access.to(name).allow(self._needed or ("manage",)):
            raise self.missing(name, " as a whole" if self.admits(name) else "")

    def _check(self, name: str) -> None:
        """Refuse a dataset to which the caller does not have the rights."""
        if not self.admits(name):
            raise self.missing(name)

    def _names_below(self, namespace: str, depth: int) -> Iterator[str]:
        parent = os.path.join(self._root, namespace)
        try:
            entries = sorted(os.listdir(parent))
        except OSError as error:
            self._report(namespace, f"cannot be listed: {error.strerror}")
            return
        found: set[str] = set()
        for directory in (entry for entry in entries if os.path.isdir(os.path.join(parent, entry))):
            relative = f"{namespace}/{directory}" if namespace else directory
            if self._dataset_path(relative):
                name = relative.removesuffix(SUFFIX)
                if not is_path_component(directory.removesuffix(SUFFIX)) or name.endswith(SUFFIX):
                    self._report(relative, "is a dataset whose name is not allowed")
                elif name not in found:
                    found.add(name)
                    yield name
            elif is_path_component(directory) and self._is_namespace(relative):
                if depth < MAXIMUM_NAMESPACES:
                    yield from self._names_below(relative, depth + 1)
                else:
                    self._report(relative, "is nested too deep")
            elif not directory.startswith("."):
                self._report(relative, "is not served: its name is not allowed, or it is a link")

    def locate(self, name: str) -> str:
        """Return the absolute, resolved path of the dataset `name`, as a DatasetReference holds it.

        Raises:
            DatasetNotFoundError: there is no such dataset; the message names near ones of the same namespace.
            InvalidInputError: `name` and `name.lance` both exist.
            StorageError: there is no such dataset, and the root cannot be listed.
        """
        self._check_whole(name)
        return self._locate(name)

    def _locate(self, name: str) -> str:
        path = self._find(name)
        if path is None:
            raise self.missing(name)
        return path

    def has(self, name: str) -> bool:
        """Return whether there is a dataset of this name; an ambiguous one is an error as for `locate`.

        Raises DatasetNotFoundError if the caller does not have the rights to the name.
        """
        self._check_whole(name)
        return self._find(name) is not None

    def _find(self, name: str) -> str | None:
        """Return the path of a dataset, or None if there is none; other errors are those of `locate`."""
        found: dict[str, str] = {}
        if self._has_namespace(name):
            found = {
                relative: path for relative in (name, name + SUFFIX) if (path := self._dataset_path(relative))
            }
        if not found:
            self.probe()  # in a root that is not there at the moment, no dataset is missing
        if len(found) > 1:
            raise ambiguous(name, found)
        return next(iter(found.values()), None)

    def _has_namespace(self, name: str) -> bool:
        """Return whether all components of a name except the last one are namespaces."""
        namespaces = name.split("/")[:-1]
        return all(
            self._is_namespace("/".join(namespaces[:depth])) for depth in range(1, len(namespaces) + 1)
        )

    def _hint(self, name: str) -> str:
        """Return the end of a message that names datasets of the same namespace with similar names."""
        namespace, separator, last = name.rpartition("/")
        components = self._components_in(namespace) if self._has_namespace(name) else []
        others = [component for component in components if component != last]
        near = [f"{namespace}{separator}{component}" for component in near_names(last, others)]
        # What is listed may be a plain folder.
        near = [each for each in near if self.admits(each) and self._is_there(each)]
        return did_you_mean(name, near) if near else ""

    def _is_there(self, name: str) -> bool:
        """Return whether a dataset has this name. It may be ambiguous."""
        try:
            return self._find(name) is not None
        except InvalidInputError:
            return True

    def _components_in(self, namespace: str) -> list[str]:
        """Return the names of the directories in a namespace that may be datasets, without their suffix."""
        try:
            entries = sorted(os.listdir(os.path.join(self._root, namespace)))
        except OSError:
            return []
        return [each for entry in entries if is_path_component(each := entry.removesuffix(SUFFIX))]

    def place(self, name: str) -> str:
        """Return the absolute path at which a new dataset of this name is made.

        Raises:
            InvalidInputError: the name is taken by something else, or a component of it is not a namespace.
            DatasetNotFoundError: the caller has no right to that component, or not the rights to the name.
        """
        self._check_whole(name)
        parts = name.split("/")
        if len(parts) > MAXIMUM_NAMESPACES:
            raise InvalidInputError(
                f"dataset name {shown(name)} has more than {MAXIMUM_NAMESPACES} path components"
            )
        for depth in range(1, len(parts)):
            namespace = "/".join(parts[:depth])
            if os.path.lexists(os.path.join(self._root, namespace)) and not self._is_namespace(namespace):
                raise self._taken(name, namespace, "a dataset or a file")
        path = os.path.join(self._root, name + SUFFIX)
        if os.path.lexists(path) and (os.path.islink(path) or not os.path.isdir(path)):
            raise InvalidInputError(
                f"dataset name {shown(name)} is taken by something that is not a directory of the served root"
            )
        return path

    def _taken(self, name: str, namespace: str, what: str) -> LanceError:
        """Return the error for a name below `namespace`, which is `what` and no namespace.

        A caller without a right to `namespace` gets the error of a missing dataset (threat T3).
        """
        if self._access is not None and not self._access.to(namespace.removesuffix(SUFFIX)).held:
            return self.missing(name)
        return InvalidInputError(f"{shown(namespace)} is {what}, so that it cannot contain datasets")

    def remove_unfinished(self, path: str) -> None:
        """Remove the empty directories of a dataset at `path`, whose creation failed."""
        with suppress(OSError):
            if not os.listdir(os.path.join(path, VERSIONS_DIRECTORY)):
                os.rmdir(os.path.join(path, VERSIONS_DIRECTORY))
        if not os.path.lexists(os.path.join(path, VERSIONS_DIRECTORY)):
            for directory in (*_WRITTEN_DIRECTORIES, ""):
                with suppress(OSError):
                    os.rmdir(os.path.join(path, directory))

    def hide(self, name: str) -> str:
        """Rename a dataset, so that requests no longer find it, and return its new path, for `delete`.

        Raises:
            UnsupportedFeatureError: its directory is a link. The target of a link is not deleted.
            StorageError: it cannot be renamed. Other errors are those of `locate`.
        """
        path = self.locate(name)
        parent, _, last = name.rpartition("/")
        directory = os.path.join(self._root, parent)
        if path not in (os.path.join(directory, last), os.path.join(directory, last + SUFFIX)):
            raise UnsupportedFeatureError(f"dropping dataset {shown(name)}, which is reached through a link")
        hidden = os.path.join(directory, f".{secrets.token_hex(8)}.dropped")
        try:
            os.rename(path, hidden)
        except OSError as error:
            raise StorageError(f"dataset {shown(name)} cannot be dropped: {error.strerror}") from None
        return hidden

    def delete(self, path: str) -> None:
        """Delete what `hide` left; what cannot be deleted is reported in the log."""
        shutil.rmtree(path, onerror=self._report_leftover)

    def _report_leftover(self, _call: object, path: str, error: Any) -> None:
        self._report(os.path.relpath(path, self._root), f"cannot be deleted: {error[1]}")

    def staging_paths(self) -> Iterator[str]:
        """Yield the paths, for `storage`, of the datasets that hold staged writes, versions or not."""
        yield from self._staging_below(self._root, 0)

    def _staging_below(self, directory: str, depth: int) -> Iterator[str]:
        try:
            with os.scandir(directory) as entries:
                below = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return
        for path in below:
            if os.path.isdir(os.path.join(path, STAGING_DIRECTORY)):
                yield path
            elif depth < MAXIMUM_NAMESPACES and not os.path.isdir(os.path.join(path, VERSIONS_DIRECTORY)):
                yield from self._staging_below(path, depth + 1)

    def storage(self, path: str) -> Storage:
        """Return the storage of the dataset that `locate` found at `path`."""
        return LocalStorage(path, is_resolved=True)

    def open(self, reference: DatasetReference) -> Snapshot:
        """Return the snapshot that `reference` names.

        Raises:
            DatasetNotFoundError: the caller does not have the rights to the whole dataset; there is no such
                dataset, version, tag or branch, or none as old; or the dataset has another identity than
                `reference` names, because it was dropped and made again.
            InvalidInputError: as `locate`.
            LanceError: the manifest cannot be read, or uses what is not supported or not allowed.
        """
        self._check_whole(reference.name)
        return self._open(reference)

    def view(self, reference: DatasetReference) -> View:
        """Return the part of a version that the caller may read; errors are those of `open`."""
        self._check(reference.name)
        snapshot = self._open(reference)
        limits = () if self._access is None else self._access.to(reference.name).limits
        found = view_of(snapshot, limits)
        if found is None:
            self._report(reference.name, "has no columns for the filters of grants to read it")
            raise self.missing(reference.name)
        return found

    def _open(self, reference: DatasetReference) -> Snapshot:
        root = self.storage(self._locate(reference.name))
        branch, version = _resolve(root, reference)
        try:
            snapshot = self._snapshots.open(branch_storage(root, branch), version)
        except VersionNotFoundError:
            raise VersionNotFoundError(
                f"dataset {_named(reference.name, branch)} has no version {version}: it was never made, or "
                "was cleaned up"
            ) from None
        if reference.identity not in (None, snapshot.manifest.identity):
            raise DatasetNotFoundError(
                f"version {version} of dataset {_named(reference.name, branch)} is not the one that was "
                "planned or opened: the dataset was dropped and made again"
            )
        return snapshot

    def pin(self, reference: DatasetReference) -> DatasetReference:
        """Return the version that `reference` means now, by branch and number; errors are those of `open`."""
        self._check(reference.name)
        root = self.storage(self._locate(reference.name))
        branch, version = _resolve(root, reference)
        return DatasetReference(reference.name, version, branch=branch, identity=reference.identity)

    def refs(self, name: str) -> tuple[list[str], list[str]]:
        """Return the names of the tags and branches of a dataset; errors are those of `locate`."""
        self._check(name)
        root = self.storage(self._locate(name))
        return tag_names(root), branch_names(root)

    def _open_version(self, storage: Storage, version: int) -> Snapshot:
        return replace(open_snapshot(storage, version, self._open_base), session=self._session)

    def _open_base(self, base: DatasetBasePath, table: Storage) -> Storage:
        if scheme_of(base.path) == "file":
            path = os.path.realpath(LocalStorage(base.path).uri)
            directories = self._base_directories
            if not isinstance(base, BlobDirectory):
                directories = (self._root, *directories)
            elif _is_in(path, self._root):  # a directory that contains the root does not open it
                directories = tuple(each for each in directories if not _is_in(self._root, each))
            if any(_is_in(path, allowed) for allowed in directories):
                return LocalStorage(path, is_resolved=True)
        raise UnsupportedFeatureError(f"{base}: its files are in a directory that no setting allows")

    def _is_namespace(self, relative: str) -> bool:
        path = os.path.join(self._root, relative)
        return os.path.isdir(path) and not os.path.islink(path) and not self._dataset_path(relative)

    def _dataset_path(self, relative: str) -> str | None:
        """Return the resolved path of the dataset in the directory `relative`; None if none is below the
        root.

        The caller must use this path: resolving a second time could lead elsewhere.
        """
        given = self._below_root + relative
        try:
            # What leads there is resolved: the root once, and namespaces are no links.
            path = os.path.realpath(given) if stat.S_ISLNK(os.lstat(given).st_mode) else given
        except OSError:  # there is none, or it is being removed or renamed
            return None
        is_dataset = path.startswith(self._below_root) and os.path.isdir(f"{path}/{VERSIONS_DIRECTORY}")
        return path if is_dataset else None

    def _report(self, relative: str, problem: str) -> None:
        if relative not in self._reported:
            self._reported.add(relative)
            log_event(logging.WARNING, "skipped", {"directory": shown(relative)[1:-1], "message": problem})


def ambiguous(name: str, found: Iterable[str]) -> InvalidInputError:
    """Return the error for a name that two directories have, one with the suffix and one without."""
    return InvalidInputError(
        f"dataset name {shown(name)} is ambiguous, rename one", found=" and ".join(map(shown, found))
    )


def _is_in(path: str, directory: str) -> bool:
    return path == directory or _is_below(path, directory)


def _is_below(path: str, directory: str) -> bool:
    return path.startswith(os.path.join(directory, ""))


def _named(name: str, branch: str | None) -> str:
    return name if branch is None else f"{name} (branch {branch})"


def _resolve(root: Storage, reference: DatasetReference) -> tuple[str | None, int]:
    """Return the branch (None: the main branch) and the version that `reference` means."""
    tag, branch = reference.tag, reference.branch
    if reference.ref is not None:
        tag, branch = _tag_or_branch(root, reference.ref)
    if tag is not None:
        named = find_tag(root, tag)
        if named is None:
            hint = did_you_mean(tag, tag_names(root))
            raise RefNotFoundError(f"dataset {reference.name} has no tag {shown(tag)}{hint}")
        return named.branch, named.version
    if reference.version is not None and branch is None:
        return None, reference.version
    storage = branch_storage(root, branch)
    try:
        latest = latest_version(storage)
    except DatasetNotFoundError:
        if branch is None:
            raise
        kind = "branch" if reference.ref is None else "tag or branch"
        known = branch_names(root) if reference.ref is None else [*tag_names(root), *branch_names(root)]
        hint = did_you_mean(branch, known)
        raise RefNotFoundError(f"dataset {reference.name} has no {kind} {shown(branch)}{hint}") from None
    if reference.asof is None:
        return branch, latest if reference.version is None else reference.version
    version = version_before(storage, reference.asof)
    if version is None:
        raise VersionNotFoundError(
            f"dataset {_named(reference.name, branch)} has no version before {reference.asof}"
        )
    return branch, version


def _tag_or_branch(root: Storage, ref: str) -> tuple[str | None, str | None]:
    return (None, ref) if find_tag(root, ref) is None else (ref, None)
