"""Writers of uploads that are staged: rows, new columns of a fragment, other values for its columns."""

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

import pyarrow as pa

from flight_server.requests.write_command import WriteCommand
from flight_server.writing.changes import Target, row_mode, write_options
from flight_server.writing.staging import StagedWrite
from lance_core.changes.columns.join import require_lasting_keys
from lance_core.changes.columns.replaced_columns import ReplacedColumns, ReplacedColumnsWriter
from lance_core.changes.columns.staged_columns import StagedColumnsWriter
from lance_core.commit.next_manifest import TableSettings
from lance_core.errors import UnsupportedFeatureError
from lance_core.file.footer import FileVersion
from lance_core.proto import table_pb2
from lance_core.proto.transaction_pb2 import Transaction
from lance_core.scan.read.columns import holds_dictionary
from lance_core.table.snapshot import Snapshot
from lance_core.table.transaction import data_replacement, new_transaction
from lance_core.write.dataset import DatasetWriter
from lance_core.write.fragments import DIRECTORY


class StagedWriter(Protocol):
    """Writes what is staged."""

    def write(self, batch: pa.RecordBatch) -> None: ...

    def staged(self) -> StagedWrite:
        """Complete the files."""

    def abort(self) -> None: ...


def staged_writer(target: Target, command: WriteCommand, schema: pa.Schema) -> StagedWriter:
    """Return the writer for the upload of a command; errors are those of the writers of `lance_core`."""
    if target.snapshot is None or command.fragment_id is None:
        return _RowWriter(target, command, schema)
    return _ColumnWriter(target.snapshot, command, command.fragment_id, schema)


class _RowWriter:
    """Rows that are added, or that are merged or joined when they are committed."""

    def __init__(self, target: Target, command: WriteCommand, schema: pa.Schema) -> None:
        if target.snapshot is not None and command.on:
            require_lasting_keys(target.snapshot.manifest, command.on)
        mode = row_mode(command, target.snapshot)
        options = write_options(command)
        self._command = command
        self._writer = DatasetWriter(target.storage, schema, mode, options, base=target.snapshot)
        self.write = self._writer.write
        self.abort = self._writer.abort
        if mode != "append" and self._writer.settings.file_version == FileVersion.V0_1:
            for field in schema:
                if holds_dictionary(field.type):  # whose values are in manifests, and in no file
                    raise UnsupportedFeatureError("staging dictionaries of 0.1 files", column=field.name)

    def staged(self) -> StagedWrite:
        command, transaction = self._command, self._writer.transaction()
        operation = str(transaction.WhichOneof("operation"))
        is_source = command.merge is not None or command.on
        return replace(
            _staged(
                command,
                command.mode if is_source else operation,
                transaction,
                files_of(getattr(transaction, operation).fragments),
            ),
            settings=self._writer.settings,
            merge=command.merge,
            on=command.on,
        )


class _ColumnWriter:
    """New columns, or other values for columns, of all rows of one fragment, deleted ones included."""

    def __init__(
        self, snapshot: Snapshot, command: WriteCommand, fragment_id: int, schema: pa.Schema
    ) -> None:
        self._command = command
        self._transaction = new_transaction(snapshot.manifest.version)
        kind = ReplacedColumnsWriter if command.mode == "replace_columns" else StagedColumnsWriter
        self._writer = kind(snapshot, fragment_id, schema)
        self.write = self._writer.write
        self.abort = self._writer.abort

    def staged(self) -> StagedWrite:
        columns, transaction = self._writer.finish(), self._transaction
        if isinstance(columns, ReplacedColumns):
            file = columns.file
            data_replacement(transaction, [(columns.fragment_id, file)])
        else:
            file = columns.fragment.files[-1]
            transaction.merge.fragments.append(columns.fragment)
            transaction.merge.schema.extend(columns.fields.fields)
        return _staged(self._command, self._command.mode, transaction, [_file(file)])


def files_of(fragments: Iterable[table_pb2.DataFragment]) -> tuple[tuple[str, int], ...]:
    """Return the data files of fragments, with their sizes in bytes."""
    return tuple(_file(file) for fragment in fragments for file in fragment.files)


def _file(file: table_pb2.DataFile) -> tuple[str, int]:
    return f"{DIRECTORY}/{file.path}", file.file_size_bytes


def _staged(
    command: WriteCommand, operation: str, transaction: Transaction, files: Iterable[tuple[str, int]]
) -> StagedWrite:
    return StagedWrite(
        operation=operation,
        branch=command.dataset.branch,
        transaction=transaction,
        settings=TableSettings(),
        files=tuple(files),
        staged_at=time.time(),
    )
