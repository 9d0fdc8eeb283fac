"""Cleanup: removing old versions, and the files that no remaining version needs.

These versions stay: the opened version and all later ones; versions younger than the age limit or among the
newest ones to retain; versions with tags; versions with which branches began; detached versions. A file is
removed if no remaining version and no version of another branch refers to it. In addition, a removed version
must have referred to it, or it must be older than seven days: a younger file may belong to a commit that has
not finished.

Everything is read before anything is removed, and an unreadable manifest or reference ends the cleanup.
Manifests are removed first: an interrupted cleanup leaves unused files, not versions without files. An object
store removes many manifests by one request, in any order; a file in `REMOVALS` warns writers meanwhile. If a
version stays that is older than a removed one, another such file stays for a day. Then versions and
references are listed again. A version that was named meanwhile is put back. Files that a new version uses
again (a restore) stay. Other datasets that use this one as a base are not known here; a tag protects the
files that they need.

Source: docs/format.md, "Cleanup".
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Literal, NamedTuple, TypeVar
from uuid import uuid4

from lance_core.errors import (
    InvalidInputError,
    RefConflictError,
    StorageError,
    VersionNotFoundError,
)
from lance_core.maintenance.branches import standing_on
from lance_core.maintenance.file_roles import DIRECTORIES, FileKind, FileRole, ReferencedFiles, file_role
from lance_core.pool import run_both, run_each
from lance_core.storage import Storage, StoredFile
from lance_core.table.manifest import Manifest
from lance_core.table.refs import MAIN, Branch, Tag, branch_storage, list_branches, list_refs
from lance_core.table.snapshot import Snapshot, read_manifest, read_manifest_files
from lance_core.table.versions import (
    HINT,
    REMOVALS,
    VERSIONS,
    list_all_manifests,
    listed_names,
    version_path,
)

UNVERIFIED_AGE = timedelta(days=7)
"""Age below which a file stays if no version ever referred to it."""
_REMOVAL_AGE = timedelta(days=1)
"""Age at which a file in `REMOVALS` goes: that of a cleanup that died, or of a day that is over. A cleanup
that works writes its file again before each group of manifests, so it has a younger one.
"""

_AT_ONCE = 16
"""Number of concurrent requests on remote storage."""
_HELD_BYTES = 32 << 20
"""Bytes of the manifests that are removed together and kept in memory, so that they can be put back."""
_FILES_AT_ONCE = 1000
"""Number of files that are removed together, as many as a request to S3 may name."""
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class CleanupPolicy:
    """Limits of a cleanup. A version is removed if all limits that are set allow it."""

    older_than: timedelta | None = None
    """Remove only versions that are older than this."""
    retain_versions: int | None = None
    """Number of newest versions to keep."""
    versions: Sequence[int] | None = None
    """Remove only these versions."""
    delete_unverified: bool = False
    """Remove files that no version ever referred to, whatever their age. No writer may be active."""
    error_if_tagged_old_versions: bool = True
    """Refuse the cleanup if an old version has a tag, instead of keeping the version."""
    delete_rate_limit: int | None = None
    """Files to remove per second, at most."""
    delete_concurrency: int | None = None
    """Files to remove at the same time, at most."""

    @property
    def is_slowed_down(self) -> bool:
        """Whether files must be removed one by one."""
        return self.delete_rate_limit is not None or self.delete_concurrency is not None

    def check(self) -> None:
        """Raise `InvalidInputError` if a limit is below 1."""
        for name in ("retain_versions", "delete_rate_limit", "delete_concurrency"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidInputError(name, expected="1 or more", found=value)


@dataclass
class CleanupStats:
    """Counts of removed files, or of files that would be removed."""

    bytes_removed: int = 0
    old_versions: int = 0
    data_files_removed: int = 0
    transaction_files_removed: int = 0
    index_files_removed: int = 0
    deletion_files_removed: int = 0
    failed_deletes: int = 0

    def count(self, file: "CleanupCandidateFile") -> None:
        """Add a file to the counts."""
        self.bytes_removed += file.size_bytes
        match file.kind:
            case "manifest":
                self.old_versions += 1
            case "data":
                self.data_files_removed += 1
            case "transaction":
                self.transaction_files_removed += 1
            case "index":
                self.index_files_removed += 1
            case "deletion":
                self.deletion_files_removed += 1


@dataclass(frozen=True)
class CleanupCandidateFile:
    """File that a cleanup removes."""

    path: str
    """Path relative to the dataset or branch."""
    kind: FileKind | Literal["manifest"]
    unverified: bool
    """Whether no version ever referred to the file."""
    size_bytes: int


@dataclass(frozen=True)
class CleanupReferencedBranch:
    """Branch that began with a version of the opened branch."""

    name: str
    referenced_version: int
    cleanup_candidate: bool = False


@dataclass(frozen=True)
class CleanupExplanation:
    """Preview of a cleanup."""

    read_version: int
    stats: CleanupStats
    candidate_files: list[CleanupCandidateFile]
    candidate_files_truncated: bool
    candidate_file_limit: int
    referenced_branches: list[CleanupReferencedBranch]
    warnings: list[str]


class _Old(NamedTuple):
    """Version to remove."""

    version: int
    path: str
    size: int
    content: bytes | None
    """Bytes of the manifest, so that it can be put back; None if they have to be read again."""


@dataclass
class _Inspection:
    """Facts from all manifests."""

    old: list[_Old] = field(default_factory=list)
    """Versions to remove, oldest first."""
    referenced: ReferencedFiles = field(default_factory=ReferencedFiles)
    verified: ReferencedFiles = field(default_factory=ReferencedFiles)
    """Files to which versions to remove refer."""
    seen: set[int] = field(default_factory=set)
    """Versions whose manifests were read."""
    leaves_gaps: bool = False
    """Whether a version stays that is older than a version to remove."""


def explain_cleanup(
    snapshot: Snapshot,
    root: Storage,
    policy: CleanupPolicy,
    *,
    include_files: bool = False,
    max_files: int = 1000,
) -> CleanupExplanation:
    """Return what `clean_up` would remove, without removing anything. Errors are those of `clean_up`."""
    policy.check()
    inspection = _inspect(snapshot, root, policy)
    leftovers = _leftovers(_files_with_roles(snapshot.storage), inspection, policy)
    files = [*_manifest_files(inspection), *leftovers]
    stats = CleanupStats()
    for file in files:
        stats.count(file)
    truncated = include_files and len(files) > max_files
    children = standing_on(snapshot.manifest.branch, list_branches(root))
    return CleanupExplanation(
        read_version=snapshot.manifest.version,
        stats=stats,
        candidate_files=files[:max_files] if include_files else [],
        candidate_files_truncated=truncated,
        candidate_file_limit=max_files,
        referenced_branches=[
            CleanupReferencedBranch(name, version)
            for name, versions in sorted(children.items())
            for version in versions
        ],
        warnings=[f"candidate_files truncated to {max_files} entries"] if truncated else [],
    )


def clean_up(snapshot: Snapshot, root: Storage, policy: CleanupPolicy) -> CleanupStats:
    """Remove old versions of the opened branch, and the files that only they needed.

    Args:
        snapshot: opened version. This version and all later ones stay.
        root: storage of the main branch.
        policy: limits of the cleanup.

    Raises:
        InvalidInputError: a limit is invalid.
        RefConflictError: a version to remove has a tag; nothing was removed.
        CorruptFileError, UnsupportedFeatureError: a manifest or reference cannot be read; nothing was
            removed.
        StorageError: the storage failed. Every version that is still listed is complete.
    """
    policy.check()
    storage = snapshot.storage
    inspection = _inspect(snapshot, root, policy)
    stats = CleanupStats()
    for file in _remove_manifests(snapshot, root, inspection, policy):
        stats.count(file)
    listed = list(_files_with_roles(storage))
    # After listing the files, because a version refers only to files that exist.
    _look_again(storage, inspection)
    leftovers = list(_leftovers(listed, inspection, policy))
    pace = _Pace(policy.delete_rate_limit)

    def remove(file: CleanupCandidateFile) -> bool:
        pace.wait()
        try:
            storage.delete_file(file.path)
        except StorageError:
            return False
        return True

    removed, left = _removed_at_once(storage, leftovers, policy)
    for file in removed:
        stats.count(file)
    workers = policy.delete_concurrency or (_AT_ONCE if storage.is_remote else 1)
    for file, is_removed in zip(left, _parallel(workers, remove, left), strict=True):
        if is_removed:
            stats.count(file)
        else:
            stats.failed_deletes += 1
    if not storage.is_remote:  # object stores have no directories
        _remove_directories(storage, leftovers)
    return stats


def _inspect(snapshot: Snapshot, root: Storage, policy: CleanupPolicy) -> _Inspection:
    storage = snapshot.storage
    (listed, detached, plain), (tags, branches) = run_both(
        partial(list_all_manifests, storage), partial(list_refs, root), storage.is_remote
    )
    others = _list_other_branches(snapshot, root, branches)
    protected = _named_versions(snapshot, tags, branches)
    oldest_retained = 0
    if policy.retain_versions is not None:
        oldest_retained = list(listed)[-policy.retain_versions :][0]
    now = datetime.now(UTC)
    inspection = _Inspection(seen={*listed, *detached})
    refused = []
    held_bytes = 0
    has_older = False  # that stays
    for manifest, data in read_manifest_files(snapshot, listed):
        version = manifest.version
        goes = version < snapshot.manifest.version
        if policy.older_than is not None:
            goes &= manifest.timestamp < now - policy.older_than
        if policy.retain_versions is not None:
            goes &= version < oldest_retained
        if policy.versions is not None:
            goes &= version in policy.versions
        if goes and version in protected and protected[version]:
            refused += protected[version]
        goes &= version not in protected
        (inspection.verified if goes else inspection.referenced).add(manifest)
        has_older |= not goes
        if goes:
            inspection.leaves_gaps |= has_older
            # A version has two manifests if `rename_manifests` was interrupted.
            paths = {manifest.name} | ({version_path(version, False)} if version in plain else set())
            held_bytes += manifest.size
            content = data if held_bytes <= _HELD_BYTES else None
            inspection.old += [_Old(version, path, manifest.size, content) for path in sorted(paths)]
    if refused and policy.error_if_tagged_old_versions:
        raise RefConflictError(
            "versions to clean up have tags; delete the tags, or keep these versions with "
            "error_if_tagged_old_versions=False or --keep-tagged",
            found=sorted(refused),
        )
    # Versions of other branches refer to files in base paths. Their names are compared, which are unique.
    for branch_root, manifests in [(storage, detached), *others]:
        for each in _read_all(branch_root, manifests):
            if each is not None:
                inspection.referenced.add(each)
    return inspection


def _list_other_branches(
    snapshot: Snapshot, root: Storage, branches: Mapping[str, Branch]
) -> list[tuple[Storage, Mapping[int, str]]]:
    """Return the storage and the manifests of every branch but the opened one."""
    names = [branch for branch in (None, *branches) if branch != snapshot.manifest.branch]
    storages = [branch_storage(root, branch) for branch in names]
    listed = run_each([partial(list_all_manifests, storage) for storage in storages], root.is_remote)
    return [(storage, each.history | each.detached) for storage, each in zip(storages, listed, strict=True)]


def _named_versions(
    snapshot: Snapshot, tags: Mapping[str, Tag], branches: Mapping[str, Branch]
) -> dict[int, list[str]]:
    """Return the versions of the opened branch with tags or dependent branches, and the names of the tags."""
    branch = snapshot.manifest.branch
    named: dict[int, list[str]] = {}
    for tag, content in tags.items():
        if (content.branch or MAIN) == (branch or MAIN):
            named.setdefault(content.version, []).append(tag)
    for versions in standing_on(branch, branches).values():
        for version in versions:
            named.setdefault(version, [])
    return named


def _remove_manifests(
    snapshot: Snapshot, root: Storage, inspection: _Inspection, policy: CleanupPolicy
) -> Iterator[CleanupCandidateFile]:
    """Remove old manifests, oldest first, or in any order with a file in `REMOVALS`. Put a manifest back if
    the version was named meanwhile.
    """
    storage = snapshot.storage
    pace = _Pace(policy.delete_rate_limit)
    at_once = storage.deletes_at_once and not policy.is_slowed_down and len(inspection.old) > 1
    warning = _Warning(storage)
    # The hint may name a removed version, from which the reference would try later versions one by one.
    before: list[Callable[[], None]] = [partial(storage.delete_file, HINT)]
    if inspection.leaves_gaps:
        before.append(warning.stay)
    for together in _groups(inspection.old):
        if at_once:
            before.append(warning.write)
        content, (tags, branches) = run_both(
            partial(_contents, storage, together, before), partial(list_refs, root), storage.is_remote
        )
        before = []
        named = _named_versions(snapshot, tags, branches)
        if any(old.version in named for old in together):
            warning.stay()
        removed = [old for old in together if old.path in content and old.version not in named]
        if not (at_once and _are_removed_at_once(storage, removed)):
            for old in removed:
                pace.wait()
                storage.delete_file(old.path)
        gone = {old.path for old in removed}
        named_meanwhile = _named_versions(snapshot, *list_refs(root))
        back = [old for old in removed if old.version in named_meanwhile]
        if back:
            warning.stay()
        for old in back:
            storage.put(old.path, content[old.path])
        for old in together:
            if old.path in gone and old.version not in named_meanwhile:
                yield CleanupCandidateFile(old.path, "manifest", False, old.size)
            else:
                inspection.seen.discard(old.version)  # the version stays, and so do its files
    if at_once:  # not after an error: it may have left a version while the next one is gone
        warning.remove()


class _Warning:
    """Files in `REMOVALS`, which warn writers that a version may be there while the next one was removed."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._own = f"{REMOVALS}/{uuid4()}"
        self._stays = False

    def write(self) -> None:
        """Warn until `remove` is called."""
        self._storage.put(self._own, self._own.encode())

    def stay(self) -> None:
        """Warn for a day, because versions stay that are older than removed versions."""
        if not self._stays:
            # One for all cleanups of a day, which no cleanup removes while another one may write it.
            self._storage.put(f"{REMOVALS}/{datetime.now(UTC).date()}", self._own.encode())
            self._stays = True

    def remove(self) -> None:
        """Remove what `write` wrote. If that fails, a cleanup removes it after a day."""
        with suppress(StorageError):
            self._storage.delete_file(self._own)


