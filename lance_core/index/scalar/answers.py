"""Answers of scalar indices to questions, as sets of row keys of one segment."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pyroaring

from lance_core.index.row_mask import by_fragment
from lance_core.index.row_sets import Bitmaps, Keys


@dataclass(frozen=True)
class Answer:
    """Row keys of one segment that answer a question.

    Attributes:
        found: Lower halves of the row keys for which the condition may be true, by their upper half.
        is_exact: Whether the condition is true for all of them.
        nulls: Returns the row keys for which the condition is null. A row that is in neither set does not
            meet the condition. None if the segment does not know, so that it cannot answer a negation.
        fragments: Ids of the fragments that the answer speaks about; None means all that the segment covers.
    """

    found: Bitmaps
    is_exact: bool
    nulls: Callable[[], Bitmaps] | None
    fragments: pyroaring.BitMap | None = None


class TooManyRows(Exception):  # noqa: N818  no error: the caller scans
    """An answer would have more rows than the caller wants."""


def union(sets: Iterable[Bitmaps]) -> Bitmaps:
    """Return the row keys that are in any of the sets."""
    gathered: dict[int, list[pyroaring.BitMap]] = {}
    for bitmaps in sets:
        for upper, bitmap in bitmaps.items():
            gathered.setdefault(upper, []).append(bitmap)
    return {
        upper: some[0] if len(some) == 1 else pyroaring.BitMap.union(*some)
        for upper, some in gathered.items()
    }


def from_keys(keys: Iterable[Keys]) -> Bitmaps:
    """Return arrays of row keys as one set."""
    arrays = [some for some in keys if len(some)]
    return by_fragment(np.concatenate(arrays) if len(arrays) != 1 else arrays[0]) if arrays else {}
