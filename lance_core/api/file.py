"""Single data files without a dataset, with the names and arguments of the reference library."""

from lance_core.api.file_metadata import (
    LanceBufferDescriptor,
    LanceColumnMetadata,
    LanceColumnStatistics,
    LanceFileMetadata,
    LanceFileStatistics,
    LancePageMetadata,
)
from lance_core.api.file_session import LanceFileSession, ListResult
from lance_core.api.file_streams import LanceFileReader, LanceFileWriter, ReaderResults
from lance_core.write.dataset_options import STABLE

__all__ = [
    "LanceBufferDescriptor",
    "LanceColumnMetadata",
    "LanceColumnStatistics",
    "LanceFileMetadata",
    "LanceFileReader",
    "LanceFileSession",
    "LanceFileStatistics",
    "LanceFileWriter",
    "LancePageMetadata",
    "ListResult",
    "ReaderResults",
    "stable_version",
]


def stable_version() -> str:
    """Return the version of new data files, such as "2.2"."""
    return STABLE.name
