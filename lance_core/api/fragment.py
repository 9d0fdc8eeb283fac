"""Fragments of a dataset as a caller holds them, with the names and arguments of the reference library."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Set
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyroaring import BitMap

from lance_core.api.column_changes import new_columns, table_of
from lance_core.api.fragment_metadata import (
    DataFile,
    DeletionFile,
    FragmentMetadata,
    RowDatasetVersionMeta,
    RowIdMeta,
)
from lance_core.api.fragment_session import FragmentSession
from lance_core.api.late import import_late
from lance_core.api.opened import OpenedDataset
from lance_core.errors import InvalidInputError
from lance_core.scan.plan.projection import ROW_ADDRESS
from lance_core.scan.scanner import LanceScanner, pandas_arguments, row_taker, scan_options
from lance_core.scan.take.keys import as_keys
from lance_core.table.fragment import MAX_ROWS, Fragment

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow.compute as pc

    from lance_core.api.progress import FragmentWriteProgress
    from lance_core.api.schema import LanceSchema
    from lance_core.api.write import write_fragments
    from lance_core.changes.columns.column_sources import ColumnSource
    from lance_core.write.dataset import Mode


__all__ = [
    "DataFile",
    "DeletionFile",
    "FragmentMetadata",
    "FragmentSession",
    "LanceFragment",
    "RowDatasetVersionMeta",
    "RowIdMeta",
    "write_fragments",
]

__getattr__ = import_late(__name__, {"write_fragments": "lance_core.api.write"})


class LanceFragment:
    """A fragment of one version of a dataset: a range of its rows."""

    def __init__(self, dataset: OpenedDataset, metadata: Fragment) -> None:
        self._dataset = dataset
        self._metadata = metadata

    @staticmethod
    def create(
        dataset_uri: str | PathLike[str],
        data: Any,
        fragment_id: int | None = None,
        schema: pa.Schema | None = None,
        max_rows_per_group: int | None = 1024,
        progress: FragmentWriteProgress | None = None,
        mode: Mode = "append",
        *,
        data_storage_version: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        sync: bool = True,
    ) -> FragmentMetadata:
        """Write all rows as one fragment, without a commit. `write_fragments` can make several fragments.

        Args:
            dataset_uri, data, schema, max_rows_per_group, progress: As for `write_fragments`.
            fragment_id: Id in the result. A commit of `LanceOperation.Append` replaces it.
            mode, data_storage_version, storage_options, sync: As for `write_fragments`.

        Raises:
            InvalidInputError: There are no rows.
            LanceError: The errors of `write_fragments`.
        """
        # Late: most processes only read.
        from lance_core.api.progress import with_fragment_id
        from lance_core.api.write import write_fragments

        written = write_fragments(
            data,
            dataset_uri,
            schema,
            mode=mode,
            max_rows_per_file=MAX_ROWS - 1,
            max_bytes_per_file=sys.maxsize,
            max_rows_per_group=max_rows_per_group,
            progress=with_fragment_id(progress, fragment_id),
            data_storage_version=data_storage_version,
            storage_options=storage_options,
            sync=sync,
        )
        if not isinstance(written, list) or len(written) != 1:
            raise InvalidInputError("a fragment needs rows", found="none")
        return written[0] if fragment_id is None else replace(written[0], id=fragment_id)

    @staticmethod
    def create_from_file(filename: str, dataset: OpenedDataset, fragment_id: int) -> FragmentMetadata:
        """Return the description of a fragment of one data file that exists already, without a commit.

        Columns of the file are matched with those of the dataset by name, in any order. Columns that the file
        lacks are null.

        Args:
            filename: Path of the file relative to `data/` of the dataset.
            dataset: The dataset.
            fragment_id: Id in the result. A commit of `LanceOperation.Append` replaces it.

        Raises:
            InvalidInputError: The file has another version than the dataset, no rows, a column that the
                dataset lacks or has with another type, or lacks a column that allows no null.
            LanceError: The file cannot be read.
        """
        from lance_core.table.stored_file import describe_stored_fragment  # late: most processes only read

        return FragmentMetadata.from_message(
            describe_stored_fragment(dataset.snapshot, filename, fragment_id)
        )

    def __repr__(self) -> str:
        return f"LanceFragment(id={self.fragment_id}, data_files={[file.path for file in self.data_files()]})"

    @property
    def fragment_id(self) -> int:
        """Id of the fragment. No later fragment of the dataset gets the same id."""
        return self._metadata.id

    @property
    def metadata(self) -> FragmentMetadata:
        """The description of this fragment in the manifest, as plain data."""
        return FragmentMetadata.from_message(self._metadata.message)

    @property
    def schema(self) -> pa.Schema:
        """Schema of the dataset, also if the files of this fragment lack some of its columns."""
        return self._dataset.schema

    @property
    def physical_rows(self) -> int:
        """Number of rows in the data files, deleted rows included."""
        return self._metadata.physical_rows

    @property
    def num_deletions(self) -> int:
        """Number of deleted rows."""
        return self._metadata.num_deleted_rows or 0

    def data_files(self) -> list[DataFile]:
        """Return the data files of this fragment.

        Paths are relative to `data/` of the dataset or base path.
        """
        return self.metadata.files

    def deletion_file(self) -> str | None:
        """Return the path of the deletion file, relative to the dataset or base path; None without one."""
        found = self._metadata.deletion_file
        return None if found is None else found.path

    def validate(self) -> None:
        """Check every file of this fragment; see `LanceDataset.validate`."""
        from lance_core.scan.validate import validate_snapshot  # late: most processes do without

        validate_snapshot(self._dataset.snapshot, [self._metadata])

    def merge_columns(
        self,
        value_func: Any,
        columns: list[str] | None = None,
        batch_size: int | None = None,
        reader_schema: pa.Schema | None = None,
    ) -> tuple[FragmentMetadata, LanceSchema]:
        """Write new columns of this fragment, without a commit.

        The arguments are those of `LanceDataset.add_columns`. A stream has one row per live row of this
        fragment.

        Returns:
            The fragment with the new file, and the schema of the dataset with the new columns, for
            `LanceOperation.Merge`.

        Raises:
            InvalidInputError: The function has a checkpoint file, which only `add_columns` of the dataset
                uses.
            LanceError: The errors of `LanceDataset.add_columns`.
        """
        from lance_core.api.udf import BatchUDF  # late: most processes only read

        if isinstance(value_func, BatchUDF) and value_func.checkpoints is not None:
            raise InvalidInputError(
                "A checkpoint file cannot be used with merge_columns of a fragment; use add_columns of the"
                " dataset, or keep what each call returns"
            )
        return self._add(new_columns(value_func, columns, reader_schema, batch_size))

    def merge(
        self, data_obj: Any, left_on: str, right_on: str | None = None, schema: pa.Schema | None = None
    ) -> tuple[FragmentMetadata, LanceSchema]:
        """Join columns of other rows to this fragment by key, without a commit.

        The arguments are those of `LanceDataset.merge`, the result is that of `merge_columns`.
        """
        from lance_core.changes.columns.join import JoinedColumns  # late: most processes only read
        from lance_core.changes.source_rows import SourceRows

        with SourceRows(table_of(data_obj, schema)) as source:
            return self._add(JoinedColumns(source, [left_on], None if right_on is None else [right_on]))

    def update_columns(
        self,
        data_obj: Any,
        left_on: str = "_rowid",
        right_on: str | None = None,
        schema: pa.Schema | None = None,
        *,
        with_offsets: bool = False,
    ) -> tuple[FragmentMetadata, list[int]] | tuple[FragmentMetadata, list[int], bytes]:
        """Write other values for columns of this fragment, without a commit.

        Args:
            data_obj: Keys and the columns that change; held in memory. Rows whose key is missing keep their
                values.
            left_on: Key column of the dataset; `_rowid` and `_rowaddr` are possible.
            right_on: Key column of `data_obj`; the same name if left out.
            schema: Schema that an iterable of batches is converted to.
            with_offsets: Also return which rows changed.

        Returns:
            The fragment with the new file, and the ids of the fields in this file, for
            `LanceOperation.Update`. With `with_offsets` also the physical offsets of the changed rows, as a
            portable Roaring bitmap.

        Raises:
            LanceError: The errors of `lance_core.changes.columns.update.update_columns`.
        """
        from lance_core.changes.columns.update import update_columns

        rows = table_of(data_obj, schema)
        updated = update_columns(self._dataset.snapshot, self._metadata, rows, left_on, right_on)
        fragment, fields = FragmentMetadata.from_message(updated.message), list(updated.fields_modified)
        if with_offsets:
            return fragment, fields, bytes(BitMap(updated.matched_offsets).serialize())
        return fragment, fields

    def _add(self, source: ColumnSource) -> tuple[FragmentMetadata, LanceSchema]:
        from lance_core.api.schema import LanceSchema  # late: most processes only read
        from lance_core.changes.columns.add import write_fragment_columns
        from lance_core.file.external_blobs import ExternalBlobs

        message, schema = write_fragment_columns(
            self._dataset.snapshot, self._metadata, source, external_blobs=ExternalBlobs(in_bases=True)
        )
        return FragmentMetadata.from_message(message), LanceSchema(schema)

    def count_rows(self, filter: Any = None) -> int:
        """Count live rows of this fragment; with a filter, those that match."""
        return self.scanner([], filter=filter).count_rows()

    def scanner(self, columns: list[str] | dict[str, str] | None = None, **arguments: Any) -> LanceScanner:
        """Return a scan of this fragment; arguments are those of `LanceDataset.scanner`."""
        snapshot = self._dataset.snapshot
        options = scan_options(snapshot.manifest.schema, columns, fragments=(self.fragment_id,), **arguments)
        return LanceScanner(snapshot, options)

    def to_table(
        self, columns: list[str] | dict[str, str] | None = None, filter: Any = None, **arguments: Any
    ) -> pa.Table:
        """Return the rows of this fragment at once; arguments are those of `scanner`."""
        return self.scanner(columns, filter=filter, **arguments).to_table()

    def to_batches(
        self, columns: list[str] | dict[str, str] | None = None, **arguments: Any
    ) -> Iterator[pa.RecordBatch]:
        """Return the rows of this fragment as batches; arguments are those of `scanner`."""
        return self.scanner(columns, **arguments).to_batches()

    def to_pandas(self, columns: list[str] | dict[str, str] | None = None, **arguments: Any) -> pd.DataFrame:
        """Return the rows of this fragment as a pandas frame; see `LanceDataset.to_pandas`."""
        scan, others = pandas_arguments(arguments)
        return self.scanner(columns, **scan).to_pandas(**others)

    def head(self, num_rows: int) -> pa.Table:
        """Return the first rows of this fragment."""
        return self.to_table(limit=num_rows)

    def take(self, indices: Any, columns: list[str] | dict[str, str] | None = None) -> pa.Table:
        """Return the rows at row offsets in this fragment; see `LanceDataset.take`."""
        return self.open_session(columns).take(indices)

    def open_session(
        self, columns: list[str] | dict[str, str] | None = None, with_row_address: bool | None = None
    ) -> FragmentSession:
        """Return an object that takes rows of the same columns many times.

        The data files are opened at the first take, and stay open.

        Args:
            columns: Columns, or SQL expressions by name; all columns if left out.
            with_row_address: Add the column `_rowaddr`.

        Raises:
            InvalidInputError: There is no such column, or an expression is not valid.
        """
        if with_row_address and isinstance(columns, dict):
            columns = {**columns, ROW_ADDRESS: ROW_ADDRESS}
        elif with_row_address:
            names = self._dataset.schema.names if columns is None else columns
            columns = [name for name in names if name != ROW_ADDRESS] + [ROW_ADDRESS]
        return FragmentSession(row_taker(self._dataset.snapshot, columns), self._metadata)

    def delete(self, predicate: str | pc.Expression) -> FragmentMetadata | None:
        """Write a deletion file for the rows that meet a condition, without a commit.

        Args:
            predicate: SQL text or a `pyarrow.compute.Expression`.

        Returns:
            The fragment with the deletion file, for `LanceOperation.Delete`; None if no row is left.

        Raises:
            InvalidInputError: The predicate is not valid.
            LanceError: Something cannot be read or written.
        """
        from lance_core.changes.rows.delete import delete_from_fragment  # late: most processes only read

        left = delete_from_fragment(self._dataset.snapshot, self._metadata, predicate)
        return _described(left)

    def delete_rows(self, offsets: Any) -> FragmentMetadata | None:
        """Write a deletion file for rows of this fragment, without a commit.

        Args:
            offsets: Physical offsets in this fragment, 0 or more, deleted rows counted too. They may be
                repeated, in any order, and may name rows that are deleted already.

        Returns:
            As for `delete`. Without offsets, the fragment as it is.

        Raises:
            InvalidInputError: An offset is not below `physical_rows`.
            TypeError: The offsets are no integers.
            LanceError: Something cannot be read or written.
        """
        from lance_core.changes.rows.delete import delete_offsets  # late: most processes only read

        if isinstance(offsets, Iterator | Set):
            offsets = list(offsets)
        keys = as_keys(offsets, "offsets")
        return _described(delete_offsets(self._dataset.snapshot, self._metadata, keys))


def _described(fragment: Fragment | None) -> FragmentMetadata | None:
    return None if fragment is None else FragmentMetadata.from_message(fragment.message)
