"""Versions of a table, by the names in `_versions/`.

A table names its manifests by one of two schemes: `{version}.manifest`, or `{2^64 - 1 - version}.manifest`
with 20 digits, so that the newest comes first in a listing. Other names (staged files, the latest-version
hint, which may be stale) are no versions. Versions with the highest bit set are detached, have the name
`d{version}.manifest` and are reached by number only.
Source: docs/format.md, "Versions".
"""

import re
from collections import OrderedDict
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock

from lance_core.errors import (
    CorruptFileError,
    DatasetNotFoundError,
    FileMissingError,
    PutUnknownError,
    StorageError,
    VersionNotFoundError,
)
from lance_core.forks import begin_anew_after_fork
from lance_core.storage import Storage
from lance_core.table.manifest_store import (
    latest_in_store,
    manifest_store_of,
    path_in_store,
    publish_in_store,
)

VERSIONS = "_versions"

REFS = "_refs"
"""Directory of tags and branches, below the main branch."""
TREE = "tree"
"""Directory of branches, below the main branch."""

HINT = f"{VERSIONS}/latest_version_hint.json"
"""File in which the reference records an existing version. Only its commits use it."""

_SUFFIX = ".manifest"
_MAX_VERSION = (1 << 64) - 1
_DETACHED = 1 << 63
_DIGITS = 20
"""Number of digits of a name in the inverted scheme."""
_DETACHED_NAME = re.compile(r"d([0-9]+)\.manifest")
_NUMBER = re.compile(r"/([0-9]+)\.manifest(?=/)")
"""Finds the manifests among names that are joined by the one character no name can hold."""


def list_versions(storage: Storage) -> tuple[int, ...]:
    """All versions in ascending order; errors are those of `latest_version`."""
    store = manifest_store_of(storage)
    if store is not None:
        latest_in_store(store, storage)  # lets the newest appear in the directory, where the others are
    names, inverted = _manifest_names(storage)
    return tuple(sorted(_decoded(names, inverted)))


def detached_versions(storage: Storage) -> tuple[int, ...]:
    """Return the versions that are not part of the history, in no order."""
    matches = map(_DETACHED_NAME.fullmatch, storage.list_names(VERSIONS))
    return tuple(int(match[1]) for match in matches if match)


def latest_version(storage: Storage) -> int:
    """Return the newest version; errors are those of `latest_manifest`."""
    return latest_manifest(storage)[0]


def latest_manifest(storage: Storage) -> tuple[int, str]:
    """Return the newest version and the path of its manifest.

    A storage that lists in the order of names is asked for the first ones only where names are inverted.

    Raises:
        DatasetNotFoundError: there is no table.
        CorruptFileError: the manifests are named by both schemes.
    """
    store = manifest_store_of(storage)
    if store is not None and (newest := latest_in_store(store, storage)):
        return newest
    state = storage.directory_state(VERSIONS)
    found = _newest.get(storage.uri, state) if state is not None else None
    if found is None:
        names, inverted = _numbers(storage.first_names(VERSIONS))
        if not inverted:
            names, inverted = _manifest_names(storage)
        name = min(names) if inverted else max(names, key=int)
        found = _MAX_VERSION - int(name) if inverted else int(name), f"{VERSIONS}/{name}{_SUFFIX}"
        if state is not None:
            _newest.put(storage.uri, state, found)
    return found


class _Newest:
    """The newest manifests of the tables that were opened last, as long as nothing was added or removed."""

    _MOST = 1024

    def __init__(self) -> None:
        self.begin()
        begin_anew_after_fork(self)

    def begin(self) -> None:
        """Begin without any table, in this process or in one that was forked."""
        self._found: OrderedDict[str, tuple[Hashable, tuple[int, str]]] = OrderedDict()
        self._lock = Lock()

    def get(self, uri: str, state: Hashable) -> tuple[int, str] | None:
        with self._lock:
            known, found = self._found.get(uri, (None, None))
            return found if known == state else None

    def put(self, uri: str, state: Hashable, found: tuple[int, str]) -> None:
        with self._lock:
            self._found[uri] = state, found
            self._found.move_to_end(uri)
            while len(self._found) > self._MOST:
                self._found.popitem(last=False)


_newest = _Newest()


@dataclass(frozen=True)
class Listing:
    """Facts about the manifests of a table that a writer needs."""

    latest: int
    """The newest version."""
    path: str
    """Path of the manifest."""
    is_inverted: bool
    """Whether names begin with the newest version; all of one table do, or none."""
    has_hint: bool
    """Whether the reference left a hint, see `HINT`."""


def list_manifests(storage: Storage) -> Listing | None:
    """Return the state of the table to write to; None when there is no table.

    Raises:
        CorruptFileError: the manifests are named by both schemes.
    """
    store = manifest_store_of(storage)
    newest = latest_in_store(store, storage) if store is not None else None
    try:
        names = storage.list_names(VERSIONS)
    except FileMissingError:
        return None
    numbers, is_inverted = _numbers(names)
    if not numbers:
        return None
    if newest is None:
        latest = _MAX_VERSION - int(min(numbers)) if is_inverted else max(map(int, numbers))
        newest = latest, version_path(latest, is_inverted)
    return Listing(*newest, is_inverted, HINT.rpartition("/")[2] in names)


def version_path(version: int, is_inverted: bool) -> str:
    """Return the path of the manifest of a version of a table that names them this way."""
    number = f"{_MAX_VERSION - version:0{_DIGITS}}" if is_inverted else f"{version}"
    return f"{VERSIONS}/{number}{_SUFFIX}"


