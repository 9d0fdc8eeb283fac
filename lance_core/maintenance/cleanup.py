"""Removing old versions, and files that no version needs any more.

What stays: the opened version and all after it; those that are younger than the limit or among the newest
ones to retain; those with tags; those that branches began with; detached ones. A file goes when no version
that stays refers to it, nor any version of another branch, and it is either known from a version that goes
or older than seven days: a younger one may belong to a commit that is under way.

Everything is read before anything is removed, and what cannot be read ends it. Manifests go first: a cleanup
that is broken off leaves files that nothing refers to, not versions without files. Then versions and refs are
looked up once more: a version that somebody named meanwhile is put back, and files that a new version took up
again (a restore) stay. Other datasets that use this one as a base are not known here; a tag protects what
they need.
Source: docs/format.md, "Cleanup".
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple, TypeVar

from lance_core.errors import (
    FileMissingError,
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
from lance_core.table.snapshot import Snapshot, read_manifest
from lance_core.table.versions import HINT, detached_versions, list_versions

UNVERIFIED_AGE = timedelta(days=7)
"""Files that no version ever named stay so long."""

_AT_ONCE = 16
"""Requests, where files are far away."""
_HELD_BYTES = 32 << 20
"""Size of the manifests that are removed together, and that may be put back, in bytes."""
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class CleanupPolicy:
    """Limits of a cleanup. A version is removed if every limit that is set allows it."""

    older_than: timedelta | None = None
    """Only versions of this age."""
    retain_versions: int | None = None
    """The newest ones to keep."""
    versions: Sequence[int] | None = None
    """Only these."""
    delete_unverified: bool = False
    """Remove files that no version ever named whatever their age. Nobody may be writing."""
    error_if_tagged_old_versions: bool = True
    """Refuse when a version that would go has a tag, instead of keeping it."""
    delete_rate_limit: int | None = None
    """Files per second."""
    delete_concurrency: int | None = None
    """Files at once."""

    def check(self) -> None:
        """Refuse what makes no sense with an `InvalidInputError`."""
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
        """Add a file."""
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
    """A file that goes."""

    path: str
    """Relative to the dataset, or to the branch."""
    kind: FileKind | Literal["manifest"]
    unverified: bool
    """Whether no version ever named it."""
    size_bytes: int


@dataclass(frozen=True)
class CleanupReferencedBranch:
    """A branch that began with a version of this one."""

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
    """A version that goes."""

    version: int
    path: str
    size: int


@dataclass
class _Inspection:
    """Facts from all manifests."""

    old: list[_Old] = field(default_factory=list)
    """Versions that go, oldest first."""
    referenced: ReferencedFiles = field(default_factory=ReferencedFiles)
    verified: ReferencedFiles = field(default_factory=ReferencedFiles)
    """Named by versions that go."""
    seen: set[int] = field(default_factory=set)
    """Versions that were looked at."""


def explain_cleanup(
    snapshot: Snapshot,
    root: Storage,
    policy: CleanupPolicy,
    *,
    include_files: bool = False,
    max_files: int = 1000,
) -> CleanupExplanation:
    """Return what `clean_up` would remove; nothing is removed. Errors are those of `clean_up`."""
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
        snapshot: the opened version; it and those after it stay.
        root: where the main branch is.
        policy: which versions go.

    Raises:
        InvalidInputError: a limit makes no sense.
        RefConflictError: a version that would go has a tag; nothing was removed.
        CorruptFileError, UnsupportedFeatureError: a manifest or ref cannot be read; nothing was removed.
        StorageError: the storage failed; every version that is still listed is whole.
    """
    policy.check()
    storage = snapshot.storage
    inspection = _inspect(snapshot, root, policy)
    stats = CleanupStats()
    for file in _remove_manifests(snapshot, root, inspection, policy):
        stats.count(file)
    listed = list(_files_with_roles(storage))
    _look_again(storage, inspection)  # after the files were listed: a version names only files that are there
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
    if not storage.is_remote:  # elsewhere directories are what names have in common
        _remove_directories(storage, leftovers)
    return stats


def _inspect(snapshot: Snapshot, root: Storage, policy: CleanupPolicy) -> _Inspection:
    storage = snapshot.storage
    versions = list_versions(storage)
    protected = _named_versions(snapshot, root)
    oldest_retained = 0
    if policy.retain_versions is not None:
        oldest_retained = versions[-policy.retain_versions :][0]
    now = datetime.now(UTC)
    inspection = _Inspection()
    refused = []
    for version, manifest in zip(versions, _read_all(storage, versions), strict=True):
        inspection.seen.add(version)
        if manifest is None:  # somebody else cleans up, too
            continue
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
            inspection.old.append(_Old(version, manifest.name, manifest.size))
    if refused and policy.error_if_tagged_old_versions:
        raise RefConflictError(
            "versions to clean up have tags; delete the tags, or keep these versions with "
            "error_if_tagged_old_versions=False or --keep-tagged",
            found=sorted(refused),
        )
    detached = detached_versions(storage)
    for manifest in _read_all(storage, detached):
        if manifest is not None:
            inspection.referenced.add(manifest)
    _keep_what_branches_need(snapshot, root, inspection)
    return inspection


def _named_versions(snapshot: Snapshot, root: Storage) -> dict[int, list[str]]:
    """Versions of the opened branch that tags name or branches began with, and the tags."""
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
    """Keep what any version of another branch finds in a base path, by name alone: names are used once."""
    for branch in [None, *list_branches(root)]:
        if branch == snapshot.manifest.branch:
            continue
        storage = branch_storage(root, branch)
        versions = (*list_versions(storage), *detached_versions(storage))
        for manifest in _read_all(storage, versions):
            if manifest is not None:
                inspection.referenced.add(manifest, with_bases=True)


def _remove_manifests(
    snapshot: Snapshot, root: Storage, inspection: _Inspection, policy: CleanupPolicy
) -> Iterator[CleanupCandidateFile]:
    """Remove old manifests, oldest first, but for those that somebody names meanwhile."""
    storage = snapshot.storage
    pace = _Pace(policy.delete_rate_limit)
    if inspection.old:
        # A hint may be lower than a version that goes; the reference looks for versions above it one by one.
        storage.delete_file(HINT)
    for together in _groups(inspection.old):
        content: dict[int, tuple[str, bytes]] = {}
        for old in together:
            with suppress(FileMissingError):
                content[old.version] = (old.path, storage.read_file(old.path))
        named = _named_versions(snapshot, root)
        removed = {version: name for version, (name, _) in content.items() if version not in named}
        for name in removed.values():
            pace.wait()
            storage.delete_file(name)
        named_meanwhile = _named_versions(snapshot, root).keys() & removed.keys()
        for version in named_meanwhile:
            storage.put(*content[version])
        for old in together:
            if old.version in removed and old.version not in named_meanwhile:
                yield CleanupCandidateFile(old.path, "manifest", False, old.size)
            else:
                inspection.seen.discard(old.version)  # it stays, and so do its files


def _look_again(storage: Storage, inspection: _Inspection) -> None:
    """Keep what versions name that came meanwhile."""
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
    """Files that go beside the manifests."""
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
    """Return the manifests of versions; None if one is gone."""

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
    """Spreads calls over time."""

    def __init__(self, per_second: int | None) -> None:
        self._interval = 1 / per_second if per_second else 0.0
        self._next = time.monotonic()

    def wait(self) -> None:
        if self._interval:
            self._next = max(self._next, time.monotonic()) + self._interval
            time.sleep(max(0.0, self._next - self._interval - time.monotonic()))
