"""Functions that compute new columns from batches of rows; see `LanceDataset.add_columns`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from lance_core.changes.columns.column_sources import RowFunction
from lance_core.errors import UnsupportedFeatureError


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
    """Let a function from batches to batches compute new columns.

    Args:
        output_schema: the new columns; those of the first result if not given.
        checkpoint_file: not supported.

    Raises:
        UnsupportedFeatureError: a checkpoint file.
    """
    if checkpoint_file is not None:
        raise UnsupportedFeatureError("argument 'checkpoint_file'")

    def wrap(func: RowFunction) -> BatchUDF:
        return BatchUDF(func, output_schema)

    return wrap
