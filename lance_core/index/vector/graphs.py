"""Graphs (HNSW) of the partitions of a vector index.

A graph has the rows of `index.idx` that the `IVF` message names for its partition: all nodes of level 0, then
those of level 1, ... A node is the number of a row in its partition of `auxiliary.idx`. On each level the
nodes are in ascending order, so a level ends where the numbers stop ascending.

Source: docs/format.md, "Index files".
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lance_core.errors import CorruptFileError
from lance_core.kernels import CorruptData, Graph

NODE, NEIGHBORS = "__vector_id", "__neighbors"
DISTANCES = "_distance"


def read_graph(batch: pa.RecordBatch, entry: int, num_rows: int, file: str) -> Graph:
    """Return the graph of a partition.

    Args:
        batch: The columns `NODE` and `NEIGHBORS` of the partition.
        entry: Node at which a search begins.
        num_rows: Number of rows of the partition.
        file: Name of the file, for messages.

    Raises:
        CorruptFileError: The rows are no graph of that many nodes.
    """
    nodes, neighbors = batch.column(NODE), batch.column(NEIGHBORS)
    is_list = pa.types.is_list(neighbors.type) or pa.types.is_large_list(neighbors.type)
    if (
        nodes.type != pa.uint32()
        or not is_list
        or neighbors.type.value_type != pa.uint32()
        or nodes.null_count
        or neighbors.null_count
        or neighbors.flatten().null_count
    ):
        raise CorruptFileError(
            "graph of a vector index",
            file=file,
            expected="uint32 and lists of uint32 without nulls",
            found=f"{nodes.type} and {neighbors.type}",
        )
    numbers = nodes.to_numpy()
    offsets = neighbors.offsets.to_numpy().astype(np.int64)
    items = neighbors.values.to_numpy()
    starts = np.flatnonzero(numbers[1:] <= numbers[:-1]) + 1
    levels = []
    for first, last in zip([0, *starts.tolist()], [*starts.tolist(), len(numbers)], strict=True):
        level = offsets[first : last + 1]
        levels.append(
            (
                np.ascontiguousarray(numbers[first:last]),
                (level - level[0]).astype(np.uint32),
                np.ascontiguousarray(items[level[0] : level[-1]]),
            )
        )
    try:
        return Graph(num_rows, entry, levels)
    except CorruptData as error:
        raise CorruptFileError(str(error), file=file) from None
