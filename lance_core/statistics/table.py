"""The form of page statistics: one small Arrow table per column, one row per page.

    column      int32   field id
    page        int32
    first_row   int64   row of the file that the page begins with
    rows        int64
    null_count  int64   null where it is not known
    nan_count   int64   null where it is not known
    min, max            of the column's type, null where no bound is known

The numbers are about rows as they are read. Bounds hold for every value that is neither null nor NaN; where
a page has no such value there may be none.
"""

import pyarrow as pa


def statistics_schema(value_type: pa.DataType) -> pa.Schema:
    """The schema of the statistics of a column of type `value_type`."""
    return pa.schema(
        [
            pa.field("column", pa.int32(), nullable=False),
            pa.field("page", pa.int32(), nullable=False),
            pa.field("first_row", pa.int64(), nullable=False),
            pa.field("rows", pa.int64(), nullable=False),
            pa.field("null_count", pa.int64()),
            pa.field("nan_count", pa.int64()),
            pa.field("min", value_type),
            pa.field("max", value_type),
        ]
    )
