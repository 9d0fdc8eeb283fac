"""Graphs of partitions, and their rows in the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.index.vector.build.options import VectorOptions
from lance_core.index.vector.graphs import NEIGHBORS, NODE
from lance_core.kernels import Graph, StoredVectors

_PREFETCH = 2

SCHEMA = pa.schema([pa.field(NODE, pa.uint32()), pa.field(NEIGHBORS, pa.list_(pa.uint32()))])
"""Columns of graphs in the file. Distances of neighbours, which the reference writes too, serve no search."""


@dataclass(frozen=True)
class BuiltGraph:
    """Graph of one partition: its rows, and its description for the metadata of the file."""

    rows: pa.RecordBatch
    description: dict[str, Any]


def build_graph(vectors: StoredVectors | None, options: VectorOptions) -> BuiltGraph:
    """Return the graph over the codes of a partition; None stands for a partition without rows."""
    if vectors is None:
        empty = pa.RecordBatch.from_pylist([], schema=SCHEMA)
        return BuiltGraph(empty, _description(0, [0], options))
    graph = Graph.build(vectors, options.max_neighbors, options.beam_width, options.max_levels)
    nodes, neighbors, level_offsets = [], [], [0]
    for numbers, starts, items in graph.levels():
        nodes.append(pa.array(np.frombuffer(memoryview(numbers), np.uint32)))
        offsets = np.frombuffer(memoryview(starts), np.uint32).astype(np.int32)
        neighbors.append(
            pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.frombuffer(memoryview(items), np.uint32)))
        )
        level_offsets.append(level_offsets[-1] + len(nodes[-1]))
    batch = pa.RecordBatch.from_arrays([pa.concat_arrays(nodes), pa.concat_arrays(neighbors)], schema=SCHEMA)
    return BuiltGraph(batch, _description(graph.entry, level_offsets, options))


def _description(entry: int, level_offsets: list[int], options: VectorOptions) -> dict[str, Any]:
    missing = options.max_levels + 1 - len(level_offsets)
    return {
        "entry_point": entry,
        "params": {
            "max_level": options.max_levels,
            "m": options.max_neighbors,
            "ef_construction": options.beam_width,
            "prefetch_distance": _PREFETCH,
        },
        "level_offsets": level_offsets + [level_offsets[-1]] * missing,
    }
