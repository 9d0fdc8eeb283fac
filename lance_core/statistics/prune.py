"""Pruning: the rows of a fragment for which a filter may be true, according to statistics.

The columns of a filter have pages with different boundaries. All boundaries cut the fragment into row ranges.
In each row range, every column lies in one page. For each row range, `lance_core.statistics.intervals`
derives whether the filter may be true, false or null in some row. If this cannot be decided, any result is
possible.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, reduce
from operator import and_, or_
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.expressions import tree
from lance_core.statistics import intervals
from lance_core.statistics.collect import has_bounds
from lance_core.statistics.column_statistics import Spans, range_edges
from lance_core.statistics.intervals import ANY, Flags, Truth, Values

RowRanges = list[tuple[int, int]]
"""Ranges `[start, end)` of rows, ascending and without overlap."""


def kept_rows(
    expression: tree.Expression, statistics: Mapping[tree.Path, pa.Table], num_rows: int
) -> RowRanges:
    """Return the rows for which `expression` may be true.

    Args:
        expression: A condition.
        statistics: Statistics by column path, see `lance_core.statistics.column_statistics`. Columns without
            statistics are left out.
        num_rows: Physical rows of the fragment, deleted rows included.
    """
    kept, _ = decide_rows(expression, statistics, num_rows)
    return kept


def decide_rows(
    expression: tree.Expression, statistics: Mapping[tree.Path, pa.Table], num_rows: int
) -> tuple[RowRanges, RowRanges]:
    """Return the rows for which `expression` may be true, and the rows for which it is certainly true.

    The arguments are those of `kept_rows`.
    """
    return Pruning(statistics, num_rows).decide(expression)


class Pruning:
    """Statistics of a fragment, for the decisions about several conditions; see `kept_rows`."""

    def __init__(self, statistics: Mapping[tree.Path, pa.Table], num_rows: int) -> None:
        self._tables = statistics
        self._num_rows = num_rows
        self._spans = {path: Spans.of(table) for path, table in statistics.items()}
        self._edges: dict[tuple[tree.Path, ...], npt.NDArray[np.int64]] = {}
        self._values: dict[tuple[tuple[tree.Path, ...], tree.Column], Values] = {}

    def decide(self, expression: tree.Expression) -> tuple[RowRanges, RowRanges]:
        """Return the rows for which a condition may be true, and those for which it is certainly true."""
        paths = tuple(path for path in tree.columns(expression) if path in self._tables)
        edges = self._edges.get(paths)
        if edges is None:
            edges = range_edges([self._spans[path] for path in paths], self._num_rows)
            self._edges[paths] = edges
        known: dict[int, Truth | Values | None] = {}
        for node in reversed(list(tree.walk(expression))):  # from the leaves of the tree upwards
            if not isinstance(node, tree.Column):
                known[id(node)] = _node(node, [known.get(id(operand)) for operand in node.operands])
            elif node.path in self._tables:
                known[id(node)] = self._column_values(node, paths, edges)
        truth = _as_truth(known.get(id(expression)))
        return _ranges(truth.true, edges), _ranges(truth.surely_true, edges)

    def _column_values(
        self, column: tree.Column, paths: tuple[tree.Path, ...], edges: npt.NDArray[np.int64]
    ) -> Values:
        """Return the possible values of a column between the edges that pages of columns `paths` have."""
        values = self._values.get((paths, column))
        if values is None:
            pages = self._spans[column.path].pages_between(edges)
            values = intervals.column_values(self._tables[column.path], pages, column.type)
            self._values[paths, column] = values
        return values


def _ranges(flags: Flags, edges: npt.NDArray[np.int64]) -> RowRanges:
    chosen = np.zeros(len(edges) + 1, np.bool_)
    chosen[1:-1] = flags
    turns = np.flatnonzero(chosen[1:] != chosen[:-1])
    return [(start, end) for start, end in edges[turns].reshape(-1, 2).tolist()]


def _node(node: tree.Expression, operands: list[Truth | Values | None]) -> Truth | Values | None:
    """Return the possible values or results of a node, from those of its operands; None if
    nothing is known.
    """
    match node:
        case tree.Literal():
            return intervals.literal_values(node.value)
        case tree.And():
            parts = [_as_truth(part) for part in operands]
            return Truth(
                reduce(and_, (part.true for part in parts)),
                reduce(or_, (part.false for part in parts)),
                reduce(or_, (part.null for part in parts)),
            )
        case tree.Or():
            parts = [_as_truth(part) for part in operands]
            return Truth(
                reduce(or_, (part.true for part in parts)),
                reduce(and_, (part.false for part in parts)),
                reduce(or_, (part.null for part in parts)),
            )
        case tree.Not():
            return _as_truth(operands[0]).negated()
        case tree.IsNull():
            return _is_null(operands[0])
    if not all(isinstance(operand, Values) for operand in operands):
        return None
    return _of_values(node, [operand for operand in operands if isinstance(operand, Values)])


def _of_values(node: tree.Expression, operands: list[Values]) -> Truth | Values | None:
    match node:
        case tree.Comparison():
            return intervals.compare(node.op, *operands)
        case tree.DistinctFrom():
            return intervals.distinct(*operands)
        case tree.IsIn():
            if not has_bounds(operands[0].type) or operands[0].type != node.values.type:
                return None
            values, has_nan = _sorted(node)
            return intervals.contained(operands[0], values, has_nan, node.has_null)
        case tree.StartsWith():
            prefix = node.prefix.encode() if isinstance(node.prefix, str) else node.prefix
            return intervals.starts_with(operands[0], prefix)
        case tree.Like():
            return _like(node, operands[0])
        case tree.Cast():
            return intervals.cast_values(operands[0], node.type, node.try_cast)
    return None


def _as_truth(known: Truth | Values | None) -> Truth:
    if isinstance(known, Truth):
        return known
    if isinstance(known, Values) and pa.types.is_boolean(known.type):
        return intervals.as_truth(known)
    return ANY


def _is_null(operand: Truth | Values | None) -> Truth:
    if operand is None:
        return Truth(ANY.true, ANY.false, np.zeros(1, np.bool_))
    some = operand.some if isinstance(operand, Values) else operand.true | operand.false
    return Truth(operand.null, some, np.zeros(1, np.bool_))


def _like(node: tree.Like, operand: Values) -> Truth | None:
    """Return the truth of a LIKE condition, from the text before its first wildcard.

    Only values with this prefix can match, but not all of them do.
    """
    if node.ignore_case:
        return None
    prefix = ""
    characters = iter(node.pattern)
    for character in characters:
        if node.escape is not None and character == node.escape:
            character = next(characters, character)  # an escape at the end stands for itself
        elif character in "%_\\":
            break
        prefix += character
    truth = intervals.starts_with(operand, prefix.encode())
    return Truth(truth.true, operand.some, truth.null)


@lru_cache(maxsize=32)
def _sorted(node: tree.IsIn) -> tuple[npt.NDArray[Any], bool]:
    """Return the values of a list in ascending order without NaN, and whether NaN was among them."""
    values = intervals.comparable(node.values)
    has_nan = False
    if pa.types.is_floating(values.type):
        numbers = values.filter(pc.invert(pc.is_nan(values)))
        values, has_nan = numbers, len(numbers) < len(values)
    return np.sort(intervals.sortable(values)), has_nan
