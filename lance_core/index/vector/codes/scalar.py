"""Scalar quantisation: one byte per dimension, with the same bounds for all dimensions.

The code of a number `x` is `(x - lo) * 255 / (hi - lo)`, truncated, at least 0 and at most 255. Codes are
computed in float64, as the reference does.

Distances for `l2` and `cosine` are those of the codes of both vectors, so that a vector is at distance 0 from
itself. For `dot` only the stored vector is coded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.index.vector.codes.stored_codes import (
    Array,
    CodedRows,
    CodeModel,
    Flags,
    Floats,
    QueryNumbers,
)
from lance_core.index.vector.layouts import Codes
from lance_core.kernels import BestRows, Comparison, QueriedRows, StoredVectors, scan_compared

COLUMN = "__sq_code"
NUM_BITS = 8


@dataclass(frozen=True)
class Bounds:
    """Least and greatest number that codes represent."""

    low: float
    high: float

    def encode(self, vectors: Array) -> Codes:
        """Return the code of each number, in the shape of `vectors`."""
        if self.low == self.high:
            return np.zeros(vectors.shape, np.uint8)
        scaled = (vectors.astype(np.float64) - self.low) * 255
        scaled /= self.high - self.low
        return np.clip(scaled, 0, 255, out=scaled).astype(np.uint8)

    @property
    def step(self) -> float:
        """Difference of the numbers of two neighbouring codes, in float32."""
        return float(np.float32(np.float32(self.high - self.low) / np.float32(255)))


class ScalarCodes:
    """Codes of one byte per dimension."""

    columns = (COLUMN,)
    is_exact = False

    def __init__(self, model: CodeModel) -> None:
        """Read the bounds.

        Raises:
            CorruptFileError: The bounds are missing, or no finite numbers.
            UnsupportedFeatureError: Codes of other than 8 bits.
        """
        self._model = model
        if model.description.get("num_bits") != NUM_BITS:
            raise UnsupportedFeatureError(
                "scalar quantisation of a vector index",
                file=model.file,
                expected="8 bits",
                found=model.description.get("num_bits"),
            )
        described = model.description.get("bounds")
        try:
            self.bounds = Bounds(float(described["start"]), float(described["end"]))  # type: ignore[index]
        except (TypeError, KeyError, ValueError, OverflowError):
            raise CorruptFileError(
                "bounds of scalar quantisation", file=model.file, found=described
            ) from None
        if not np.isfinite([self.bounds.low, self.bounds.high, self.bounds.high - self.bounds.low]).all():
            raise CorruptFileError("bounds of scalar quantisation", file=model.file, found=self.bounds)

    def load(self, batch: pa.RecordBatch, *, has_graph: bool) -> CodedRows:
        codes = self._model.bytes_of(batch, COLUMN, self._model.dimension)
        return CodedRows(self._model.keys_of(batch), codes)

    def row_by_row(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch

    def ask(self, vectors: Array, nearness: Floats) -> ScalarQuestions | ScalarProductQuestions:
        step = self.bounds.step
        if self._model.metric == "dot":
            queries = np.ascontiguousarray(vectors, np.float32)
            sums = queries.astype(np.float64).sum(axis=1)
            offsets = (1 - float(np.float32(self.bounds.low)) * sums).astype(np.float32)
            return ScalarProductQuestions(queries, _comparison(queries, "product"), -step, offsets)
        codes = self.bounds.encode(vectors)
        comparison = _comparison(codes.astype(np.float32), "l2")
        return ScalarQuestions(codes, comparison, step * step * self._model.halving)


def _comparison(queries: Floats, metric: str) -> Comparison:
    return Comparison(queries.data, queries.shape[1], "uint8", metric, one_by_one=True)


@dataclass(frozen=True)
class ScalarQuestions:
    """Queries for `l2` and `cosine`, as codes."""

    codes: Codes
    comparison: Comparison
    scale: float

    def queried(
        self, rows: CodedRows, partition: int, allowed: Flags | None, queries: QueryNumbers
    ) -> QueriedRows:
        return rows.queried(partition, allowed, queries)

    def scan(self, best: Sequence[BestRows], rows: Sequence[QueriedRows]) -> None:
        scan_compared(best, rows, self.comparison, self.scale)

    def compare(self, query: int, rows: CodedRows, partition: int) -> StoredVectors:
        return StoredVectors.scalar_codes(rows.codes, self.codes[query], self.scale)


@dataclass(frozen=True)
class ScalarProductQuestions:
    """Queries for `dot`, not coded."""

    vectors: Floats
    comparison: Comparison
    scale: float
    offsets: Floats

    def queried(
        self, rows: CodedRows, partition: int, allowed: Flags | None, queries: QueryNumbers
    ) -> QueriedRows:
        return rows.queried(partition, allowed, queries, offsets=self.offsets[queries])

    def scan(self, best: Sequence[BestRows], rows: Sequence[QueriedRows]) -> None:
        scan_compared(best, rows, self.comparison, self.scale)

    def compare(self, query: int, rows: CodedRows, partition: int) -> StoredVectors:
        return StoredVectors.scalar_products(
            rows.codes, self.vectors[query], self.scale, float(self.offsets[query])
        )