def publish_manifest(storage: Storage, version: int, data: bytes, inverted: bool, sync: bool = True) -> str:
    """Make a version by putting its manifest where none is; of several writers exactly one succeeds.

    All files that the version refers to must be there, and durable where this is to be.

    Args:
        storage: where the table is.
        version: the newest version plus one.
        data: the whole file, unlike that of every other writer.
        inverted: how the table names its manifests, see `version_path`.
        sync: make the version durable before returning.

    Returns:
        The path of the manifest.

    Raises:
        AlreadyExistsError: another writer made this version.
        PutUnknownError: nobody can say whether the version was made.
        StorageError: the version was not made.
    """
    path = version_path(version, inverted)
    store = manifest_store_of(storage)
    if store is not None:
        publish_in_store(store, storage, version, path, data, sync=sync)
        return path
    try:
        storage.put_if_absent(path, data, sync=sync)
    except PutUnknownError:
        if not _is_there(storage, path, data, sync):
            raise
    try:
        require_in_history(storage, version, path)
    except StorageError as error:  # the version is there: from here on nothing may be taken back
        raise PutUnknownError(f"version {version} was put, and nobody can say whether it counts") from error
    return path


def require_in_history(storage: Storage, version: int, path: str) -> None:
    """Refuse a version that was made where another one of its number had been, made and cleaned up meanwhile.

    It lies below newer versions that know nothing of it. Cleanup goes from the oldest version on and leaves
    out those with names: where the version before is there and none has a name, none of its number can have
    been. Else the next version tells: it must not be the older file.

    Raises:
        PutUnknownError: the version may be such a one.
        StorageError: the storage failed.
    """
    if version == 1 or version == max(_versions(storage.first_names(VERSIONS)), default=0):
        return
    inverted = path == version_path(version, True)
    has_parent = storage.exists(version_path(version - 1, inverted))
    if has_parent and not _may_have_names(storage):
        return
    appeared = {file.path: file.appeared for file in storage.list_files(VERSIONS)}
    later = [each for each in _versions([path.rpartition("/")[2] for path in appeared]) if each > version]
    if not later:
        return
    own, following = (appeared.get(each) or 0 for each in (path, version_path(min(later), inverted)))
    if own > following or (own == following and not has_parent):
        raise PutUnknownError(
            f"while version {version} was made, later ones were made and older ones cleaned up: it may lie"
            " below versions that know nothing of it"
        )


def _may_have_names(storage: Storage) -> bool:
    """Return whether a version may have a tag, or a branch may have begun with it."""
    if f"/{TREE}/" in storage.uri:  # what names versions of a branch is at the root
        return True
    return any(True for _ in storage.list_files(REFS))


def _is_there(storage: Storage, path: str, data: bytes, sync: bool) -> bool:
    """Return whether the file is ours, durably."""
    try:
        found = storage.read_file(path) == data
        if found and sync:
            storage.sync_directory(VERSIONS)
        return found
    except (StorageError, CorruptFileError):
        return False


def manifest_path(storage: Storage, version: int) -> str:
    """Return the path of the manifest of one version, detached ones included.

    Raises:
        VersionNotFoundError: the table has no such version.
        CorruptFileError: the version has two manifests, one by each scheme.
    """
    if not 0 <= version <= _MAX_VERSION:
        raise VersionNotFoundError(f"no version {version}")
    store = manifest_store_of(storage)
    if store is not None and (path := path_in_store(store, storage, version)):
        return path
    if version >= _DETACHED:
        candidates = [f"{VERSIONS}/d{version}{_SUFFIX}"]
    else:
        candidates = [version_path(version, is_inverted) for is_inverted in (True, False)]
    found = [path for path in candidates if storage.exists(path)]
    if not found:
        _manifest_names(storage)  # tells a missing table from a missing version
        raise VersionNotFoundError(f"no version {version}")
    if len(found) > 1:
        raise CorruptFileError("version has two manifests", file=found[0], expected="one", found=found[1])
    return found[0]


def manifest_identity(storage: Storage, version: int) -> str:
    """Return a value that changes if the manifest of a version is replaced; errors are those of
    `manifest_path`.
    """
    if 0 <= version < _DETACHED:
        path = version_path(version, True)
        if (identity := storage.identify(path)) is not None:
            return identity
        with suppress(FileMissingError), storage.open_file(path) as file:
            return file.identity  # one request where files are far away
    with storage.open_file(manifest_path(storage, version)) as file:
        return file.identity


def _manifest_names(storage: Storage) -> tuple[list[str], bool]:
    """Return the numbers in the names of all manifests, and whether they are inverted."""
    try:
        names = storage.list_names(VERSIONS)
    except FileMissingError:
        names = []
    numbers, inverted = _numbers(names)
    if not numbers:
        raise DatasetNotFoundError(f"no dataset at {storage.uri}")
    return numbers, inverted


def _versions(names: list[str]) -> list[int]:
    """Return the versions among names of files, in no order."""
    return _decoded(*_numbers(names))


def _decoded(numbers: list[str], inverted: bool) -> list[int]:
    return [_MAX_VERSION - int(number) if inverted else int(number) for number in numbers]


def _numbers(names: list[str]) -> tuple[list[str], bool]:
    # One search over all names: a table has thousands of them, and this is on the way of every open.
    numbers = _NUMBER.findall("/".join(["", *names, ""]))
    lengths = set(map(len, numbers))
    if _DIGITS in lengths and len(lengths) > 1:
        raise CorruptFileError(
            "manifests are named by two schemes",
            file=VERSIONS,
            expected="one scheme",
            found=[min(numbers, key=len), max(numbers, key=len)],
        )
    return numbers, _DIGITS in lengths
