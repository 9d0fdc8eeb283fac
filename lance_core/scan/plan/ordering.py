"""The columns that decide the order of rows, resolved against the columns of a table version."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pyarrow as pa

from lance_core.errors import InvalidInputError
from lance_core.expressions.column_names import resolve_column
from lance_core.expressions.ordered_types import has_order, value_type
from lance_core.expressions.tree import Comparison, Expression, Literal
from lance_core.scan.plan.options import ColumnOrdering, ScanOptions
from lance_core.scan.plan.projection import (
    ROW_COLUMNS,
    DataColumn,
    Projection,
    expression_schema,
    project,
)
from lance_core.schema import Schema, split_path

_BOUNDED = (
    pa.types.is_integer,
    pa.types.is_float32,
    pa.types.is_float64,
    pa.types.is_decimal128,
    pa.types.is_timestamp,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
)
"""Types for whose values `reaching` has a condition."""


def project_order(schema: Schema, order_by: Sequence[ColumnOrdering]) -> Projection:
    """Resolve the columns that rows are sorted by, in the order of `order_by`.

    Raises:
        InvalidInputError: A column does not exist, is named twice, or has no order; the message names it.
    """
    projection = project(schema, ScanOptions(columns=tuple(each.column_name for each in order_by)))
    for column in projection.columns:
        is_stored_otherwise = isinstance(column, DataColumn) and (
            column.json is not None or _is_descriptor(column)
        )
        if is_stored_otherwise or not _is_sortable(column.output.type):
            raise InvalidInputError(
                "rows cannot be ordered by a column of this type",
                column=column.output.name,
                expected="numbers, texts, bytes, times, booleans, or structs of them",
                found=column.output.type,
            )
    return projection


def reaching(schema: Schema, ordering: ColumnOrdering, bound: pa.Scalar) -> Expression | None:
    """Return a condition that all rows meet whose value does not come after `bound`; None without one.

    Other rows may meet the condition, too, since floats have another order in conditions. Statistics prune
    the pages in which no row meets it.
    """
    from lance_core.expressions.builders import disjunction, is_null  # late: most scans do not sort

    names = split_path(ordering.column_name)
    known = expression_schema(schema)
    if names[0] not in known.names or ordering.column_name in ROW_COLUMNS:
        return None
    column = resolve_column(names, known, exact=True)
    is_float = pa.types.is_floating(column.type)
    if not any(is_known(column.type) for is_known in _BOUNDED):
        return None
    nulls = [is_null(column)] if ordering.nulls_first else []
    if not bound.is_valid:
        return nulls[0] if nulls else None
    if is_float and math.isnan(bound.as_py()):
        return None
    conditions: list[Expression] = [Comparison("<=" if ordering.ascending else ">=", column, Literal(bound))]
    if is_float:  # NaN with a sign comes first
        conditions.append(Comparison("=", column, Literal(pa.scalar(math.nan, column.type))))
    conditions += nulls
    return conditions[0] if len(conditions) == 1 else disjunction(conditions)


def _is_descriptor(column: DataColumn) -> bool:
    """Return whether the column shows descriptors of blobs, or structs around them."""
    is_struct = pa.types.is_struct(column.output.type)
    return is_struct and any(field.is_blob_descriptor for field in column.field.walk())


def _is_sortable(data_type: pa.DataType) -> bool:
    data_type = value_type(data_type)
    if pa.types.is_struct(data_type):
        return all(_is_sortable(field.type) for field in data_type)
    return has_order(data_type)
