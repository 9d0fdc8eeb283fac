"""The part of a dataset's interface that changes its columns.

Most processes only read, and start sooner without what writes: it is imported when it is first needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_core.api.opened import OpenedDataset
from lance_core.errors import InvalidInputError
from lance_core.schema.paths import check_names

if TYPE_CHECKING:
    from lance_core.changes.columns.column_sources import ColumnSource


class ColumnChanges(OpenedDataset):
    """Columns added, removed and changed. Each method makes a version and moves to it."""

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
                `lance_core.batch_udf`); rows that can be written, one for every row of the dataset
                and in its order; or, for columns of nulls, which need no data: types by name, a field,
                fields or a schema.
            read_columns: what the function gets, `_rowid` and `_rowaddr` included; all columns if not given.
            reader_schema: what an iterable of batches is turned into.
            batch_size: most rows that the function gets, or that an expression is computed of, at once.
            transaction_id: a UUID that the transaction gets as its own id.
            sync: on local disks make everything durable before returning.

        Raises:
            InvalidInputError: a column exists already, an expression cannot be used, or there is not one
                value per row.
            UnsupportedFeatureError: a type that the dataset cannot hold.
            CommitConflictError: another commit made it impossible.
        """
        from lance_core.changes.columns.add import add_columns, add_null_columns

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
        self._snapshot = add_columns(self.snapshot, source, transaction_id=transaction_id, sync=sync)

    def drop_columns(
        self, columns: list[str], *, transaction_id: str | None = None, sync: bool = True
    ) -> None:
        """Remove columns, or children of structs, given by their dotted paths, and the indices on them.

        Data stays in the files; compaction leaves it out.

        Raises:
            InvalidInputError: there is no such column, or none would be left.
            TypeError: not a list of names.
            CommitConflictError: another commit made it impossible.
        """
        from lance_core.changes.columns.drop import drop_columns

        check_names("columns", columns)
        self._snapshot = drop_columns(self.snapshot, columns, transaction_id=transaction_id, sync=sync)

    def alter_columns(
        self, *alterations: Mapping[str, Any], transaction_id: str | None = None, sync: bool = True
    ) -> None:
        """Change names, types and nullability.

        Args:
            alterations: dicts with `path`, and what changes: `name`, `nullable`, `data_type` (a type of
                Arrow, or its name as in a CAST). Integers can become other integers, floats other floats, and
                so on; all values have to fit.
            transaction_id: a UUID that the transaction gets as its own id.
            sync: on local disks make everything durable before returning.

        Raises:
            InvalidInputError: there is no such column, a name is taken, values do not fit the type, or a
                column with nulls is to allow none.
            CommitConflictError: another commit made it impossible.
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
        """Add the columns of other rows that have the same key, and nulls where there are none.

        Args:
            data_obj: rows that can be written; they are held in memory.
            left_on: the key in the dataset, `_rowid` and `_rowaddr` included.
            right_on: the key in `data_obj`; the same name if not given. Of equal keys the last row counts.
            schema: what an iterable of batches is turned into.
            transaction_id: a UUID that the transaction gets as its own id.
            sync: on local disks make everything durable before returning.

        Raises:
            InvalidInputError: there is no such key, keys have different types, or a column exists already.
            CommitConflictError: another commit made it impossible.
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
    """Return the argument of `add_columns` as a source of values.

    Raises:
        InvalidInputError: an iterable of batches without a schema.
        TypeError: something else, expressions that are no text, or `read_columns` that is not a list.
    """
    from lance_core.api.udf import BatchUDF
    from lance_core.changes.columns.column_sources import ExpressionColumns, FunctionColumns, StreamColumns
    from lance_core.write.batch_sources import batches_of

    if read_columns is not None:
        check_names("read_columns", read_columns)
    if isinstance(transforms, dict) and all(isinstance(value, str) for value in transforms.values()):
        return ExpressionColumns(transforms, batch_size)
    if isinstance(transforms, BatchUDF):
        return FunctionColumns(transforms.func, read_columns, transforms.output_schema, batch_size)
    if callable(transforms):
        return FunctionColumns(transforms, read_columns, None, batch_size)
    if isinstance(transforms, dict):
        raise InvalidInputError("expressions must be SQL text, or all of them types", found=transforms)
    return StreamColumns(*batches_of(transforms, reader_schema))


def _are_types(given: dict[str, Any]) -> bool:
    return bool(given) and all(isinstance(each, pa.DataType) for each in given.values())


def table_of(data: Any, schema: pa.Schema | None) -> pa.Table:
    """Everything that can be written as one table."""
    from lance_core.write.batch_sources import batches_of

    given, batches = batches_of(data, schema)
    return pa.Table.from_batches(batches, given)
