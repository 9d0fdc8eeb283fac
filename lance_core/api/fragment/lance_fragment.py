"""A fragment as a caller holds it, with the names and arguments of the reference library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import compress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_core.api.dataset.scans import scan_of
from lance_core.api.fragment.changes import FragmentChanges
from lance_core.api.fragment.metadata import DataFile, FragmentMetadata
from lance_core.api.fragment.session import FragmentSession
from lance_core.api.names.late import refuse_missing
from lance_core.arguments import named_arguments
from lance_core.errors import ArgumentTypeError
from lance_core.scan.arguments import pandas_arguments
from lance_core.scan.plan.projection import ROW_ADDRESS
from lance_core.scan.scanner import LanceScanner, row_taker

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow.compute as pc

__all__ = ["LanceFragment", "fragment_ids"]


@named_arguments
class LanceFragment(FragmentChanges):
    """A fragment of one version of a dataset: a range of its rows."""

    if not TYPE_CHECKING:  # a type checker would believe that every name exists
        __getattr__ = refuse_missing("LanceFragment")

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
        return self._dataset.snapshot.manifest.schema.to_arrow()

    @property
    def partition_expression(self) -> pc.Expression:
        """Condition that all rows meet: true, since nothing is partitioned by values."""
        import pyarrow.compute as pc  # late: it takes longer to load than the rest of the package

        return pc.scalar(True)

    @property
    def physical_schema(self) -> pa.Schema:
        """Schema of the columns that the files of this fragment have; the others are null."""
        stored = {number for file in self._metadata.files for number in file.columns}
        schema = self._dataset.snapshot.manifest.schema
        columns = schema.to_arrow()
        kept = [any(node.id in stored for node in top.walk()) for top in schema.fields]
        return pa.schema(list(compress(columns, kept)), columns.metadata)

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

    def count_rows(self, filter: Any = None) -> int:
        """Count live rows of this fragment; with a filter, those that match."""
        return self.scanner([], filter=filter).count_rows()

    def scanner(self, columns: list[str] | dict[str, str] | None = None, **arguments: Any) -> LanceScanner:
        """Return a scan of this fragment; arguments are those of `LanceDataset.scanner`."""
        snapshot = self._dataset.snapshot
        return scan_of(snapshot, {"columns": columns, "fragments": (self.fragment_id,), **arguments})

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

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return all rows of this fragment as a stream of Arrow's PyCapsule interface; see `LanceScanner`."""
        return self.scanner().__arrow_c_stream__(requested_schema)

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
            names = self.schema.names if columns is None else columns
            columns = [name for name in names if name != ROW_ADDRESS] + [ROW_ADDRESS]
        return FragmentSession(row_taker(self._dataset.snapshot, columns), self._metadata)


def fragment_ids(fragments: Iterable[Any] | None) -> tuple[int, ...] | None:
    """Return the ids of fragments; None for None. Raises TypeError for other objects."""
    if fragments is None:
        return None
    found = tuple(fragments)
    for fragment in found:
        if not isinstance(fragment, LanceFragment):
            raise ArgumentTypeError(
                f"fragments must be fragments of `get_fragments`, got {type(fragment).__name__}"
            )
    return tuple(fragment.fragment_id for fragment in found)
