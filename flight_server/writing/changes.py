"""Changes of datasets: each makes one version, or creates or drops a dataset. Free of Flight types."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from flight_server.catalog.local import Catalog
from flight_server.requests.names import DatasetReference
from flight_server.requests.write_command import WriteCommand
from flight_server.writing.column_puts import put_columns
from flight_server.writing.row_options import row_mode, write_options
from flight_server.writing.targets import Targets
from flight_server.writing.uploads import Batches, NoRows
from lance_core.api.serving import (
    Alteration,
    DatasetWriter,
    ExpressionColumns,
    IndexRequest,
    Snapshot,
    Written,
    add_columns,
    add_null_columns,
    alter_columns,
    clone_table,
    create_index,
    delete_rows,
    drop_columns,
    drop_index,
    find_written,
    merge_stream,
    optimize_indices,
    restore_version,
    update_rows,
    update_settings,
    written_by,
)
from lance_core.errors import DatasetExistsError, InvalidInputError

OPERATIONS: Mapping[str, Collection[str]] = {
    "create": ("overwrite",),
    "append": ("append",),
    "overwrite": ("overwrite",),
    "merge_insert": ("update",),
    "add_columns": ("merge",),
    "replace_columns": ("data_replacement",),
    "rewrite": ("rewrite",),
    "create_index": ("create_index",),
}
"""Operations of transactions, by the mode of an upload and the operation of a commit; see `find_written`."""

_STORED_FORM = ("lance-encoding:blob", "lance-encoding:packed", "packed")
"""Metadata of fields that tell in which form data files hold the values."""


@dataclass(frozen=True)
class Changed:
    """Version that a change of rows made, and the number of rows that it changed."""

    version: int
    rows: int


class Changes:
    """Changes to the datasets of one catalog. Thread-safe.

    A `transaction_id` that was committed before is not committed again: its first result is returned. Errors
    of `Targets.target` apply to every method.
    """

    def __init__(self, catalog: Catalog, targets: Targets) -> None:
        self._catalog = catalog
        self._targets = targets

    def put(self, command: WriteCommand, upload: Batches) -> Written:
        """Make a version of uploaded batches. No row is visible before the version is complete.

        Raises:
            DatasetNotFoundError: an append to a dataset or branch that does not exist.
            DatasetExistsError: the dataset was to be created, and exists.
            LanceError: the upload cannot be written; nothing was.
        """
        with self._targets.target(command.dataset, creates=command.creates) as target:
            storage, base = target.storage, target.snapshot
            earlier = find_written(storage, command.transaction_id, OPERATIONS[command.mode])
            if earlier is not None:
                for _ in upload.batches():
                    pass
                return earlier
            if base is not None and command.mode == "create":
                raise DatasetExistsError(f"dataset {command.dataset.name} exists")
            if base is not None and command.merge is not None:
                made = merge_stream(
                    base,
                    upload.batches(),
                    upload.schema,
                    command.merge,
                    transaction_id=command.transaction_id,
                )
                return written_by(storage, made.manifest)
            if base is not None and command.mode in ("add_columns", "replace_columns"):
                return put_columns(base, command, upload, self._targets.abandonable)
            mode = row_mode(command, base)
            with DatasetWriter(storage, upload.schema, mode, write_options(command), base=base) as writer:
                with self._targets.abandonable(writer):
                    for batch in upload.batches():
                        writer.write(batch)
                snapshot = writer.commit()
            return written_by(storage, snapshot.manifest)

    def create(self, command: WriteCommand, schema: pa.Schema) -> int:
        """Make a dataset without rows; errors are those of `put`."""
        return self.put(command, NoRows(schema)).version

    def clone(
        self, source: DatasetReference, target: DatasetReference, *, transaction_id: str | None = None
    ) -> int:
        """Make the dataset `target`, whose first version has the rows of a version of another dataset.

        No data is copied. The caller needs the right to read the whole source.

        Raises:
            DatasetNotFoundError: there is no such version.
            DatasetExistsError: another transaction made the dataset `target`.
        """
        readable = self._catalog.needing("read")
        with (
            self._targets.target(target, creates=True) as made,
            self._targets.of(readable).opened(DatasetReference(source.name)),
        ):
            if made.snapshot is None:
                cloned = clone_table(readable.open(source), made.storage, transaction_id=transaction_id)
                return cloned.manifest.version
            earlier = find_written(made.storage, transaction_id, ("clone",))
            if earlier is None:
                raise DatasetExistsError(f"dataset {target.name} exists")
            return earlier.version

    def drop(self, name: str) -> None:
        """Remove a dataset; errors are those of `Targets.drop`."""
        self._targets.drop(name)

    def delete(
        self, reference: DatasetReference, predicate: str, *, transaction_id: str | None = None
    ) -> Changed:
        """Delete the rows that match `predicate`; errors are those of `delete_rows`."""
        with self._targets.opened(reference) as opened:
            made, rows = delete_rows(opened.snapshot, predicate, transaction_id=transaction_id)
        return Changed(made.manifest.version, rows)

    def update(
        self,
        reference: DatasetReference,
        updates: Mapping[str, str],
        where: str | None = None,
        *,
        transaction_id: str | None = None,
    ) -> Changed:
        """Write SQL values to columns of the rows that match `where`; errors are those of `update_rows`."""
        with self._targets.opened(reference) as opened:
            made, rows = update_rows(opened.snapshot, updates, where, transaction_id=transaction_id)
        return Changed(made.manifest.version, rows)

    def add_columns(
        self, reference: DatasetReference, columns: Mapping[str, str], *, transaction_id: str | None = None
    ) -> int:
        """Add columns that SQL computes from others; errors are those of `add_columns` of the core."""
        with self._targets.opened(reference) as opened:
            return _version(
                add_columns(opened.snapshot, ExpressionColumns(columns), transaction_id=transaction_id)
            )

    def add_null_columns(
        self, reference: DatasetReference, schema: pa.Schema, *, transaction_id: str | None = None
    ) -> int:
        """Add columns without values; errors are those of `add_null_columns` of the core."""
        with self._targets.opened(reference) as opened:
            return _version(add_null_columns(opened.snapshot, schema, transaction_id=transaction_id))

    def drop_columns(
        self, reference: DatasetReference, columns: Sequence[str], *, transaction_id: str | None = None
    ) -> int:
        """Remove columns; errors are those of `drop_columns` of the core."""
        with self._targets.opened(reference) as opened:
            return _version(drop_columns(opened.snapshot, columns, transaction_id=transaction_id))

    def alter_columns(
        self,
        reference: DatasetReference,
        alterations: Sequence[Alteration],
        *,
        transaction_id: str | None = None,
    ) -> int:
        """Change names, types and nullability; errors are those of `alter_columns` of the core."""
        with self._targets.opened(reference) as opened:
            return _version(alter_columns(opened.snapshot, alterations, transaction_id=transaction_id))

    def create_index(
        self,
        reference: DatasetReference,
        column: str,
        index_type: str,
        *,
        name: str | None = None,
        replace: bool = True,
        train: bool = True,
        parameters: Mapping[str, Any] | None = None,
        transaction_id: str | None = None,
    ) -> int:
        """Build an index on a column; errors are those of `create_index` of the core."""
        request = IndexRequest(column, index_type, name, train, parameters=parameters or {})
        with self._targets.opened(reference) as opened:
            return _version(
                create_index(
                    opened.snapshot, request, replace_existing=replace, transaction_id=transaction_id
                )
            )

    def optimize_indices(
        self,
        reference: DatasetReference,
        *,
        num_indices_to_merge: int | None = None,
        index_names: Sequence[str] | None = None,
        retrain: bool = False,
        transaction_id: str | None = None,
    ) -> int:
        """Let indices cover all rows; errors are those of `optimize_indices` of the core."""
        with self._targets.opened(reference) as opened:
            return _version(
                optimize_indices(
                    opened.snapshot,
                    num_indices_to_merge=num_indices_to_merge,
                    index_names=index_names,
                    retrain=retrain,
                    transaction_id=transaction_id,
                )
            )

    def drop_index(self, reference: DatasetReference, name: str, *, transaction_id: str | None = None) -> int:
        """Drop an index; errors are those of `drop_index` of the core."""
        with self._targets.opened(reference) as opened:
            return _version(drop_index(opened.snapshot, name, transaction_id=transaction_id))

    def update_settings(self, reference: DatasetReference, **changes: Any) -> int:
        """Change settings and metadata; arguments and errors are those of `update_settings` of the core.

        Raises:
            InvalidInputError: metadata of a field would give the stored values another form. Numbers that a
                client wrote would become places of blobs (threat T11).
        """
        for path, entries in (changes.get("field_metadata") or {}).items():
            for key, value in entries.items():
                is_type = key == "ARROW:extension:name" and (value or "").startswith("lance.")
                if key in _STORED_FORM or is_type:
                    raise InvalidInputError(
                        f"update_config.field_metadata: {key} belongs to the type of a field and cannot be "
                        "changed",
                        column=path,
                    )
        with self._targets.opened(reference) as opened:
            return _version(update_settings(opened.snapshot, **changes))

    def restore(self, reference: DatasetReference, version: int, *, transaction_id: str | None = None) -> int:
        """Make an older version the latest one again; errors are those of `restore_version`."""
        with self._targets.opened(reference):
            older = self._catalog.open(replace(reference, version=version))
            return _version(restore_version(older, transaction_id=transaction_id))


def _version(made: Snapshot) -> int:
    return made.manifest.version
