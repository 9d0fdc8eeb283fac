"""Statistics of a column in the forms that pruning reads, each of which is made once."""

from __future__ import annotations

from functools import cached_property

import pyarrow as pa

from lance_core.statistics.column_statistics import Spans
from lance_core.statistics.intervals import Values, column_values


class ColumnFacts:
    """Statistics of one column.

    Attributes:
        table: The statistics in the form of `lance_core.statistics.column_statistics`.
    """

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self._values: Values | None = None

    @cached_property
    def spans(self) -> Spans:
        """The row ranges of the pages."""
        return Spans.of(self.table)

    def values(self, data_type: pa.DataType) -> Values:
        """Return the possible values of the column, of type `data_type`, in each page."""
        if self._values is None or self._values.type != data_type:
            self._values = column_values(self.table, data_type)
        return self._values

    @property
    def num_bytes(self) -> int:
        """About how many bytes all forms take together."""
        return _OBJECT_BYTES + 2 * int(self.table.nbytes)


_OBJECT_BYTES = 8 << 10
"""Bytes of the objects, beside those of the values."""
