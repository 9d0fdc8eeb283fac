"""Sums over the elements of queries and vectors, which do not depend on how many queries there are.

A product of matrices has other last digits than the products of its rows. A batch of queries has to find the
rows that its queries find one by one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lance_core.kernels import Comparison, vector_distances


def sums_of(queries: npt.NDArray[Any], vectors: npt.NDArray[Any], metric: str) -> npt.NDArray[np.float32]:
    """Return a number for each query and vector: the distance, or with `product` as metric the product.

    Both have one row per vector: bytes for `hamming`, else float32. The result has one row per query.
    """
    compared = Comparison(queries.data, queries.shape[1], str(vectors.dtype), metric, one_by_one=True)
    sums = np.frombuffer(memoryview(vector_distances(compared, vectors.data)), np.float32)
    return sums.reshape(len(queries), len(vectors))
