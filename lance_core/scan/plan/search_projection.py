"""The columns of a result of a search: columns of the rows that it finds, and columns with its scores.

A search first finds rows. Their columns are then taken, a filter that applies after the search is evaluated,
and columns are computed from scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import pyarrow as pa

from lance_core.errors import InvalidInputError
from lance_core.expressions.tree import Column, Expression, columns, conjuncts
from lance_core.scan.plan.nearest import QUERY_INDEX, score_fields
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.ordering import project_order
from lance_core.scan.plan.projection import (
    ROW_ADDRESS,
    ROW_ID,
    Projection,
    project,
    with_inputs,
)
from lance_core.schema import Schema


@dataclass(frozen=True)
class Taken:
    """An output column that is taken: its number among the taken columns."""

    number: int


@dataclass(frozen=True)
class Score:
    """An output column that the search itself makes, by its name."""

    name: str


_MOST_KNOWN = 16
_KNOWN: WeakKeyDictionary[Schema, dict[object, SearchProjection]] = WeakKeyDictionary()
"""Projections of searches without a filter, which many searches ask for again."""
Output = Taken | Score | Expression
_Named = str | Score | Expression
"""An output whose number among the taken columns is not known yet; a text names a column to take."""


@dataclass(frozen=True)
class SearchProjection:
    """The columns of a search.

    Attributes:
        taken: Columns to take of the rows that are found.
        outputs: What each column of the result is. Expressions are evaluated on `inputs` and scores.
        schema: Schema of the result.
        inputs: Number of the taken column, for each top-level column that an expression names.
        order: The columns to sort the result by, in the order of `ScanOptions.order_by`.
        before: Condition of the rows that are searched; the first `guards` conditions of it are guards.
        after: Condition of the rows of the result.
    """

    taken: Projection
    outputs: tuple[Output, ...]
    schema: pa.Schema
    inputs: dict[str, int]
    order: tuple[Output, ...]
    before: Expression | None
    after: Expression | None


def project_search(schema: Schema, options: ScanOptions) -> SearchProjection:
    """Resolve the columns of a scan with a search.

    Raises:
        InvalidInputError: As for `project`; or the table has a column with the name of a score.
        UnsupportedFeatureError: As for `project`.
    """
    fields = score_fields(options.nearest, options.text_query, options.search_filter)
    scores = {field.name: field for field in fields}
    for field in schema.fields:
        if field.name in scores:
            raise InvalidInputError(
                f"the table has a column {field.name!r}, which the result of a search needs for itself"
            )
    if options.filter is not None or options.computed is not None or options.order_by:
        return _resolved(schema, options, scores)
    rows = options.with_row_id, options.with_row_address
    key = (options.columns, *rows, options.with_scores, options.blob_handling, options.stored, *scores)
    known = _KNOWN.setdefault(schema, {})
    projection = known.get(key)
    if projection is None:
        if len(known) >= _MOST_KNOWN:
            known.clear()
        projection = known[key] = _resolved(schema, options, scores)
    return projection


def _resolved(schema: Schema, options: ScanOptions, scores: dict[str, pa.Field]) -> SearchProjection:
    named = _named_outputs(schema, options, scores)
    shown = {name for name, _ in named}
    missing = [name for name in scores if name not in shown and options.with_scores]
    leading = [name for name in missing if name == QUERY_INDEX]
    outputs: list[tuple[str, _Named]] = [
        *((name, Score(name)) for name in leading),
        *named,
        *((name, Score(name)) for name in missing if name not in leading),
    ]
    row_columns = (ROW_ID,) * options.with_row_id + (ROW_ADDRESS,) * options.with_row_address
    outputs = [pair for pair in outputs if pair[0] not in row_columns]
    outputs += [(name, name) for name in row_columns]
    project_order(schema, [each for each in options.order_by if each.column_name not in scores])
    order = [
        Score(each.column_name) if each.column_name in scores else each.column_name
        for each in options.order_by
    ]
    return _assembled(schema, options, scores, outputs, order)


def _named_outputs(
    schema: Schema, options: ScanOptions, scores: dict[str, pa.Field]
) -> list[tuple[str, _Named]]:
    """Return the outputs that the caller names, by name."""
    if options.computed is not None:
        named: list[tuple[str, _Named]] = []
        for name, value in options.computed:
            tops = {path[0] for path in columns(value)}
            if isinstance(value, Column) and value.path[0] in scores:
                named.append((name, Score(value.path[0])))
            else:
                named.append((name, value if tops & scores.keys() else name))
        return named
    if options.columns is None:
        return [(field.name, field.name) for field in project(schema, _plain(options)).schema]
    return [(name, Score(name) if name in scores else name) for name in options.columns]


def _assembled(
    schema: Schema,
    options: ScanOptions,
    scores: dict[str, pa.Field],
    outputs: Sequence[tuple[str, _Named]],
    order: Sequence[_Named],
) -> SearchProjection:
    names = [output for _, output in outputs if isinstance(output, str)]
    if len(set(names)) < len(names):
        raise InvalidInputError("column is asked for twice", column=max(names, key=names.count))
    base = _projected(schema, options, names)
    before, after = divided_filter(options)
    expressions = [output for _, output in outputs if isinstance(output, Expression)]
    taken = with_inputs(schema, base, [*expressions, *([after] if after else [])], besides=scores)
    sorted_by = project(schema, ScanOptions(columns=tuple(each for each in order if isinstance(each, str))))
    all_columns = list(taken.columns)
    for column in sorted_by.columns:
        if column not in all_columns:
            all_columns.append(column)
    keys = iter(sorted_by.columns)
    fields = []
    resolved: list[Output] = []
    for name, output in outputs:
        if isinstance(output, str):
            number = names.index(output)
            resolved.append(Taken(number))
            fields.append(base.columns[number].output)
        elif isinstance(output, Score):
            resolved.append(output)
            fields.append(scores[output.name].with_name(name))
        else:
            resolved.append(output)
            fields.append(pa.field(name, output.type))
    return SearchProjection(
        Projection(tuple(all_columns), pa.schema([column.output for column in all_columns])),
        tuple(resolved),
        pa.schema(fields, base.schema.metadata),
        dict(taken.inputs),
        tuple(Taken(all_columns.index(next(keys))) if isinstance(each, str) else each for each in order),
        before,
        after,
    )


def _projected(schema: Schema, options: ScanOptions, names: Sequence[str]) -> Projection:
    """Return the projection of columns of the table, of row columns, and of columns computed from them."""
    if options.columns is not None:
        return project(schema, replace(_plain(options), columns=tuple(names)))
    if options.computed is None:
        return project(schema, options)
    known = dict(options.computed)
    row_columns = [name for name in names if name not in known]
    computed = tuple((name, known[name]) for name in names if name in known)
    with_rows = replace(
        _plain(options),
        computed=computed,
        columns=None,
        with_row_id=ROW_ID in row_columns,
        with_row_address=ROW_ADDRESS in row_columns,
    )
    return project(schema, with_rows)


def _plain(options: ScanOptions) -> ScanOptions:
    return replace(options, with_row_id=False, with_row_address=False)


def divided_filter(options: ScanOptions) -> tuple[Expression | None, Expression | None]:
    """Return the conditions of a filter that decide which rows are searched, and those that apply to the rows
    that the search finds. Without a search, all conditions are of the first kind.
    """
    if not options.is_search or options.filter is None or options.prefilter:
        return options.filter, None
    if not options.guards:
        return None, options.filter
    from lance_core.expressions.builders import conjunction  # late, as in bind_filter

    parts = conjuncts(options.filter)
    guards, others = parts[: options.guards], parts[options.guards :]
    return conjunction(guards), conjunction(others) if others else None
