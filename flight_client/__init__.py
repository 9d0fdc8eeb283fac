"""Client of a lance-flight server: datasets over Arrow Flight for Python, DuckDB, Polars and pandas.

    import flight_client

    client = flight_client.connect("grpc://127.0.0.1:8815")
    trips = client.dataset("trips")
    trips.to_table(columns=["distance"], filter="distance > 10")

It needs neither Lance nor access to the storage.
"""

from flight_client.client import Client, connect
from flight_client.dataset import RemoteDataset
from flight_client.errors import (
    CommitConflictError,
    CommitUnknownError,
    CorruptFileError,
    DatasetExistsError,
    DatasetNotFoundError,
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
from flight_client.lookup import Lookup
from flight_client.scanner import RemoteScanner
from flight_client.staged import MergeResult, WriteResult

__all__ = [
    "Client",
    "CommitConflictError",
    "CommitUnknownError",
    "CorruptFileError",
    "DatasetExistsError",
    "DatasetNotFoundError",
    "DatasetSummary",
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
    "StorageError",
    "UnavailableError",
    "UnsupportedFeatureError",
    "VersionNotFoundError",
    "WriteResult",
    "connect",
]
