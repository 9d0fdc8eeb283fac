"""Statistics of the batches of a 0.1 file: one struct column per field, one row per batch.

    column "7" (the field id) of struct<null_count: int64, min_value, max_value>

A batch in which all values are null or NaN gets the widest possible bounds. Strings have no such bounds;
theirs are null. Source: docs/format.md, "0.1".
"""

from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Protocol

import pyarrow as pa

from lance_core.encodings.v0_1.encoders import rows_below
from lance_core.encodings.values import offset_bits
from lance_core.schema import Field


class Bounds(Protocol):
    """Source of the null count and the bounds of values, see `lance_core.statistics.collect.page_bounds`."""

    def bounds(self, values: pa.Array) -> pa.RecordBatch:
        """Return one row with `null_count`, `min` and `max`."""


_KINDS: tuple[Callable[[pa.DataType], bool], ...] = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_float32,
    pa.types.is_float64,
    pa.types.is_date,
    pa.types.is_decimal128,
)


class BatchStatistics:
    """Gatherer of the statistics of all fields whose type has statistics."""

    def __init__(self, source: Bounds) -> None:
        self._source = source
        self._rows: defaultdict[int, list[pa.RecordBatch]] = defaultdict(list)

    @property
    def num_batches(self) -> int:
        """Number of batches that were added; 0 if no field has statistics."""
        return max(map(len, self._rows.values()), default=0)

    def add(self, field: Field, array: pa.Array) -> None:
        """Add the next batch of a top-level field."""
        for leaf, values in rows_below(field, array):
            if offset_bits(leaf.arrow_type) or any(is_kind(leaf.arrow_type) for is_kind in _KINDS):
                self._rows[leaf.id].append(self._source.bounds(values))

    @property
    def table(self) -> pa.RecordBatch:
        """The statistics, one column per field in ascending order of field ids."""
        columns = {str(field_id): _column(self._rows[field_id]) for field_id in sorted(self._rows)}
        fields = [pa.field(name, column.type, nullable=False) for name, column in columns.items()]
        return pa.RecordBatch.from_arrays(list(columns.values()), schema=pa.schema(fields))


def _column(rows: list[pa.RecordBatch]) -> pa.StructArray:
    table = pa.Table.from_batches(rows).combine_chunks()
    nulls, least, most = (table[name].combine_chunks() for name in ("null_count", "min", "max"))
    if not offset_bits(least.type):
        lowest, highest = _widest(least.type)
        least, most = least.fill_null(lowest), most.fill_null(highest)
    fields = [
        pa.field("null_count", pa.int64(), nullable=False),
        pa.field("min_value", least.type),
        pa.field("max_value", most.type),
    ]
    return pa.StructArray.from_arrays([nulls, least, most], fields=fields)


def _widest(value_type: pa.DataType) -> tuple[pa.Scalar, pa.Scalar]:
    """Return the lowest and the highest value of a type."""
    ends: tuple[Any, Any]
    if pa.types.is_boolean(value_type):
        ends = False, True
    elif pa.types.is_floating(value_type):
        ends = float("-inf"), float("inf")
    elif pa.types.is_decimal(value_type):
        # The decimals are built from digits: arithmetic would round to the 28 digits of Python's default
        # context.
        nines = (9,) * value_type.precision
        ends = Decimal((1, nines, -value_type.scale)), Decimal((0, nines, -value_type.scale))
    else:
        bits = value_type.bit_width
        signed = not pa.types.is_unsigned_integer(value_type)
        stored = pa.int32() if bits == 32 else pa.int64()
        lowest, highest = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        if pa.types.is_date(value_type):
            return pa.scalar(lowest, stored).cast(value_type), pa.scalar(highest, stored).cast(value_type)
        ends = lowest, highest
    return pa.scalar(ends[0], value_type), pa.scalar(ends[1], value_type)
