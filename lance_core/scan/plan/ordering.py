"""The columns that decide the order of rows, resolved against the columns of a table version."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lance_core.errors import InvalidInputError
from lance_core.scan.plan.options import ColumnOrdering, ScanOptions
from lance_core.scan.plan.projection import DataColumn, Projection, project
from lance_core.schema import Schema

_SORTABLE = (
    pa.types.is_null,
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal128,
    pa.types.is_decimal256,
    pa.types.is_temporal,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
)


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


def _is_descriptor(column: DataColumn) -> bool:
    """Return whether the column shows descriptors of blobs, or structs around them."""
    is_struct = pa.types.is_struct(column.output.type)
    return is_struct and any(field.is_blob_descriptor for field in column.field.walk())


def _is_sortable(data_type: pa.DataType) -> bool:
    if pa.types.is_dictionary(data_type):
        return _is_sortable(data_type.value_type)
    if pa.types.is_struct(data_type):
        return all(_is_sortable(field.type) for field in data_type)
    return not isinstance(data_type, pa.BaseExtensionType) and any(known(data_type) for known in _SORTABLE)
