"""Client of the servers of one folder of datasets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
from pyarrow import flight

from flight_client.actions import Actions
from flight_client.errors import InvalidInputError
from flight_client.listing import DatasetSummary, Listing
from flight_client.network.connection import Access, Connection
from flight_client.network.connections import Connections
from flight_client.network.credentials import Proof
from flight_client.network.endpoints import read_endpoint
from flight_client.network.received_memory import keep_received_memory
from flight_client.reading.opening import open_snapshot
from flight_client.reading.scanner import ReadOptions, Snapshot
from flight_client.writing.writes import Writes

if TYPE_CHECKING:
    from flight_client.dataset import RemoteDataset


def connect(
    uri: str | Sequence[str],
    *,
    token: str | None = None,
    token_file: str | Path | None = None,
    username: str | None = None,
    password: str | None = None,
    tls_root_certs: bytes | str | Path | None = None,
    cert_chain: bytes | str | Path | None = None,
    private_key: bytes | str | Path | None = None,
    override_hostname: str | None = None,
    disable_server_verification: bool = False,
    headers: Mapping[str, str] | None = None,
    timeout: float | None = None,
    attempts: int = 5,
    patience: float = 60.0,
    parallel: int | None = None,
    max_read_bytes: int = 64 << 20,
) -> Client:
    """Return a client of a server. Nothing is sent before it is needed.

    From the first call on, glibc keeps more freed memory in this process: see
    `flight_client.network.received_memory`.

    Args:
        uri: `grpc://host:port` or `grpc+tls://host:port`; or several servers of the same datasets. Calls go
            to the first server that answers.
        token: token for the header `authorization: Bearer`.
        token_file: file with the token. It is read again when it changes or when a server refuses the token.
        username, password: sent with the first call. The server answers with a token for the next calls.
        tls_root_certs: certificates that servers are checked with, PEM or a path; those of the system if
            None.
        cert_chain, private_key: certificate and key of the client, PEM or a path, for servers that require
            them.
        override_hostname: name that the certificate of the server must have, if not that in the address.
        disable_server_verification: accept every certificate. Whoever answers in place of the server then
            gets the credentials.
        headers: headers of every call.
        timeout: seconds that a call may take; streams have no limit.
        attempts: largest number of attempts of a call that can be repeated.
        patience: seconds that a call waits in all for servers that are busy. A busy server says when to come
            back; the client waits that long and a random time more, and such an attempt does not count.
        parallel: number of parallel streams in a read. If None, the number of cores, but at least 2 and at
            most 4.
        max_read_bytes: bytes of batches that are received before the caller asks for them. The process uses
            about twice as much memory for them, and up to 10 MiB per stream for gRPC.

    Raises:
        InvalidInputError: an argument is invalid, or a file that it names cannot be read.
    """
    keep_received_memory()
    access = Access(
        proof=Proof(token, None if token_file is None else str(token_file), username, password),
        tls_root_certs=_pem("tls_root_certs", tls_root_certs),
        cert_chain=_pem("cert_chain", cert_chain),
        private_key=_pem("private_key", private_key),
        override_hostname=override_hostname,
        disable_server_verification=disable_server_verification,
        headers=tuple((name.lower(), value) for name, value in (headers or {}).items()),
        timeout=timeout,
        attempts=attempts,
        patience=patience,
    )
    uris = [uri] if isinstance(uri, str) else list(uri)
    options = ReadOptions(max_bytes=max_read_bytes)
    return Client(
        Connections(uris, access), options if parallel is None else replace(options, parallel=parallel)
    )


class Client(Actions, Writes):
    """Client of one server, or of several servers of the same folder. Can be pickled, and used by many
    threads.
    """

    def __init__(self, connections: Connections, options: ReadOptions) -> None:
        """Use `connect`."""
        self._connections = connections
        self._options = options

    def __reduce__(self) -> tuple[Any, ...]:
        return Client, (self._connections, self._options)

    def __repr__(self) -> str:
        return f"Client({', '.join(self._connections.uris)})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. They open again when they are needed."""
        self._connections.close()

    def datasets(self, pattern: str | None = None) -> Listing:
        """Return all datasets, or those whose names match a glob."""

        def run(connection: Connection) -> list[flight.FlightInfo]:
            return list(connection.client.list_flights((pattern or "").encode(), connection.options()))

        return Listing(DatasetSummary.of(info) for info in self._connections.call(run))

    def dataset(
        self,
        name: str,
        version: int | str | None = None,
        *,
        branch: str | None = None,
        asof: str | datetime | None = None,
    ) -> RemoteDataset:
        """Open a dataset: its latest version, or a given one.

        Arguments and errors are those of `snapshot`.
        """
        from flight_client.dataset import RemoteDataset

        return RemoteDataset(self.snapshot(name, version, branch=branch, asof=asof))

    def snapshot(
        self,
        name: str,
        version: int | str | None = None,
        *,
        branch: str | None = None,
        asof: str | datetime | None = None,
    ) -> Snapshot:
        """Return a version of a dataset, for engines that plan and distribute their reads themselves.

        Args:
            name: name on the server, perhaps with a version: `trips@12`, `trips@gold`, `trips@dev:12`.
            version: number of the version, or name of a tag.
            branch: branch of the dataset.
            asof: ISO 8601 time; the last version before it. UTC unless it has an offset.

        Raises:
            DatasetNotFoundError: the dataset, version, tag or branch does not exist.
        """
        return open_snapshot(self._connections, self._options, name, version, branch=branch, asof=asof)

    def read_endpoint(self, endpoint: flight.FlightEndpoint, first: int = 0) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one endpoint without opening its dataset, see `RemoteDataset.read_endpoint`."""
        return read_endpoint(self._connections, endpoint, first)


def _pem(name: str, given: bytes | str | Path | None) -> bytes | None:
    """Return PEM text, or the content of the file that a path names; `name` is the name of the argument."""
    if given is None or isinstance(given, bytes):
        return given
    if isinstance(given, str) and "-----BEGIN" in given:
        return given.encode()
    try:
        return Path(given).read_bytes()
    except OSError as error:
        raise InvalidInputError(f"{name}: {error}") from None
