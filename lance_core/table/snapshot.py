"""Snapshots: one version of a table together with its storage."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from itertools import islice

from lance_core.errors import CorruptFileError, FileMissingError, VersionNotFoundError
from lance_core.file.data_file import open_data_file
from lance_core.proto import table_pb2
from lance_core.storage import Storage
from lance_core.table.bases import BaseOpener, open_base
from lance_core.table.deletions import Offsets, read_deletions
from lance_core.table.fragment import Fragment
from lance_core.table.indices import (
    DIRECTORY,
    IndexDescription,
    IndexSegment,
    describe_indices,
    with_kind,
)
from lance_core.table.manifest import Manifest, parse_manifest
from lance_core.table.snapshot_cache import SnapshotCache
from lance_core.table.versions import (
    VERSIONS,
    latest_manifest,
    latest_version,
    list_versions,
    manifest_path,
)

_MOST_FILES = 64
"""Most manifests of a history that are read at once."""
_MOST_BYTES = 16 << 20
"""Most bytes of manifests that are read at once, estimated from the size of the manifests before."""


@dataclass(frozen=True)
class Snapshot:
    """Immutable view of one version of a table."""

    storage: Storage
    manifest: Manifest
    open_base: BaseOpener = field(default=open_base, repr=False)
    session: object | None = field(default=None, repr=False, compare=False)
    """The `lance_core.scan.session.Session` of reads; None: the default session of the process."""

    def open_version(self, version: int | None = None) -> "Snapshot":
        """Open another version of the table; None means the latest. Errors are those of `open_snapshot`."""
        return replace(open_snapshot(self.storage, version, self.open_base), session=self.session)

    def with_manifest(self, manifest: Manifest) -> "Snapshot":
        """Return the version of the table with the given manifest; errors are those of `open_snapshot`."""
        if not manifest.has_row_counts:  # written by a library before 0.8
            return self.open_version(manifest.version)
        return replace(self, manifest=manifest)

    def __reduce__(self) -> tuple[Callable[..., "Snapshot"], tuple[object, ...]]:
        """Pickle the address of the version, which opens it again, without the manifest and the caches."""
        return reopen, (self.storage, self.manifest.version, self.manifest.identity, self.open_base)

    def storage_of(self, base_id: int | None) -> Storage:
        """Return the storage of the files of a base path; errors are those of `open_base`."""
        if base_id is None:
            return self.storage
        storage = self._bases.get(base_id)
        if storage is None:
            storage = self._bases[base_id] = self.open_base(self.manifest.base_paths[base_id], self.storage)
        return storage

    def read_deletions(self, fragment: Fragment) -> Offsets:
        """Return the deleted row offsets of a fragment, see `deletions.read_deletions`."""
        deletion_file = fragment.deletion_file
        storage = self.storage_of(deletion_file.base_id if deletion_file else None)
        return read_deletions(storage, fragment)

    @cached_property
    def index_segments(self) -> tuple[IndexSegment, ...]:
        """Entries of the index section. If an old library did not write the kind of an index, it is derived
        from the names of the files.

        Raises:
            CorruptFileError: The section does not decode.
            StorageError: The storage failed.
        """
        return tuple(map(self._with_kind, self.manifest.index_segments))

    @cached_property
    def searchable_segments(self) -> tuple[IndexSegment, ...]:
        """The segments that searches may use, see `Manifest.searchable_segments`; errors are those of
        `index_segments`.
        """
        return tuple(map(self._with_kind, self.manifest.searchable_segments))

    def describe_indices(self) -> list[IndexDescription]:
        """Return the indices of the table by name; errors are those of `index_segments` and of the manifest's
        `schema` and `fragments`.
        """
        if not self.index_segments:
            return []
        return describe_indices(self.index_segments, self.manifest.schema, self.manifest.fragments)

    def index_directory(self, segment: IndexSegment) -> tuple[Storage, str]:
        """Return the storage of the files of an index segment, and their directory in it.

        Raises:
            CorruptFileError: The segment is in a base path that the manifest lacks.
            LanceError: The base path cannot be opened.
        """
        base_id, uuid = segment.description.base_id, segment.description.uuid
        if base_id is None:
            return self.storage, f"{DIRECTORY}/{uuid}"
        base = self.manifest.base_paths.get(base_id)
        if base is None:
            raise CorruptFileError(
                f"base path of index {segment.name!r}", file=self.manifest.name, found=base_id
            )
        return self.storage_of(base_id), f"{base.directory(DIRECTORY)}{uuid}"

    def _with_kind(self, segment: IndexSegment) -> IndexSegment:
        if segment.type_url or not segment.field_ids:
            return segment
        names: Iterable[str] = segment.files
        if not names:
            storage, directory = self.index_directory(segment)
            try:
                names = storage.list_names(directory)
            except FileMissingError:
                return segment
        return with_kind(segment, names, self.manifest.schema.field_by_id.get(segment.field_ids[0]))

    @cached_property
    def _bases(self) -> dict[int, Storage]:
        return {}


def open_snapshot(
    storage: Storage, version: int | None = None, open_base: BaseOpener = open_base
) -> Snapshot:
    """Open a version of the table in `storage`; None means the latest.

    `open_base` opens the base paths that files of the table are in, and may refuse to.

    Raises:
        DatasetNotFoundError: there is no table.
        VersionNotFoundError: the table has no such version.
        CorruptFileError: the manifest contradicts the format or its own name.
        UnsupportedFeatureError: the table uses a feature that this package does not implement.
    """
    number, path = latest_manifest(storage) if version is None else (version, manifest_path(storage, version))
    manifest = _read_manifest(storage, number, path)
    snapshot = Snapshot(storage, manifest, open_base)
    for base in manifest.used_base_paths:
        snapshot.storage_of(base.id)
    if manifest.has_row_counts:
        return snapshot
    return replace(snapshot, manifest=counted_manifest(storage, manifest, open_base))


_DEFAULT_OPENER: BaseOpener = open_base

kept_snapshots = SnapshotCache(64 << 20, open_snapshot)
"""Snapshots of local tables that this process opened by path."""


def open_kept(storage: Storage, version: int | None = None, open_base: BaseOpener = open_base) -> Snapshot:
    """Open a version like `open_snapshot`, but reuse a local manifest that was read before.

    Remote manifests are not cached: asking whether a manifest changed takes as long as reading it. Kept
    snapshots have base paths opened without storage options, and no commit lock, so another `open_base` or a
    lock opens a new snapshot.
    """
    if storage.is_remote or storage.commit_lock is not None or open_base is not _DEFAULT_OPENER:
        return open_snapshot(storage, version, open_base)
    return kept_snapshots.open(storage, latest_version(storage) if version is None else version)


def reopen(storage: Storage, version: int, identity: str, opener: BaseOpener) -> Snapshot:
    """Open the version of a pickled snapshot.

    Args:
        storage: storage of the table.
        version: number of the version.
        identity: `Manifest.identity` of the version.
        opener: opens the base paths of the table.

    Raises:
        VersionNotFoundError: the version was removed, or the table was dropped and made again.
        LanceError: another error of `open_snapshot`.
    """
    snapshot = open_kept(storage, version, opener)
    if snapshot.manifest.identity != identity:
        raise VersionNotFoundError(
            f"version {version} belongs to a dataset that was dropped and made again after the pickle"
        )
    return snapshot


def read_manifest(storage: Storage, version: int, path: str | None = None) -> Manifest:
    """Return the manifest of a version, with the row counts of the file; see `counted_manifest`.

    `path` saves looking for the manifest. Errors are those of `open_snapshot`.
    """
    return _read_manifest(storage, version, path or manifest_path(storage, version))


def read_manifests(snapshot: Snapshot, listed: Mapping[int, str]) -> Iterator[Manifest]:
    """Yield the manifests of `read_manifest_files` without the bytes of their files; errors are the same."""
    return (manifest for manifest, _ in read_manifest_files(snapshot, listed))


def read_manifest_files(
    snapshot: Snapshot, listed: Mapping[int, str]
) -> Iterator[tuple[Manifest, bytes | None]]:
    """Yield the manifests of versions of a table, with the row counts of all fragments, and the bytes of the
    listed files. The bytes are None if the manifest had to be read from a file with another name.

    Many files are read at once: after a call of the system, Python is slow for some time. A version that was
    cleaned up since it was listed is left out.

    Args:
        snapshot: any version of the table.
        listed: the versions, each with the name of its manifest, see `listed_manifests`.

    Raises:
        LanceError: a manifest cannot be read.
    """
    storage = snapshot.storage
    versions = iter(listed)
    num_files = _at_once(snapshot.manifest.size)
    while block := list(islice(versions, num_files)):
        files = storage.read_files(VERSIONS, [listed[version] for version in block])
        for version, data in zip(block, files, strict=True):
            try:
                if data is None:  # cleaned up, or has the name of the other scheme
                    manifest = read_manifest(storage, version)
                else:
                    manifest = _parse_version(storage, version, f"{VERSIONS}/{listed[version]}", data)
            except VersionNotFoundError:
                continue
            yield counted_manifest(storage, manifest, snapshot.open_base), data
        num_files = _at_once(max(map(len, filter(None, files)), default=0))


def _at_once(num_bytes: int) -> int:
    """Return how many manifests to read at once if those before have up to `num_bytes`."""
    return max(1, min(_MOST_FILES, _MOST_BYTES // (num_bytes + 1)))


def _read_manifest(storage: Storage, version: int, path: str) -> Manifest:
    try:
        data, tag = storage.read_tagged(path)
    except FileMissingError:  # cleaned up after its name was found
        raise VersionNotFoundError(f"no version {version}") from None
    return _parse_version(storage, version, path, data, tag)


def _parse_version(
    storage: Storage, version: int, path: str, data: bytes, tag: str | None = None
) -> Manifest:
    manifest = parse_manifest(data, path, storage.read_range, tag)
    if manifest.version != version:
        raise CorruptFileError(
            "manifest has another version number than its name",
            file=path,
            expected=version,
            found=manifest.version,
        )
    return manifest


def version_before(storage: Storage, time: datetime) -> int | None:
    """Return the last version that was committed before `time`, which must have a zone; None if there is
    none.

    Errors are those of `open_snapshot`.
    """
    for version in reversed(list_versions(storage)):
        if read_manifest(storage, version).timestamp < time:
            return version
    return None


def counted_manifest(storage: Storage, manifest: Manifest, open_base: BaseOpener = open_base) -> Manifest:
    """Return the manifest with the row counts of all fragments. Missing counts are read from data and
    deletion files.

    A manifest without a writer version has no row counts or wrong ones: releases before 0.8 wrote none, and
    release 0.8.0 wrote the number of live rows as the number of all rows.

    Raises:
        LanceError: a file cannot be read.
    """
    if manifest.has_row_counts:
        return manifest
    snapshot = Snapshot(storage, manifest, open_base)
    message = table_pb2.Manifest()
    message.CopyFrom(manifest.message)
    repairs = list(manifest.repairs)
    is_signed = message.HasField("writer_version")
    for fragment, counted in zip(manifest.fragments, message.fragments, strict=True):
        if is_signed and fragment.has_row_counts:
            continue
        if not (is_signed and fragment.physical_rows):
            counted.physical_rows = _count_rows(snapshot, fragment)
        if counted.HasField("deletion_file"):
            # an unknown count, so that reading the file does not compare it
            counted.deletion_file.num_deleted_rows = 0
            bare = replace(manifest, message=table_pb2.Manifest(fragments=[counted]))
            counted.deletion_file.num_deleted_rows = len(snapshot.read_deletions(bare.fragments[0]))
        if fragment.physical_rows not in (0, counted.physical_rows):
            repairs.append(
                f"fragment {fragment.id} has {counted.physical_rows} rows, not {fragment.physical_rows}"
            )
    return replace(manifest, message=message, repairs=tuple(repairs), is_counted=True)


def _count_rows(snapshot: Snapshot, fragment: Fragment) -> int:
    for data_file in fragment.files:
        with snapshot.storage_of(data_file.base_id).open_file(data_file.path, data_file.known_size) as file:
            return open_data_file(file, data_file.version).num_rows
    return fragment.physical_rows
