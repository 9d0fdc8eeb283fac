"""Datasets as engines know them: the methods of `pyarrow.dataset.Dataset` that follow from a scan.

DuckDB, DataFusion and other engines push columns and conditions to objects for which
`isinstance(dataset, pyarrow.dataset.Dataset)` is true. See docs/decisions/0025-queries-of-engines.md.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Hashable, Iterator
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn, cast

import pyarrow as pa

from lance_core.arguments import named_arguments
from lance_core.errors import ArgumentTypeError, InvalidInputError, UnsupportedFeatureError
from lance_core.scan.arguments import pandas_arguments
from lance_core.scan.scanner import LanceScanner

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow.compute as pc
    import pyarrow.dataset as pads


class _Marker:
    """A base class that seems to be defined in the module of `pyarrow.dataset.Dataset`.

    DuckDB 2 uses `isinstance` only if it finds this module among those of an object's classes.
    """

    __module__ = "pyarrow._dataset"


@named_arguments
class ArrowDataset(_Marker):
    """Rows that can be scanned. `isinstance` takes an object for a `pyarrow.dataset.Dataset`.

    No object is an instance of Arrow's class itself: its C++ part would have no data. Functions of Arrow that
    need this part raise a TypeError.
    """

    @property  # type: ignore[misc]  # of objects it is read only
    def __class__(self) -> type:
        """Class that `isinstance` looks at if the type of the object itself is another one."""
        # The import of `pyarrow.dataset` imports pandas and takes longer than that of this package. An object
        # of it exists only after the import. DuckDB looks for it without an import.
        if "pyarrow.dataset" not in sys.modules and "duckdb" not in sys.modules:
            return type(self)
        try:
            return _seen_by_engines(cast(Hashable, type(self)))
        except ImportError:  # some builds of Arrow lack the module
            return type(self)

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns, with the nullability and metadata of their fields."""

    @abstractmethod
    def scanner(self, columns: Any = None, filter: Any = None, **arguments: Any) -> LanceScanner:
        """Return a scan of the rows."""

    def count_rows(self, filter: Any = None, **arguments: Any) -> int:
        """Count live rows; with a filter, those that match. Without a filter no data is read.

        Args:
            filter: As for `scanner`.
            arguments: Other arguments of `scanner`.
        """
        return self.scanner([], filter, **arguments).count_rows()

    def to_table(self, *args: Any, **arguments: Any) -> pa.Table:
        """Return all rows at once; arguments are those of `scanner`."""
        return self.scanner(*args, **arguments).to_table()

    def to_batches(self, *args: Any, **arguments: Any) -> Iterator[pa.RecordBatch]:
        """Return the rows as batches; arguments are those of `scanner`."""
        return self.scanner(*args, **arguments).to_batches()

    def to_pandas(self, *args: Any, **arguments: Any) -> pd.DataFrame:
        """Return all rows as a pandas frame.

        The arguments are those of `scanner` and of `LanceScanner.to_pandas`, which says how blobs are shown.
        """
        scan, others = pandas_arguments(arguments)
        return self.scanner(*args, **scan).to_pandas(**others)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return all rows as a stream of Arrow's PyCapsule interface; see `LanceScanner`."""
        return self.scanner().__arrow_c_stream__(requested_schema)

    def head(self, num_rows: int, **arguments: Any) -> pa.Table:
        """Return the first rows; arguments are those of `scanner`."""
        return self.to_table(limit=num_rows, **arguments)

    def slice(self, start: int, end: int, columns: list[str] | dict[str, str] | None = None) -> pa.Table:
        """Return the rows at the row offsets `[start, end)`.

        Args:
            start, end: Row offsets. Rows beyond the end of the dataset are left out.
            columns: As for `scanner`.

        Raises:
            InvalidInputError: `start` is negative, `end` is less than `start`, or a column does not exist.
        """
        if start < 0:
            raise InvalidInputError("start", expected="0 or more", found=start)
        if end < start:
            raise InvalidInputError("end", expected=f"{start} (the start) or more", found=end)
        return self.to_table(columns, offset=start, limit=end - start)

    def sort_by(self, sorting: str | list[tuple[str, str]], **arguments: Any) -> pads.InMemoryDataset:
        """Return all rows sorted, in memory; arguments are those of `pyarrow.Table.sort_by`."""
        try:
            return _in_memory(self.to_table().sort_by(sorting, **arguments))
        except pa.ArrowInvalid as error:
            raise InvalidInputError(f"sorting: {error}") from None

    def join(
        self,
        right_dataset: Any,
        keys: str | list[str],
        right_keys: str | list[str] | None = None,
        join_type: str = "left outer",
        left_suffix: str | None = None,
        right_suffix: str | None = None,
        coalesce_keys: bool = True,
        use_threads: bool = True,
    ) -> pads.InMemoryDataset:
        """Return the rows of two datasets, joined in memory; arguments are those of `pyarrow.Table.join`."""
        joined = self.to_table().join(
            _right_table(right_dataset),
            keys,
            right_keys,
            join_type,
            left_suffix,
            right_suffix,
            coalesce_keys,
            use_threads,
        )
        return _in_memory(joined)

    def join_asof(
        self,
        right_dataset: Any,
        on: str,
        by: str | list[str],
        tolerance: int,
        right_on: str | None = None,
        right_by: str | list[str] | None = None,
    ) -> pads.InMemoryDataset:
        """Return the rows of two datasets, joined in memory by the nearest value of a column.

        The arguments are those of `pyarrow.Table.join_asof`.
        """
        table, right = self.to_table(), _right_table(right_dataset)
        return _in_memory(table.join_asof(right, on, by, tolerance, right_on, right_by))

    def replace_schema(self, schema: pa.Schema) -> NoReturn:
        """Refuse: the files decide the schema.

        Raises:
            UnsupportedFeatureError: Always.
        """
        raise UnsupportedFeatureError(
            "replace_schema: a dataset has no other schema; use alter_columns, update_field_metadata or"
            " update_schema_metadata, or cast the table that was read"
        )

    @property
    def partition_expression(self) -> pc.Expression:
        """Condition that all rows meet: true, since nothing is partitioned by values."""
        import pyarrow.compute as pc  # late: it takes longer to load than the rest of the package

        return pc.scalar(True)


def _in_memory(table: pa.Table) -> pads.InMemoryDataset:
    import pyarrow.dataset as pads  # late: it imports pandas

    return pads.InMemoryDataset(table)


@cache
def _seen_by_engines(own: Any) -> type:
    """Return a class below `own` and `pyarrow.dataset.Dataset`. A call of it makes an object of `own`."""

    def new(_: type, *args: Any, **arguments: Any) -> Any:
        return own(*args, **arguments)

    # Pickles and messages name the class `own`.
    names = {"__module__": own.__module__, "__qualname__": own.__qualname__, "__doc__": own.__doc__}
    bases = (own, import_module("pyarrow.dataset").Dataset)
    return type(own.__name__, bases, {**names, "__new__": new})


def _right_table(dataset: Any) -> pa.Table:
    """Return the rows of the second dataset of a join."""
    if not hasattr(dataset, "to_table"):
        raise ArgumentTypeError("right_dataset", expected="a dataset", found=type(dataset).__name__)
    return dataset.to_table()
