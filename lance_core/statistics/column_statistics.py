"""The form of page statistics: one small Arrow table per column, one row per page or zone.

    column      int32   which column; what the number means is up to where the statistics come from
    page        int32   null where the rows are not those of one page
    first_row   int64   row of the file that the page begins with
    rows        int64
    null_count  int64   null where it is not known
    nan_count   int64   null where it is not known
    min, max            of the column's type, null where no bound is known

The numbers are about rows as they are read. Bounds hold for every value that is neither null nor NaN; where
a page has no such value there may be none. Rows are in order and do not overlap; of rows between two pages
nothing is known.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


def statistics_schema(value_type: pa.DataType) -> pa.Schema:
    """Return the schema of the statistics of a column of type `value_type`."""
    return pa.schema(
        [
            pa.field("column", pa.int32(), nullable=False),
            pa.field("page", pa.int32()),
            pa.field("first_row", pa.int64(), nullable=False),
            pa.field("rows", pa.int64(), nullable=False),
            pa.field("null_count", pa.int64()),
            pa.field("nan_count", pa.int64()),
            pa.field("min", value_type),
            pa.field("max", value_type),
        ]
    )


def all_null(value_type: pa.DataType, num_rows: int) -> pa.Table:
    """Return the statistics of a column without a single value, such as one that no file of a fragment
    holds.
    """
    count = pa.array([num_rows], pa.int64())
    nothing = pa.nulls(1, value_type)
    number = pa.array(np.zeros(1, np.int32))
    zero = pa.array([0], pa.int64())
    return pa.Table.from_arrays(
        [number, number, zero, count, count, zero, nothing, nothing], schema=statistics_schema(value_type)
    )


@dataclass(frozen=True)
class Spans:
    """The rows that statistics are about: those of page k are `[first[k], ends[k])`."""

    first: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    @classmethod
    def of(cls, table: pa.Table) -> Self:
        first = np.asarray(table["first_row"])
        return cls(first, first + np.asarray(table["rows"]))

    def rows_of_pieces(self, edges: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
        """For the piece between each two edges the page that covers it, or their number where none does."""
        count = len(self.first)
        if len(edges) == count + 1 and (self.first == edges[:-1]).all() and (self.ends == edges[1:]).all():
            return np.arange(count)
        # Of pages that begin at one row the last is meant: those before it are empty.
        pages = np.searchsorted(self.first, edges[:-1], side="right") - 1
        covered = (pages >= 0) & (edges[:-1] < np.append(self.ends, 0)[pages])
        return np.where(covered, pages, count)


def piece_edges(spans: Iterable[Spans], num_rows: int) -> npt.NDArray[np.int64]:
    """Return the rows at which a page of some column begins or ends, and the first and last of `num_rows`."""
    rows = [np.array([0, num_rows])]
    for span in spans:
        rows += [span.first, span.ends]
    return np.unique(np.minimum(np.concatenate(rows), num_rows))


def refined(coarse: pa.Table, fine: pa.Table, num_rows: int) -> pa.Table:
    """Statistics of one column from two tables: of rows that `fine` knows nothing about `coarse` tells."""
    spans = Spans.of(fine), Spans.of(coarse)
    edges = piece_edges(spans, num_rows)
    from_fine, from_coarse = (span.rows_of_pieces(edges) for span in spans)
    is_fine = from_fine < len(fine)
    kept = np.where(is_fine, np.append(True, from_fine[1:] != from_fine[:-1]), from_coarse < len(coarse))
    is_fine, at = is_fine[kept], edges[:-1][kept]
    places = np.where(is_fine, from_fine[kept], len(fine) + from_coarse[kept])
    table = pa.concat_tables([fine, coarse.cast(fine.schema)]).take(pa.array(places))
    whole = np.asarray(table["rows"])
    rows = np.where(is_fine, whole, np.diff(edges)[kept])
    columns = dict(zip(table.column_names, table.columns, strict=True))
    columns |= {"first_row": pa.array(at), "rows": pa.array(rows)}
    for name in ("null_count", "nan_count"):
        # Of a part of a page the count is known where none or all of its values are counted.
        counts = columns[name]
        part = pc.if_else(pc.equal(counts, table["rows"]), columns["rows"], pa.scalar(None, pa.int64()))
        part = pc.if_else(pc.equal(counts, 0), counts, part)
        columns[name] = pc.if_else(pa.array(rows == whole), counts, part)
    return pa.table(columns, schema=fine.schema)
