"""Product quantisation: a vector is divided into sub-vectors, and each is replaced by the nearest codeword.

For `l2` and `cosine`, the codes are those of the difference to the centroid of the partition; for `dot` those
of the vector itself. A code has 8 or 4 bits. The codebook has the codewords of the first sub-vector, then
those of the second one, ..., whatever shape its tensor claims.

The estimate of a distance is a sum over the sub-vectors. All its terms for one query and one partition are in
a table, so that a row costs one lookup per sub-vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError

from lance_core import kernels
from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.index.vector.codes.stored_codes import (
    Array,
    CodedRows,
    CodeModel,
    Flags,
    Floats,
    QueryNumbers,
    with_codes,
)
from lance_core.index.vector.layouts import scanned, transposed_back
from lance_core.index.vector.partitions import read_tensor
from lance_core.kernels import BestRows, Block, QueriedRows, StoredVectors
from lance_core.proto import index_pb2

COLUMN = "__pq_code"


class ProductCodes:
    """Codes of sub-vectors."""

    columns = (COLUMN,)
    is_exact = False

    def __init__(self, model: CodeModel) -> None:
        """Read the codebook.

        Raises:
            CorruptFileError: The description or the codebook contradicts the format.
            UnsupportedFeatureError: Codes of other than 4 or 8 bits.
        """
        self._model = model
        self.num_bits = model.number("nbits", 1, 32)
        self.num_sub_vectors = model.number("num_sub_vectors", 1, model.dimension)
        if self.num_bits not in (4, 8):
            raise UnsupportedFeatureError(
                "product quantisation of a vector index",
                file=model.file,
                expected="4 or 8 bits",
                found=self.num_bits,
            )
        if model.dimension % self.num_sub_vectors or (self.num_bits == 4 and self.num_sub_vectors % 2):
            raise CorruptFileError(
                f"sub-vectors of {model.dimension} dimensions", file=model.file, found=self.num_sub_vectors
            )
        self.is_transposed = bool(model.description.get("transposed"))
        self.codebook = _codebook(model, self.num_sub_vectors, self.num_bits)
        self.columns_first = np.ascontiguousarray(self.codebook.transpose(0, 2, 1))
        """The codebook as kernels read it: [sub-vector][dimension of the sub-vector][codeword]."""
        self.centroids = np.ascontiguousarray(model.centroids, np.float32)

    @property
    def bytes_per_row(self) -> int:
        """Bytes of the codes of a row."""
        return self.num_sub_vectors * self.num_bits // 8

    def load(self, batch: pa.RecordBatch, *, has_graph: bool) -> CodedRows:
        codes = self._model.bytes_of(batch, COLUMN, self.bytes_per_row)
        if not has_graph:
            codes = scanned(codes.reshape(codes.shape[::-1]) if self.is_transposed else codes.T)
        elif self.is_transposed:
            codes = transposed_back(codes)
        return CodedRows(self._model.keys_of(batch), codes)

    def row_by_row(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not self.is_transposed:
            return batch
        codes = self._model.bytes_of(batch, COLUMN, self.bytes_per_row)
        return with_codes(batch, COLUMN, transposed_back(codes))

    def ask(self, vectors: Array, nearness: Floats) -> ProductQuestions:
        queries = np.ascontiguousarray(vectors, np.float32)
        return ProductQuestions(self, queries, self._model.metric, self._model.halving)

    def table(self, metric: str, query: Floats) -> Block:
        """Return the terms of the distances from a query, or from its difference to a centroid."""
        return kernels.lookup_table(metric, query, self.columns_first, self.num_sub_vectors)


@dataclass(frozen=True)
class ProductQuestions:
    """Queries for product codes. The table of a query depends on the partition, except for `dot`."""

    codes: ProductCodes
    vectors: Floats
    metric: str
    scale: float

    def queried(
        self, rows: CodedRows, partition: int, allowed: Flags | None, queries: QueryNumbers
    ) -> QueriedRows:
        return rows.queried(partition, allowed, queries)

    def scan(self, best: Sequence[BestRows], rows: Sequence[QueriedRows]) -> None:
        codes = self.codes
        kernels.scan_product_codes(
            best,
            rows,
            self.vectors,
            codes.columns_first,
            codes.num_sub_vectors,
            codes.num_bits,
            self.scale,
            self._offset,
            None if self.metric == "dot" else codes.centroids,
        )

    def compare(self, query: int, rows: CodedRows, partition: int) -> StoredVectors:
        codes, vector = self.codes, self.vectors[query]
        if self.metric == "dot":
            table = codes.table("dot", vector)
        else:
            table = codes.table("l2", vector - codes.centroids[partition])
        return StoredVectors.product_codes(
            rows.codes, table, codes.num_sub_vectors, codes.num_bits, self.scale, self._offset
        )

    @property
    def _offset(self) -> float:
        return 1.0 if self.metric == "dot" else 0.0


def _codebook(model: CodeModel, num_sub_vectors: int, num_bits: int) -> Floats:
    """Return the codewords: [sub-vector][codeword][dimension of the sub-vector]."""
    position = model.description.get("codebook_position") or 0
    if position:
        data = model.buffer(model.number("codebook_position", 1, 1 << 31))
    else:
        try:
            data = bytes(model.description.get("codebook_tensor") or ())
        except (TypeError, ValueError):
            raise CorruptFileError("codebook of a vector index", file=model.file) from None
    try:
        values = read_tensor(index_pb2.Tensor.FromString(data), model.file)
    except DecodeError:
        raise CorruptFileError("codebook of a vector index does not decode", file=model.file) from None
    num_codewords = 1 << num_bits
    if values.size != num_codewords * model.dimension:
        raise CorruptFileError(
            "codebook of a vector index",
            file=model.file,
            expected=f"{num_codewords * model.dimension} numbers",
            found=values.shape,
        )
    shape = (num_sub_vectors, num_codewords, model.dimension // num_sub_vectors)
    return np.ascontiguousarray(values, np.float32).reshape(shape)
