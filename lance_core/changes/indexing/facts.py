"""Statistics of indices, and reading of index files ahead of queries."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from uuid import UUID

from lance_core.changes.index_files import segment_files, segments_of
from lance_core.changes.indexing.kinds import KINDS, name_of_kind
from lance_core.errors import IndexNotFoundError, InvalidInputError, UnsupportedFeatureError
from lance_core.index.segments import open_segment
from lance_core.index.warming import warm_segment
from lance_core.proto import table_pb2
from lance_core.scan.session import session_of
from lance_core.table.indices import index_statistics as manifest_statistics
from lance_core.table.snapshot import Snapshot

_READ_BYTES = 8 << 20


def index_statistics(snapshot: Snapshot, name: str) -> dict[str, object]:
    """Return facts about an index, with the keys of the reference.

    The entry `segments`, which the reference also calls `indices`, has the facts from the files of each
    segment. They are empty for kinds that are not built here.

    Raises:
        IndexNotFoundError: There is no such index.
        CorruptFileError: A file of the index is damaged.
        StorageError: A file is missing, or the storage failed.
    """
    segments = _segments(snapshot, name)
    (index,) = (index for index in snapshot.describe_indices() if index.name == name)
    facts = []
    for segment in segments:
        kind = name_of_kind(segment)
        facts.append(KINDS[kind].statistics_of(segment_files(snapshot, segment)) if kind else {})
    found = manifest_statistics(index, snapshot.manifest.fragments)
    return {**found, "indices": facts, "segments": facts}


def prewarm_index(snapshot: Snapshot, name: str, uuids: Collection[UUID] | None = None) -> None:
    """Read the files of an index, so that the system has them in memory for queries, and the cache of indices
    has what queries keep there. What has no room in the cache stays out.

    Args:
        snapshot: The opened version.
        name: Name of the index.
        uuids: Uuids of the segments to read; None means all.

    Raises:
        IndexNotFoundError: There is no such index.
        InvalidInputError: The index has no segment with one of the uuids.
        CorruptFileError: A file contradicts the format.
        StorageError: A file is missing, or the storage failed.
    """
    segments = _segments(snapshot, name)
    opened = {entry.description.uuid: entry for entry in snapshot.searchable_segments}
    cache = session_of(snapshot).indices
    known = {UUID(bytes=segment.uuid.uuid): segment for segment in segments}
    for uuid in known if uuids is None else uuids:
        if uuid not in known:
            raise InvalidInputError(
                f"segment of index {name}", expected=", ".join(map(str, known)), found=uuid
            )
        files = segment_files(snapshot, known[uuid])
        for file_name in files.sizes:
            with files.open(file_name) as file:
                for start in range(0, file.size, _READ_BYTES):
                    file.read(start, min(_READ_BYTES, file.size - start))
        if str(uuid) in opened:
            with suppress(UnsupportedFeatureError):  # queries do without the index then
                warm_segment(open_segment(snapshot, opened[str(uuid)], cache))


def _segments(snapshot: Snapshot, name: str) -> Sequence[table_pb2.IndexMetadata]:
    segments = segments_of(snapshot)
    found = [segment for segment in segments if segment.name == name]
    if not found:
        names = sorted({segment.name for segment in segments})
        raise IndexNotFoundError(f'Index "{name}" not found; this version has: {", ".join(names) or "none"}')
    return found
