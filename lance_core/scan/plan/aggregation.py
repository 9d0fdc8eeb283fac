"""Aggregates of the rows of a scan, bound to the columns of a table version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lance_core.errors import ArgumentTypeError, InvalidInputError
from lance_core.expressions.aggregates import Aggregate, is_groupable
from lance_core.expressions.ordered_types import value_type
from lance_core.expressions.tree import Expression
from lance_core.scan.plan.bind import bind_columns
from lance_core.scan.plan.options import Computed, ScanOptions
from lance_core.scan.plan.projection import expression_schema
from lance_core.scan.plan.scan_plan import ScanPlan, plan_scan
from lance_core.schema import Schema
from lance_core.table.snapshot import Snapshot

_BATCH_BYTES = 8 << 20
"""Most bytes of the batches whose rows are aggregated together."""


@dataclass(frozen=True)
class Aggregation:
    """One row for each group of rows.

    Attributes:
        keys: Names and values of the columns by whose values rows are grouped; without any, all rows are one
            group.
        aggregates: Names and functions of the other columns of the result.
    """

    keys: Computed
    aggregates: tuple[tuple[str, Aggregate], ...]

    @property
    def inputs(self) -> tuple[Expression, ...]:
        """The distinct expressions to evaluate: first the keys, one by one, then the arguments."""
        keys = tuple(value for _, value in self.keys)
        arguments = (each.argument for _, each in self.aggregates if each.argument is not None)
        return keys + tuple(dict.fromkeys(value for value in arguments if value not in keys))

    @property
    def schema(self) -> pa.Schema:
        """Columns of the result: the keys, then the aggregates. Counts are never null."""
        keys = [pa.field(name, value_type(value.type)) for name, value in self.keys]
        return pa.schema(
            keys
            + [
                pa.field(name, each.data_type, nullable=not each.function.startswith("count"))
                for name, each in self.aggregates
            ]
        )


def bind_aggregation(
    schema: Schema,
    aggregates: Mapping[str, str],
    group_by: Sequence[str] | Mapping[str, str] | None,
    *,
    repeatable: bool = False,
) -> Aggregation:
    """Bind aggregates, given as SQL by name.

    Args:
        schema: The columns of the table.
        aggregates: Such as `{"total": "sum(price)", "rows": "count(*)"}`.
        group_by: Names of columns or SQL expressions, or SQL expressions by name.
        repeatable: That of `bind_filter`.

    Raises:
        InvalidInputError: an expression does not parse, names an unknown column or has no aggregate, or two
            columns of the result have the same name.
        UnsupportedFeatureError: see `lance_core.expressions.aggregates.aggregate`.
        ArgumentTypeError: a name or a value is no text.
    """
    from lance_core.expressions.parsing.sql import parse_aggregate  # late, as in bind_filter

    if isinstance(group_by, str):
        raise ArgumentTypeError("group_by must be a list of columns, or SQL text by name, got str")
    keys = _bind_keys(schema, group_by or (), repeatable)
    known = expression_schema(schema)
    found = []
    for name, text in aggregates.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise ArgumentTypeError(f"aggregates must map names to SQL text, they hold {name!r}: {text!r}")
        try:
            found.append((name, parse_aggregate(text, known, repeatable=repeatable)))
        except InvalidInputError as error:
            raise InvalidInputError(f"aggregate {name!r}: {error}") from None
    names = [name for name, _ in (*keys, *found)]
    if not names:
        raise InvalidInputError("an aggregation needs an aggregate or a column to group by")
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InvalidInputError("the result has two columns of this name", column=twice)
    return Aggregation(keys, tuple(found))


def _bind_keys(schema: Schema, group_by: Sequence[str] | Mapping[str, str], repeatable: bool) -> Computed:
    if not isinstance(group_by, Mapping):
        for text in group_by:
            if not isinstance(text, str):
                raise ArgumentTypeError(f"group_by must hold SQL text, it holds {text!r}")
            if list(group_by).count(text) > 1:
                raise InvalidInputError("group_by names a column twice", column=text)
        group_by = {text: text for text in group_by}
    keys = bind_columns(schema, group_by, repeatable=repeatable)
    for name, value in keys:
        if not is_groupable(value.type):
            raise InvalidInputError(
                "rows cannot be grouped by a column of this type",
                column=name,
                expected="numbers, texts, bytes, times or booleans",
                found=value.type,
            )
    return keys


def plan_aggregation(snapshot: Snapshot, aggregation: Aggregation, options: ScanOptions) -> ScanPlan:
    """Return the plan of the rows to aggregate: those of `options`, with the columns `aggregation.inputs`.

    Errors are those of `plan_scan`.
    """
    computed = tuple((str(number), value) for number, value in enumerate(aggregation.inputs))
    return plan_scan(
        snapshot,
        replace(
            options,
            columns=None if computed else (),
            computed=computed or None,
            with_row_id=False,
            with_row_address=False,
            order_by=() if options.limit is None and not options.offset else options.order_by,
            strict_batch_size=False,
            batch_rows=None,
            batch_bytes=_BATCH_BYTES,
        ),
    )
