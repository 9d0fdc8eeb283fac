"""Functions that choose among values: `coalesce` and its like, `greatest` and `least`."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lance_core.expressions.comparisons import Datum, compare
from lance_core.expressions.functions.registry import Bound, Function, expect, same_types
from lance_core.expressions.tree import Expression

_MOST_ARGUMENTS = 100


def _bind_same(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 1, _MOST_ARGUMENTS)
    return same_types(name, arguments)


def _bind_two(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 2)
    return same_types(name, arguments)


def _bind_nvl2(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 3)
    chosen, common = same_types(name, arguments[1:])
    return [arguments[0], *chosen], common


def _nullif(value: Datum, other: Datum) -> Datum:
    if pa.types.is_null(value.type):
        return value
    same = pc.fill_null(compare("=", value, other), False)
    return pc.if_else(same, pa.scalar(None, value.type), value)


def _extreme(op: str, *values: Datum) -> Datum:
    """Return the greatest or least value that is not null; NaN is the greatest number."""
    best = values[0]
    if pa.types.is_null(best.type):
        return best
    for value in values[1:]:
        better = pc.or_kleene(compare(op, value, best), pc.is_null(best))
        better = pc.and_(pc.fill_null(better, False), pc.is_valid(value))
        best = pc.if_else(better, value, best)
    return best


_COALESCE = Function(_bind_same, pc.coalesce)
_NVL = Function(_bind_two, pc.coalesce)

FUNCTIONS = {
    "coalesce": _COALESCE,
    "nvl": _NVL,
    "ifnull": _NVL,
    "nvl2": Function(_bind_nvl2, lambda given, value, other: pc.if_else(pc.is_valid(given), value, other)),
    "nullif": Function(_bind_two, _nullif),
    "greatest": Function(_bind_same, lambda *values: _extreme(">", *values)),
    "least": Function(_bind_same, lambda *values: _extreme("<", *values)),
}
