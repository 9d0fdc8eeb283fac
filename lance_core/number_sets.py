"""Sets of whole numbers, such as row offsets, row ids and page numbers, as ascending NumPy arrays or bitmaps.

`numpy.unique` and `numpy.union1d` hash values if they return values only. For a million numbers, this takes
many times as long as a sort and a comparison of neighbours.
"""

from __future__ import annotations

from array import array
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyroaring

_Integer = TypeVar("_Integer", bound=np.integer)


def distinct(values: npt.NDArray[_Integer]) -> npt.NDArray[_Integer]:
    """Return the distinct values of an array of integers, ascending.

    If the values are ascending and distinct already, the result is `values` itself.
    """
    if (values[1:] < values[:-1]).any():
        values = np.sort(values)
    is_new = values[1:] != values[:-1]
    return values if is_new.all() else values[np.concatenate([[True], is_new])]


def union(one: npt.NDArray[_Integer], other: npt.NDArray[_Integer]) -> npt.NDArray[_Integer]:
    """Return the distinct values of two arrays of integers of one type, ascending, as a new array."""
    return distinct(np.concatenate([one, other]))


def are_among(known: npt.NDArray[_Integer], values: npt.NDArray[_Integer]) -> npt.NDArray[np.bool_]:
    """Return whether each value is one of `known`, which are ascending."""
    if not len(known):
        return np.zeros(len(values), bool)
    places = known.searchsorted(values)
    found: npt.NDArray[np.bool_] = known[np.minimum(places, len(known) - 1)] == values
    return found


def bitmap_of(offsets: npt.NDArray[np.integer]) -> pyroaring.BitMap:
    """Return the lower 32 bits of numbers as a bitmap."""
    # From a NumPy array, pyroaring reads one Python object per number.
    return pyroaring.BitMap(array("I", offsets.astype(np.uint32).tobytes()))
