"""Versions of a table, found by the names in `_versions/`.

A table names its manifests by one of two schemes: `{version}.manifest`, or `{2^64 - 1 - version}.manifest`
with 20 digits. With the second (inverted) scheme the newest version is first in a listing. Versions with the
highest bit set are detached: they are named `d{version}.manifest`, are not part of the history and are opened
by number only. Other names, such as staged files and the latest-version hint, are no versions.

Source: docs/format.md, "Versions".
"""

import math
import re
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import NamedTuple

from lance_core.errors import (
    CorruptFileError,
    DatasetNotFoundError,
    FileMissingError,
    LanceError,
    PutUnknownError,
    StorageError,
    VersionNotFoundError,
)
from lance_core.process.forks import begin_anew_after_fork
from lance_core.storage import Storage, held
from lance_core.storage.base import FirstNames
from lance_core.table.manifest_store import (
    latest_in_store,
    manifest_store_of,
    path_in_store,
    publish_in_store,
)

VERSIONS = "_versions"

REFS = "_refs"
"""Directory of tags and branches, in the main branch."""
REMOVALS = f"{REFS}/removals"
"""Directory of files that say that versions were or are removed before older ones, in the branch itself."""
TREE = "tree"
"""Directory of the branches' versions, in the main branch."""

HINT = f"{VERSIONS}/latest_version_hint.json"
"""File in which the reference records an existing version. Only commits of the reference use it; it may be
stale.
"""

LISTED_AT_ONCE = 1000
"""Number of names that object stores list per request."""

LookAtLater = Callable[[int, str], bool | None]
"""See `require_in_history`."""

_SUFFIX = ".manifest"
_MAX_VERSION = (1 << 64) - 1
DETACHED = 1 << 63
"""Bit that the numbers of detached versions have."""
_DIGITS = 20
"""Number of digits in a name of the inverted scheme."""
_DETACHED_NAME = re.compile(r"d([0-9]+)\.manifest")
_NUMBER = re.compile(r"/([0-9]+)\.manifest(?=/)")
"""Pattern for manifests in a list of names that are joined by `/`, which no name can contain."""


def list_versions(storage: Storage) -> tuple[int, ...]:
    """Return all versions in ascending order, detached versions left out; errors are those of
    `latest_version`.
    """
    return tuple(listed_manifests(storage))


def listed_manifests(storage: Storage) -> dict[int, str]:
    """Return the versions of `list_versions`, each with the name of its manifest in `VERSIONS`.

    While `rename_manifests` runs, and after it was interrupted, a manifest may have the name of the other
    scheme instead.
    """
    return list_all_manifests(storage).history


class AllManifests(NamedTuple):
    """The manifests in one listing of a table."""

    history: dict[int, str]
    """Versions of the history in ascending order, see `listed_manifests`."""
    detached: dict[int, str]
    """Detached versions in no particular order, each with the name of its manifest in `VERSIONS`."""
    first_scheme: frozenset[int]
    """Versions of the history whose manifests have names of the first scheme."""


def list_all_manifests(storage: Storage) -> AllManifests:
    """Return all versions, detached ones too, by one listing; errors are those of `listed_manifests`."""
    store = manifest_store_of(storage)
    if store is not None:
        # copies the newest manifest to its final name, so that the listing contains it
        latest_in_store(store, storage)
    names = listed_names(storage)
    numbers, inverted = _found(storage, names)
    history = {version: _name(version, inverted) for version in sorted(_decoded(numbers, inverted))}
    matches = filter(None, map(_DETACHED_NAME.fullmatch, names))
    return AllManifests(history, {int(match[1]): match[0] for match in matches}, _first_scheme(names))


def latest_version(storage: Storage) -> int:
    """Return the newest version; errors are those of `latest_manifest`."""
    return latest_manifest(storage)[0]


