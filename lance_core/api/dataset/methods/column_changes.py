"""The part of a dataset's interface that changes its columns.

Most processes only read. They start sooner, since the code that changes columns is imported when it is first
used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Required, TypedDict

import pyarrow as pa

from lance_core.api.dataset.methods.opened import OpenedDataset
from lance_core.errors import InvalidInputError
from lance_core.schema.paths import check_names

if TYPE_CHECKING:
    from lance_core.changes.columns.column_sources import ColumnSource


class AlterColumn(TypedDict, total=False):
    """Change of one column; see `LanceDataset.alter_columns`. What is left out or None stays as it is."""

    path: Required[str]
    name: str | None
    nullable: bool | None
    data_type: pa.DataType | str | None


class ColumnChanges(OpenedDataset):
    """Methods that add, drop, alter and join columns. Each moves this object to the version that it makes."""

    def add_columns(
        self,
        transforms: Any,
        read_columns: list[str] | None = None,
        reader_schema: pa.Schema | None = None,
        batch_size: int | None = None,
        *,
        transaction_id: str | None = None,
        sync: bool = True,
    ) -> None:
        """Add columns to the dataset.

        Args:
            transforms: SQL expressions by name; a function from record batches to batches (see
                `lance_core.batch_udf`); any data that `write_dataset` takes, with one row per row of the
                dataset in dataset order; or for columns of nulls, without data: types by name, a field, a
                list of fields or a schema. Blobs may be files below base paths.
            read_columns: Columns that the function gets; `_rowid` and `_rowaddr` are possible. All columns if
                left out.
            reader_schema: Schema that an iterable of batches is converted to.
            batch_size: Largest number of rows that the function or an expression gets at once.
            transaction_id: UUID of the transaction.
            sync: On local disks make everything durable before returning.

        Raises:
            InvalidInputError: A column exists already, an expression is not valid, or there is not exactly
                one value per row.
            UnsupportedFeatureError: Files of the dataset's version cannot hold a type.
            CommitConflictError: Another commit is in conflict with this one.
        """
        from lance_core.api.udf import BatchUDF
        from lance_core.changes.columns.add import add_columns, add_null_columns
        from lance_core.file.external_blobs import ExternalBlobs

        if isinstance(transforms, pa.Field):
            transforms = [transforms]
        if isinstance(transforms, list) and transforms and isinstance(transforms[0], pa.Field):
            transforms = pa.schema(transforms)
        if isinstance(transforms, dict) and _are_types(transforms):
            transforms = pa.schema(transforms)
        if isinstance(transforms, pa.Schema):
            self._snapshot = add_null_columns(
                self.snapshot, transforms, transaction_id=transaction_id, sync=sync
            )
            return
        source = new_columns(transforms, read_columns, reader_schema, batch_size)
        self._snapshot = add_columns(
            self.snapshot,
            source,
            external_blobs=ExternalBlobs(in_bases=True),
            transaction_id=transaction_id,
            sync=sync,
        )
        if isinstance(transforms, BatchUDF) and transforms.checkpoints is not None:
            transforms.checkpoints.remove()

    def drop_columns(
        self, columns: list[str], *, transaction_id: str | None = None, sync: bool = True
    ) -> None:
        """Drop columns and the indices on them. A dotted path names a child of a struct.

        The data stays in the files until a compaction rewrites them.

        Raises:
            InvalidInputError: There is no such column, or no column would be left.
            TypeError: `columns` is no list of names.
            CommitConflictError: Another commit is in conflict with this one.
        """
        from lance_core.changes.columns.drop import drop_columns

        check_names("columns", columns)
        self._snapshot = drop_columns(self.snapshot, columns, transaction_id=transaction_id, sync=sync)

    def alter_columns(
        self,
        *alterations: AlterColumn | Mapping[str, Any],
        transaction_id: str | None = None,
        sync: bool = True,
    ) -> None:
        """Change names, types and nullability of columns.

        Args:
            alterations: Dicts with `path` and the new `name`, `nullable` or `data_type` (an Arrow type, or
                its name as in a CAST). Integers can become other integers, floats other floats, and so on;
                all values have to fit.
            transaction_id: UUID of the transaction.
            sync: On local disks make everything durable before returning.

        Raises:
            InvalidInputError: There is no such column, a name is taken, a value does not fit the type, or a
                column with nulls is made non-nullable.
            CommitConflictError: Another commit is in conflict with this one.
        """
        from lance_core.changes.columns.alter import Alteration, alter_columns

        parsed = [Alteration.parse(given) for given in alterations]
        self._snapshot = alter_columns(self.snapshot, parsed, transaction_id=transaction_id, sync=sync)

    def merge(
        self,
        data_obj: Any,
        left_on: str,
        right_on: str | None = None,
        schema: pa.Schema | None = None,
        *,
        transaction_id: str | None = None,
        sync: bool = True,
    ) -> None:
        """Join the columns of other rows to this dataset by key. Rows without a partner get nulls.

        Args:
            data_obj: Any data that `write_dataset` takes; held in memory.
            left_on: Key column of the dataset; `_rowid` and `_rowaddr` are possible.
            right_on: Key column of `data_obj`; the same name if left out. Of rows with equal keys the last
                one is used.
            schema: Schema that an iterable of batches is converted to.
            transaction_id: UUID of the transaction.
            sync: On local disks make everything durable before returning.

        Raises:
            InvalidInputError: There is no such key, keys have different types, or a column exists already.
            CommitConflictError: Another commit is in conflict with this one.
        """
        from lance_core.changes.columns.join import join_columns
        from lance_core.changes.source_rows import SourceRows

        with SourceRows(table_of(data_obj, schema)) as source:
            self._snapshot = join_columns(
                self.snapshot,
                source,
                [left_on],
                None if right_on is None else [right_on],
                transaction_id=transaction_id,
                sync=sync,
            )


def new_columns(
    transforms: Any,
    read_columns: list[str] | None = None,
    reader_schema: pa.Schema | None = None,
    batch_size: int | None = None,
) -> ColumnSource:
    """Return the source of values for the arguments of `LanceDataset.add_columns`.

    Raises:
        InvalidInputError: An iterable of batches comes without a schema, or a dict mixes expressions and
            types.
        TypeError: `transforms` has another type, or `read_columns` is no list of names.
    """
    from lance_core.api.udf import BatchUDF
    from lance_core.changes.columns.column_sources import ExpressionColumns, FunctionColumns, StreamColumns
    from lance_core.write.batch_sources import batches_of

    if read_columns is not None:
        check_names("read_columns", read_columns)
    if isinstance(transforms, dict) and all(isinstance(value, str) for value in transforms.values()):
        return ExpressionColumns(transforms, batch_size)
    if isinstance(transforms, BatchUDF):
        return FunctionColumns(
            transforms.func, read_columns, transforms.output_schema, batch_size, transforms.checkpoints
        )
    if callable(transforms):
        return FunctionColumns(transforms, read_columns, None, batch_size)
    if isinstance(transforms, dict):
        raise InvalidInputError(
            "values of the dict must all be SQL text, or all be Arrow types", found=transforms
        )
    return StreamColumns(*batches_of(transforms, reader_schema))


def _are_types(given: dict[str, Any]) -> bool:
    return bool(given) and all(isinstance(each, pa.DataType) for each in given.values())


def table_of(data: Any, schema: pa.Schema | None) -> pa.Table:
    """Return any data that `write_dataset` takes as one table."""
    from lance_core.write.batch_sources import batches_of

    given, batches = batches_of(data, schema)
    return pa.Table.from_batches(batches, given)
