"""Tables of vectors from plain numbers, as `lance.vector` of the reference makes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lance_core.api.late import absent_from
from lance_core.errors import InvalidInputError

__all__ = ["vec_to_table"]


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
        TypeError: `data` is of another type.
    """
    if not isinstance(data, (Mapping, Sequence, np.ndarray)) or isinstance(data, (str, bytes)):
        raise TypeError(f"expected a dict, a list or an array of vectors, got {type(data).__name__}")
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
