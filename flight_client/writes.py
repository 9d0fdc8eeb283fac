"""Writes of a client: rows, merges and columns, at once or staged for one commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import pyarrow as pa

from flight_client.connection import Servers
from flight_client.errors import InvalidInputError
from flight_client.progress import Progress
from flight_client.staged_writes import MergeResult, WriteResult, abort, commit, stage, write_in_parallel
from flight_client.upload import UploadMode, rows_of, upload


class Writes:
    """Uploads of rows and columns; see `Client`."""

    _servers: Servers

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
            name: of the dataset, perhaps with a branch: `name@dev`.
            data: a table, batch, reader, dataset or scanner of Arrow, a pandas or Polars frame, columns as a
                dict, rows as a list of dicts, anything with `__arrow_c_stream__`, or batches together with
                `schema`.
            mode: "append", "create" or "overwrite"; "add_columns" for one row per row of the dataset, in its
                order, see `merge_columns` for others.
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

    def merge_columns(
        self,
        name: str,
        data: Any,
        on: str | Sequence[str],
        *,
        progress: bool | None = None,
        **fields: Any,
    ) -> WriteResult:
        """Add the columns of `data` to the rows with the same keys, and nulls to all others.

        Args:
            name, data, progress: see `write`.
            on: the keys: columns of both sides, or `_rowid` of a dataset with stable row ids. Nulls are
                equal, and of equal keys in `data` the last row counts.
            **fields: `branch`, `transaction_id`.

        Raises:
            LanceError: what the server reported; nothing was changed.
        """
        fields["on"] = [on] if isinstance(on, str) else list(on)
        return self.write(name, data, "add_columns", progress=progress, **fields)

    def replace_columns(
        self, name: str, data: Any, fragment_id: int, *, progress: bool | None = None, **fields: Any
    ) -> WriteResult:
        """Give columns of one fragment other values; many fragments at once are staged and committed.

        Args:
            name, progress: see `write`.
            data: a row for each row of the fragment in its order, deleted ones included (`physical_rows` of
                `fragments`): all columns of one of its data files, or columns without any values so far.
            fragment_id: as `fragments` names it.
            **fields: `branch`, `transaction_id`.

        Raises:
            CommitConflictError: another version moved rows of the fragment, or wrote the same columns.
            LanceError: what the server reported; nothing was changed.
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
        self,
        name: str,
        data: Any,
        mode: UploadMode = "append",
        *,
        schema: pa.Schema | None = None,
        **fields: Any,
    ) -> list[str]:
        """Send rows for a commit to come; the receipts of their data files, which `commit` or `abort` takes.

        Args:
            name, data, mode, schema, **fields: see `write`.
        """
        return stage(self._servers, name, data, mode, schema=schema, fields=fields)

    def commit(
        self, name: str, receipts: Sequence[str], operation: UploadMode = "append", **fields: Any
    ) -> int:
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
