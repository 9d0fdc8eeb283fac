"""Methods of a client that write rows and columns, at once or staged for one commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import pyarrow as pa

from flight_client.errors import InvalidInputError
from flight_client.network.connections import Connections
from flight_client.progress import Progress
from flight_client.writing.staged_writes import (
    MergeResult,
    WriteResult,
    abort,
    commit,
    stage,
    write_in_parallel,
)
from flight_client.writing.upload import UploadMode, rows_of, upload


class Writes:
    """Methods of `Client` that upload rows and columns."""

    _connections: Connections

    def write(
        self,
        name: str,
        data: Any,
        mode: UploadMode = "append",
        *,
        schema: pa.Schema | None = None,
        progress: bool | None = None,
        **fields: Any,
    ) -> WriteResult:
        """Write rows as a new version of a dataset: all of them, or none.

        Args:
            name: name of the dataset, perhaps with a branch: `name@dev`.
            data: an Arrow table, batch, reader, dataset or scanner; a pandas or Polars frame; a dict of
                columns; a list of dicts; an object with `__arrow_c_stream__`; or an iterable of batches
                together with `schema`.
            mode: "append", "create" or "overwrite"; or "add_columns" with one row for each row of the
                dataset, in its order. For other orders see `merge_columns`. With "merge_insert", the fields
                and the result are those of `merge_insert`.
            schema: schema for frames, dicts and batches.
            progress: whether to show a progress bar; None shows one on terminals if the write takes long.
            **fields: other fields of a write command, see the protocol: `data_storage_version`,
                `max_rows_per_file`, `enable_stable_row_ids`, `transaction_id`, `properties`, ...

        Raises:
            LanceError: the server reported an error. Nothing was written.
            CommitUnknownError: the connection broke when the server was about to commit.
        """
        answer = upload(self._connections, name, data, mode, schema=schema, progress=progress, fields=fields)
        kind = MergeResult if mode == "merge_insert" else WriteResult
        return kind(**answer["result"])

    def merge_insert(
        self,
        name: str,
        data: Any,
        on: str | Sequence[str] | None = None,
        *,
        progress: bool | None = None,
        **fields: Any,
    ) -> MergeResult:
        """Update or delete the rows that match rows of `data`, and insert new rows, as one version.

        Args:
            name, data, progress: see `write`.
            on: columns whose values make rows match; the primary key of the table if None.
            **fields: `when_matched` ("update_all", "do_nothing", "fail", "delete"), `when_matched_condition`,
                `when_not_matched` ("insert_all", "do_nothing"), `when_not_matched_by_source` ("keep",
                "delete"), `when_not_matched_by_source_condition`, `transaction_id`, `properties`.

        Raises:
            LanceError: the server reported an error. Nothing was changed.
        """
        fields["on"] = [on] if isinstance(on, str) else on if on is None else list(on)
        answer = upload(
            self._connections, name, data, "merge_insert", schema=None, progress=progress, fields=fields
        )
        return MergeResult(**answer["result"])

    def merge_columns(
        self,
        name: str,
        data: Any,
        on: str | Sequence[str],
        *,
        progress: bool | None = None,
        **fields: Any,
    ) -> WriteResult:
        """Add the columns of `data` to the rows with the same keys, and nulls to all other rows.

        Args:
            name, data, progress: see `write`.
            on: keys: columns of both sides, or `_rowid` for a dataset with stable row ids. Nulls are equal.
                Of rows with equal keys in `data`, the last one counts.
            **fields: `branch`, `transaction_id`.

        Raises:
            LanceError: the server reported an error. Nothing was changed.
        """
        fields["on"] = [on] if isinstance(on, str) else list(on)
        return self.write(name, data, "add_columns", progress=progress, **fields)

    def replace_columns(
        self, name: str, data: Any, fragment_id: int, *, progress: bool | None = None, **fields: Any
    ) -> WriteResult:
        """Replace the values of columns in one fragment. To replace many fragments at once, use `stage` and
        `commit`.

        Args:
            name, progress: see `write`.
            data: one row for each row of the fragment in its order, deleted ones included (`physical_rows` of
                `fragments`): all columns of one of its data files, or columns without values so far.
            fragment_id: id of the fragment, see `fragments`.
            **fields: `branch`, `transaction_id`.

        Raises:
            CommitConflictError: another version moved rows of the fragment, or wrote the same columns.
            LanceError: the server reported an error. Nothing was changed.
        """
        return self.write(name, data, "replace_columns", progress=progress, fragment_id=fragment_id, **fields)

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
        """Write rows with several streams as one version, and return its number. The rows are held in memory.

        Args:
            name, data, **fields: see `write`.
            mode: "append" or "overwrite"; "overwrite" creates a missing dataset.
            parallel: number of parallel streams.
            progress: see `write`.

        Raises:
            LanceError: the server reported an error. Nothing was written.
        """
        if mode not in ("append", "overwrite"):
            raise InvalidInputError(f"mode: expected append or overwrite for parallel writes, found {mode!r}")
        rows = rows_of(data, None)
        table = pa.Table.from_batches(rows.batches(), rows.schema)
        with Progress.of_rows(f"write {name}", table.num_rows, progress) as bar:
            return write_in_parallel(self._connections, name, table, mode, parallel, fields, bar)

    def stage(
        self,
        name: str,
        data: Any,
        mode: UploadMode = "append",
        *,
        schema: pa.Schema | None = None,
        **fields: Any,
    ) -> list[str]:
        """Stage rows for a later commit, and return the receipts of their data files for `commit` or `abort`.

        Args:
            name, data, mode, schema, **fields: see `write`.
        """
        return stage(self._connections, name, data, mode, schema=schema, fields=fields)

    def commit(
        self, name: str, receipts: Sequence[str], operation: UploadMode = "append", **fields: Any
    ) -> int:
        """Make one version of the receipts of any number of clients, and return its number.

        Args:
            name: name of the dataset.
            receipts: receipts that `stage` returned, in the order of the rows.
            operation: mode with which the rows were staged.
            **fields: `branch`, `read_version`, `transaction_id`, `properties`, `stream`.

        Raises:
            CommitConflictError: a receipt is used already, or another version makes this one impossible.
            CommitUnknownError: it is unknown whether the version was made. The same call with the same
                `transaction_id` finds out.
        """
        return commit(self._connections, name, receipts, operation, **fields)

    def abort(self, name: str, receipts: Sequence[str], *, branch: str | None = None) -> int:
        """Remove staged rows that will not be committed, and return the number of receipts."""
        return abort(self._connections, name, receipts, branch)
