"""RaBitQ: few bits per dimension of the rotated difference of a vector to the centroid of its partition.

The first bit of a dimension is its sign. Further bits, up to 8, are in a column of their own. Together they
are a whole number per dimension; the distance to a query follows from the product of these numbers with the
rotated query, and from two factors of each row.

For `dot`, the reference scales the part of the centroid in the stored factor: the estimate is of the product
with the query less its projection on the centroid, which is shorter. The same is done here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError

from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.index.vector.codes.blocked_bits import bytes_per_row, unblocked
from lance_core.index.vector.codes.rotation import ROUNDS, FastRotation, MatrixRotation, Rotation
from lance_core.index.vector.codes.stored_codes import (
    Array,
    CodedRows,
    CodeModel,
    Flags,
    Floats,
    QueryNumbers,
    with_codes,
)
from lance_core.index.vector.layouts import scanned, unpacked
from lance_core.index.vector.partitions import read_tensor
from lance_core.index.vector.sums import sums_of
from lance_core.kernels import BestRows, Comparison, QueriedRows, StoredVectors, scan_compared, scan_lookups
from lance_core.proto import index_pb2

SIGNS, MORE_BITS = "_rabit_codes", "__blocked_ex_codes"
ADDED, SCALES, ERRORS = "__add_factors", "__scale_factors", "__error_factors"
ADDED_EX, SCALES_EX = "__add_factors_ex", "__scale_factors_ex"
MOST_BITS = 9
_MOST_MATRIX_DIMENSIONS = 1024

_NIBBLES = np.unpackbits(np.arange(16, dtype=np.uint8)[:, None], axis=1, count=4, bitorder="little").astype(
    np.float32
)
"""Bits of each half byte."""


class RotatedCodes:
    """Codes of rotated vectors."""

    is_exact = False

    def __init__(self, model: CodeModel) -> None:
        """Read the rotation.

        Raises:
            CorruptFileError: The description contradicts the format.
            UnsupportedFeatureError: Codes of early releases.
        """
        self._model = model
        described = model.description
        self.num_bits = model.number("num_bits", 1, MOST_BITS)
        if model.dimension % 8:
            raise CorruptFileError("dimension of RaBitQ codes", file=model.file, found=model.dimension)
        if described.get("query_estimator") != "raw_query" or (
            self.num_bits > 1 and model.arrow_schema.get_field_index(MORE_BITS) < 0
        ):
            raise UnsupportedFeatureError(
                "RaBitQ codes of an early release; build the index again", file=model.file
            )
        self.is_packed = bool(described.get("packed"))
        self.rotation = _rotation(model)
        centroids = np.asarray(model.centroids, np.float32)
        self.norms = np.einsum("ij,ij->i", centroids, centroids)
        """Squared norms of the centroids."""

    @property
    def columns(self) -> tuple[str, ...]:
        if self.num_bits == 1:
            return (SIGNS, ADDED, SCALES)
        return (SIGNS, MORE_BITS, ADDED_EX, SCALES_EX)

    def load(self, batch: pa.RecordBatch, *, has_graph: bool) -> CodedRows:
        model, width = self._model, self._model.dimension // 8
        signs = model.bytes_of(batch, SIGNS, width)
        signs = unpacked(signs) if self.is_packed else signs
        if self.num_bits == 1:
            codes: Array = scanned(signs.T)
            added, scales = ADDED, SCALES
        else:
            codes = self._whole_codes(signs, batch)
            added, scales = ADDED_EX, SCALES_EX
        halving = np.float32(model.halving)
        return CodedRows(
            model.keys_of(batch),
            codes,
            model.floats_of(batch, scales) * halving,
            model.floats_of(batch, added) * halving,
        )

    def _whole_codes(self, signs: Array, batch: pa.RecordBatch) -> Array:
        """Return one number per dimension: the sign bit above the other bits."""
        model, num_more = self._model, self.num_bits - 1
        stored = model.bytes_of(batch, MORE_BITS, bytes_per_row(model.dimension, num_more))
        more = unblocked(stored, model.dimension, num_more)
        bits = np.unpackbits(signs, axis=1, bitorder="little")
        if num_more == 8:
            return (bits.astype(np.uint16) << np.uint16(8)) | more
        return np.ascontiguousarray((bits << np.uint8(num_more)) | more)

    def row_by_row(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not self.is_packed:
            return batch
        codes = self._model.bytes_of(batch, SIGNS, self._model.dimension // 8)
        return with_codes(batch, SIGNS, unpacked(codes))

    def ask(self, vectors: Array, nearness: Floats) -> RotatedQuestions:
        queries, rotation = np.ascontiguousarray(vectors, np.float32), self.rotation
        if isinstance(rotation, MatrixRotation):
            turned = sums_of(queries, rotation.matrix, "product")
        else:
            turned = rotation(queries)
        middle = 2.0 ** (self.num_bits - 1) - 0.5
        shifts = (-middle * turned.astype(np.float64).sum(axis=1)).astype(np.float32)
        return RotatedQuestions(self, turned, shifts, nearness, self._model)


class RotatedQuestions:
    """Queries for RaBitQ codes.

    Codes of one bit have tables with the sums of each rotated query over each half byte of signs.
    """

    def __init__(
        self, codes: RotatedCodes, turned: Floats, shifts: Floats, nearness: Floats, model: CodeModel
    ) -> None:
        """Prepare rotated queries.

        Args:
            codes: The codes that are asked.
            turned: The queries.
            shifts: Numbers that are added to the products of the queries with codes.
            nearness: See `StoredCodes.ask`.
            model: Facts about the codes.
        """
        self._norms = codes.norms
        self._shifts = shifts
        self._nearness = nearness
        self._model = model
        self._num_tables = turned.shape[1] // 4
        self._tables: Floats = np.empty(0, np.float32)
        self._comparison: Comparison | None = None
        if codes.num_bits == 1:
            elements = turned.reshape(len(turned), -1, 4, 1)
            first, second, third, fourth = (elements[:, :, k] * _NIBBLES[:, k] for k in range(4))
            self._tables = np.ascontiguousarray(first + second + third + fourth)
        else:
            kind = "uint16" if codes.num_bits == MOST_BITS else "uint8"
            self._comparison = Comparison(turned.data, turned.shape[1], kind, "product", one_by_one=True)

    def queried(
        self, rows: CodedRows, partition: int, allowed: Flags | None, queries: QueryNumbers
    ) -> QueriedRows:
        shifts, nearness = self._shifts[queries], self._nearness[queries, partition]
        if self._model.metric != "dot":
            offsets = nearness * np.float32(self._model.halving)
            return rows.queried(partition, allowed, queries, shifts, offsets)
        products, norm = -nearness, self._norms[partition]
        shares = products / norm if norm else np.zeros_like(products)
        return rows.queried(partition, allowed, queries, shifts, 1 - shares - products, shares)

    def scan(self, best: Sequence[BestRows], rows: Sequence[QueriedRows]) -> None:
        if self._comparison is not None:
            scan_compared(best, rows, self._comparison)
        else:
            scan_lookups(best, rows, self._tables, self._num_tables, 4)

    def compare(self, query: int, rows: CodedRows, partition: int) -> StoredVectors:
        raise UnsupportedFeatureError("a graph over RaBitQ codes")


def _rotation(model: CodeModel) -> Rotation:
    described, dimension = model.description, model.dimension
    kind = described.get("rotation_type", "matrix")
    if kind == "fast":
        try:
            signs = np.array(list(described["fast_rotation_signs"]), np.uint8)
        except (KeyError, TypeError, ValueError, OverflowError):
            raise CorruptFileError("signs of a rotation", file=model.file) from None
        if len(signs) != ROUNDS * -(-dimension // 8) or described.get("code_dim") != dimension:
            raise CorruptFileError(
                "signs of a rotation", file=model.file, expected=ROUNDS * -(-dimension // 8), found=len(signs)
            )
        fast = FastRotation(signs, dimension)
        return fast.as_matrix() if dimension <= _MOST_MATRIX_DIMENSIONS else fast
    if kind != "matrix":
        raise UnsupportedFeatureError("rotation of a vector index", file=model.file, found=kind)
    try:
        message = index_pb2.Tensor.FromString(model.buffer(model.number("rotate_mat_position", 1, 1 << 31)))
    except DecodeError:
        raise CorruptFileError("matrix of a rotation does not decode", file=model.file) from None
    matrix = read_tensor(message, model.file)
    if matrix.shape != (dimension, dimension):
        raise CorruptFileError(
            "matrix of a rotation", file=model.file, expected=dimension, found=matrix.shape
        )
    return MatrixRotation(np.ascontiguousarray(matrix, np.float32))
