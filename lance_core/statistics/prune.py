"""Pruning: the rows of a fragment for which a filter may be true, according to statistics.

The columns of a filter have pages with different boundaries. All boundaries cut the fragment into row ranges.
In each row range, every column lies in one page. For each row range, `lance_core.statistics.intervals`
derives whether the filter may be true, false or null in some row. If this cannot be decided, any result is
possible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import pairwise
from operator import and_, or_
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.expressions import tree
from lance_core.statistics import intervals
from lance_core.statistics.collect import has_bounds
from lance_core.statistics.column_facts import ColumnFacts
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
    facts = {path: ColumnFacts(table) for path, table in statistics.items()}
    decision = decide([expression], KnownColumns(tree.columns(expression), [facts], (0, num_rows)))
    return decision.ranges(decision.kept[0]), decision.ranges(decision.sure[0])


@dataclass(frozen=True)
class Decision:
    """Possible results of conditions in row ranges.

    Attributes:
        edges: Where row ranges begin and end, ascending.
        kept: For each condition, whether it may be true in some row of each row range.
        sure: For each condition, whether it is certainly true in every row of each row range.
    """

    edges: npt.NDArray[np.int64]
    kept: Flags
    sure: Flags

    def ranges(self, flags: Flags) -> RowRanges:
        """Return the rows of the row ranges with a flag."""
        chosen = np.zeros(len(self.edges) + 1, np.bool_)
        chosen[1:-1] = flags
        turns = np.flatnonzero(chosen[1:] != chosen[:-1])
        return [(start, end) for start, end in self.edges[turns].reshape(-1, 2).tolist()]


def decide(conditions: Sequence[tree.Expression], known: KnownColumns) -> Decision:
    """Return what one or more conditions may give for the rows that `known` describes."""
    shape = len(conditions), len(known.edges) - 1
    kept, sure = np.empty(shape, np.bool_), np.empty(shape, np.bool_)
    for number, condition in enumerate(conditions):
        truth = known.truth(condition)
        kept[number], sure[number] = truth.true, truth.surely_true
    return Decision(known.edges, kept, sure)


class KnownColumns:
    """Possible values of columns of one or more fragments, whose rows are counted one after the other.

    All conditions on these columns are decided by the same object; what it computes is kept. Thread-safe.

    Attributes:
        edges: Where row ranges begin and end, ascending: a page or zone of some column does.
    """

    def __init__(
        self,
        paths: Sequence[tree.Path],
        facts: Sequence[Mapping[tree.Path, ColumnFacts]],
        starts: Sequence[int],
    ) -> None:
        """Join the statistics of fragments.

        Args:
            paths: The columns.
            facts: Statistics of each fragment, by column path.
            starts: The first row of each fragment, and the number of all rows.
        """
        self._facts: dict[tree.Path, list[ColumnFacts]] = {}
        self._spans: dict[tree.Path, Spans] = {}
        for path in paths:
            parts = [
                (known[path], start, end)
                for known, (start, end) in zip(facts, pairwise(starts), strict=True)
                if path in known
            ]
            if parts:
                self._facts[path] = [part for part, _, _ in parts]
                self._spans[path] = Spans.joined([(part.spans, start, end) for part, start, end in parts])
        self.edges = range_edges(list(self._spans.values()), starts)
        self._values: dict[tree.Column, Values] = {}

    @property
    def num_bytes(self) -> int:
        """About how many bytes the joined statistics take."""
        return sum(facts.num_bytes for parts in self._facts.values() for facts in parts) + self.edges.nbytes

    def truth(self, condition: tree.Expression) -> Truth:
        """Return the possible results of a condition in each row range, or one entry for all of them."""
        if isinstance(condition, tree.Comparison) and isinstance(condition.right, tree.Literal):
            left = condition.left  # most conditions: no tree to walk
            if isinstance(left, tree.Column) and left.path in self._facts:
                constant = condition.right.value
                return intervals.compare_constant(condition.op, self._column_values(left), constant)
        known: dict[int, Truth | Values | None] = {}
        for node in reversed(list(tree.walk(condition))):  # from the leaves of the tree upwards
            if not isinstance(node, tree.Column):
                known[id(node)] = _node(node, [known.get(id(operand)) for operand in node.operands])
            elif node.path in self._facts:
                known[id(node)] = self._column_values(node)
        return _as_truth(known.get(id(condition)))

    def _column_values(self, column: tree.Column) -> Values:
        values = self._values.get(column)
        if values is None:
            kind = column.type
            kind = kind.value_type if pa.types.is_dictionary(kind) else kind
            values = intervals.joined_values([facts.values(kind) for facts in self._facts[column.path]])
            spans = self._spans[column.path]
            if not spans.are_between(self.edges):
                values = values.at(spans.pages_between(self.edges))
            self._values[column] = values
        return values


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
