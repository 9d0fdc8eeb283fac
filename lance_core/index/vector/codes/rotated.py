"""RaBitQ: few bits per dimension of the rotated difference of a vector to the centroid of its partition.

The first bit of a dimension is its sign. Further bits, up to 8, are in a column of their own. Together they
are a whole number per dimension; the distance to a query follows from the product of these numbers with the
rotated query, and from two factors of each row.

For `dot`, the reference scales the part of the centroid in the stored factor: the estimate is of the product
with the query less its projection on the centroid, which is shorter. The same is done here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    ScannedRows,
    with_codes,
)
from lance_core.index.vector.layouts import scanned, unpacked
from lance_core.index.vector.partitions import read_tensor
from lance_core.kernels import BestRows, StoredVectors
from lance_core.proto import index_pb2

SIGNS, MORE_BITS = "_rabit_codes", "__blocked_ex_codes"
ADDED, SCALES, ERRORS = "__add_factors", "__scale_factors", "__error_factors"
ADDED_EX, SCALES_EX = "__add_factors_ex", "__scale_factors_ex"
MOST_BITS = 9
_MOST_MATRIX_DIMENSIONS = 1024

_NIBBLES = np.unpackbits(np.arange(16, dtype=np.uint8)[:, None], axis=1, count=4, bitorder="little")


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
        self.centroids = centroids

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

    def ask(self, vector: Array) -> RotatedQuestion:
        query = np.ascontiguousarray(vector, np.float32)
        turned = self.rotation(query)
        if self.num_bits == 1:
            table = np.ascontiguousarray(turned.reshape(-1, 4) @ _NIBBLES.T.astype(np.float32))
        else:
            table = turned
        middle = 2.0 ** (self.num_bits - 1) - 0.5
        shift = -middle * float(turned.sum(dtype=np.float64))
        return RotatedQuestion(self, query, table, shift, self._model.metric, self._model.halving)


@dataclass(frozen=True)
class RotatedQuestion:
    """Query for RaBitQ codes.

    `table` is the rotated query, or for codes of one bit its sums over each half byte of signs.
    """

    codes: RotatedCodes
    vector: Floats
    table: Floats
    shift: float
    metric: str
    halving: float

    def scan(self, best: BestRows, parts: Sequence[ScannedRows]) -> None:
        for part in parts:
            self._scan(best, *part)

    def _scan(self, best: BestRows, partition: int, rows: CodedRows, allowed: Flags | None) -> None:
        scales, offsets, offset = rows.row_scales, rows.row_offsets, 0.0
        assert scales is not None
        assert offsets is not None
        centroid = self.codes.centroids[partition]
        if self.metric == "dot":
            product, norm = float(self.vector @ centroid), float(self.codes.norms[partition])
            share = product / norm if norm else 0.0
            offsets = offsets * np.float32(share)
            offset = 1 - share - product
        else:
            difference = self.vector - centroid
            offset = self.halving * float(difference @ difference)
        if self.codes.num_bits == 1:
            best.scan_lookups(
                rows.keys,
                allowed,
                rows.codes,
                self.table,
                len(self.table),
                4,
                1.0,
                offset,
                scales,
                offsets,
                self.shift,
            )
        elif self.codes.num_bits < MOST_BITS:
            best.scan_products(
                rows.keys, allowed, rows.codes, self.table, 1.0, offset, scales, offsets, self.shift
            )
        else:
            sums = rows.codes.astype(np.float32) @ self.table + np.float32(self.shift)
            best.offer(rows.keys, allowed, sums * scales + (offsets + np.float32(offset)))

    def compare(self, rows: CodedRows, partition: int) -> StoredVectors:
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
