"""Single data files without a dataset, with the names and arguments of `lance.file`.

streams           readers and writers of one file
session           all files of one directory
metadata          descriptions of files as plain data
blob_descriptors  side files of blobs, and columns that describe the blobs in them
"""

from lance_core.api.file.metadata import (
    LanceBufferDescriptor,
    LanceColumnMetadata,
    LanceColumnStatistics,
    LanceFileMetadata,
    LanceFileStatistics,
    LancePageMetadata,
)
from lance_core.api.file.session import LanceFileSession, ListResult
from lance_core.api.file.streams import LanceFileReader, LanceFileWriter, ReaderResults
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
