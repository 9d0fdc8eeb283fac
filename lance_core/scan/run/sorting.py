"""Sorting of rows by several columns, in the order that `ColumnOrdering` describes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.scan.plan.options import ColumnOrdering
from lance_core.scan.run.float_order import WORDS, in_total_order

_Key = tuple[pa.ChunkedArray, str]


def sorted_places(columns: Sequence[pa.ChunkedArray], order_by: Sequence[ColumnOrdering]) -> pa.Array:
    """Return the row numbers (uint64) in the order of the values. Equal rows stay as they are.

    Args:
        columns: The values of each row, one column for each of `order_by`.
    """
    keys = [
        key
        for values, ordering in zip(columns, order_by, strict=True)
        for key in _keys(values, "ascending" if ordering.ascending else "descending", ordering.nulls_first)
    ]
    if not keys:
        return pa.array(np.arange(len(columns[0]), dtype=np.uint64))
    names = [str(number) for number in range(len(keys))]
    table = pa.Table.from_arrays([values for values, _ in keys], names)
    return pc.sort_indices(table, [(name, way) for name, (_, way) in zip(names, keys, strict=True)])


def may_precede(values: pa.Array, bound: pa.Scalar, ordering: ColumnOrdering) -> pa.BooleanArray | None:
    """Return which values do not come after `bound`; None if that costs more than sorting them."""
    if pa.types.is_nested(values.type) or pa.types.is_dictionary(values.type):
        return None
    if not bound.is_valid:
        return values.is_null() if ordering.nulls_first else None
    if pa.types.is_floating(values.type):
        values, bound = in_total_order(values), in_total_order(pa.array([bound], bound.type))[0]
    compare = pc.less_equal if ordering.ascending else pc.greater_equal
    return pc.fill_null(compare(values, bound), ordering.nulls_first)


def _keys(values: pa.ChunkedArray, way: str, nulls_first: bool) -> Iterator[_Key]:
    """Yield columns that Arrow sorts into the order of `values`, each with the way it goes.

    Arrow has one place for the nulls of all columns, and puts NaN beside them.
    """
    if values.null_count:
        yield pc.is_null(values), "descending" if nulls_first else "ascending"
    data_type = values.type
    if pa.types.is_struct(data_type):
        for number in range(data_type.num_fields):
            yield from _keys(pc.struct_field(values, [number]), way, nulls_first)
    elif pa.types.is_dictionary(data_type):
        yield from _keys(_each(values, _decoded, data_type.value_type), way, nulls_first)
    elif pa.types.is_floating(data_type):
        yield _each(values, in_total_order, WORDS[data_type.bit_width]), way
    elif not pa.types.is_null(data_type):
        yield values, way


def _decoded(indices: pa.DictionaryArray) -> pa.Array:
    return indices.dictionary_decode()


def _each(
    values: pa.ChunkedArray, change: Callable[[pa.Array], pa.Array], data_type: pa.DataType
) -> pa.ChunkedArray:
    return pa.chunked_array([change(chunk) for chunk in values.chunks], data_type)
