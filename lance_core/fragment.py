"""A fragment of a dataset as a caller holds it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_core.mutations.delete import delete_from_fragment
from lance_core.scan.scanner import LanceScanner, row_taker, scan_options
from lance_core.scan.take import as_keys
from lance_core.table.fragment import DataFile, Fragment

if TYPE_CHECKING:
    from lance_core.dataset import LanceDataset


class LanceFragment:
    """A horizontal slice of one version of a dataset."""

    def __init__(self, dataset: LanceDataset, metadata: Fragment) -> None:
        self._dataset = dataset
        self._metadata = metadata

    def __repr__(self) -> str:
        return f"LanceFragment(id={self.fragment_id}, data_files={[file.path for file in self.data_files()]})"

    @property
    def fragment_id(self) -> int:
        """Unique for the life of the dataset."""
        return self._metadata.id

    @property
    def metadata(self) -> Fragment:
        """What the manifest says about this fragment."""
        return self._metadata

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
        """The files that hold the columns of this fragment."""
        return list(self._metadata.files)

    def count_rows(self, filter: Any = None) -> int:
        """Rows that are not deleted and pass the filter, if one is given."""
        return self.scanner([], filter=filter).count_rows()

    def scanner(self, columns: list[str] | dict[str, str] | None = None, **arguments: Any) -> LanceScanner:
        """A scan of this fragment; arguments are those of `LanceDataset.scanner`."""
        snapshot = self._dataset.snapshot
        options = scan_options(snapshot.manifest.schema, columns, fragments=(self.fragment_id,), **arguments)
        return LanceScanner(snapshot, options)

    def to_table(
        self, columns: list[str] | dict[str, str] | None = None, filter: Any = None, **arguments: Any
    ) -> pa.Table:
        """The rows of this fragment at once; arguments are those of `scanner`."""
        return self.scanner(columns, filter=filter, **arguments).to_table()

    def to_batches(
        self, columns: list[str] | dict[str, str] | None = None, **arguments: Any
    ) -> Iterator[pa.RecordBatch]:
        """The rows of this fragment as batches; arguments are those of `scanner`."""
        return self.scanner(columns, **arguments).to_batches()

    def head(self, num_rows: int) -> pa.Table:
        """The first rows of this fragment."""
        return self.to_table(limit=num_rows)

    def take(self, indices: Any, columns: list[str] | dict[str, str] | None = None) -> pa.Table:
        """The rows at offsets in this fragment; see `LanceDataset.take`."""
        taker = row_taker(self._dataset.snapshot, columns)
        return pa.Table.from_batches([taker.by_offset(as_keys(indices, "indices"), [self._metadata])])

    def delete(self, predicate: str | pc.Expression) -> Fragment | None:
        """Write a deletion file for the rows that a condition is true for, without making a version.

        Returns:
            The fragment with that file, for a `LanceOperation.Delete`; None when no row is left.

        Raises:
            InvalidInputError: the predicate cannot be used.
            LanceError: something cannot be read or written.
        """
        return delete_from_fragment(self._dataset.snapshot, self._metadata, predicate)
