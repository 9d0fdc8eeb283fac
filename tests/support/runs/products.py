"""Parameters of which the default run has a part with every value of every axis."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable
from typing import Any

import pytest

from support.runs.draws import is_default_run


def of_this_run(parameters: Iterable[Any]) -> list[Any]:
    """Return the parameters without the long ones where these are left out.

    Otherwise each process would make a test of each of them first: the 12,000 of the matrix take seconds.
    """
    return [parameter for parameter in parameters if not (is_default_run() and parameter.marks)]


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