def _are_removed_at_once(storage: Storage, removed: Sequence[_Old]) -> bool:
    """Remove manifests in any order. Return False if some of them may be left."""
    try:
        storage.delete_files([old.path for old in removed])
    except StorageError:
        return False
    return True


def _contents(
    storage: Storage, together: Sequence[_Old], before: Sequence[Callable[[], None]]
) -> dict[str, bytes]:
    """Return the bytes of the manifests that are still there, by their paths. Meanwhile run the calls of
    `before`.
    """
    unknown = [old.path.rpartition("/")[2] for old in together if old.content is None]
    names: list[str] = []
    read: list[bytes | None] = []
    calls: list[Callable[[], None]] = [
        *before,
        lambda: names.extend(listed_names(storage)),
        lambda: read.extend(storage.read_files(VERSIONS, unknown)),
    ]
    run_each(calls, storage.is_remote)
    known = dict(zip(unknown, read, strict=True))
    present = set(names)
    content = {}
    for old in together:
        name = old.path.rpartition("/")[2]
        data = old.content or known.get(name)
        if data is not None and name in present:
            content[old.path] = data
    return content


def _removed_at_once(
    storage: Storage, files: list[CleanupCandidateFile], policy: CleanupPolicy
) -> tuple[list[CleanupCandidateFile], list[CleanupCandidateFile]]:
    """Remove files in any order, if the storage can and the policy allows it. Return the removed files, and
    those that may be left.
    """
    if not storage.deletes_at_once or policy.is_slowed_down:
        return [], files
    removed, left = [], []
    for start in range(0, len(files), _FILES_AT_ONCE):
        together = files[start : start + _FILES_AT_ONCE]
        try:
            storage.delete_files([file.path for file in together])
        except StorageError:
            left += together
        else:
            removed += together
    return removed, left


