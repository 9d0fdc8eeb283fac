"""Full text indices that several machines build in one directory, as scripts for older releases do.

Every machine stages partitions of its fragments under one uuid, and one machine merges them into a segment.
Nothing is committed. Builds of several segments (`segment.py`) are simpler, and serve all kinds of indices.
"""

from __future__ import annotations

from posixpath import basename
from uuid import UUID

from lance_core.changes.indexing.kinds import kind_named
from lance_core.changes.indexing.segment import IndexRequest, rows_to_index
from lance_core.errors import InvalidInputError
from lance_core.index.progress import Observer, unobserved
from lance_core.index.segment_files import SegmentFiles
from lance_core.index.segment_writer import SegmentWriter
from lance_core.index.text.build import stage_text
from lance_core.index.text.segment import METADATA_FILE
from lance_core.index.text.staged import STAGING, merge_staged_text
from lance_core.proto import table_pb2
from lance_core.table.indices import DIRECTORY
from lance_core.table.snapshot import Snapshot

_TEXT = kind_named("INVERTED")
_LOCAL_BITS = 32
"""The number of a staged partition is a fragment id above these bits, and counts from 0 below."""


def stage_partitions(
    snapshot: Snapshot, request: IndexRequest, *, observer: Observer = unobserved, sync: bool = True
) -> None:
    """Write the partitions of a full text index on some fragments.

    Args:
        snapshot: The version to read.
        request: What to index, with fragment ids. Its uuid is that of the whole segment.
        observer: Is told the progress.
        sync: On local disks make the files durable before returning.

    Raises:
        InvalidInputError: Indices of this kind are not built in one directory.
        LanceError: An error of `lance_core.changes.indexing.segment.build_segment`. No files are left.
    """
    if kind_named(request.kind) is not _TEXT:
        raise InvalidInputError(
            f"{request.kind.upper()} distributed indexing uses create_index_uncommitted", found="fragment_ids"
        )
    _, fragments, rows = rows_to_index(snapshot, request, observer)
    first = (fragments[0] if fragments else 0) << _LOCAL_BITS
    writer = SegmentWriter(snapshot.storage, request.uuid, sync=sync, subdirectory=STAGING, is_shared=True)
    try:
        stage_text(rows, request.parameters, writer, first)
        writer.finish()
    except BaseException:
        writer.discard()
        raise


def merge_partitions(
    snapshot: Snapshot, kind: str, uuid: UUID, *, observer: Observer = unobserved, sync: bool = True
) -> list[table_pb2.IndexFile]:
    """Make a segment of the staged partitions of a full text index. Repeating it does no harm.

    Args:
        snapshot: A version of the table.
        kind: Kind of the index.
        uuid: Uuid of the segment.
        observer: Is told the progress.
        sync: On local disks make the files durable before returning.

    Returns:
        The files of the segment, for the manifest.

    Raises:
        InvalidInputError: Indices of this kind are not built in one directory, there are no partitions, or
            they were built with different options.
        UnsupportedFeatureError: There is no such kind.
        LanceError: Files cannot be read or written. The staged partitions stay.
    """
    if kind_named(kind) is not _TEXT:
        raise InvalidInputError(
            f"{kind.upper()} distributed indexing no longer supports merge_index_metadata; "
            "use create_index_uncommitted and commit_existing_index_segments"
        )
    files = SegmentFiles(snapshot.storage, f"{DIRECTORY}/{uuid}")
    writer = SegmentWriter(snapshot.storage, uuid, sync=sync, is_shared=True)
    if files.names(STAGING) or not files.has(METADATA_FILE):
        try:
            merge_staged_text(files, writer, observer)
            writer.finish()
        except BaseException:
            writer.discard()
            raise
        snapshot.storage.delete_directory(f"{files.directory}/{STAGING}")
    listed = snapshot.storage.list_files(files.directory)
    return [table_pb2.IndexFile(path=basename(file.path), size_bytes=file.size) for file in listed]
