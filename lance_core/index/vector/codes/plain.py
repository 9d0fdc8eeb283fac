"""Plain vectors: their distances are exact.

The column `flat` has the vectors; for `cosine` they are divided by their norms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lance_core.errors import CorruptFileError
from lance_core.index.vector.codes.stored_codes import (
    Array,
    CodedRows,
    CodeModel,
    Flags,
    Floats,
    QueryNumbers,
)
from lance_core.kernels import BestRows, Comparison, QueriedRows, StoredVectors, scan_compared

COLUMN = "flat"

_ELEMENTS = {np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.uint8)}


class PlainCodes:
    """Vectors as they are, in memory as float32, float64 or bytes."""

    columns = (COLUMN,)
    is_exact = True

    def __init__(self, model: CodeModel) -> None:
        self._model = model

    def load(self, batch: pa.RecordBatch, *, has_graph: bool) -> CodedRows:
        column = batch.column(COLUMN)
        model = self._model
        is_list = pa.types.is_fixed_size_list(column.type)
        if not is_list or column.type.list_size != model.dimension or column.null_count:
            raise CorruptFileError(
                "vectors of a vector index",
                file=model.file,
                expected=f"{model.dimension} numbers per row",
                found=f"{column.type}, {column.null_count} nulls",
            )
        values = np.asarray(column.flatten().to_numpy(zero_copy_only=False))
        if values.dtype not in _ELEMENTS or (values.dtype == np.uint8) != (model.metric == "hamming"):
            raise CorruptFileError(
                f"vectors of a vector index for {model.metric}", file=model.file, found=values.dtype
            )
        if values.dtype == np.float16 or (has_graph and values.dtype == np.float64):
            values = values.astype(np.float32)
        vectors = values.reshape(-1, model.dimension)
        if model.metric == "cosine":
            # As in the reference: files of other writers may have vectors as they were given.
            with np.errstate(invalid="ignore", divide="ignore"):
                vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return CodedRows(model.keys_of(batch), np.ascontiguousarray(vectors))

    def row_by_row(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch

    def ask(self, vectors: Array, nearness: Floats) -> PlainQuestions:
        # Unit vectors of cosine are at the distance 1 - product.
        return PlainQuestions("dot" if self._model.metric == "cosine" else self._model.metric, vectors)


class PlainQuestions:
    """Queries for plain vectors. Distances are those of an exact search of one query."""

    def __init__(self, metric: str, vectors: Array) -> None:
        self._metric = metric
        self._vectors = vectors
        self._comparison: Comparison | None = None

    def queried(
        self, rows: CodedRows, partition: int, allowed: Flags | None, queries: QueryNumbers
    ) -> QueriedRows:
        if self._comparison is None:
            kind = rows.codes.dtype
            vectors = self._as(kind)
            self._comparison = Comparison(
                vectors.data, vectors.shape[1], str(kind), self._metric, one_by_one=True
            )
        return rows.queried(partition, allowed, queries)

    def scan(self, best: Sequence[BestRows], rows: Sequence[QueriedRows]) -> None:
        assert self._comparison is not None
        scan_compared(best, rows, self._comparison)

    def compare(self, query: int, rows: CodedRows, partition: int) -> StoredVectors:
        return StoredVectors.plain(self._metric, rows.codes, self._as(rows.codes.dtype)[query])

    def _as(self, kind: np.dtype[Any]) -> Array:
        """Return the queries in the type of the stored vectors."""
        return np.ascontiguousarray(self._vectors, kind)
