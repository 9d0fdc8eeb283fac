"""Plain vectors: their distances are exact.

The column `flat` has the vectors; for `cosine` they are divided by their norms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_core.errors import CorruptFileError
from lance_core.index.vector.codes.stored_codes import Array, CodedRows, CodeModel, Flags
from lance_core.kernels import BestRows, StoredVectors

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

    def ask(self, vector: Array) -> PlainQuestion:
        return PlainQuestion("dot" if self._model.metric == "cosine" else self._model.metric, vector)


@dataclass(frozen=True)
class PlainQuestion:
    """Query for plain vectors; for `dot` and unit vectors of `cosine` the distance is 1 - product."""

    metric: str
    vector: Array

    def scan(self, best: BestRows, rows: CodedRows, partition: int, allowed: Flags | None) -> None:
        if rows.codes.dtype != np.float64:
            best.scan_plain(rows.keys, allowed, self.compare(rows, partition))
            return
        query = self.vector.astype(np.float64)
        if self.metric == "dot":
            distances = 1 - rows.codes @ query
        else:
            differences = rows.codes - query
            distances = np.einsum("ij,ij->i", differences, differences)
        best.offer(rows.keys, allowed, distances.astype(np.float32))

    def compare(self, rows: CodedRows, partition: int) -> StoredVectors:
        query = np.ascontiguousarray(self.vector.astype(rows.codes.dtype, copy=False))
        return StoredVectors.plain(self.metric, rows.codes, query)
