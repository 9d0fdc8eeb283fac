"""Codes of vectors for the file of a vector index, and the description of the codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core import kernels
from lance_core.errors import UnsupportedFeatureError
from lance_core.index.vector.build.kmeans import nearest_centroids
from lance_core.index.vector.build.options import VectorOptions
from lance_core.index.vector.build.training import TrainedModel
from lance_core.index.vector.build.vectors import VectorType
from lance_core.index.vector.codes import plain, product, rotated, scalar
from lance_core.index.vector.codes.blocked_bits import blocked, bytes_per_row
from lance_core.index.vector.codes.rotation import FastRotation, describe_codes
from lance_core.index.vector.layouts import transposed
from lance_core.index.vector.partitions import tensor_of
from lance_core.kernels import StoredVectors

Array = npt.NDArray[Any]
CODEBOOK_BUFFER = 2
_CONFIDENCE = 1.9
"""Factor of the error of an estimate; the reference uses the same."""


class Encoder(Protocol):
    """Makes codes of vectors. Thread-safe."""

    @property
    def fields(self) -> Sequence[pa.Field]:
        """Columns of the codes in the file."""

    @property
    def description(self) -> dict[str, Any]:
        """Description of the codes for the metadata of the file."""

    @property
    def buffers(self) -> Sequence[bytes]:
        """Global buffers of the file after that of the partitions."""

    def encode(self, vectors: Array, partitions: npt.NDArray[np.uint32]) -> list[Array]:
        """Return the codes of vectors in some partitions: an array per column, with one or two dimensions."""

    def arranged(self, columns: Sequence[Array]) -> list[Array]:
        """Return the codes of all rows of one partition in the layout of the file."""

    def compare(self, columns: Sequence[Array]) -> StoredVectors:
        """Return the rows of one partition as a graph compares them with each other."""


def encoder_of(options: VectorOptions, model: TrainedModel, kind: VectorType) -> Encoder:
    """Return the encoder for the codes of an index."""
    if options.codes == "FLAT":
        return PlainEncoder(options, kind)
    if options.codes == "SQ":
        return ScalarEncoder(options, model, kind)
    if options.codes == "PQ":
        return ProductEncoder(options, model, kind)
    return RotatedEncoder(options, model, kind)


class PlainEncoder:
    """Vectors as they are; for `cosine` they were divided by their norms."""

    description: dict[str, Any]
    buffers: Sequence[bytes] = ()

    def __init__(self, options: VectorOptions, kind: VectorType) -> None:
        self._metric = "dot" if options.metric == "cosine" else options.metric
        self.fields = [pa.field(plain.COLUMN, pa.list_(kind.element, kind.dimension), nullable=False)]
        self.description = {"dim": kind.dimension}

    def encode(self, vectors: Array, partitions: npt.NDArray[np.uint32]) -> list[Array]:
        return [vectors]

    def arranged(self, columns: Sequence[Array]) -> list[Array]:
        return list(columns)

    def compare(self, columns: Sequence[Array]) -> StoredVectors:
        (vectors,) = columns
        if vectors.dtype != np.uint8:
            vectors = np.ascontiguousarray(vectors, np.float32)
        return StoredVectors.plain(self._metric, vectors, vectors[0])


class ScalarEncoder:
    """One byte per dimension."""

    buffers: Sequence[bytes] = ()

    def __init__(self, options: VectorOptions, model: TrainedModel, kind: VectorType) -> None:
        assert model.bounds is not None
        self._metric = options.metric
        self._bounds = model.bounds
        self.fields = [pa.field(scalar.COLUMN, pa.list_(pa.uint8(), kind.dimension))]
        self.description = {
            "dim": kind.dimension,
            "num_bits": scalar.NUM_BITS,
            "bounds": {"start": model.bounds.low, "end": model.bounds.high},
        }

    def encode(self, vectors: Array, partitions: npt.NDArray[np.uint32]) -> list[Array]:
        return [self._bounds.encode(vectors)]

    def arranged(self, columns: Sequence[Array]) -> list[Array]:
        return list(columns)

    def compare(self, columns: Sequence[Array]) -> StoredVectors:
        (codes,) = columns
        if self._metric != "dot":
            return StoredVectors.scalar_codes(codes, codes[0], 1.0)
        numbers = codes * np.float32(self._bounds.step) + np.float32(self._bounds.low)
        return StoredVectors.plain("dot", numbers, numbers[0])


class ProductEncoder:
    """The number of the nearest codeword of each sub-vector."""

    def __init__(self, options: VectorOptions, model: TrainedModel, kind: VectorType) -> None:
        assert model.codebook is not None
        self._codebook = model.codebook
        self._num_bits = options.num_bits
        self._is_transposed = options.is_transposed
        self._centroids = None if options.metric == "dot" else model.centroids.astype(np.float32)
        width = options.num_sub_vectors * options.num_bits // 8
        self.fields = [pa.field(product.COLUMN, pa.list_(pa.uint8(), width))]
        self.description = {
            "codebook_position": CODEBOOK_BUFFER,
            "nbits": options.num_bits,
            "num_sub_vectors": options.num_sub_vectors,
            "dimension": kind.dimension,
            "codebook_tensor": [],
            "transposed": options.is_transposed,
        }
        shaped = model.codebook.astype(kind.dtype).reshape(1 << options.num_bits, kind.dimension)
        self.buffers = [tensor_of(shaped).SerializeToString()]

    def encode(self, vectors: Array, partitions: npt.NDArray[np.uint32]) -> list[Array]:
        values = np.ascontiguousarray(vectors, np.float32)
        if self._centroids is not None:
            values = values - self._centroids[partitions]
        num_sub_vectors, _, size = self._codebook.shape
        codes = np.empty((len(values), num_sub_vectors), np.uint8)
        for number, codewords in enumerate(self._codebook):
            codes[:, number] = nearest_centroids(values, codewords, "l2", number * size)[0]
        if self._num_bits == 4:
            codes = codes[:, ::2] | (codes[:, 1::2] << np.uint8(4))
        return [codes]

    def arranged(self, columns: Sequence[Array]) -> list[Array]:
        return [transposed(columns[0]) if self._is_transposed else columns[0]]

    def compare(self, columns: Sequence[Array]) -> StoredVectors:
        (codes,) = columns
        if self._num_bits == 4:
            codes = np.stack((codes & np.uint8(15), codes >> np.uint8(4)), axis=2).reshape(len(codes), -1)
        # Rows of a partition have one centroid, so their differences to it are as far apart as they are.
        decoded = self._codebook[np.arange(len(self._codebook)), codes].reshape(len(codes), -1)
        vectors = np.ascontiguousarray(decoded, np.float32)
        return StoredVectors.plain("l2" if self._centroids is not None else "dot", vectors, vectors[0])


class RotatedEncoder:
    """Few bits per dimension of the rotated difference to the centroid, and factors for distances.

    With `f` the signs of a rotated difference `r` as numbers of size 0.5, and `c` the rotated centroid, the
    factors are `-2 n / (r f)` and `n + 2 n (c f) / (r f)` with `n = r r`, for `l2`. The factors for all bits
    have the coded vector in the place of `f`.
    """

    buffers: Sequence[bytes] = ()

    def __init__(self, options: VectorOptions, model: TrainedModel, kind: VectorType) -> None:
        assert model.rotation_signs is not None
        self._num_bits = options.num_bits
        self._is_dot = options.metric == "dot"
        self._matrix = FastRotation(model.rotation_signs, kind.dimension).as_matrix()
        self._centroids = model.centroids.astype(np.float32)
        self._rotated_centroids = self._matrix(self._centroids)
        self.fields = [
            pa.field(rotated.SIGNS, pa.list_(pa.uint8(), kind.dimension // 8)),
            *(pa.field(name, pa.float32()) for name in (rotated.ADDED, rotated.SCALES, rotated.ERRORS)),
        ]
        if options.num_bits > 1:
            width = bytes_per_row(kind.dimension, options.num_bits - 1)
            self.fields += [
                pa.field(rotated.MORE_BITS, pa.list_(pa.uint8(), width)),
                *(pa.field(name, pa.float32()) for name in (rotated.ADDED_EX, rotated.SCALES_EX)),
            ]
        self.description = describe_codes(model.rotation_signs, kind.dimension, options.num_bits)

    def encode(self, vectors: Array, partitions: npt.NDArray[np.uint32]) -> list[Array]:
        values = np.ascontiguousarray(vectors, np.float32)
        turned = self._matrix(values - self._centroids[partitions])
        centroids = self._rotated_centroids[partitions]
        dimension = turned.shape[1]
        is_positive = ~np.signbit(turned)
        signs = np.where(is_positive, np.float32(0.5), np.float32(-0.5))
        norms = _products(turned, turned)
        along = _products(turned, centroids)
        added, scales, projected = self._factors(norms, along, turned, centroids, signs)
        with np.errstate(invalid="ignore", divide="ignore"):
            spread = np.maximum(norms * (dimension / 4) / projected**2 - 1, 0) / max(1, dimension - 1)
        errors = np.nan_to_num(np.sqrt(norms) * _CONFIDENCE * np.sqrt(spread)) * (1 if self._is_dot else 2)
        columns = [np.packbits(is_positive, axis=1, bitorder="little"), added, scales, _float32(errors)]
        if self._num_bits == 1:
            return columns
        num_more = self._num_bits - 1
        found = kernels.code_sizes(turned, dimension, num_more)
        more = np.frombuffer(memoryview(found), np.uint8).reshape(turned.shape)
        coded = more.astype(np.float32) - np.float32(2**num_more - 0.5)
        coded += is_positive * np.float32(2**num_more)
        added, scales, _ = self._factors(norms, along, turned, centroids, coded)
        return [*columns, blocked(more, num_more), added, scales]

    def _factors(
        self, norms: Array, along: Array, turned: Array, centroids: Array, coded: Array
    ) -> tuple[Array, Array, Array]:
        """Return the added factor and the scale of each row, and the product of `coded` and the vector."""
        projected = _products(turned, coded)
        with np.errstate(invalid="ignore", divide="ignore"):
            scales = np.where(projected != 0, norms / projected, 0)
        shift = scales * _products(centroids, coded)
        if self._is_dot:
            return _float32(1 - along + shift), _float32(-scales), projected
        return _float32(norms + 2 * shift), _float32(-2 * scales), projected

    def arranged(self, columns: Sequence[Array]) -> list[Array]:
        return list(columns)

    def compare(self, columns: Sequence[Array]) -> StoredVectors:
        raise UnsupportedFeatureError("building a graph over RaBitQ codes")


def _products(a: Array, b: Array) -> Array:
    sums: Array = np.einsum("ij,ij->i", a, b)
    return sums.astype(np.float64)


def _float32(values: Array) -> Array:
    return np.ascontiguousarray(values, np.float32)
