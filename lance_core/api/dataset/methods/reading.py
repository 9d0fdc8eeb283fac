"""The part of a dataset's interface that reads its rows."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_core.api.dataset.methods.arrow_dataset import ArrowDataset
from lance_core.api.dataset.methods.opened import OpenedDataset
from lance_core.api.dataset.scans import scan_of
from lance_core.api.fragment.lance_fragment import LanceFragment, fragment_ids
from lance_core.errors import InvalidInputError
from lance_core.scan.plan.bind import bind_filter
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.projection import ROW_ID
from lance_core.scan.plan.scan_plan import plan_scan
from lance_core.scan.plan.search_filter import divided_argument, joined_argument
from lance_core.scan.scanner import LanceScanner, row_taker
from lance_core.scan.take.keys import as_keys

if TYPE_CHECKING:
    from lance_core.api.dataset.sql import SqlQueryBuilder
    from lance_core.expressions.tree import Expression


class Reading(OpenedDataset, ArrowDataset):
    """Methods that count, scan and take rows."""

    def count_rows(self, filter: Any = None, **arguments: Any) -> int:
        """Count live rows; with a filter, those that match. Without a filter no data is read.

        Default scan options have no effect here.

        Args:
            filter: As for `scanner`.
            arguments: Other arguments of `scanner`.
        """
        fragments = fragment_ids(arguments.pop("fragments", None))
        scan = scan_of(self._snapshot, {"columns": [], "filter": filter, "fragments": fragments, **arguments})
        return scan.count_rows()

    def aggregate(
        self,
        aggregates: Mapping[str, str],
        group_by: Sequence[str] | Mapping[str, str] | None = None,
        filter: Any = None,
        **arguments: Any,
    ) -> pa.Table:
        """Return one row per group of the rows. An addition to the names of the reference.

        Default scan options have no effect here.

        Args:
            aggregates: SQL by name, such as `{"total": "sum(price)"}`; see `LanceScanner.aggregate`, whose
                errors these are.
            group_by: Columns that make the groups, by name or as SQL.
            filter: As for `scanner`.
            arguments: Other arguments of `scanner`.
        """
        fragments = fragment_ids(arguments.pop("fragments", None))
        scan = scan_of(self._snapshot, {"columns": [], "filter": filter, "fragments": fragments, **arguments})
        return scan.aggregate(aggregates, group_by)

    def scanner(
        self,
        columns: list[str] | dict[str, str] | None = None,
        filter: Any = None,
        limit: int | None = None,
        offset: int | None = None,
        *,
        fragments: Sequence[LanceFragment] | None = None,
        **arguments: Any,
    ) -> LanceScanner:
        """Return a scan of this version.

        Args:
            columns: Names or dotted paths in output order, or SQL expressions by name. `None` means all
                columns, an empty list means rows without columns. `_rowid`, `_rowaddr` and `_rowoffset` are
                computed.
            filter: SQL text or a `pyarrow.compute.Expression`; rows for which it is true are returned. A
                search takes more; see `lance_core.scan.arguments.scan_options`.
            limit: Largest number of rows to return.
            offset: Number of rows to skip; with a filter, of matching rows.
            fragments: Fragments to read, in this order.
            arguments: `batch_size`, `batch_size_bytes`, `with_row_id`, `with_row_address`, and the other
                arguments of the reference that `lance_core.scan.arguments.scan_options` lists.

        Raises:
            InvalidInputError: A column does not exist or is named twice, a number is out of range, or an
                expression is not valid.
            UnsupportedFeatureError: An argument or a column is not supported.
            TypeError: An argument has another type.
        """
        given = {
            "columns": columns,
            "filter": filter,
            "limit": limit,
            "offset": offset,
            "fragments": fragment_ids(fragments),
            **arguments,
        }
        if self._default_scan_options:
            from lance_core.api.dataset.scanner_builder import (
                ScannerBuilder,  # late: few datasets have defaults
            )

            defaults = ScannerBuilder(self).apply_defaults(self._default_scan_options).arguments
            given = defaults | {name: value for name, value in given.items() if value is not None}
        return scan_of(self._snapshot, given)

    @property
    def schema(self) -> pa.Schema:
        """The columns, with the nullability and metadata of their fields.

        A dataset that was opened with `default_scan_options` has the columns of its scans.
        """
        return self.scanner().projected_schema if self._default_scan_options else super().schema

    def sql(self, sql: str) -> SqlQueryBuilder:
        """Return a builder of a query on this version, which the package `datafusion` computes.

        Args:
            sql: A SELECT of DataFusion's dialect. The dataset is the table `dataset`.
        """
        from lance_core.api.dataset.sql import SqlQueryBuilder, TableQuery  # late: most processes do without

        return SqlQueryBuilder(TableQuery(self._snapshot, sql))

    def filter(self, expression: Any) -> FilteredDataset:
        """Return the rows that meet a condition as a dataset of its own, for reading only.

        Args:
            expression: SQL text or a `pyarrow.compute.Expression`.

        Raises:
            InvalidInputError: The condition is not valid.
        """
        return FilteredDataset(self, expression)

    def get_fragments(self, filter: Any = None) -> list[LanceFragment]:
        """Return all fragments in dataset order.

        Args:
            filter: As for `scanner`. Fragments in which no row meets it are left out if statistics tell.

        Raises:
            InvalidInputError: The filter is not valid.
        """
        fragments = list(self._snapshot.manifest.fragments)
        if filter is not None:
            from lance_core.scan.snapshot_reads import prune_plan  # late: rarely needed

            options = ScanOptions(columns=(), filter=bind_filter(self._snapshot.manifest.schema, filter))
            plan = prune_plan(self._snapshot, plan_scan(self._snapshot, options)).plan
            left = {scan.fragment_id for scan in plan.fragment_scans}
            fragments = [fragment for fragment in fragments if fragment.id in left]
        return [LanceFragment(self, fragment) for fragment in fragments]

    def take(self, indices: Any, columns: list[str] | dict[str, str] | None = None) -> pa.Table:
        """Return the rows at row offsets, in the given order.

        An offset that is given twice gives its row twice.

        Args:
            indices: Integers in a list, an Arrow or a NumPy array. They count live rows.
            columns: As for `scanner`.

        Raises:
            InvalidInputError: An offset is out of range, or a column does not exist.
        """
        taker = row_taker(self._snapshot, columns)
        return pa.Table.from_batches([taker.by_offset(as_keys(indices, "indices"))])

    def _take_rows(self, row_ids: Any, columns: list[str] | dict[str, str] | None = None) -> pa.Table:
        """Return the rows with these row ids, in the given order. Ids without a live row are left out.

        Without stable row ids the ids are row addresses, and an address outside the table is an
        `InvalidInputError`.
        """
        taker = row_taker(self._snapshot, columns)
        return pa.Table.from_batches([taker.by_row_id(as_keys(row_ids, "row_ids"))])

    def sample(
        self,
        num_rows: int,
        columns: list[str] | dict[str, str] | None = None,
        randomize_order: bool = True,
    ) -> pa.Table:
        """Return rows chosen at random, each at most once.

        Args:
            num_rows: Number of rows.
            columns: As for `scanner`.
            randomize_order: Return them in random order. Dataset order is faster.

        Raises:
            InvalidInputError: There are fewer rows, or a column does not exist.
        """
        total = self.count_rows()
        if not 0 <= num_rows <= total:
            raise InvalidInputError("num_rows", expected=f"0 to {total}", found=num_rows)
        indices = random.sample(range(total), num_rows)
        return self.take(indices if randomize_order else sorted(indices), columns)


class FilteredDataset(ArrowDataset):
    """The rows of one version of a dataset that meet a condition. Nothing is read before rows are requested.

    Offsets and counts are those of the rows that meet it.
    """

    def __init__(self, dataset: Reading, condition: Any) -> None:
        """Use `LanceDataset.filter`, which names the errors."""
        self._dataset = dataset
        self._condition = bind_filter(dataset.snapshot.manifest.schema, condition)

    def __reduce__(self) -> tuple[Any, ...]:
        return FilteredDataset, (self._dataset, self._condition)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the dataset."""
        return self._dataset.schema

    def scanner(self, columns: Any = None, filter: Any = None, *args: Any, **arguments: Any) -> LanceScanner:
        """Return a scan; arguments and errors are those of `LanceDataset.scanner`.

        A `filter` applies besides the condition of the dataset.
        """
        condition, search = divided_argument(filter)
        both = joined_argument(self._and(condition), search)
        return self._dataset.scanner(columns, both, *args, **arguments)

    def filter(self, expression: Any) -> FilteredDataset:
        """Return the rows that meet another condition, too; errors are those of `LanceDataset.filter`."""
        return FilteredDataset(self._dataset, self._and(expression))

    def get_fragments(self, filter: Any = None) -> list[LanceFragment]:
        """Return the fragments that may have rows; see `LanceDataset.get_fragments`.

        A fragment has all its rows, whether they meet the condition or not.
        """
        return self._dataset.get_fragments(self._and(filter))

    def take(self, indices: Any, columns: list[str] | dict[str, str] | None = None) -> pa.Table:
        """Return the rows at positions among the rows that meet the condition, in the given order.

        Args:
            indices: Integers in a list, an Arrow or a NumPy array.
            columns: As for `scanner`.

        Raises:
            InvalidInputError: A position is out of range, or a column does not exist.
        """
        matching = self.scanner([], with_row_id=True).to_table()[ROW_ID]
        keys = as_keys(indices, "indices")
        if len(keys) and (most := int(keys.max())) >= len(matching):
            raise InvalidInputError("indices", expected=f"less than {len(matching)}", found=most)
        return self._dataset._take_rows(matching.take(pa.array(keys)), columns)

    def _and(self, added: Any) -> Expression | None:
        """Return the condition of the dataset and another one."""
        from lance_core.expressions.builders import conjunction  # late: its parsers take long to load

        both = (self._condition, bind_filter(self._dataset.snapshot.manifest.schema, added))
        return conjunction([each for each in both if each is not None])
