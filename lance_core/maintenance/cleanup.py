"""Cleanup: removing old versions, and the files that no remaining version needs.

These versions stay: the opened version and all later ones; versions younger than the age limit or among the
newest ones to retain; versions with tags; versions with which branches began; detached versions. A file is
removed if no remaining version and no version of another branch refers to it. In addition, a removed version
must have referred to it, or it must be older than seven days: a younger file may belong to a commit that has
not finished.

Everything is read before anything is removed, and an unreadable manifest or reference ends the cleanup.
Manifests are removed first: an interrupted cleanup leaves unused files, not versions without files. Then
versions and references are listed again. A version that was named meanwhile is put back. Files that a new
version uses again (a restore) stay. Other datasets that use this one as a base are not known here; a tag
protects the files that they need.

Source: docs/format.md, "Cleanup".
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple, TypeVar

from lance_core.errors import (
    InvalidInputError,
    RefConflictError,
    StorageError,
    VersionNotFoundError,
)
from lance_core.maintenance.branches import standing_on
from lance_core.maintenance.file_roles import DIRECTORIES, FileKind, FileRole, ReferencedFiles, file_role
from lance_core.storage import Storage, StoredFile
from lance_core.table.manifest import Manifest
from lance_core.table.refs import MAIN, branch_storage, list_branches, list_tags
from lance_core.table.snapshot import Snapshot, read_manifest, read_manifests
from lance_core.table.versions import (
    HINT,
    VERSIONS,
    detached_versions,
    first_scheme_versions,
    list_versions,
    listed_manifests,
    version_path,
)

UNVERIFIED_AGE = timedelta(days=7)
"""Age below which a file stays if no version ever referred to it."""

_AT_ONCE = 16
"""Number of concurrent requests on remote storage."""
_HELD_BYTES = 32 << 20
"""Bytes of the manifests that are removed together and kept in memory, so that they can be put back."""
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

    workers = policy.delete_concurrency or (_AT_ONCE if storage.is_remote else 1)
    for file, is_removed in zip(leftovers, _parallel(workers, remove, leftovers), strict=True):
        if is_removed:
            stats.count(file)
        else:
            stats.failed_deletes += 1
    if not storage.is_remote:  # object stores have no directories
        _remove_directories(storage, leftovers)
    return stats


def _inspect(snapshot: Snapshot, root: Storage, policy: CleanupPolicy) -> _Inspection:
    storage = snapshot.storage
    listed = listed_manifests(storage)
    plain = set(first_scheme_versions(storage))
    protected = _named_versions(snapshot, root)
    oldest_retained = 0
    if policy.retain_versions is not None:
        oldest_retained = list(listed)[-policy.retain_versions :][0]
    now = datetime.now(UTC)
    inspection = _Inspection(seen=set(listed))
    refused = []
    for manifest in read_manifests(snapshot, listed):
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
        if goes:
            # A version has two manifests if `rename_manifests` was interrupted.
            paths = {manifest.name} | ({version_path(version, False)} if version in plain else set())
            inspection.old += [_Old(version, path, manifest.size) for path in sorted(paths)]
    if refused and policy.error_if_tagged_old_versions:
        raise RefConflictError(
            "versions to clean up have tags; delete the tags, or keep these versions with "
            "error_if_tagged_old_versions=False or --keep-tagged",
            found=sorted(refused),
        )
    detached = detached_versions(storage)
    for each in _read_all(storage, detached):
        if each is not None:
            inspection.referenced.add(each)
    _keep_what_branches_need(snapshot, root, inspection)
    return inspection


def _named_versions(snapshot: Snapshot, root: Storage) -> dict[int, list[str]]:
    """Return the versions of the opened branch with tags or dependent branches, and the names of the tags."""
    branch = snapshot.manifest.branch
    named: dict[int, list[str]] = {}
    for tag, content in list_tags(root).items():
        if (content.branch or MAIN) == (branch or MAIN):
            named.setdefault(content.version, []).append(tag)
    for versions in standing_on(branch, list_branches(root)).values():
        for version in versions:
            named.setdefault(version, [])
    return named


def _keep_what_branches_need(snapshot: Snapshot, root: Storage, inspection: _Inspection) -> None:
    """Keep the files in base paths to which versions of other branches refer. Their names are compared, which
    are unique.
    """
    for branch in [None, *list_branches(root)]:
        if branch == snapshot.manifest.branch:
            continue
        storage = branch_storage(root, branch)
        versions = (*list_versions(storage), *detached_versions(storage))
        for manifest in _read_all(storage, versions):
            if manifest is not None:
                inspection.referenced.add(manifest)


def _remove_manifests(
    snapshot: Snapshot, root: Storage, inspection: _Inspection, policy: CleanupPolicy
) -> Iterator[CleanupCandidateFile]:
    """Remove old manifests, oldest first. Put a manifest back if the version was named meanwhile."""
    storage = snapshot.storage
    pace = _Pace(policy.delete_rate_limit)
    if inspection.old:
        # The hint may name a removed version, from which the reference would try later versions one by one.
        storage.delete_file(HINT)
    for together in _groups(inspection.old):
        names = [old.path.rpartition("/")[2] for old in together]
        files = zip(together, storage.read_files(VERSIONS, names), strict=True)
        content = {old.path: data for old, data in files if data is not None}
        named = _named_versions(snapshot, root)
        removed = [old for old in together if old.path in content and old.version not in named]
        gone = {old.path for old in removed}
        for old in removed:
            pace.wait()
            storage.delete_file(old.path)
        named_meanwhile = _named_versions(snapshot, root)
        for old in removed:
            if old.version in named_meanwhile:
                storage.put(old.path, content[old.path])
        for old in together:
            if old.path in gone and old.version not in named_meanwhile:
                yield CleanupCandidateFile(old.path, "manifest", False, old.size)
            else:
                inspection.seen.discard(old.version)  # the version stays, and so do its files


def _look_again(storage: Storage, inspection: _Inspection) -> None:
    """Keep the files of versions that were made during the cleanup."""
    new = [version for version in list_versions(storage) if version not in inspection.seen]
    for manifest in _read_all(storage, new):
        if manifest is not None:
            inspection.referenced.add(manifest)


def _manifest_files(inspection: _Inspection) -> Iterator[CleanupCandidateFile]:
    for old in inspection.old:
        yield CleanupCandidateFile(old.path, "manifest", False, old.size)


def _files_with_roles(storage: Storage) -> Iterator[tuple[StoredFile, FileRole]]:
    for directory in DIRECTORIES:
        for file in storage.list_files(directory):
            role = file_role(file.path)
            if role is not None:
                yield file, role


def _leftovers(
    files: Iterable[tuple[StoredFile, FileRole]], inspection: _Inspection, policy: CleanupPolicy
) -> Iterator[CleanupCandidateFile]:
    """Yield the files to remove, apart from manifests."""
    limit = time.time() - UNVERIFIED_AGE.total_seconds()
    for file, role in files:
        if role in inspection.referenced:
            continue
        verified = role in inspection.verified
        if verified or policy.delete_unverified or _is_older(file, limit):
            yield CleanupCandidateFile(file.path, role.kind, not verified, file.size)


def _is_older(file: StoredFile, limit: float) -> bool:
    return file.modified is not None and file.modified < limit


def _remove_directories(storage: Storage, removed: Iterable[CleanupCandidateFile]) -> None:
    """Remove the directories of indices and blobs that have become empty."""
    for directory in {"/".join(file.path.split("/")[:2]) for file in removed if file.path.count("/") > 1}:
        if not any(True for _ in storage.list_files(directory)):
            storage.delete_directory(directory)


def _read_all(storage: Storage, versions: Sequence[int]) -> Iterator[Manifest | None]:
    """Return the manifests of versions in their order; None for a removed version."""

    def read(version: int) -> Manifest | None:
        try:
            return read_manifest(storage, version)
        except VersionNotFoundError:
            return None

    return _parallel(_AT_ONCE if storage.is_remote else 1, read, versions)


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
