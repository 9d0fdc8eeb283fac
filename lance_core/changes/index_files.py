"""Files of the index segments of a table."""

from uuid import UUID

from lance_core.index.segment_files import SegmentFiles
from lance_core.proto import table_pb2
from lance_core.table.indices import DIRECTORY
from lance_core.table.snapshot import Snapshot


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
