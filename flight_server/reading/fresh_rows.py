"""Copies of rows without the memory of their neighbours.

Arrow sends a slice of an array with up to seven bytes behind it, and a dictionary with all its values. Both
may be of rows that are hidden from the caller.
"""

from collections.abc import Generator
from contextlib import closing

import pyarrow as pa

from lance_core.api.serving import BatchRun, holds_dictionary
from lance_core.errors import UnsupportedFeatureError


def check_fresh(schema: pa.Schema) -> None:
    """Check that `fresh_rows` can copy all columns of a schema.

    Raises:
        UnsupportedFeatureError: a column has a dictionary inside another type.
    """
    for field in schema:
        if holds_dictionary(field.type) and not pa.types.is_dictionary(field.type):
            raise UnsupportedFeatureError(
                "dictionaries inside another type cannot be read with a row filter", column=field.name
            )


def fresh_runs(runs: Generator[BatchRun, None, None]) -> Generator[BatchRun, None, None]:
    """Yield runs of batches whose rows are copied by `fresh_rows`."""
    with closing(runs):
        while (run := next(runs, None)) is not None:
            yield BatchRun(fresh_rows(run.rows), run.batch_rows)
            del run  # its memory must be free when the next one is asked for


def fresh_rows(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return a copy of rows, in which dictionaries have only values that the rows use."""
    if not rows.num_columns:
        return rows
    copied = rows.take(pa.array(range(rows.num_rows), pa.int64()))
    columns = [
        column.dictionary_decode().dictionary_encode().cast(column.type)
        if pa.types.is_dictionary(column.type)
        else column
        for column in copied.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)
