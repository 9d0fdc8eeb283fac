"""Products of parameters, of which the default run has a part with every value of every axis."""

from __future__ import annotations

import itertools
from collections.abc import Collection

import pytest


def thinned(*axes: Collection[object]) -> list[object]:
    """Return the product of the axes. In the default run each value meets one value of the shortest axis; the
    rest is long.
    """
    one_of = min(map(len, axes))
    return [
        pytest.param(*values, marks=[pytest.mark.long] if sum(places) % one_of else [])
        for places, values in zip(
            itertools.product(*(range(len(axis)) for axis in axes)), itertools.product(*axes), strict=True
        )
    ]
