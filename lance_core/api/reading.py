"""The part of a dataset's interface that reads its rows."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_core.api.fragment import LanceFragment
from lance_core.api.opened import OpenedDataset
from lance_core.errors import InvalidInputError
from lance_core.scan.scanner import LanceScanner, pandas_arguments, row_taker, scan_options
from lance_core.scan.take.keys import as_keys

if TYPE_CHECKING:
    import pandas as pd


class Reading(OpenedDataset):
    """Methods that count, scan and take rows."""

    def count_rows(self, filter: Any = None, **arguments: Any) -> int:
        """Count live rows; with a filter, those that match. Without a filter no data is read.

        Args:
            filter: As for `scanner`.
            arguments: Other arguments of `scanner`.
        """
        return self.scanner([], filter, **arguments).count_rows()

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
            filter: SQL text or a `pyarrow.compute.Expression`; rows for which it is true are returned.
            limit: Largest number of rows to return.
            offset: Number of rows to skip; with a filter, of matching rows.
            fragments: Fragments to read, in this order.
            arguments: `batch_size`, `batch_size_bytes`, `with_row_id`, `with_row_address`, and the other
                arguments of the reference that `lance_core.scan.scanner.scan_options` lists.

        Raises:
            InvalidInputError: A column does not exist or is named twice, a number is out of range, or an
                expression is not valid.
            UnsupportedFeatureError: An argument or a column is not supported.
            TypeError: An argument has another type.
        """
        ids = None if fragments is None else tuple(_fragment_id(fragment) for fragment in fragments)
        options = scan_options(
            self._snapshot.manifest.schema, columns, filter, limit, offset, fragments=ids, **arguments
        )
        return LanceScanner(self._snapshot, options)

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


def _fragment_id(fragment: object) -> int:
    if not isinstance(fragment, LanceFragment):
        raise TypeError(f"fragments must be fragments of `get_fragments`, got {type(fragment).__name__}")
    return fragment.fragment_id
