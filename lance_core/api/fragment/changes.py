"""The part of a fragment's interface that writes files for a later commit.

Most processes only read. They start sooner, since the code that writes is imported when it is first used.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Set
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_core.api.dataset.methods.column_changes import new_columns, table_of
from lance_core.api.dataset.methods.opened import OpenedDataset
from lance_core.api.fragment.metadata import FragmentMetadata
from lance_core.arguments import named_arguments
from lance_core.errors import InvalidInputError
from lance_core.number_sets import bitmap_of
from lance_core.scan.take.keys import as_keys
from lance_core.table.fragment import MAX_ROWS, Fragment

if TYPE_CHECKING:
    import pyarrow.compute as pc

    from lance_core.api.progress import FragmentWriteProgress
    from lance_core.api.schema import LanceSchema
    from lance_core.changes.columns.column_sources import ColumnSource
    from lance_core.write.dataset import Mode


@named_arguments
class FragmentChanges:
    """Methods of a fragment that write files. `LanceDataset.commit` makes a version of their results."""

    def __init__(self, dataset: OpenedDataset, fragment_id: int | Fragment) -> None:
        """Make a fragment of the version that `dataset` has opened.

        Args:
            dataset: The dataset.
            fragment_id: Id of the fragment, or its entry in the manifest.

        Raises:
            InvalidInputError: The version has no fragment with this id.
        """
        self._dataset = dataset
        if isinstance(fragment_id, Fragment):
            self._metadata = fragment_id
            return
        found = dataset.snapshot.manifest.fragment_by_id.get(fragment_id)
        if found is None:
            raise InvalidInputError("there is no fragment with this id in the version", found=fragment_id)
        self._metadata = found

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
        use_legacy_format: bool | None = None,
        storage_options: Mapping[str, str] | None = None,
        namespace_client: object = None,
        table_id: object = None,
        sync: bool = True,
    ) -> FragmentMetadata:
        """Write all rows as one fragment, without a commit. `write_fragments` can make several fragments.

        Args:
            dataset_uri, data, schema, max_rows_per_group, progress: As for `write_fragments`.
            fragment_id: Id in the result. A commit of `LanceOperation.Append` replaces it.
            mode, data_storage_version, use_legacy_format, storage_options, sync: As for `write_fragments`.
            namespace_client, table_id: Not supported.

        Raises:
            InvalidInputError: There are no rows or no columns.
            LanceError: The errors of `write_fragments`.
        """
        # Late: most processes only read.
        from lance_core.api.progress import with_fragment_id
        from lance_core.api.writing.arguments import storage_version
        from lance_core.api.writing.fragments import write_fragments
        from lance_core.write.batch_sources import batches_of

        given, batches = batches_of(data, schema)
        if not given.names:
            raise InvalidInputError("a fragment needs columns", found="none")
        written = write_fragments(
            batches,
            dataset_uri,
            given,
            mode=mode,
            max_rows_per_file=MAX_ROWS - 1,
            max_bytes_per_file=sys.maxsize,
            max_rows_per_group=max_rows_per_group,
            progress=with_fragment_id(progress, fragment_id),
            data_storage_version=storage_version(data_storage_version, use_legacy_format),
            storage_options=storage_options,
            namespace_client=namespace_client,
            table_id=table_id,
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
            return fragment, fields, bytes(bitmap_of(updated.matched_offsets).serialize())
        return fragment, fields

    def _add(self, source: ColumnSource) -> tuple[FragmentMetadata, LanceSchema]:
        from lance_core.api.schema import LanceSchema  # late: most processes only read
        from lance_core.changes.columns.add import write_fragment_columns
        from lance_core.file.external_blobs import ExternalBlobs

        message, schema = write_fragment_columns(
            self._dataset.snapshot, self._metadata, source, external_blobs=ExternalBlobs(in_bases=True)
        )
        return FragmentMetadata.from_message(message), LanceSchema(schema)

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
