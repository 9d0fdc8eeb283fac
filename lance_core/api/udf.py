"""Functions that compute new columns from batches of rows; see `LanceDataset.add_columns`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from lance_core.changes.columns.column_sources import RowFunction
from lance_core.errors import UnsupportedFeatureError

__all__ = ["BatchUDF", "batch_udf"]


class BatchUDF:
    """A function from record batches to batches of new columns; made by `batch_udf`."""

    def __init__(self, func: RowFunction, output_schema: pa.Schema | None = None) -> None:
        self.func = func
        self.output_schema = output_schema

    def __call__(self, batch: pa.RecordBatch) -> Any:
        """Return the result of the function for a batch."""
        return self.func(batch)


def batch_udf(
    output_schema: pa.Schema | None = None, checkpoint_file: Any = None
) -> Callable[[RowFunction], BatchUDF]:
    """Return a decorator for functions that compute new columns from batches.

    Args:
        output_schema: Schema of the new columns; that of the first result if left out.
        checkpoint_file: Not supported.

    Raises:
        UnsupportedFeatureError: A checkpoint file is given.
    """
    if checkpoint_file is not None:
        raise UnsupportedFeatureError("argument 'checkpoint_file'")

    def wrap(func: RowFunction) -> BatchUDF:
        return BatchUDF(func, output_schema)

    return wrap
