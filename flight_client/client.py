"""What a user holds: a client of the servers of one folder of datasets."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import pyarrow as pa
from pyarrow import flight

from flight_client.actions import Actions
from flight_client.connection import Access, Server, Servers
from flight_client.endpoints import read_endpoint
from flight_client.errors import InvalidInputError
from flight_client.listing import DatasetSummary, Listing
from flight_client.progress import Progress
from flight_client.scanner import ReadOptions, Snapshot, Target
from flight_client.staged import MergeResult, WriteResult, abort, commit, stage, write_in_parallel
from flight_client.upload import Mode, rows_of, upload

if TYPE_CHECKING:
    from flight_client.dataset import RemoteDataset


def connect(
    uri: str | Sequence[str],
    *,
    token: str | None = None,
    tls_root_certs: bytes | str | Path | None = None,
    cert_chain: bytes | str | Path | None = None,
    private_key: bytes | str | Path | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float | None = None,
    attempts: int = 5,
    parallel: int | None = None,
    max_read_bytes: int = 64 << 20,
) -> Client:
    """A client of a server. Nothing is sent before it is needed.

    Args:
        uri: `grpc://host:port`, `grpc+tls://host:port`; or several servers of the same datasets, of which the
            first is asked unless it does not answer.
        token: sent as `authorization: Bearer`.
        tls_root_certs: certificates that servers are checked with, PEM or a path; those of the system if
            None.
        cert_chain, private_key: the client's own certificate, PEM or a path, where servers ask for one.
        headers: sent with every call.
        timeout: seconds that a call that is no stream may take.
        attempts: how often a call is made that can be repeated.
        parallel: streams at the same time when a dataset is read; as many as cores if None, from 2 to 4.
        max_read_bytes: of batches that were received ahead of who reads them.

    Raises:
        InvalidInputError: an argument makes no sense, or a file that it names cannot be read.
    """
    access = Access(
        token=token,
        tls_root_certs=_pem("tls_root_certs", tls_root_certs),
        cert_chain=_pem("cert_chain", cert_chain),
        private_key=_pem("private_key", private_key),
        headers=tuple((name.lower(), value) for name, value in (headers or {}).items()),
        timeout=timeout,
        attempts=attempts,
    )
    uris = [uri] if isinstance(uri, str) else list(uri)
    options = ReadOptions(max_bytes=max_read_bytes)
    return Client(Servers(uris, access), options if parallel is None else replace(options, parallel=parallel))


class Client(Actions):
    """Datasets of one server, or of several servers of the same folder. For many threads; can be pickled."""

    def __init__(self, servers: Servers, options: ReadOptions) -> None:
        """Use `connect`."""
        self._servers = servers
        self._options = options

    def __reduce__(self) -> tuple[Any, ...]:
        return Client, (self._servers, self._options)

    def __repr__(self) -> str:
        return f"Client({', '.join(self._servers.uris)})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; they open again when they are needed."""
        self._servers.close()

    def datasets(self, pattern: str | None = None) -> Listing:
        """All datasets, or those whose names match a glob."""

        def run(server: Server) -> list[flight.FlightInfo]:
            return list(server.client.list_flights((pattern or "").encode(), server.options()))

        return Listing(DatasetSummary.of(info) for info in self._servers.call(run))

    def dataset(
        self,
        name: str,
        version: int | str | None = None,
        *,
        branch: str | None = None,
        asof: str | None = None,
    ) -> RemoteDataset:
        """Open a dataset: its latest version, or the one that is asked for.

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
        asof: str | None = None,
    ) -> Snapshot:
        """A version of a dataset for engines that plan and spread their reads themselves.

        Args:
            name: as the server lists it; an ending `@12`, `@gold` or `@dev:12` names a version, too.
            version: its number, or the name of a tag.
            branch: a branch of the dataset.
            asof: ISO 8601: the last version before this time.

        Raises:
            DatasetNotFoundError: there is no such dataset, version, tag or branch.
        """
        if not isinstance(version, int | str | None) or isinstance(version, bool):
            raise InvalidInputError(f"version: a number or a tag expected, {version!r} given")
        body = {
            "dataset": name,
            "version": version if isinstance(version, int) else None,
            "tag": version if isinstance(version, str) else None,
            "branch": branch,
            "asof": asof,
        }
        described = self.action("describe", body, repeat=True)
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(described["schema"])))
        target = Target(described["dataset"], described["version"], described["branch"])
        return Snapshot(self._servers, target, schema, described["rows"], self._options)

    def read_endpoint(self, endpoint: flight.FlightEndpoint, first: int = 0) -> Iterator[pa.RecordBatch]:
        """The rows of one endpoint, see `RemoteDataset.read_endpoint`; the dataset need not be opened."""
        return read_endpoint(self._servers, endpoint, first)

    def write(
        self,
        name: str,
        data: Any,
        mode: Mode = "append",
        *,
        schema: pa.Schema | None = None,
        progress: bool | None = None,
        **fields: Any,
    ) -> WriteResult:
        """Write rows as a new version of a dataset: all of them, or none.

        Args:
            name: of the dataset, perhaps with a branch: `name@dev`.
            data: a table, batch, reader, dataset or scanner of Arrow, a pandas or Polars frame, columns as a
                dict, rows as a list of dicts, anything with `__arrow_c_stream__`, or batches together with
                `schema`.
            mode: "append", "create" or "overwrite".
            schema: what frames, dicts and batches are turned into.
            progress: show a bar; None shows one on terminals when it takes longer.
            **fields: the other fields of a write command, see the protocol: `data_storage_version`,
                `max_rows_per_file`, `enable_stable_row_ids`, `transaction_id`, `properties`, ...

        Raises:
            LanceError: what the server reported; nothing was written.
            CommitUnknownError: the connection broke when the server was about to commit.
        """
        answer = upload(self._servers, name, data, mode, schema=schema, progress=progress, fields=fields)
        return WriteResult(**answer["result"])

    def merge_insert(
        self,
        name: str,
        data: Any,
        on: str | Sequence[str] | None = None,
        *,
        progress: bool | None = None,
        **fields: Any,
    ) -> MergeResult:
        """Update or delete the rows that rows of `data` match, insert those that are new, as one version.

        Args:
            name, data, progress: see `write`.
            on: columns whose values make rows match; the primary key of the table if not given.
            **fields: `when_matched` ("update_all", "do_nothing", "fail", "delete"), `when_matched_condition`,
                `when_not_matched` ("insert_all", "do_nothing"), `when_not_matched_by_source` ("keep",
                "delete"), `when_not_matched_by_source_condition`, `transaction_id`, `properties`.

        Raises:
            LanceError: what the server reported; nothing was changed.
        """
        fields["on"] = [on] if isinstance(on, str) else on if on is None else list(on)
        answer = upload(
            self._servers, name, data, "merge_insert", schema=None, progress=progress, fields=fields
        )
        return MergeResult(**answer["result"])

    def write_parallel(
        self,
        name: str,
        data: Any,
        mode: Literal["append", "overwrite"] = "append",
        *,
        parallel: int = 4,
        progress: bool | None = None,
        **fields: Any,
    ) -> int:
        """Write rows in memory with several streams as one version; its number.

        Args:
            name, data, **fields: see `write`.
            mode: "append" or "overwrite", which makes a dataset that is not there.
            parallel: streams at the same time.
            progress: see `write`.

        Raises:
            LanceError: what a server reported; nothing was written.
        """
        if mode not in ("append", "overwrite"):
            raise InvalidInputError(f"mode: append or overwrite expected for parallel writes, {mode!r} given")
        rows = rows_of(data, None)
        table = pa.Table.from_batches(rows.batches(), rows.schema)
        with Progress.of_rows(f"write {name}", table.num_rows, progress) as bar:
            return write_in_parallel(self._servers, name, table, mode, parallel, fields, bar)

    def stage(
        self, name: str, data: Any, mode: Mode = "append", *, schema: pa.Schema | None = None, **fields: Any
    ) -> list[str]:
        """Send rows for a commit to come; the receipts of their data files, which `commit` or `abort` takes.

        Args:
            name, data, mode, schema, **fields: see `write`.
        """
        return stage(self._servers, name, data, mode, schema=schema, fields=fields)

    def commit(self, name: str, receipts: Sequence[str], operation: Mode = "append", **fields: Any) -> int:
        """Make one version out of the receipts of any number of clients; its number.

        Args:
            name: of the dataset.
            receipts: what `stage` returned, in the order in which the rows are to come.
            operation: the mode with which they were staged.
            **fields: `branch`, `read_version`, `transaction_id`, `properties`, `stream`.

        Raises:
            CommitConflictError: a receipt is used already, or another version makes this one impossible.
            CommitUnknownError: nobody can say whether the version was made; the same call with the same
                `transaction_id` finds out.
        """
        return commit(self._servers, name, receipts, operation, **fields)

    def abort(self, name: str, receipts: Sequence[str], *, branch: str | None = None) -> int:
        """Remove staged rows that are not to be committed; how many receipts there were."""
        return abort(self._servers, name, receipts, branch)


def _pem(name: str, given: bytes | str | Path | None) -> bytes | None:
    """PEM text, or the content of the file that a path names; `name` is that of the argument."""
    if given is None or isinstance(given, bytes):
        return given
    if isinstance(given, str) and "-----BEGIN" in given:
        return given.encode()
    try:
        return Path(given).read_bytes()
    except OSError as error:
        raise InvalidInputError(f"{name}: {error}") from None
