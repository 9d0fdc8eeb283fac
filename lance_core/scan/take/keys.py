"""Keys of rows: offsets, row ids and row addresses, as arrays of unsigned 64-bit integers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.errors import ArgumentTypeError, InvalidInputError, NegativeRowError
from lance_core.scan.plan.projection import ROW_ADDRESS, ROW_ID, ROW_OFFSET

Keys = npt.NDArray[np.uint64]
Chosen = slice | npt.NDArray[np.intp]
"""Positions in an array of keys, in order."""

KEY_COLUMNS = (ROW_ID, ROW_ADDRESS, ROW_OFFSET)
"""Names of the kinds of keys, which are the names of the columns that hold them."""

_FRAGMENT_SHIFT = np.uint64(32)
_OFFSET_MASK = np.uint64((1 << 32) - 1)


def as_keys(values: Any, name: str) -> Keys:
    """Return the integers of a list, an Arrow array or a NumPy array as keys; `name` is for messages.

    Raises:
        ArgumentTypeError: the values are no integers, or one is null.
        NegativeRowError: an integer is negative.
        InvalidInputError: an integer has more than 64 bits.
    """
    if isinstance(values, pa.Array | pa.ChunkedArray):
        if values.null_count:
            raise ArgumentTypeError(f"{name} must not be null")
        numbers = values.to_numpy()
    else:
        numbers = np.asarray(values)
        is_float = numbers.dtype.kind == "f" and numbers.ndim == 1 and bool(len(numbers))
        if is_float and all(isinstance(value, int) for value in values):
            # NumPy makes floats of a list with integers below and above 63 bits.
            if (least := min(values)) < 0:
                raise NegativeRowError(f"{name} must not be negative", found=least)
            numbers = np.asarray(values, np.uint64)
    if numbers.dtype == object and all(isinstance(value, int) for value in numbers.flat):
        raise InvalidInputError(f"{name} must have at most 64 bits")
    if numbers.ndim != 1 or (numbers.dtype.kind not in "ui" and len(numbers)):
        raise ArgumentTypeError(f"{name} must be a list of integers")
    if numbers.dtype.kind == "i" and len(numbers) and (least := np.minimum.reduce(numbers)) < 0:
        raise NegativeRowError(f"{name} must not be negative", found=least)
    keys: Keys = numbers.astype(np.uint64)
    return keys


def address_of(fragment_id: int, rows: npt.NDArray[np.int64]) -> Keys:
    """Return the row addresses of physical rows of a fragment."""
    addresses: Keys = rows.astype(np.uint64) | (np.uint64(fragment_id) << _FRAGMENT_SHIFT)
    return addresses


def fragments_of(addresses: Keys) -> Keys:
    """Return the fragment id of each row address."""
    return addresses >> _FRAGMENT_SHIFT


def rows_of(addresses: Keys) -> npt.NDArray[np.int64]:
    """Return the physical row in its fragment of each row address."""
    return (addresses & _OFFSET_MASK).view(np.int64)


def are_ascending(keys: Keys) -> bool:
    """Return whether the keys are strictly ascending."""
    return len(keys) <= 1 or bool((keys[1:] > keys[:-1]).all())


def grouped(ids: npt.NDArray[np.integer]) -> list[tuple[int, Chosen]]:
    """Return each distinct id with its positions in `ids`, ascending by id."""
    if len(ids) <= 1:
        return [(int(ids[0]), slice(0, 1))] if len(ids) else []
    order: npt.NDArray[np.intp] | None = None
    if ids[0] == ids[-1] and np.logical_and.reduce(ids == ids[0]):
        return [(int(ids[0]), slice(0, len(ids)))]
    if (ids[1:] < ids[:-1]).any():
        order = np.argsort(ids, kind="stable")
        ids = ids[order]
    cuts = [0, *(np.flatnonzero(ids[1:] != ids[:-1]) + 1).tolist(), len(ids)]
    runs = [slice(start, end) for start, end in pairwise(cuts)]
    return [(int(ids[run.start]), run if order is None else order[run]) for run in runs]


def positions(chosen: Chosen) -> npt.NDArray[np.intp]:
    """Return the positions as an array."""
    return np.arange(chosen.start, chosen.stop) if isinstance(chosen, slice) else chosen
