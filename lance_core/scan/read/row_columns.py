"""Row columns: ids, addresses and offsets of rows, and the versions that created and changed them.

Source: docs/format.md, "Row ids and lineage".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.errors import CorruptFileError
from lance_core.file.column_readers import ColumnReader
from lance_core.number_sets import distinct
from lance_core.scan.files.data_files import DataFiles
from lance_core.scan.plan.projection import CREATED_AT, LAST_UPDATED_AT, ROW_ADDRESS, ROW_ID, ROW_OFFSET
from lance_core.scan.read.columns import Column, NumberColumn
from lance_core.scan.read.live_rows import LiveRows, Offsets
from lance_core.schema.arrow_values import array_of, numbers_of
from lance_core.schema.fields import Field
from lance_core.table.fragment import Fragment, Lineage
from lance_core.table.row_ids import Places, RowIds, find_row_ids, find_values, read_row_ids
from lance_core.table.row_versions import read_versions
from lance_core.table.snapshot import Snapshot

_LINEAGE = {
    ROW_ID: Lineage.ROW_ID,
    CREATED_AT: Lineage.CREATED_AT,
    LAST_UPDATED_AT: Lineage.LAST_UPDATED_AT,
}


class RowColumns:
    """Opener of row columns, such as `_rowid` and `_rowaddr`, for the fragments of one snapshot."""

    def __init__(self, snapshot: Snapshot, files: DataFiles) -> None:
        self._snapshot = snapshot
        self._files = files

    def open(self, name: str, fragment: Fragment, live: LiveRows) -> Column:
        """Return a row column of a fragment, by its name in `ROW_COLUMNS`.

        Raises:
            LanceError: a sequence contradicts the format, or its data file cannot be read.
        """
        num_rows = fragment.physical_rows
        if name == ROW_OFFSET:
            before = self._live_rows_before[fragment.id]
            return NumberColumn(num_rows, lambda start, end: live.live_offsets(start, end) + before)
        if name == ROW_ADDRESS or (name == ROW_ID and not self._snapshot.manifest.has_stable_row_ids):
            first = fragment.id << 32
            return NumberColumn(num_rows, lambda start, end: np.arange(first + start, first + end))
        kind = _LINEAGE[name]
        hidden = self._hidden_column(fragment, kind)
        if hidden is not None:
            return hidden
        numbers = read_row_ids(fragment) if kind is Lineage.ROW_ID else read_versions(fragment, kind)
        return NumberColumn(num_rows, lambda start, end: numbers[start:end])

    def find_row_ids(self, fragment: Fragment, wanted: RowIds) -> tuple[Places, Places]:
        """Return the positions of stable ids, see `row_ids.find_row_ids`; errors are those of `open`."""
        hidden = self._hidden_column(fragment, Lineage.ROW_ID)
        if hidden is None:
            return find_row_ids(fragment, wanted)
        ids = pa.concat_arrays(hidden.read(0, fragment.physical_rows))
        return find_values(numbers_of(ids), wanted)

    def addresses_of(self, row_ids: RowIds, live: Callable[[Fragment], LiveRows]) -> RowIds:
        """Return the addresses of the live rows with stable ids. Ids that no live row has are left out.

        Args:
            row_ids: The ids, in any order, which is kept.
            live: Returns the live rows of a fragment.

        Raises:
            CorruptFileError: two live rows have the same id.
            LanceError: ids or deletions cannot be read.
        """
        addresses, found = self.located(row_ids, live)
        return addresses[found]

    def located(
        self, row_ids: RowIds, live: Callable[[Fragment], LiveRows]
    ) -> tuple[RowIds, npt.NDArray[np.bool_]]:
        """Return the address of the live row of each stable id, and whether there is one.

        The address of an id without a live row is 0. Arguments and errors are those of `addresses_of`.
        """
        wanted, inverse = np.unique(row_ids, return_inverse=True)
        addresses = np.zeros(len(wanted), dtype=np.uint64)
        found = np.zeros(len(wanted), dtype=bool)
        for fragment in self._snapshot.manifest.fragments:
            positions, rows = self.find_row_ids(fragment, wanted)
            if not len(rows):
                continue
            are_live = live(fragment).are_live(rows)
            positions, rows = positions[are_live], rows[are_live]
            if found[positions].any() or len(distinct(positions)) < len(positions):
                raise CorruptFileError(
                    f"two rows have the same row id, one of them in fragment {fragment.id}"
                )
            found[positions] = True
            addresses[positions] = (np.uint64(fragment.id) << np.uint64(32)) | rows.astype(np.uint64)
        return addresses[inverse], found[inverse]

    def _hidden_column(self, fragment: Fragment, kind: Lineage) -> ColumnReader | None:
        """Return the hidden column of a data file with a sequence; None if the manifest has the sequence."""
        data_file = fragment.lineage_file(kind)
        if data_file is None:
            return None
        field = Field(kind.value, -1, f"hidden column {kind.value}", "uint64", False, {}, "")
        columns = {kind.value: data_file.held.hidden_columns[kind.value]}
        return self._files.open(self._snapshot, fragment, data_file).column(field, columns)

    @cached_property
    def _live_rows_before(self) -> dict[int, int]:
        """Number of live rows of the dataset before each fragment, by fragment id."""
        fragments = self._snapshot.manifest.fragments
        ends = accumulate((fragment.num_rows for fragment in fragments), initial=0)
        return dict(zip((fragment.id for fragment in fragments), ends, strict=False))


class LiveColumn:
    """Another column, null at deleted rows."""

    def __init__(self, column: Column, live: LiveRows) -> None:
        self.page_rows = column.page_rows
        self.bytes_per_row = column.bytes_per_row
        self.dense_share = column.dense_share
        self._column = column
        self._live = live

    def read(self, start: int, end: int) -> list[pa.Array]:
        return self._only_live(self._column.read(start, end), np.arange(start, end))

    def take(self, rows: Offsets) -> list[pa.Array]:
        return self._only_live(self._column.take(rows), rows)

    def _only_live(self, arrays: list[pa.Array], rows: Offsets) -> list[pa.Array]:
        numbers = np.concatenate([numbers_of(array) for array in arrays])
        return [array_of(numbers, self._live.are_live(rows))]
