"""Partial aggregates of groups of rows, which Arrow computes batch by batch and then merges.

A partial has one row per group that it has seen. Partials wait until they have as many rows as the merged
one, so merging costs no more than a few times what the rows cost, and memory grows with the groups, not with
the rows. Arrow gives groups in any order, so each has the number of its first row, by which the result is
sorted.

Arrow compares floats by their bits, and finds no largest NaN, so floats of keys, minima and maxima are
integers in their order here. Sums of integers are decimals, and sums of decimals have 76 digits, which no
number of rows exceeds.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.errors import InvalidInputError
from lance_core.expressions.aggregates import COUNT_DISTINCT, Aggregate
from lance_core.expressions.ordered_types import value_type
from lance_core.scan.plan.aggregation import Aggregation
from lance_core.scan.run.float_order import WORDS, from_total_order, in_total_order, without_variants

# Rows of waiting partials, and rows that every partial counts for in addition, after which they are merged.
_LEAST_MERGED = 1 << 16
_PARTIAL_ROWS = 64

_INTEGER_SUMS = pa.decimal128(38, 0)
_DECIMAL_DIGITS = 76

Column: TypeAlias = Any
"""A `pa.ChunkedArray`."""


@dataclass(frozen=True)
class _Measure:
    """One value of a partial.

    Attributes:
        source: Number of the column that it is computed from; None for the number of rows.
        function: Arrow's aggregate function of the rows.
        merge: Arrow's aggregate function of the values of several partials.
        prepared: Returns the values of a batch in the form that `function` takes.
        kept: Returns the results of `function` in the form that `merge` takes, and gives again.
    """

    source: int | None
    function: str
    merge: str
    prepared: Callable[[pa.Array], pa.Array]
    kept: Callable[[Column], Column]


class _Partials:
    """Partials with one row for each combination of keys."""

    def __init__(self, keys: Sequence[int], measures: Sequence[_Measure]) -> None:
        """Begin without rows.

        Args:
            keys: Numbers of the columns whose values make the groups. If there are any, the last column of
                the batches has the numbers of the rows.
            measures: The values of each group.
        """
        self._keys = keys
        self._measures = [*measures, _FIRST_ROW] if keys else measures
        self._names = [f"k{number}" for number in range(len(keys))]
        self._merges = [(f"m{number}", each.merge) for number, each in enumerate(self._measures)]
        self._merged: pa.Table | None = None
        self._waiting: list[pa.Table] = []
        self._num_waiting = 0
        self.num_bytes = 0

    def add(self, columns: Sequence[pa.Array], num_rows: int) -> None:
        """Add the rows of a batch."""
        names, arrays = list(self._names), [_comparable(columns[key]) for key in self._keys]
        functions: list[tuple[str | list[str], str]] = []
        for number, measure in enumerate(self._measures):
            if measure.source is None:
                functions.append(([], measure.function))
                continue
            names.append(f"m{number}")
            arrays.append(measure.prepared(columns[measure.source]))
            functions.append((names[-1], measure.function))
        if not arrays:  # only rows are counted
            names, arrays = ["rows"], [pa.nulls(num_rows)]
        table = pa.Table.from_arrays([pa.chunked_array([array]) for array in arrays], names)
        found = table.group_by(self._names, use_threads=False).aggregate(functions)
        results = found.columns[len(self._names) :]
        kept = [each.kept(values) for each, values in zip(self._measures, results, strict=True)]
        self._wait(self._table([*found.columns[: len(self._names)], *kept]))

    def merged(self) -> pa.Table:
        """Return one row for each combination of keys: the keys, the measures, and the number of the first
        row if there are keys.
        """
        waiting = self._waiting if self._merged is None else [self._merged, *self._waiting]
        if len(waiting) > 1:
            rows = pa.concat_tables(waiting)
            found = rows.group_by(self._names, use_threads=False).aggregate(self._merges)
            sums = found.columns[len(self._names) :]
            kept = [each.kept(values) for each, values in zip(self._measures, sums, strict=True)]
            waiting = [self._table([*found.columns[: len(self._names)], *kept])]
        self._merged, self._waiting, self._num_waiting = waiting[0], [], 0
        self.num_bytes = self._merged.get_total_buffer_size()
        return self._merged

    def _wait(self, partial: pa.Table) -> None:
        self._waiting.append(partial)
        self.num_bytes += partial.get_total_buffer_size()
        self._num_waiting += partial.num_rows + _PARTIAL_ROWS
        merged = 0 if self._merged is None else self._merged.num_rows
        if self._num_waiting > max(merged, _LEAST_MERGED):
            self.merged()

    def _table(self, columns: Sequence[Column]) -> pa.Table:
        return pa.Table.from_arrays(columns, [*self._names, *(name for name, _ in self._merges)])


class Groups:
    """Groups of the rows of a stream, with their aggregates."""

    def __init__(self, aggregation: Aggregation) -> None:
        """Begin without rows.

        Batches of rows must have the columns `aggregation.inputs`.
        """
        self._aggregation = aggregation
        inputs = list(aggregation.inputs)
        self._types = [value_type(value.type) for value in inputs]
        keys = list(range(len(aggregation.keys)))
        self._num_keys = len(keys)
        measures: dict[tuple[int | None, str], int] = {}
        self._distinct: dict[int, _Partials] = {}
        self._finishing: list[tuple[int | None, list[int]]] = []
        """For each aggregate the column whose values are counted once, or the numbers of its measures."""
        for _, each in aggregation.aggregates:
            source = None if each.argument is None else inputs.index(each.argument)
            if each.function == COUNT_DISTINCT:
                assert source is not None
                self._distinct.setdefault(source, _Partials([*keys, source], ()))
                self._finishing.append((source, []))
                continue
            parts = ("sum", "count") if each.function == "mean" else (each.function,)
            numbers = [measures.setdefault((source, part), len(measures)) for part in parts]
            self._finishing.append((None, numbers))
        made = [_measure(source, part, self._types) for source, part in measures]
        self._partials = _Partials(keys, made)
        self._num_rows = 0
        # The result of no rows has the right types, and one row if there are no keys.
        self.add([pa.nulls(0, data_type) for data_type in self._types], 0)

    @property
    def num_bytes(self) -> int:
        """Bytes of the partials."""
        return self._partials.num_bytes + sum(each.num_bytes for each in self._distinct.values())

    def add(self, columns: Sequence[pa.Array], num_rows: int) -> None:
        """Add the rows of a batch, given by its columns."""
        plain = [
            array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array for array in columns
        ]
        numbers = np.arange(self._num_rows, self._num_rows + num_rows)
        self._num_rows += num_rows
        for partials in (self._partials, *self._distinct.values()):
            partials.add([*plain, pa.array(numbers)], num_rows)

    def result(self) -> pa.Table:
        """Return one row per group, in the order of the first rows of the groups.

        Raises:
            InvalidInputError: a sum does not fit its type; the message names the aggregate.
        """
        schema = self._aggregation.schema
        merged = self._in_order(self._partials.merged())
        columns = [
            _each(merged.column(number), schema.types[number], _restored) for number in range(self._num_keys)
        ]
        measures = merged.columns[self._num_keys :]
        for (name, each), (source, numbers) in zip(
            self._aggregation.aggregates, self._finishing, strict=True
        ):
            if source is None:
                columns.append(_finished(name, each, [measures[number] for number in numbers]))
            else:
                columns.append(self._num_distinct(self._distinct[source].merged()))
        return pa.Table.from_arrays(columns, schema=schema)

    def _in_order(self, groups: pa.Table) -> pa.Table:
        """Return groups in the order of their first rows, whose numbers are the last column."""
        return groups.sort_by(groups.column_names[-1]) if self._num_keys else groups

    def _num_distinct(self, rows: pa.Table) -> Column:
        """Return the number of values per group, of rows with the distinct combinations of keys and value."""
        names = rows.column_names
        keys, value, first_row = names[: self._num_keys], names[self._num_keys], names[-1]
        counts = rows.group_by(keys, use_threads=False).aggregate([(value, "count"), (first_row, "min")])
        return self._in_order(counts).column(self._num_keys)


def _measure(source: int | None, function: str, types: Sequence[pa.DataType]) -> _Measure:
    if source is None:
        return _Measure(None, "count_all", "sum", _same, _same)
    data_type = types[source]
    if function == "count":
        return _Measure(source, "count", "sum", _countable, _same)
    if function in ("min", "max"):
        is_float = pa.types.is_floating(data_type)
        return _Measure(source, function, function, _ranked if is_float else _comparable, _kept_in_order)
    if pa.types.is_decimal(data_type):
        wide = pa.decimal256(_DECIMAL_DIGITS, data_type.scale)
        return _Measure(source, "sum", "sum", lambda values: values.cast(wide), lambda sums: sums.cast(wide))
    if pa.types.is_floating(data_type):
        return _Measure(source, "sum", "sum", lambda values: values.cast(pa.float64()), _same)
    return _Measure(source, "sum", "sum", _summable, lambda sums: sums.cast(_INTEGER_SUMS))


def _same(values: Any) -> Any:
    return values


_FIRST_ROW = _Measure(-1, "min", "min", _same, _same)
"""Number of the first row of a group, from the last column of a batch."""


def _comparable(values: pa.Array) -> pa.Array:
    """Return values that are equal if and only if Arrow finds them equal: floats as integers."""
    if pa.types.is_duration(values.type):
        return values.view(pa.int64())
    if not pa.types.is_floating(values.type):
        return values
    floats = values.cast(pa.float32()) if pa.types.is_float16(values.type) else values
    return in_total_order(without_variants(floats))


def _ranked(floats: pa.Array) -> pa.Array:
    """Return floats as they are if Arrow finds their minimum and maximum, otherwise as integers."""
    if pa.types.is_float16(floats.type) or pc.any(pc.is_nan(floats)).as_py():
        return _comparable(floats)
    return floats


def _kept_in_order(found: Column) -> Column:
    """Return the minima or maxima of a partial as comparable values."""
    if not pa.types.is_floating(found.type):
        return found
    return pa.chunked_array([_comparable(chunk) for chunk in found.chunks], WORDS[found.type.bit_width])


def _countable(values: pa.Array) -> pa.Array:
    """Return values of which Arrow counts those that are not null, whatever their type."""
    if pa.types.is_nested(values.type) or isinstance(values, pa.ExtensionArray):
        return pc.if_else(values.is_valid(), True, pa.scalar(None, pa.bool_()))
    return values


def _summable(integers: pa.Array) -> pa.Array:
    """Return integers as they are if their sum fits 64 bits whatever the groups, otherwise as decimals."""
    if integers.type.bit_width < 64 or len(integers) == integers.null_count:
        return integers
    bounds = pc.min_max(integers)
    largest = max(abs(bounds["min"].as_py()), abs(bounds["max"].as_py()))
    return integers if largest * len(integers) < 1 << 63 else integers.cast(_INTEGER_SUMS)


def _restored(values: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Return comparable values in their own type."""
    if pa.types.is_duration(data_type):
        return values.view(data_type)
    if not pa.types.is_floating(data_type):
        return values
    if pa.types.is_float16(data_type):
        return from_total_order(values, pa.float32()).cast(data_type)
    return from_total_order(values, data_type)


