"""The Lance columnar format: datasets opened and read, with the names of the reference library."""

from importlib.metadata import PackageNotFoundError, version

from lance_core.dataset import LanceDataset, dataset
from lance_core.errors import (
    CommitConflictError,
    CommitUnknownError,
    CorruptFileError,
    DatasetExistsError,
    DatasetNotFoundError,
    InvalidInputError,
    LanceError,
    RefNotFoundError,
    StorageError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lance_core.fragment import LanceFragment
from lance_core.scan.scanner import LanceScanner
from lance_core.table.bases import DatasetBasePath

try:
    __version__ = version("lance-flight")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+unknown"

__all__ = [
    "CommitConflictError",
    "CommitUnknownError",
    "CorruptFileError",
    "DatasetBasePath",
    "DatasetExistsError",
    "DatasetNotFoundError",
    "InvalidInputError",
    "LanceDataset",
    "LanceError",
    "LanceFragment",
    "LanceScanner",
    "RefNotFoundError",
    "StorageError",
    "UnsupportedFeatureError",
    "VersionNotFoundError",
    "__version__",
    "dataset",
]
