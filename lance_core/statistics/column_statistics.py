"""Form of the statistics of a column: a small Arrow table with one row per page or zone.

    column      int32   number of the column; its meaning depends on the source of the statistics
    page        int32   number of the page; null if the row is not about one page
    first_row   int64   first row of the page or zone
    rows        int64   number of rows
    null_count  int64   null if unknown
    nan_count   int64   null if unknown
    min, max            of the column's type, null if no bound is known

The numbers are about rows as they are read. Bounds hold for every value that is neither null nor NaN. A page
without such values may have no bounds. Rows of the table are ascending and do not overlap. Nothing is known
about rows between two pages.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.number_sets import distinct
from lance_core.schema.arrow_values import array_of, numbers_of, scalar_of


@lru_cache(maxsize=256)  # a schema of its own would be most of the memory of a small table
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
    """Return the statistics of a column with nulls only, such as a column that no file of a
    fragment stores.
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
    """Row ranges of the pages in a table of statistics: page k has the rows `[first[k], ends[k])`."""

    first: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    @classmethod
    def of(cls, table: pa.Table) -> Self:
        first = numbers_of(table["first_row"])
        return cls(first, first + numbers_of(table["rows"]))

    @classmethod
    def joined(cls, parts: Sequence[tuple[Self, int, int]]) -> Self:
        """Return the pages of several fragments, each given with its first row and its end among all rows.

        Pages that claim more rows than their fragment has do not reach into the next one.
        """
        counts = [len(part.first) for part, _, _ in parts]
        start, end = (np.repeat([part[side] for part in parts], counts) for side in (1, 2))
        first = np.concatenate([part.first for part, _, _ in parts])
        ends = np.concatenate([part.ends for part, _, _ in parts])
        return cls(np.minimum(first + start, end), np.minimum(ends + start, end))

    def edges(self, num_rows: int) -> npt.NDArray[np.int64] | None:
        """Return the edges of the pages, if they follow each other and have all of `num_rows` rows; else
        None.
        """
        edges = np.append(self.first, num_rows)
        is_whole = not edges[0] and (edges[1:] == self.ends).all() and (edges[1:] > edges[:-1]).all()
        return edges if is_whole else None

    def are_between(self, edges: npt.NDArray[np.int64]) -> bool:
        """Return whether the row ranges between two edges are the pages."""
        return bool(
            len(edges) == len(self.first) + 1
            and (self.first == edges[:-1]).all()
            and (self.ends == edges[1:]).all()
        )

    def pages_between(self, edges: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
        """Return for each row range between two edges the number of the page that covers it.

        If no page covers a range, its entry is the number of pages.
        """
        count = len(self.first)
        # If several pages begin at the same row, all but the last are empty.
        pages = np.searchsorted(self.first, edges[:-1], side="right") - 1
        covered = (pages >= 0) & (edges[:-1] < np.append(self.ends, 0)[pages])
        return np.where(covered, pages, count)


def range_edges(spans: Sequence[Spans], starts: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return the row numbers at which a page or zone of any column begins or ends, ascending and distinct.

    `starts`, the first rows of the fragments and the number of all rows, are among them. A larger number
    counts as the number of all rows.
    """
    num_rows = starts[-1]
    edges = spans[0].edges(num_rows) if spans else None
    if edges is not None and all(span.are_between(edges) for span in spans[1:]):
        return edges
    rows = [np.array(starts), *(side for span in spans for side in (span.first, span.ends))]
    return distinct(np.minimum(np.concatenate(rows), num_rows))


def refined(coarse: pa.Table, fine: pa.Table, num_rows: int) -> pa.Table:
    """Return the statistics of one column from two tables. `coarse` is used for rows that `fine` does not
    cover.
    """
    spans = Spans.of(fine), Spans.of(coarse)
    edges = range_edges(spans, (0, num_rows))
    from_fine, from_coarse = (span.pages_between(edges) for span in spans)
    is_fine = from_fine < len(fine)
    kept = np.where(is_fine, np.append(True, from_fine[1:] != from_fine[:-1]), from_coarse < len(coarse))
    is_fine, at = is_fine[kept], edges[:-1][kept]
    places = np.where(is_fine, from_fine[kept], len(fine) + from_coarse[kept])
    table = pa.concat_tables([fine, coarse.cast(fine.schema)]).take(array_of(places))
    whole = numbers_of(table["rows"])
    rows = np.where(is_fine, whole, np.diff(edges)[kept])
    columns = dict(zip(table.column_names, table.columns, strict=True))
    columns |= {"first_row": array_of(at), "rows": array_of(rows)}
    for name in ("null_count", "nan_count"):
        # The count of a part of a page is known if the count of the page is zero or all of its rows.
        counts = columns[name]
        part = pc.if_else(pc.equal(counts, table["rows"]), columns["rows"], scalar_of(None, pa.int64()))
        part = pc.if_else(pc.equal(counts, scalar_of(0)), counts, part)
        columns[name] = pc.if_else(array_of(rows == whole), counts, part)
    return pa.table(columns, schema=fine.schema)
