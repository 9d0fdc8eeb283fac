"""Entries of the index segments of a table, and the files of the segments."""

from uuid import UUID

from lance_core.commit.index_section import index_entries, kind_of
from lance_core.index.moving.copying import SegmentCopy
from lance_core.index.moving.kinds import MOVABLE
from lance_core.index.moving.moved_rows import Moves
from lance_core.index.segment_files import SegmentFiles
from lance_core.index.segment_writer import SegmentWriter
from lance_core.proto import table_pb2
from lance_core.table.indices import DIRECTORY
from lance_core.table.snapshot import Snapshot


def segments_of(snapshot: Snapshot) -> list[table_pb2.IndexMetadata]:
    """Return the entries of the index section.

    If the manifest does not say the kind of an index, the entry has the kind that follows from its files; see
    `Snapshot.index_segments`, whose errors these are.
    """
    known = {segment.description.uuid: segment.type_url for segment in snapshot.index_segments}
    found = []
    for entry in index_entries(snapshot.manifest):
        type_url = known[str(UUID(bytes=entry.uuid.uuid))]
        if type_url != entry.index_details.type_url:
            original, entry = entry, table_pb2.IndexMetadata()
            entry.CopyFrom(original)
            entry.index_details.type_url = type_url
        found.append(entry)
    return found


def segment_files(snapshot: Snapshot, segment: table_pb2.IndexMetadata) -> SegmentFiles:
    """Return the files of a segment, which may be in a base path of the table.

    Raises:
        LanceError: The base path cannot be opened.
    """
    sizes = {file.path: file.size_bytes for file in segment.files}
    uuid, details = UUID(bytes=segment.uuid.uuid), segment.index_details.value
    if not segment.HasField("base_id"):
        return SegmentFiles(snapshot.storage, f"{DIRECTORY}/{uuid}", sizes, details)
    base = snapshot.manifest.base_paths[segment.base_id]
    return SegmentFiles(snapshot.storage_of(base.id), f"{base.directory(DIRECTORY)}{uuid}", sizes, details)


def is_movable(segment: table_pb2.IndexMetadata) -> bool:
    """Return whether `moved_segment` knows the kind and the layout of a segment."""
    movable = MOVABLE.get(kind_of(segment))
    return movable is not None and segment.index_version <= movable.newest_version


def moved_segment(
    snapshot: Snapshot, segment: table_pb2.IndexMetadata, moves: Moves, *, sync: bool
) -> table_pb2.IndexMetadata:
    """Write the files of a segment again with other row addresses.

    Memory: a few MiB of rows at a time, and whole partitions of vector indices that do not store codes row by
    row.

    Args:
        snapshot: The version that has the segment.
        segment: The segment; `is_movable` is true for it.
        moves: Translation of the row addresses.
        sync: Make the files durable.

    Returns:
        The entry with the new files and a new uuid, and otherwise as it was. It belongs to no version yet.

    Raises:
        CorruptFileError: A file of the segment is damaged.
        UnsupportedFeatureError: A file has a layout that is not supported.
        ValueError: Values of the segment contradict each other.
        LanceError: Files cannot be read or written. No files are left.
    """
    writer = SegmentWriter(snapshot.storage, sync=sync)
    try:
        MOVABLE[kind_of(segment)].move(SegmentCopy(segment_files(snapshot, segment), writer), moves)
        files = writer.finish()
    except BaseException:
        writer.discard()
        raise
    moved = table_pb2.IndexMetadata()
    moved.CopyFrom(segment)
    moved.uuid.uuid = writer.uuid.bytes
    moved.ClearField("base_id")
    del moved.files[:]
    moved.files.extend(files)
    return moved
