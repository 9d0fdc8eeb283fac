"""A filter on the rows of one fragment: which rows match, and the values that were decoded to find out.

Conditions are evaluated one after the other. A later condition is evaluated only for the rows that met the
earlier conditions. Guards come first: an error of another condition tells nothing about rows that they hide.
Comparisons of one column with constants cannot fail, so they are evaluated together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lance_core.errors import LanceError
from lance_core.expressions.tree import Expression, columns, conjuncts
from lance_core.file.page_ranges import decode_page_ranges
from lance_core.process.derived import Derived
from lance_core.scan.plan.projection import DataColumn, FilteredProjection
from lance_core.scan.plan.pruning import CandidateRange
from lance_core.scan.plan.statistics import Gatherer
from lance_core.scan.read.columns import Column, StoredColumn, batches_of
from lance_core.scan.read.fragments import FragmentReader
from lance_core.scan.read.live_rows import Offsets, kept_rows
from lance_core.scan.read.row_selection import (
    by_density,
    is_evenly_dense,
    keep_rows,
    read_dense_rows,
    read_masked,
    read_rows,
)
from lance_core.scan.read.value_sizes import value_bits
from lance_core.scan.run.filtering.page_conditions import PageCondition, page_alternatives
from lance_core.scan.run.strategy import Strategy

# If at least this share of rows is left, a column of a later condition is decoded whole, though taking rows
# would be cheaper: then statistics of its values are gathered, which speed up the next filter.
_LEARNING_SHARE = 1 / 32
# In ranges with this many rows, a column that the scan returns is decoded once, and conditions on it are
# evaluated on its values, unless all returned columns are narrow. In smaller ranges, conditions on numbers
# are always evaluated on pages: to decode the values once more costs less than the steps of an evaluation.
_LEAST_ROWS = 1 << 15
# If a smaller share of rows is left, the next condition picks its values of these rows. A kernel compares
# hundreds of values on a page in the time that one value takes to be picked.
_LEAST_SHARE = 1 / 512
# Most bytes per row of narrow columns. Windows have room for them once many rows of a window have matched.
_MOST_OUTPUT_BYTES = 32


class Conjunct(NamedTuple):
    """One of the conditions that rows must all meet, and the numbers of the columns that it needs."""

    expression: Expression
    columns: tuple[int, ...]
    on_pages: tuple[PageCondition, ...]
    """Form for kernels that evaluate it without decoding columns: conditions on one column each, of which one
    has to hold; none if it has no such form.
    """


class RowFilter:
    """A filter bound to the columns that a scan reads.

    With `learns`, statistics of the values that it decodes are gathered. `guards` is that of `ScanOptions`.
    With `holds_outputs`, `hold_outputs` may decode columns that the scan returns.
    """

    def __init__(
        self,
        condition: Expression,
        projection: FilteredProjection,
        strategy: Strategy,
        *,
        learns: bool = True,
        guards: int = 0,
        holds_outputs: bool = False,
    ) -> None:
        self.condition = condition
        self._guards = guards
        self.conjuncts = [
            Conjunct(
                part,
                tuple(dict.fromkeys([projection.inputs[path[0]] for path in columns(part)])),
                page_alternatives(part) if strategy.on_pages else (),
            )
            for part in conjuncts(condition)
        ]
        returned = _returned.of(projection)
        self.columns = tuple(projection.inputs.values())
        self._learning_share = self._dense_share = strategy.dense_share
        if learns and strategy.dense_share is None:
            self._learning_share = _LEARNING_SHARE
        self.held = returned.held
        """Numbers of the columns that both the filter needs and the scan returns."""
        self._outputs = range(projection.num_outputs)
        self._holds_outputs = holds_outputs and returned.are_stored
        self._holds_narrow = self._holds_outputs and returned.are_narrow
        self._narrow_bytes = returned.narrow_bytes if holds_outputs else 0
        self._has_dense_windows = False
        self._inputs = projection.inputs
        self._names = {index: name for name, index in projection.inputs.items()}
        self._ordered: tuple[FragmentReader, tuple[int, ...], list[int]] | None = None
        """The latest order, of these conjuncts in this fragment: several steps ask for the same one."""

    def first_column(self, fragment: FragmentReader, candidate: CandidateRange) -> int | None:
        """Return the number of the column that `matches` reads first; None if it reads none."""
        order = self._order(fragment, candidate)
        return next(iter(self.conjuncts[order[0]].columns), None) if order else None

    def matches(
        self,
        fragment: FragmentReader,
        candidate: CandidateRange,
        gatherer: Gatherer,
        first: list[pa.Array] | None = None,
    ) -> Matches:
        """Return the live candidates of a candidate range that match.

        Args:
            gatherer: Gets the values that are decoded here, for statistics.
            first: Values of `first_column` in the candidate range, deleted rows included, if they are known.

        Raises:
            LanceError: a page cannot be decoded, or a condition cannot be evaluated.
        """
        from lance_core.expressions import evaluate  # late: most processes do not filter

        start, end = candidate.start, candidate.end
        rows: Offsets | None = None  # all live rows
        if candidate.rows is not None:
            rows = fragment.only_live(candidate.rows)
        num_rows = fragment.num_live_rows(start, end) if rows is None else len(rows)
        decoded: dict[int, list[pa.Array]] = {}
        waiting = self._order(fragment, candidate)
        found = None
        if num_rows and first is None:
            found = self._on_pages(fragment, candidate, gatherer, waiting)
        if found is not None and found.true_count < num_rows:
            num_rows = found.true_count
            if not waiting:
                return Matches(fragment, start, end, num_rows, None, {}, found)
            rows = fragment.rows_at(start, found)
        while waiting and num_rows:
            conjunct = self.conjuncts[waiting[0]]
            conditions, taken = self._joined(waiting)
            waiting = [number for number in waiting if number not in taken]
            for index in conjunct.columns:
                if index in decoded:
                    continue
                name = self._names[index]
                if rows is None:
                    arrays = _read(fragment.columns[index], start, end) if first is None else first
                    first = None
                    gatherer.add(name, start, arrays)
                    decoded[index] = fragment.live(arrays, start)
                elif gatherer.wants(name, start, end):
                    learn = partial(gatherer.add, name)
                    decoded[index] = read_rows(fragment.columns[index], rows, self._learning_share, learn)
                else:
                    decoded[index] = read_rows(fragment.columns[index], rows, self._dense_share)
            named = {self._names[index]: decoded[index] for index in conjunct.columns}
            expression = conditions[0].expression if len(conditions) == 1 else conjunct.expression
            masks = [evaluate.passing(expression, batch) for batch in batches_of(named, num_rows)]
            mask = masks[0] if len(masks) == 1 else pa.concat_arrays(masks)
            num_matching = mask.true_count
            if num_matching == num_rows:
                continue
            num_rows = num_matching
            needed = self.held.union(*(self.conjuncts[number].columns for number in waiting))
            decoded = {index: keep_rows(values, mask) for index, values in decoded.items() if index in needed}
            if not waiting:
                return Matches(fragment, start, end, num_rows, rows, decoded, mask)
            rows = fragment.rows_at(start, mask) if rows is None else kept_rows(rows, mask)
        held = {index: decoded[index] for index in self.held if index in decoded}
        return Matches(fragment, start, end, num_rows, rows, held)

    @property
    def output_bytes(self) -> float:
        """Bytes per row for which windows should have room, since `hold_outputs` may decode so many."""
        return self._narrow_bytes if self._has_dense_windows else 0

    def hold_outputs(self, matches: Matches, most_bytes: int) -> None:
        """Find the row numbers for a scan that returns columns. If many rows match, and all values take few
        bytes, decode the columns that are not decoded yet.

        Then no second job is needed for these rows. A column that cannot be decoded is left to that job,
        which raises the error after the rows before.

        Args:
            matches: What `matches` returned. It gets the values.
            most_bytes: Bytes that the values may take.
        """
        if not self._outputs or not matches.num_rows:
            return
        mask = matches.mask
        for number, column in self._dense_columns(matches, mask, most_bytes).items():
            with suppress(LanceError):
                values = None if mask is None else read_masked(column, matches.start, mask)
                matches.held[number] = read_dense_rows(column, matches.rows) if values is None else values
        matches.find_rows()

    def _dense_columns(
        self, matches: Matches, mask: pa.BooleanArray | None, most_bytes: int
    ) -> dict[int, StoredColumn]:
        """Return the columns that the scan returns and that are not decoded yet, by number; none unless many
        rows match everywhere, and all values have room.
        """
        num_rows = matches.end - matches.start
        waiting = [number for number in self._outputs if number not in matches.held]
        if not self._holds_outputs or not waiting or num_rows < _LEAST_ROWS:
            return {}
        columns = {
            number: column
            for number in waiting
            if isinstance(column := matches.fragment.columns[number], StoredColumn)
        }
        if len(columns) < len(waiting):
            return {}
        share = self._dense_share
        if share is None:
            share = max([column.dense_share for column in columns.values()])
        if matches.num_rows < share * num_rows:
            return {}
        if mask is not None:
            is_even = is_evenly_dense(mask, share)
        else:  # blocks between groups of rows are not decoded
            parts = list(by_density(matches.rows, share, columns[waiting[0]].page_rows[-1]))
            is_even = len(parts) == 1 and parts[0][1]
        if not is_even:
            return {}
        self._has_dense_windows = True
        num_bytes = matches.num_rows * sum([column.bytes_per_row for column in columns.values()])
        return columns if num_bytes <= most_bytes else {}

    def is_on_pages(self, fragment: FragmentReader, candidate: CandidateRange, gatherer: Gatherer) -> bool:
        """Return whether a candidate range has so many rows that `matches` evaluates the first condition on
        pages, if their encodings allow it, before it decodes the column.
        """
        if candidate.num_rows < _LEAST_ROWS:
            return False
        order = self._order(fragment, candidate)
        conditions = self.conjuncts[order[0]].on_pages if order else ()
        return bool(conditions) and all(
            self._page_column(fragment, candidate, gatherer, condition) is not None
            for condition in conditions
        )

    def _page_column(
        self,
        fragment: FragmentReader,
        candidate: CandidateRange,
        gatherer: Gatherer,
        condition: PageCondition,
    ) -> StoredColumn | None:
        """Return the column on whose pages a condition is evaluated; None if the column has to be decoded."""
        (name,) = condition.column.path
        is_many = candidate.num_rows >= _LEAST_ROWS
        if (
            candidate.rows is not None
            or (is_many and self._inputs[name] in self.held and not self._keeps_on_pages(condition))
            or not (is_many or condition.is_cheap)
            or gatherer.wants(name, candidate.start, candidate.end)
        ):
            return None
        column = fragment.columns[self._inputs[name]]
        return column if isinstance(column, StoredColumn) else None

    def _keeps_on_pages(self, condition: PageCondition) -> bool:
        """Return whether a column that the scan returns is compared on its pages, too.

        If many rows match, `hold_outputs` decodes only the values that are kept, which takes less time than
        to decode all and to drop the others. If few match, few are picked.
        """
        return self._holds_narrow and condition.numbers is not None

    def _on_pages(
        self, fragment: FragmentReader, candidate: CandidateRange, gatherer: Gatherer, waiting: list[int]
    ) -> pa.BooleanArray | None:
        """Evaluate the first of the waiting conditions on pages, as many as kernels can, and take them out.

        Returns for each live row of the candidate range whether all of them are true; None if there are none.
        """
        found: pa.BooleanArray | None = None
        start, end = candidate.start, candidate.end
        while waiting and (found is None or found.true_count >= _LEAST_SHARE * len(found)):
            conditions, taken = self._joined(waiting)
            more: pa.BooleanArray | None = None
            for condition in conditions:
                column = self._page_column(fragment, candidate, gatherer, condition)
                ranges = None if column is None else column.page_ranges(start, end)
                also = None if ranges is None else condition.matches(ranges)
                more = also if more is None or also is None else pc.or_(more, also)
                if more is None:
                    break
            if more is None:
                break
            found = more if found is None else pc.and_(found, more)
            waiting[:] = [number for number in waiting if number not in taken]
        if found is None:
            return None
        live = fragment.live([found], start)
        return live[0] if len(live) == 1 else pa.concat_arrays(live)

    def _joined(self, waiting: list[int]) -> tuple[tuple[PageCondition, ...], list[int]]:
        """Return the first of the waiting conditions, joined with others on its column, and their numbers."""
        conditions, taken = self.conjuncts[waiting[0]].on_pages, [waiting[0]]
        if len(conditions) != 1:
            return conditions, taken
        (condition,) = conditions
        for number in waiting[1:]:
            others = self.conjuncts[number].on_pages
            if len(others) == 1 and others[0].column == condition.column:
                both = condition.joined(others[0])
                if both is not None:
                    condition = both
                    taken.append(number)
        return (condition,), taken

    def _order(self, fragment: FragmentReader, candidate: CandidateRange) -> list[int]:
        """Return the numbers of the conjuncts to evaluate in a candidate range: guards first, and then the
        cheapest first.
        """
        if len(candidate.conjuncts) == 1:
            return list(candidate.conjuncts)
        kept = self._ordered
        if kept is None or kept[0] is not fragment or kept[1] != candidate.conjuncts:
            costs = {number: self._cost(fragment, number) for number in candidate.conjuncts}
            order = sorted(costs, key=lambda number: (number >= self._guards, costs[number]))
            kept = self._ordered = fragment, candidate.conjuncts, order
        return list(kept[2])

    def _cost(self, fragment: FragmentReader, number: int) -> float:
        return sum([fragment.columns[index].bytes_per_row for index in self.conjuncts[number].columns])


class _Returned(NamedTuple):
    """The columns that a scan returns, seen from its filter.

    Attributes:
        held: Numbers of the columns that it needs.
        are_stored: Whether all returned columns are stored ones.
        are_narrow: Whether all returned columns together are narrow; see `_narrow_bytes`.
        narrow_bytes: Bytes per row of the columns that it does not need; see `_narrow_bytes`.
    """

    held: frozenset[int]
    are_stored: bool
    are_narrow: bool
    narrow_bytes: float


def _find_returned(projection: FilteredProjection) -> _Returned:
    outputs = range(projection.num_outputs)
    held = frozenset(projection.inputs.values()) & frozenset(outputs)
    are_stored = all(isinstance(projection.columns[number], DataColumn) for number in outputs)
    types = [projection.schema.field(number).type for number in outputs]
    others = [types[number] for number in outputs if number not in held]
    return _Returned(held, are_stored, _narrow_bytes(types) > 0, _narrow_bytes(others) if are_stored else 0)


_returned: Derived[FilteredProjection, _Returned] = Derived(_find_returned)  # callers repeat projections


def _narrow_bytes(types: Iterable[pa.DataType]) -> float:
    """Return the bytes per row of columns; 0 if there are too many, or if values differ in size."""
    num_bytes = 0.0
    for data_type in types:
        bits = value_bits(data_type)
        num_bytes += math.inf if bits is None else bits / 8
        if num_bytes > _MOST_OUTPUT_BYTES:
            return 0
    return num_bytes


def _read(column: Column, start: int, end: int) -> list[pa.Array]:
    """Return the rows `[start, end)` of a column, by one call of a kernel if one page range has them."""
    if isinstance(column, StoredColumn):
        ranges = column.page_ranges(start, end)
        if ranges is not None and len(ranges) == 1:
            (array,) = decode_page_ranges(ranges)
            if array is not None:
                return column.present([array])
    return column.read(start, end)


@dataclass
class Matches:
    """The matching live rows of the physical range `[start, end)` of a fragment.

    Attributes:
        held: Values of these rows by column number, for columns that the scan returns and that are decoded.

    Row numbers are made when they are asked for: a count does without them.
    """

    fragment: FragmentReader
    start: int
    end: int
    num_rows: int
    _rows: Offsets | None = field(repr=False)
    """None: all live rows."""
    held: dict[int, list[pa.Array]] = field(repr=False)
    _mask: pa.BooleanArray | None = field(default=None, repr=False)
    """Whether each of `_rows` matches; None: all match."""

    @property
    def mask(self) -> pa.BooleanArray | None:
        """Whether each physical row of the range matches; None if row numbers were found, or rows deleted."""
        is_whole = self._mask is not None and self._rows is None and len(self._mask) == self.end - self.start
        return self._mask if is_whole else None

    def find_rows(self) -> None:
        """Find the row numbers, for a thread that asks for them later."""
        self.rows  # noqa: B018

    @property
    def rows(self) -> Offsets:
        """The physical row numbers, ascending."""
        if self._mask is not None:
            if self._rows is None:
                self._rows = self.fragment.rows_at(self.start, self._mask)
            else:
                self._rows = kept_rows(self._rows, self._mask)
            self._mask = None
        elif self._rows is None:
            self._rows = self.fragment.live_rows(self.start, self.end)
        return self._rows

    @property
    def num_bytes(self) -> int:
        """About how many bytes the row numbers and the held values take."""
        arrays = (array for values in self.held.values() for array in values)
        return 8 * self.num_rows + sum(int(array.get_total_buffer_size()) for array in arrays)