def _each(
    values: Column, data_type: pa.DataType, change: Callable[[pa.Array, pa.DataType], pa.Array]
) -> Column:
    return pa.chunked_array([change(chunk, data_type) for chunk in values.chunks], data_type)


def _finished(name: str, each: Aggregate, measures: Sequence[Column]) -> Column:
    """Return the values of an aggregate from its measures."""
    if each.function in ("min", "max"):
        return _each(measures[0], each.data_type, _restored)
    if each.function == "mean":
        return _means(measures[0], measures[1], each.data_type)
    try:
        return measures[0].cast(each.data_type)
    except pa.ArrowInvalid:
        raise InvalidInputError(
            f"aggregate {name!r}: a sum is out of the range of {each.data_type}; sum decimals or doubles "
            "instead, for example sum(CAST(x AS DOUBLE))"
        ) from None


def _means(sums: Column, counts: Column, data_type: pa.DataType) -> Column:
    if not pa.types.is_decimal(data_type):
        return pc.divide(sums.cast(pa.float64()), counts.cast(pa.float64()))
    with decimal.localcontext() as context:
        context.prec = 3 * _DECIMAL_DIGITS
        means = [
            None if total is None else _quotient(total, count, data_type.scale)
            for total, count in zip(sums.to_pylist(), counts.to_pylist(), strict=True)
        ]
    return pa.chunked_array([pa.array(means, data_type)])


def _quotient(total: Decimal, count: int, scale: int) -> Decimal:
    """Return a mean with `scale` digits after the point, the others cut off as in the reference's engine."""
    return (total / count).quantize(Decimal(1).scaleb(-scale), decimal.ROUND_DOWN)
