"""Entries `__lance_frag_reuse` of the index section, made and trimmed."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID, uuid4

import pyroaring

from lance_core.changes.index_files import is_movable, moved_segment
from lance_core.commit.index_section import IndexSectionEditor, coverage, index_entries, kind_of
from lance_core.errors import CorruptFileError, LanceError, StorageError
from lance_core.index.moving.reused_fragments import moves_of
from lance_core.proto import table_pb2
from lance_core.proto.index_pb2 import FragmentReuseIndexDetails as Details
from lance_core.storage import Storage
from lance_core.table.fragment_reuse import (
    FILE_NAME,
    FRAGMENT_REUSE,
    MOST_INLINE_BYTES,
    ZONES,
    new_fragments,
    old_fragments,
)
from lance_core.table.indices import DIRECTORY, MEM_WAL
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import Snapshot

_TYPE_URL = "/lance.table.FragmentReuseIndexDetails"


def reuse_entry(
    storage: Storage, manifest: Manifest, versions: Sequence[Details.Version], *, sync: bool
) -> table_pb2.IndexMetadata:
    """Return an entry with these versions. Large versions are written to a file.

    Args:
        storage: Storage of the table.
        manifest: The version of the table that was read.
        versions: Compactions, oldest first.
        sync: Make the file durable.

    Raises:
        StorageError: The storage failed.
    """
    uuid = uuid4()
    content = Details.Content(versions=versions)
    data = content.SerializeToString()
    details = Details()
    if len(data) > MOST_INLINE_BYTES:
        storage.put_if_absent(f"{_directory(uuid)}/{FILE_NAME}", data, sync=sync)
        details.external.path, details.external.size = FILE_NAME, len(data)
    else:
        details.inline.CopyFrom(content)
    entry = table_pb2.IndexMetadata(
        uuid=table_pb2.UUID(uuid=uuid.bytes),
        name=FRAGMENT_REUSE,
        dataset_version=manifest.version,
        fragment_bitmap=bytes(new_fragments(versions).serialize()),
        created_at=time.time_ns() // 1_000_000,
    )
    entry.index_details.type_url, entry.index_details.value = _TYPE_URL, details.SerializeToString()
    return entry


def discard_entry(storage: Storage, entry: table_pb2.IndexMetadata) -> None:
    """Remove the file of an entry that no version has. If this fails, a cleanup removes it later."""
    with suppress(StorageError):
        storage.delete_directory(_directory(UUID(bytes=entry.uuid.uuid)))


def entries_behind(
    manifest: Manifest, names: Collection[str] | None, replaced: Iterable[table_pb2.IndexMetadata]
) -> list[table_pb2.IndexMetadata]:
    """Return the entries whose files may have row addresses from before a compaction, and can catch up.

    Args:
        manifest: The newest version.
        names: Names of the indices; None means all.
        replaced: Entries that are left out.

    Raises:
        LanceError: The index section or the fragment reuse index cannot be read.
    """
    reuse = manifest.fragment_reuse
    if reuse is None:
        return []
    others = {entry.uuid.uuid for entry in replaced}
    existing = pyroaring.BitMap(manifest.fragment_ids)
    return [
        present
        for stored, present in zip(_stored(manifest), index_entries(manifest), strict=True)
        if not _is_of_system(stored)
        and (names is None or stored.name in names)
        and stored.uuid.uuid not in others
        and _is_behind(stored, reuse.versions)
        and (is_movable(present) or not _needs_files(present, existing))
    ]


def caught_up(
    snapshot: Snapshot, entries: Iterable[table_pb2.IndexMetadata], *, sync: bool
) -> Iterator[table_pb2.IndexMetadata]:
    """Yield entries that replace the results of `entries_behind`, with present row addresses in their files.

    Files are written again if the entry covers fragments that moved.

    Args:
        snapshot: The newest version.
        entries: The entries.
        sync: Make files durable.

    Raises:
        CorruptFileError: A file of an index is damaged.
        LanceError: Files cannot be read or written.
    """
    manifest = snapshot.manifest
    reuse = manifest.fragment_reuse
    moves = None if reuse is None else moves_of(reuse)
    existing = pyroaring.BitMap(manifest.fragment_ids)
    for entry in entries:
        if moves is not None and _needs_files(entry, existing):
            try:
                new = moved_segment(snapshot, entry, moves, sync=sync)
            except ValueError as error:
                if isinstance(error, LanceError):
                    raise
                raise CorruptFileError(f"values of index {entry.name}", found=error) from None
        else:
            new = table_pb2.IndexMetadata()
            new.CopyFrom(entry)
        new.dataset_version = manifest.version
        yield new


@dataclass(frozen=True)
class TrimmedReuse:
    """Change of the entry `__lance_frag_reuse`: nothing, its removal, or its replacement."""

    removed: tuple[table_pb2.IndexMetadata, ...] = ()
    added: tuple[table_pb2.IndexMetadata, ...] = ()


def trimmed_reuse(
    snapshot: Snapshot,
    built: Sequence[table_pb2.IndexMetadata] = (),
    replaced: Iterable[table_pb2.IndexMetadata] = (),
    *,
    sync: bool,
) -> TrimmedReuse:
    """Return the change that removes compactions that no index needs.

    Args:
        snapshot: The newest version.
        built: Entries that the next version adds.
        replaced: Entries that the next version removes.
        sync: Make a file durable.

    Raises:
        LanceError: The fragment reuse index cannot be read or written.
    """
    manifest = snapshot.manifest
    reuse = manifest.fragment_reuse
    if reuse is None:
        return TrimmedReuse()
    gone = {entry.uuid.uuid for entry in replaced}
    stored = _stored(manifest)
    left = [*(entry for entry in stored if entry.uuid.uuid not in gone), *built]
    needed = _needed(reuse.versions, left)
    if len(needed) == len(reuse.versions):
        return TrimmedReuse()
    removed = tuple(entry for entry in stored if entry.name == FRAGMENT_REUSE)
    if not needed:
        return TrimmedReuse(removed)
    return TrimmedReuse(removed, (reuse_entry(snapshot.storage, manifest, needed, sync=sync),))


def has_unneeded_reuse(manifest: Manifest) -> bool:
    """Return whether no index needs some of the compactions that left index files as they were.

    Raises:
        LanceError: The fragment reuse index cannot be read.
    """
    reuse = manifest.fragment_reuse
    return reuse is not None and len(_needed(reuse.versions, _stored(manifest))) < len(reuse.versions)


def _needed(
    versions: Sequence[Details.Version], entries: Iterable[table_pb2.IndexMetadata]
) -> list[Details.Version]:
    indices = [entry for entry in entries if not _is_of_system(entry)]
    return [version for version in versions if any(_is_behind(entry, [version]) for entry in indices)]


def _is_behind(entry: table_pb2.IndexMetadata, versions: Iterable[Details.Version]) -> bool:
    """Return whether an index needs a compaction: its files may have row addresses from before."""
    return any(
        entry.dataset_version <= version.dataset_version or coverage(entry) & old_fragments([version])
        for version in versions
    )


def _needs_files(entry: table_pb2.IndexMetadata, existing: pyroaring.BitMap) -> bool:
    """Return whether row addresses in the files of an index are of use: not those of zones, nor those of
    fragments that the index does not cover.
    """
    return kind_of(entry) not in ZONES and bool(coverage(entry) & existing)


def _stored(manifest: Manifest) -> list[table_pb2.IndexMetadata]:
    """Return the entries with their coverage as it is stored."""
    return list(IndexSectionEditor(manifest.index_section).segments)


def _is_of_system(entry: table_pb2.IndexMetadata) -> bool:
    return entry.name in (FRAGMENT_REUSE, MEM_WAL)


def _directory(uuid: UUID) -> str:
    return f"{DIRECTORY}/{uuid}"
