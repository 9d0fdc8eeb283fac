"""Functions that compute new columns from batches of rows; see `LanceDataset.add_columns`."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import Any

import pyarrow as pa

from lance_core.changes.columns.checkpoints import Checkpoints
from lance_core.changes.columns.column_sources import RowFunction

__all__ = ["BatchUDF", "batch_udf"]


class BatchUDF:
    """A function from record batches to batches of new columns; made by `batch_udf`."""

    def __init__(
        self,
        func: RowFunction,
        output_schema: pa.Schema | None = None,
        checkpoint_file: str | PathLike[str] | None = None,
    ) -> None:
        """Keep the arguments of `batch_udf`, which raises the same errors."""
        self.func = func
        self.output_schema = output_schema
        self.checkpoints = None if checkpoint_file is None else Checkpoints(checkpoint_file)

    def __call__(self, batch: pa.RecordBatch) -> Any:
        """Call the function with a batch, and return its result."""
        return self.func(batch)


def batch_udf(
    output_schema: pa.Schema | None = None, checkpoint_file: str | PathLike[str] | None = None
) -> Callable[[RowFunction], BatchUDF]:
    """Return a decorator for functions that compute new columns from batches.

    Args:
        output_schema: Schema of the new columns; that of the first result if left out.
        checkpoint_file: Path of a file that keeps the results of `LanceDataset.add_columns` until they are
            committed. If the process fails, another call with the same file computes only batches that are
            not in the file, or whose rows changed. The file takes as much space as the new columns in memory.
            Use one file for one function.

    Raises:
        InvalidInputError: The checkpoint file cannot be created, or is another kind of file.
    """

    def wrap(func: RowFunction) -> BatchUDF:
        return BatchUDF(func, output_schema, checkpoint_file)

    return wrap
