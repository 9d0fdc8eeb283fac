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

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


def statistics_schema(value_type: pa.DataType) -> pa.Schema:
    """The schema of the statistics of a column of type `value_type`."""
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
    """The statistics of a column without a single value, such as one that no file of a fragment holds."""
    count = pa.array([num_rows], pa.int64())
    nothing = pa.nulls(1, value_type)
    number = pa.array(np.zeros(1, np.int32))
    zero = pa.array([0], pa.int64())
    return pa.Table.from_arrays(
        [number, number, zero, count, count, zero, nothing, nothing], schema=statistics_schema(value_type)
    )


def piece_edges(tables: Iterable[pa.Table], num_rows: int) -> npt.NDArray[np.int64]:
    """The rows at which a page of some column begins or ends, and the first and last of `num_rows`."""
    rows = [np.array([0, num_rows])]
    for table in tables:
        first = np.asarray(table["first_row"])
        rows += [first, first + np.asarray(table["rows"])]
    return np.unique(np.minimum(np.concatenate(rows), num_rows))


def rows_of_pieces(table: pa.Table, edges: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """For the piece between each two edges the row of `table` about it, or their number where none is."""
    first = np.asarray(table["first_row"])
    ends = first + np.asarray(table["rows"])
    # Of pages that begin at one row the last is meant: those before it are empty.
    pages = np.searchsorted(first, edges[:-1], side="right") - 1
    covered = (pages >= 0) & (edges[:-1] < np.append(ends, 0)[pages])
    return np.where(covered, pages, len(first))


def refined(coarse: pa.Table, fine: pa.Table, num_rows: int) -> pa.Table:
    """Statistics of one column from two tables: of rows that `fine` knows nothing about `coarse` tells."""
    edges = piece_edges((coarse, fine), num_rows)
    from_fine, from_coarse = rows_of_pieces(fine, edges), rows_of_pieces(coarse, edges)
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
