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

import numpy as np
import pyarrow as pa


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
