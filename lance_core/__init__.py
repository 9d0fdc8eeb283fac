"""The Lance columnar format: datasets read and written, with the names of the reference library."""

from importlib import import_module
from typing import TYPE_CHECKING

from lance_core.api.dataset import LanceDataset, dataset
from lance_core.api.fragment import LanceFragment
from lance_core.errors import (
    CommitConflictError,
    CommitUnknownError,
    CorruptFileError,
    DatasetExistsError,
    DatasetNotFoundError,
    IndexNotFoundError,
    InvalidInputError,
    LanceError,
    RefConflictError,
    RefNotFoundError,
    StorageError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lance_core.scan.scanner import LanceScanner, cache_stats, set_cache_directory
from lance_core.scan.session import Session
from lance_core.table.bases import DatasetBasePath

if TYPE_CHECKING:
    from lance_core.api.operations import LanceOperation, Transaction
    from lance_core.api.udf import BatchUDF, batch_udf
    from lance_core.api.write import write_dataset
    from lance_core.version import __version__
    from lance_core.write.fragments import FragmentWriteProgress

__all__ = [
    "BatchUDF",
    "CommitConflictError",
    "CommitUnknownError",
    "CorruptFileError",
    "DatasetBasePath",
    "DatasetExistsError",
    "DatasetNotFoundError",
    "FragmentWriteProgress",
    "IndexNotFoundError",
    "InvalidInputError",
    "LanceDataset",
    "LanceError",
    "LanceFragment",
    "LanceOperation",
    "LanceScanner",
    "RefConflictError",
    "RefNotFoundError",
    "Session",
    "StorageError",
    "Transaction",
    "UnsupportedFeatureError",
    "VersionNotFoundError",
    "__version__",
    "batch_udf",
    "cache_stats",
    "dataset",
    "set_cache_directory",
    "write_dataset",
]

# Most processes only read, and start sooner without the rest: it is imported when it is asked for.
_LATE = {
    "BatchUDF": "lance_core.api.udf",
    "__version__": "lance_core.version",
    "batch_udf": "lance_core.api.udf",
    "FragmentWriteProgress": "lance_core.write.fragments",
    "LanceOperation": "lance_core.api.operations",
    "Transaction": "lance_core.api.operations",
    "write_dataset": "lance_core.api.write",
}


def __getattr__(name: str) -> object:
    module = _LATE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
