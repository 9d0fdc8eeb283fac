"""Tables with vectors, and their nearest rows by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from support.twins import vectors as twin

Vectors = npt.NDArray[np.generic]

QUERY = [1.0, 0.0, -1.0, 2.0, 0.0, 1.0]
"""Query of vectors of six numbers, such as those of `lattice`."""


def vector_array(vectors: Vectors, nulls: npt.NDArray[np.bool_] | None = None) -> pa.FixedSizeListArray:
    """Return vectors as a column, null where `nulls` is true."""
    values = pa.array(vectors.reshape(-1))
    mask = None if nulls is None else pa.array(nulls)
    return pa.FixedSizeListArray.from_arrays(values, vectors.shape[1], mask=mask)


def vector_table(vectors: Vectors, nulls: npt.NDArray[np.bool_] | None = None) -> pa.Table:
    """Return a table with the columns `id`, `group` (`id` modulo 7) and `v`."""
    ids = np.arange(len(vectors))
    return pa.table({"id": ids, "group": pa.array(ids % 7, pa.int32()), "v": vector_array(vectors, nulls)})


def lattice(num_rows: int, dimension: int, seed: int = 0) -> npt.NDArray[np.float32]:
    """Return vectors with small whole numbers: many distances are equal, and all are exact in float32."""
    return np.random.default_rng(seed).integers(-2, 3, (num_rows, dimension)).astype(np.float32)


def expected_ids(
    table: pa.Table, query: Vectors, metric: str, k: int, keys: Any = None, **bounds: float | None
) -> list[int]:
    """Return the column `id` of the nearest rows of a table; of equal ones those with the least keys."""
    column = table["v"].combine_chunks()
    flat = np.asarray(column.flatten() if not column.null_count else column.values)
    vectors = flat.reshape(-1, column.type.list_size)
    if column.null_count:
        vectors = vectors[column.offset : column.offset + len(column)]
    found = twin.distances(vectors, query, metric)
    found[~column.is_valid().to_numpy(zero_copy_only=False)] = np.nan
    rows = twin.nearest(found, k, None if keys is None else np.asarray(keys), **bounds)
    return table["id"].take(pa.array(rows)).to_pylist()
