"""Batches of a column of vectors as matrices of usable vectors, as the metric of an index compares them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Array = npt.NDArray[Any]

ELEMENTS = {pa.float16(): np.float16, pa.float32(): np.float32, pa.float64(): np.float64, pa.uint8(): np.uint8}


class VectorBatch(NamedTuple):
    """Vectors and the keys of their rows."""

    keys: npt.NDArray[np.uint64]
    vectors: Array
    """Two dimensions, in the element type of the column; of norm 1 for `cosine`."""


@dataclass(frozen=True)
class VectorType:
    """Type of a column of vectors.

    Attributes:
        element: Type of an element.
        dimension: Elements of a vector.
        is_multiple: Whether a row has a list of vectors.
    """

    element: pa.DataType
    dimension: int
    is_multiple: bool

    @classmethod
    def of(cls, column: pa.DataType) -> VectorType:
        """Return the type of the vectors of a column.

        Raises:
            TypeError: The column has no vectors, or of elements that no vector index has.
        """
        is_multiple = pa.types.is_list(column) or pa.types.is_large_list(column)
        vectors = column.value_type if is_multiple else column
        if not pa.types.is_fixed_size_list(vectors) or vectors.value_type not in ELEMENTS:
            raise TypeError("only fixed-size lists of float16, float32, float64 or uint8 can be indexed")
        return cls(vectors.value_type, vectors.list_size, is_multiple)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of an element in NumPy."""
        return np.dtype(ELEMENTS[self.element])


def usable_vectors(
    batches: Iterable[pa.RecordBatch], kind: VectorType, metric: str
) -> Iterator[VectorBatch]:
    """Yield the vectors that an index has: neither null, nor NaN, nor infinite, nor without direction for
    `cosine`.

    Args:
        batches: Values in the first column, row keys in the second.
        kind: Type of the values.
        metric: With `cosine`, vectors are divided by their norms.
    """
    for batch in batches:
        values, keys = batch.column(0), np.asarray(batch.column(1).to_numpy(zero_copy_only=False))
        if kind.is_multiple:
            lengths = values.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
            keys, values = np.repeat(keys, lengths), values.flatten()
        if values.null_count:
            kept = values.is_valid()
            values, keys = values.filter(kept), keys[kept.to_numpy(zero_copy_only=False)]
        flat = values.flatten()
        if flat.null_count:
            # A null element counts as what its place in the buffer holds, as in the reference.
            flat = pa.Array.from_buffers(flat.type, len(flat), [None, flat.buffers()[1]], offset=flat.offset)
        vectors = np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(-1, kind.dimension)
        if metric == "cosine":
            with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
                vectors = normalised(vectors)
        usable = _finite_rows(vectors)
        if usable is not None:
            vectors, keys = vectors[usable], keys[usable]
        if len(keys):
            yield VectorBatch(np.ascontiguousarray(keys, np.uint64), np.ascontiguousarray(vectors))


def normalised(vectors: Array) -> Array:
    """Return the vectors divided by their norms, in their own type. Vectors of zeros become NaN."""
    wide = vectors.astype(np.float32) if vectors.dtype == np.float16 else vectors
    norms = np.sqrt(np.einsum("ij,ij->i", wide, wide))
    divided: Array = wide / norms[:, None]
    return divided.astype(vectors.dtype, copy=False)


def _finite_rows(vectors: Array) -> npt.NDArray[np.bool_] | None:
    """Return which vectors have only finite elements; None if all have."""
    if vectors.dtype == np.uint8:
        return None
    # A sum is finite only if all its terms are; one pass without a matrix of flags.
    wide = np.float64 if vectors.dtype == np.float64 else np.float32
    with np.errstate(invalid="ignore", over="ignore"):
        sums = vectors.sum(axis=1, dtype=wide)
    doubtful = np.flatnonzero(~np.isfinite(sums))
    if not len(doubtful):
        return None
    usable = np.ones(len(vectors), np.bool_)
    usable[doubtful] = np.isfinite(vectors[doubtful]).all(axis=1)
    return usable
