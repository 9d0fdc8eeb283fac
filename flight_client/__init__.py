"""Client of a lance-flight server: datasets over Arrow Flight for Python, DuckDB, Polars and pandas.

    import flight_client

    client = flight_client.connect("grpc://127.0.0.1:8815")
    trips = client.dataset("trips")
    trips.to_table(columns=["distance"], filter="distance > 10")

The client needs neither Lance nor access to the storage. Where to find things:

- `client`, `actions`, `listing`: the methods of `Client`
- `dataset`, `versions`: one dataset, as DuckDB, Polars and pandas use it
- `reading`: scans, searches, lookups and blobs of one version
- `writing`: uploads of rows, and commits of several uploads
- `network`: connections, retries, and streams that resume where they broke
"""

from typing import TYPE_CHECKING, Any

from flight_client.client import Client, connect
from flight_client.errors import (
    CommitConflictError,
    CommitUnknownError,
    CorruptFileError,
    DatasetExistsError,
    DatasetNotFoundError,
    IndexNotFoundError,
    InternalError,
    InvalidInputError,
    LanceError,
    NotAllowedError,
    NotAuthenticatedError,
    RefConflictError,
    RefNotFoundError,
    StorageError,
    UnavailableError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from flight_client.listing import DatasetSummary, Listing
from flight_client.network import pickling
from flight_client.network.received_memory import share_received_memory
from flight_client.reading.blobs import BlobFile
from flight_client.reading.lookup import Lookup
from flight_client.reading.ordering import ColumnOrdering, parse_orderings
from flight_client.reading.scanner import RemoteScanner, Selection, Snapshot
from flight_client.reading.searcher import Searcher
from flight_client.writing.staged_writes import MergeResult, WriteResult
from flight_client.writing.upload import UploadMode

if TYPE_CHECKING:
    from flight_client.dataset import RemoteDataset

__all__ = [
    "BlobFile",
    "Client",
    "ColumnOrdering",
    "CommitConflictError",
    "CommitUnknownError",
    "CorruptFileError",
    "DatasetExistsError",
    "DatasetNotFoundError",
    "DatasetSummary",
    "IndexNotFoundError",
    "InternalError",
    "InvalidInputError",
    "LanceError",
    "Listing",
    "Lookup",
    "MergeResult",
    "NotAllowedError",
    "NotAuthenticatedError",
    "RefConflictError",
    "RefNotFoundError",
    "RemoteDataset",
    "RemoteScanner",
    "Searcher",
    "Selection",
    "Snapshot",
    "StorageError",
    "UnavailableError",
    "UnsupportedFeatureError",
    "UploadMode",
    "VersionNotFoundError",
    "WriteResult",
    "connect",
    "parse_orderings",
    "share_received_memory",
]


pickling.register()


def __getattr__(name: str) -> Any:
    """Return `RemoteDataset` on first use, since its base class imports pandas."""
    if name == "RemoteDataset":
        from flight_client.dataset import RemoteDataset

        return RemoteDataset
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
