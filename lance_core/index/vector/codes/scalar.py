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
from lance_core.index.vector.codes.stored_codes import Array, CodedRows, CodeModel, ScannedRows
from lance_core.index.vector.layouts import Codes
from lance_core.kernels import BestRows, StoredVectors

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

    def ask(self, vector: Array) -> ScalarQuestion | ScalarProductQuestion:
        step = self.bounds.step
        if self._model.metric == "dot":
            query = np.ascontiguousarray(vector, np.float32)
            offset = 1 - float(np.float32(self.bounds.low)) * float(query.sum(dtype=np.float64))
            return ScalarProductQuestion(query, -step, offset)
        return ScalarQuestion(self.bounds.encode(vector), step * step * self._model.halving)


@dataclass(frozen=True)
class ScalarQuestion:
    """Query for `l2` and `cosine`, as a code."""

    code: Codes
    scale: float

    def scan(self, best: BestRows, parts: Sequence[ScannedRows]) -> None:
        for _, rows, allowed in parts:
            best.scan_code_distances(rows.keys, allowed, rows.codes, self.code, self.scale)

    def compare(self, rows: CodedRows, partition: int) -> StoredVectors:
        return StoredVectors.scalar_codes(rows.codes, self.code, self.scale)


@dataclass(frozen=True)
class ScalarProductQuestion:
    """Query for `dot`, not coded."""

    vector: Array
    scale: float
    offset: float

    def scan(self, best: BestRows, parts: Sequence[ScannedRows]) -> None:
        for _, rows, allowed in parts:
            best.scan_products(rows.keys, allowed, rows.codes, self.vector, self.scale, self.offset)

    def compare(self, rows: CodedRows, partition: int) -> StoredVectors:
        return StoredVectors.scalar_products(rows.codes, self.vector, self.scale, self.offset)
