"""Partitions and codes of vectors, batch by batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.index.vector.build.encoders import encoder_of
from lance_core.index.vector.build.kmeans import nearest_centroids
from lance_core.index.vector.build.options import VectorOptions
from lance_core.index.vector.build.training import TrainedModel, centroid_metric, comparable
from lance_core.index.vector.build.vectors import VectorBatch, VectorType
from lance_core.index.vector.codes.stored_codes import ROW_KEY
from lance_core.pool import map_in_pool, num_workers

Array = npt.NDArray[Any]


class CodedBatch(NamedTuple):
    """Coded vectors.

    Attributes:
        partitions: Partition of each vector.
        columns: Row keys, and the columns of the codes, with an entry or a row of fixed width per vector.
        loss: Sum of the distances to the centroids; None if it is not known.
    """

    partitions: npt.NDArray[np.uint32]
    columns: list[Array]
    loss: float | None


class VectorCoder:
    """Assigns vectors to the partitions of a trained model, and codes them. Thread-safe.

    Attributes:
        options: The options of the index.
        model: The trained model.
        encoder: The encoder of the codes.
    """

    def __init__(self, options: VectorOptions, model: TrainedModel, kind: VectorType) -> None:
        self.options = options
        self.model = model
        self.encoder = encoder_of(options, model, kind)
        self._kind = kind
        self._centroids = comparable(model.centroids, options.metric)

    @property
    def num_partitions(self) -> int:
        """Number of partitions."""
        return len(self._centroids)

    @property
    def schema(self) -> pa.Schema:
        """Row keys and codes, as the file of the index has them."""
        return pa.schema([pa.field(ROW_KEY, pa.uint64()), *self.encoder.fields])

    def code(self, batch: VectorBatch) -> CodedBatch:
        """Return the partitions and the codes of vectors."""
        metric = self.options.metric
        compared = comparable(batch.vectors, metric)
        partitions, distances = nearest_centroids(compared, self._centroids, centroid_metric(metric))
        columns = self.encoder.encode(batch.vectors, partitions)
        return CodedBatch(partitions, [batch.keys, *columns], float(distances.sum(dtype=np.float64)))

    def code_all(self, batches: Iterable[VectorBatch]) -> Iterator[CodedBatch]:
        """Return the result of each batch, in order. As many batches as there are cores are in work."""
        return map_in_pool(self.code, batches, num_workers())

    def no_rows(self) -> CodedBatch:
        """Return a batch without vectors, which has the types of the columns."""
        nowhere = np.empty(0, np.uint32)
        no_codes = self.encoder.encode(np.empty((0, self._kind.dimension), self._kind.dtype), nowhere)
        return CodedBatch(nowhere, [np.empty(0, np.uint64), *no_codes], 0.0)

    def to_arrow(self, columns: Iterable[Array]) -> pa.RecordBatch:
        """Return row keys and codes as a batch with `schema`."""
        return pa.RecordBatch.from_arrays(
            [_to_arrow(values, field.type) for values, field in zip(columns, self.schema, strict=True)],
            schema=self.schema,
        )


def _to_arrow(values: Array, kind: pa.DataType) -> pa.Array:
    if values.ndim == 1:
        return pa.array(values, kind)
    flat = pa.array(np.ascontiguousarray(values).reshape(-1), kind.value_type)
    return pa.FixedSizeListArray.from_arrays(flat, type=kind)