def _look_again(storage: Storage, inspection: _Inspection) -> None:
    """Keep the files of versions that were made during the cleanup."""
    listed = list_all_manifests(storage)
    manifests = listed.history | listed.detached
    new = {version: name for version, name in manifests.items() if version not in inspection.seen}
    for manifest in _read_all(storage, new):
        if manifest is not None:
            inspection.referenced.add(manifest)


def _manifest_files(inspection: _Inspection) -> Iterator[CleanupCandidateFile]:
    for old in inspection.old:
        yield CleanupCandidateFile(old.path, "manifest", False, old.size)


def _files_with_roles(storage: Storage) -> Iterator[tuple[StoredFile, FileRole]]:
    calls = [partial(_list, storage, directory) for directory in DIRECTORIES]
    for listed in run_each(calls, storage.is_remote):
        for file in listed:
            role = file_role(file.path)
            if role is not None:
                yield file, role


def _list(storage: Storage, directory: str) -> list[StoredFile]:
    return list(storage.list_files(directory))


def _leftovers(
    files: Iterable[tuple[StoredFile, FileRole]], inspection: _Inspection, policy: CleanupPolicy
) -> Iterator[CleanupCandidateFile]:
    """Yield the files to remove, apart from manifests."""
    now = time.time()
    for file, role in files:
        if role in inspection.referenced:
            continue
        verified = role in inspection.verified
        age = _REMOVAL_AGE if file.path.startswith(f"{REMOVALS}/") else UNVERIFIED_AGE
        if verified or policy.delete_unverified or _is_older(file, now - age.total_seconds()):
            yield CleanupCandidateFile(file.path, role.kind, not verified, file.size)


