"""A fragment of a dataset as a caller holds it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyroaring import BitMap

from lance_core.api.column_changes import new_columns, table_of
from lance_core.api.fragment_metadata import DataFile, FragmentMetadata
from lance_core.errors import InvalidInputError
from lance_core.scan.scanner import LanceScanner, row_taker, scan_options
from lance_core.scan.take.keys import as_keys
from lance_core.schema import Schema
from lance_core.table.fragment import MAX_ROWS, Fragment

if TYPE_CHECKING:
    import pyarrow.compute as pc

    from lance_core.api.dataset import LanceDataset
    from lance_core.changes.columns.column_sources import ColumnSource
    from lance_core.write.dataset import Mode
    from lance_core.write.fragments import FragmentWriteProgress


class LanceFragment:
    """A horizontal slice of one version of a dataset."""

    def __init__(self, dataset: LanceDataset, metadata: Fragment) -> None:
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
        """Write all rows as one fragment, and commit nothing; `write_fragments` makes as many as it takes.

        Args:
            dataset_uri, data, schema, max_rows_per_group, progress: see `write_fragments`.
            fragment_id: noted in the result. A commit of `LanceOperation.Append` gives another one.
            mode, data_storage_version, storage_options, sync: as there.

        Raises:
            InvalidInputError: no rows.
            LanceError: as `write_fragments` does.
        """
        from lance_core.api.write import write_fragments  # late: readers need no writers

        written = write_fragments(
            data,
            dataset_uri,
            schema,
            mode=mode,
            max_rows_per_file=MAX_ROWS - 1,
            max_bytes_per_file=sys.maxsize,
            max_rows_per_group=max_rows_per_group,
            progress=progress,
            data_storage_version=data_storage_version,
            storage_options=storage_options,
            sync=sync,
        )
        if not isinstance(written, list) or len(written) != 1:
            raise InvalidInputError("a fragment needs rows", found="none")
        return written[0] if fragment_id is None else replace(written[0], id=fragment_id)

    def __repr__(self) -> str:
        return f"LanceFragment(id={self.fragment_id}, data_files={[file.path for file in self.data_files()]})"

    @property
    def fragment_id(self) -> int:
        """Unique for the life of the dataset."""
        return self._metadata.id

    @property
    def metadata(self) -> FragmentMetadata:
        """The entry of this fragment in the manifest, as plain data."""
        return FragmentMetadata.from_message(self._metadata.message)

    @property
    def schema(self) -> pa.Schema:
        """Schema of the dataset, whatever columns the files of this fragment hold."""
        return self._dataset.schema

    @property
    def physical_rows(self) -> int:
        """Rows in the data files, deleted ones included."""
        return self._metadata.physical_rows

    @property
    def num_deletions(self) -> int:
        """Deleted rows."""
        return self._metadata.num_deleted_rows or 0

    def data_files(self) -> list[DataFile]:
        """Return the files that hold the columns of this fragment; paths are relative to the `data/` they
        are in.
        """
        return self.metadata.files

    def deletion_file(self) -> str | None:
        """Return the file that names the deleted rows, relative to the dataset or its base path, if there
        is one.
        """
        found = self._metadata.deletion_file
        return None if found is None else found.path

    def validate(self) -> None:
        """Check every file of this fragment, as `LanceDataset.validate` does those of all."""
        from lance_core.scan.validate import validate_snapshot  # late, as all that most processes do without

        validate_snapshot(self._dataset.snapshot, [self._metadata])

    def merge_columns(
        self,
        value_func: Any,
        columns: list[str] | None = None,
        batch_size: int | None = None,
        reader_schema: pa.Schema | None = None,
    ) -> tuple[FragmentMetadata, Schema]:
        """Write new columns of this fragment, and commit nothing.

        The arguments are those of `LanceDataset.add_columns`; a stream has the rows of this fragment that are
        not deleted.

        Returns:
            The fragment with the new file, and the schema of the dataset with the new columns, for
            `LanceOperation.Merge`.
        """
        return self._add(new_columns(value_func, columns, reader_schema, batch_size))

    def merge(
        self, data_obj: Any, left_on: str, right_on: str | None = None, schema: pa.Schema | None = None
    ) -> tuple[FragmentMetadata, Schema]:
        """Write new columns of this fragment that are joined by key, and commit nothing.

        The arguments are those of `LanceDataset.merge`, the result is that of `merge_columns`.
        """
        from lance_core.changes.columns.join import JoinedColumns  # late, as all that writes
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
        """Write other values for columns of this fragment, and commit nothing.

        Args:
            data_obj: a key and the columns that change; held in memory. Rows without a key in it stay.
            left_on: the key in the dataset, `_rowid` and `_rowaddr` included.
            right_on: the key in `data_obj`; the same name if not given.
            schema: what an iterable of batches is turned into.
            with_offsets: tell which rows changed.

        Returns:
            The fragment with the new file and the ids of the fields that it has, for `LanceOperation.Update`;
            and on request the physical offsets of the rows that changed, as a portable Roaring bitmap.
        """
        from lance_core.changes.columns.update import update_columns

        rows = table_of(data_obj, schema)
        updated = update_columns(self._dataset.snapshot, self._metadata, rows, left_on, right_on)
        fragment, fields = FragmentMetadata.from_message(updated.message), list(updated.fields_modified)
        if with_offsets:
            return fragment, fields, bytes(BitMap(updated.matched_offsets).serialize())
        return fragment, fields

    def _add(self, source: ColumnSource) -> tuple[FragmentMetadata, Schema]:
        from lance_core.changes.columns.add import write_fragment_columns

        message, schema = write_fragment_columns(self._dataset.snapshot, self._metadata, source)
        return FragmentMetadata.from_message(message), schema

    def count_rows(self, filter: Any = None) -> int:
        """Rows that are not deleted and pass the filter, if one is given."""
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

    def head(self, num_rows: int) -> pa.Table:
        """Return the first rows of this fragment."""
        return self.to_table(limit=num_rows)

    def take(self, indices: Any, columns: list[str] | dict[str, str] | None = None) -> pa.Table:
        """Return the rows at offsets in this fragment; see `LanceDataset.take`."""
        taker = row_taker(self._dataset.snapshot, columns)
        return pa.Table.from_batches([taker.by_offset(as_keys(indices, "indices"), [self._metadata])])

    def delete(self, predicate: str | pc.Expression) -> FragmentMetadata | None:
        """Write a deletion file for the rows that a condition is true for, without making a version.

        Returns:
            The fragment with that file, for a `LanceOperation.Delete`; None when no row is left.

        Raises:
            InvalidInputError: the predicate cannot be used.
            LanceError: something cannot be read or written.
        """
        from lance_core.changes.rows.delete import delete_from_fragment  # late: readers need no writers

        left = delete_from_fragment(self._dataset.snapshot, self._metadata, predicate)
        return None if left is None else FragmentMetadata.from_message(left.message)


def __getattr__(name: str) -> object:
    if name == "write_fragments":  # where the reference has it; writing is imported by who writes
        from lance_core.api.write import write_fragments

        return write_fragments
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