def latest_manifest(storage: Storage) -> tuple[int, str]:
    """Return the newest version and the path of its manifest.

    A storage that lists in the order of names lists only the first names if the table uses the inverted
    scheme.

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
        first, is_all, _ = storage.first_names(VERSIONS)
        names, inverted = _numbers(first)
        if not (inverted or (is_all and names)):
            names, inverted = _found(storage, [] if is_all else listed_names(storage))
        name = min(names) if inverted else max(names, key=int)
        found = _MAX_VERSION - int(name) if inverted else int(name), f"{VERSIONS}/{name}{_SUFFIX}"
        if state is not None:
            _newest.put(storage.uri, state, found)
    return found


class _Newest:
    """Cache of the newest manifests of recently opened tables. An entry is valid while the state of the
    directory is unchanged.
    """

    _MOST = 1024

    def __init__(self) -> None:
        self.begin()
        begin_anew_after_fork(self)

    def begin(self) -> None:
        """Start with an empty cache, in this process or in a forked one."""
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
    """Newest version."""
    path: str
    """Path of the newest manifest."""
    is_inverted: bool
    """Whether the table names its manifests by the inverted scheme."""
    may_have_hint: bool
    """Whether the file `HINT` may exist: it does, or not all names were listed."""
    tag: str | None
    """Tag of the newest manifest, see `Storage.read_tagged`; None if the listing does not have it."""


def list_manifests(storage: Storage) -> Listing | None:
    """Return the state of the table to write to; None if there is no table.

    Raises:
        CorruptFileError: the manifests are named by both schemes.
    """
    store = manifest_store_of(storage)
    newest = latest_in_store(store, storage) if store is not None else None
    numbers, is_inverted, (names, is_all, tags) = _first_numbers(storage)
    if not numbers:
        return None
    if newest is None:
        latest = _newest_number(numbers, is_inverted)
        newest = latest, version_path(latest, is_inverted)
    tag = tags.get(newest[1].rpartition("/")[2]) if store is None else None
    return Listing(*newest, is_inverted, not is_all or HINT.rpartition("/")[2] in names, tag)


def _first_numbers(storage: Storage) -> tuple[list[str], bool, FirstNames]:
    """Return what `_numbers` returns for the first names, or for all names if the first do not contain the
    newest version; and these names.
    """
    names = storage.first_names(VERSIONS)
    numbers, inverted = _numbers(names.names)
    if not (names.is_all or inverted):
        names = names._replace(names=listed_names(storage), is_all=True)
        numbers, inverted = _numbers(names.names)
    return numbers, inverted, names


def _newest_number(numbers: list[str], inverted: bool) -> int:
    return _MAX_VERSION - int(min(numbers)) if inverted else max(map(int, numbers))


def version_path(version: int, is_inverted: bool) -> str:
    """Return the path of the manifest of a version; `is_inverted` chooses the naming scheme."""
    return f"{VERSIONS}/{_name(version, is_inverted)}"


def _name(version: int, is_inverted: bool) -> str:
    return f"{_inverted(version) if is_inverted else version}{_SUFFIX}"


class Published(NamedTuple):
    """The manifest of a version that was just made."""

    path: str
    tag: str | None
    """See `Storage.read_tagged`; None if it is unknown."""


def publish_manifest(
    storage: Storage, version: int, data: bytes, inverted: bool, sync: bool = True
) -> Published:
    """Make a version; arguments, result and errors are those of `prepare_manifest` and of its result."""
    return prepare_manifest(storage, version, data, inverted, sync)()


def prepare_manifest(
    storage: Storage,
    version: int,
    data: bytes,
    inverted: bool,
    sync: bool = True,
    look_at_later: LookAtLater | None = None,
) -> Callable[[], Published]:
    """Prepare to make a version by putting its manifest, if there is none yet. Return a function that makes
    it. Of several writers exactly one succeeds.

    All files that the version refers to must exist when the function is called. If `sync` is set, they must
    be durable.

    Args:
        storage: storage of the table.
        version: number of the newest version plus one.
        data: content of the manifest file. It must differ from that of every other writer.
        inverted: naming scheme of the table, see `version_path`.
        sync: make the version durable before returning.
        look_at_later: see `require_in_history`.

    Returns:
        The function. Its errors are:
        AlreadyExistsError: another writer made this version.
        PutUnknownError: the storage did not answer, so the version may or may not exist.
        CommitUnknownError: the version was made, but the storage's lock failed when it was released.
        StorageError: the version was not made.

    Raises:
        StorageError: the storage failed. The version was not made.
    """
    path = version_path(version, inverted)
    store = manifest_store_of(storage)
    publish: Callable[[], str | None]
    if store is not None:
        publish = partial(publish_in_store, store, storage, version, path, data, sync=sync)
    else:
        put = storage.prepare_put(path, data, sync=sync)
        publish = partial(_publish, put, storage, version, path, data, sync, look_at_later)

    def make() -> Published:
        if storage.commit_lock is None:
            return Published(path, publish())
        with held(storage.commit_lock, version):
            return Published(path, publish())

    return make


def publish_detached(storage: Storage, version: int, data: bytes, sync: bool = True) -> str:
    """Put the manifest of a detached version, like `publish_manifest`; return its path.

    Raises:
        AlreadyExistsError: another detached version has this number.
        PutUnknownError: the storage did not answer, so the version may or may not exist.
        StorageError: the version was not made.
    """
    path = _detached_path(version)
    if storage.commit_lock is None:
        storage.put_if_absent(path, data, sync=sync)
        return path
    with held(storage.commit_lock, version):
        storage.put_if_absent(path, data, sync=sync)
    return path


def is_detached(version: int) -> bool:
    """Return whether a version is detached, by its number."""
    return version >= DETACHED


def _detached_path(version: int) -> str:
    return f"{VERSIONS}/d{version}{_SUFFIX}"


def _publish(
    put: Callable[[], str | None],
    storage: Storage,
    version: int,
    path: str,
    data: bytes,
    sync: bool,
    look_at_later: LookAtLater | None,
) -> str | None:
    tag = None
    try:
        tag = put()
    except PutUnknownError:
        if not _is_there(storage, path, data, sync):
            raise
    try:
        require_in_history(storage, version, path, look_at_later)
    except PutUnknownError:
        raise
    except LanceError as error:  # the manifest exists: nothing may be removed from here on
        raise PutUnknownError(
            f"version {version} was written, but it is unknown whether it is part of the history"
        ) from error
    return tag


def require_in_history(
    storage: Storage, version: int, path: str, look_at_later: LookAtLater | None = None
) -> None:
    """Refuse a version whose number another version had before, which was made and cleaned up meanwhile.

    Such a version lies below newer versions that are not based on it. The next version shows by its files
    whether it is based on this one. If it shows neither, the times decide: no later version is older than
    this one. Of equal times nothing can be told, except that cleanup removes the oldest versions first. So if
    the version before exists, no version with this number was removed. A cleanup leaves a file in `REMOVALS`
    if it removes versions in another order. A manifest store keeps the rows of removed versions, so no number
    is used twice.

    Args:
        storage: storage of the table.
        version: the version.
        path: path of its manifest.
        look_at_later: tells whether a later version, by its number and the path of its manifest, is based on
            this one: True, False if there is no sign of that, None if there could be none. Its errors are
            those of the caller.

    Raises:
        PutUnknownError: the version may be outside the history.
        LanceError: the storage failed, or a manifest cannot be read.
    """
    if manifest_store_of(storage) is not None:
        return
    numbers, inverted = _first_numbers(storage)[:2]
    if not numbers or _newest_number(numbers, inverted) <= version:
        return
    later = sorted(each for each in _decoded(numbers, inverted) if each > version)
    inverted = path == version_path(version, True)
    is_based_on_it = None
    if look_at_later is not None:
        for each in later:
            with suppress(VersionNotFoundError):  # cleaned up after it was listed
                is_based_on_it = look_at_later(each, version_path(each, inverted))
                break
    if is_based_on_it:
        return
    appeared = {file.path: file.appeared or 0 for file in storage.list_files(VERSIONS)}
    own = appeared.get(path, math.inf)  # of a version that is gone, the time is not known
    first = min(appeared.get(version_path(each, inverted), own) for each in later)
    if own < first:
        return
    # References before the version before: a cleanup removes its file in `REMOVALS` after the manifests.
    if (
        own > first
        or is_based_on_it is False
        or _may_have_names(storage)
        or not (version == 1 or storage.exists(version_path(version - 1, inverted)))
    ):
        raise PutUnknownError(
            f"while version {version} was written, other writers made later versions and a cleanup removed"
            " old ones: the later versions may not be based on it"
        )


def _may_have_names(storage: Storage) -> bool:
    """Return whether a version may have a tag, or a branch may have begun with it, or whether there is a file
    in `REMOVALS`.
    """
    if f"/{TREE}/" in storage.uri:  # the references of branches are in the main root
        return True
    return any(True for _ in storage.list_files(REFS))


def _is_there(storage: Storage, path: str, data: bytes, sync: bool) -> bool:
    """Return whether the file at `path` has our content; if so, make its name durable."""
    try:
        found = storage.read_file(path) == data
        if found and sync:
            storage.sync_directory(VERSIONS)
        return found
    except (StorageError, CorruptFileError):
        return False


def manifest_path(storage: Storage, version: int) -> str:
    """Return the path of the manifest of a version. The version may be detached.

    Raises:
        VersionNotFoundError: the table has no such version.
        CorruptFileError: the version has two manifests, one by each scheme, and they differ.
    """
    if not 0 <= version <= _MAX_VERSION:
        raise VersionNotFoundError(f"no version {version}")
    store = manifest_store_of(storage)
    if store is not None and (path := path_in_store(store, storage, version)):
        return path
    if is_detached(version):
        candidates = [_detached_path(version)]
    else:
        candidates = [version_path(version, is_inverted) for is_inverted in (True, False)]
    found = [path for path in candidates if storage.exists(path)]
    if not found:
        _manifest_names(storage)  # raises if the table is missing, not only the version
        raise VersionNotFoundError(f"no version {version}")
    if len(found) > 1 and storage.read_file(found[0]) != storage.read_file(found[1]):
        raise CorruptFileError("version has two manifests", file=found[0], expected="one", found=found[1])
    return found[0]


def manifest_identity(storage: Storage, version: int) -> str:
    """Return a text that changes if the manifest of a version is replaced; errors are those of
    `manifest_path`.
    """
    if 0 <= version < DETACHED:
        path = version_path(version, True)
        if (identity := storage.identify(path)) is not None:
            return identity
        with suppress(FileMissingError), storage.open_file(path) as file:
            return file.identity  # a single request on remote storage
    with storage.open_file(manifest_path(storage, version)) as file:
        return file.identity


def _manifest_names(storage: Storage) -> tuple[list[str], bool]:
    """Return the numbers in the names of all manifests, and whether the scheme is inverted."""
    return _found(storage, listed_names(storage))


def listed_names(storage: Storage) -> list[str]:
    """Return the names of all files in `VERSIONS`; none if there is no such directory."""
    try:
        return storage.list_names(VERSIONS)
    except FileMissingError:
        return []


def _found(storage: Storage, names: list[str]) -> tuple[list[str], bool]:
    """Return what `_numbers` returns; DatasetNotFoundError if there are no manifests."""
    numbers, inverted = _numbers(names)
    if not numbers:
        raise DatasetNotFoundError(f"no dataset at {storage.uri}")
    return numbers, inverted


def _versions(names: list[str]) -> list[int]:
    """Return the versions among file names, in no particular order."""
    return _decoded(*_numbers(names))


def _decoded(numbers: list[str], inverted: bool) -> list[int]:
    return [_MAX_VERSION - int(number) if inverted else int(number) for number in numbers]


def first_scheme_versions(storage: Storage) -> list[int]:
    """Return the versions whose manifests have names of the first scheme, in no particular order.

    Errors are those of `latest_manifest`.
    """
    names = listed_names(storage)
    _found(storage, names)
    return list(_first_scheme(names))


def _first_scheme(names: list[str]) -> frozenset[int]:
    numbers = _NUMBER.findall("/".join(["", *names, ""]))
    return frozenset(int(number) for number in numbers if len(number) != _DIGITS)


def _numbers(names: list[str]) -> tuple[list[str], bool]:
    """Return the numbers in the names of manifests, and whether the scheme is inverted.

    If `rename_manifests` was interrupted, the older manifests still have names of the first scheme. Their
    numbers are returned as those of the second.
    """
    # One search over all names is fast: a table may have thousands of manifests, and every open gets here.
    numbers = _NUMBER.findall("/".join(["", *names, ""]))
    lengths = set(map(len, numbers))
    if _DIGITS in lengths and len(lengths) > 1:
        return _of_both_schemes(numbers), True
    return numbers, _DIGITS in lengths


def _of_both_schemes(numbers: list[str]) -> list[str]:
    inverted = {number for number in numbers if len(number) == _DIGITS}
    plain = {_inverted(int(number)) for number in numbers if len(number) != _DIGITS}
    if min(plain) < max(inverted):
        raise CorruptFileError(
            "manifests are named by two schemes",
            file=VERSIONS,
            expected="one scheme, or older versions by the first and newer ones by the second",
            found=[min(numbers, key=len), max(numbers, key=len)],
        )
    return sorted(inverted | plain)


def _inverted(version: int) -> str:
    return f"{_MAX_VERSION - version:0{_DIGITS}}"