def _is_older(file: StoredFile, limit: float) -> bool:
    return file.modified is not None and file.modified < limit


def _remove_directories(storage: Storage, removed: Iterable[CleanupCandidateFile]) -> None:
    """Remove the directories of indices and blobs that have become empty."""
    for directory in {"/".join(file.path.split("/")[:2]) for file in removed if file.path.count("/") > 1}:
        if not any(True for _ in storage.list_files(directory)):
            storage.delete_directory(directory)


def _read_all(storage: Storage, listed: Mapping[int, str]) -> Iterator[Manifest | None]:
    """Return the manifests of listed versions in their order; None for a removed version."""

    def read(version: int) -> Manifest | None:
        for path in (f"{VERSIONS}/{listed[version]}", None):  # it may have got the name of the other scheme
            with suppress(VersionNotFoundError):
                return read_manifest(storage, version, path)
        return None

    return _parallel(_AT_ONCE if storage.is_remote else 1, read, list(listed))


def _groups(versions: Sequence[_Old]) -> Iterator[list[_Old]]:
    together: list[_Old] = []
    size = 0
    for old in versions:
        together.append(old)
        size += old.size
        if size > _HELD_BYTES:
            yield together
            together, size = [], 0
    if together:
        yield together


def _parallel(workers: int, act: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    if workers == 1:
        yield from map(act, items)
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="lance-cleanup") as pool:
        yield from pool.map(act, items)


class _Pace:
    """Rate limit: spreads calls evenly over time."""

    def __init__(self, per_second: int | None) -> None:
        self._interval = 1 / per_second if per_second else 0.0
        self._next = time.monotonic()

    def wait(self) -> None:
        if self._interval:
            self._next = max(self._next, time.monotonic()) + self._interval
            time.sleep(max(0.0, self._next - self._interval - time.monotonic()))
