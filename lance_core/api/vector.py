"""Tables of vectors from plain numbers, as `lance.vector` of the reference makes them, and a check of vector
indices, which the reference has in `lance.util`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lance_core.api.names.late import absent_from
from lance_core.errors import ArgumentTypeError, InvalidInputError

if TYPE_CHECKING:
    from lance_core.api.dataset.lance_dataset import LanceDataset

_FOUND = 1e-6
"""Largest distance at which a vector counts as found."""

__all__ = ["validate_vector_index", "vec_to_table"]


def __getattr__(name: str) -> object:
    raise absent_from(__name__, name)


def vec_to_table(
    data: Mapping[Any, Any] | Sequence[Any] | np.ndarray,
    names: str | Sequence[str] | None = None,
    ndim: int | None = None,
    check_ndim: bool = True,
) -> pa.Table:
    """Return vectors as a table with a column of type `fixed_size_list<float32>`.

    Args:
        data: One vector per element or per row. The keys of a mapping become a column of their own.
        names: Name of the column of vectors, `vector` if left out; for a mapping the names of the columns of
            keys and of vectors, `id` and `vector` if left out.
        ndim: Numbers per vector; those of the first vector if left out.
        check_ndim: Refuse vectors of other lengths. If False, only the count of all numbers is checked, and
            they are divided into vectors of `ndim` numbers.

    Raises:
        InvalidInputError: There are no vectors, a vector has another length or holds no numbers, or `names`
            are not as many as the columns.
        ArgumentTypeError: `data` is of another type.
    """
    if not isinstance(data, (Mapping, Sequence, np.ndarray)) or isinstance(data, (str, bytes)):
        raise ArgumentTypeError(f"expected a dict, a list or an array of vectors, got {type(data).__name__}")
    wanted = ("id", "vector") if isinstance(data, Mapping) else ("vector",)
    given = (names,) if isinstance(names, str) else tuple(wanted if names is None else names)
    if len(given) != len(wanted):
        raise InvalidInputError("names", expected=f"{len(wanted)} names", found=names)
    rows = list(data.values()) if isinstance(data, Mapping) else list(data)
    if not rows:
        raise InvalidInputError("there are no vectors", expected="at least one")
    try:
        vectors = [np.asarray(row, np.float32).reshape(-1) for row in rows]
    except (TypeError, ValueError) as error:
        raise InvalidInputError("vector", expected="numbers", found=error) from None
    size = len(vectors[0]) if ndim is None else ndim
    unequal = next((len(vector) for vector in vectors if len(vector) != size), None)
    if check_ndim and unequal is not None:
        raise InvalidInputError("vector", expected=f"{size} numbers", found=unequal)
    numbers = np.concatenate(vectors)
    if len(numbers) != len(rows) * size:
        raise InvalidInputError("vectors", expected=f"{len(rows)} of {size} numbers", found=len(numbers))
    column = pa.FixedSizeListArray.from_arrays(pa.array(numbers), size)
    keys = [pa.array(list(data))] if isinstance(data, Mapping) else []
    return pa.table([*keys, column], names=list(given))


def validate_vector_index(
    dataset: LanceDataset,
    column: str,
    refine_factor: int = 5,
    sample_size: int | None = None,
    pass_threshold: float = 1.0,
) -> None:
    """Search for vectors of a dataset by its index, and check that each finds itself. Vectors with NaN do not
    count.

    Args:
        dataset: The dataset.
        column: Column of vectors.
        refine_factor: That of the searches.
        sample_size: Number of vectors, chosen at random; all if left out.
        pass_threshold: Share of the vectors that must be found, from 0 to 1.

    Raises:
        InvalidInputError: Fewer vectors are found.
    """
    rows = dataset.to_table([column]) if sample_size is None else dataset.sample(sample_size, [column])
    vectors = [vector for vector in rows[column].to_numpy() if not np.isnan(vector).any()]
    found = 0
    for vector in vectors:
        query = {"column": column, "q": vector, "k": 1, "nprobes": 1, "refine_factor": refine_factor}
        distances = dataset.to_table([], nearest=query)["_distance"]
        found += len(distances) == 1 and abs(distances[0].as_py()) < _FOUND
    if found < pass_threshold * len(vectors):
        raise InvalidInputError(
            "Vector index failed sanity check: "
            f"the index on {column!r} finds {found} of {len(vectors)} vectors"
        )
