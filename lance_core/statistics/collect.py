"""Collection of the bounds and counts of arrays, in one pass over the values.

Integers, decimals and times are compared as the integers that are stored; strings and binaries are compared
by bytes. NaN is counted and is not a bound. A bound of zero is -0.0 below and +0.0 above. Bounds of strings
and binaries have at most 64 bytes. A lower bound is cut, in a string between two characters. An upper bound
is cut and then raised, so that it is above all values that it bounds. If it cannot be raised, there is no
upper bound.

Source: docs/format.md, "Page statistics and checksums".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_core import kernels
from lance_core.encodings.values import as_buffer, fixed_bits, offset_bits
from lance_core.schema.arrow_values import array_of, numbers_of, scalar_of
from lance_core.statistics.bound_encoding import encode_bound

BOUND_BYTES = 64
"""Maximum bytes of a bound of strings or binaries."""
WHOLE = (1 << 31) - 1
"""Maximum for bounds that are never cut."""

_MOST_FIXED_BYTES = 1 << 20
"""Maximum bytes of a fixed-size value with bounds, as the kernel accepts it."""

_VariableBounds = tuple[kernels.Block, kernels.Block, kernels.Block]
"""Flags whether each bound exists, the offsets of the bounds, and their bytes."""


# Dictionaries are sorted to compare their values. This is not worth the time for a dictionary that is longer
# than this share of the rows.
_DICTIONARY_SHARE = 1 / 8


def has_bounds(value_type: pa.DataType) -> bool:
    """Return whether values of this type have bounds; for other types only nulls are counted."""
    if pa.types.is_dictionary(value_type):
        return has_bounds(value_type.value_type) and not pa.types.is_floating(value_type.value_type)
    return bool(offset_bits(value_type)) or _order(value_type) is not None


def bounds_type(value_type: pa.DataType) -> pa.DataType:
    """Return the type of the bounds: for a dictionary its value type; null for types without bounds."""
    if not has_bounds(value_type):
        return pa.null()
    return value_type.value_type if pa.types.is_dictionary(value_type) else value_type


@lru_cache(maxsize=256)
def bounds_schema(value_type: pa.DataType) -> pa.Schema:
    """Return the schema of the result of `page_bounds`: the last columns of `statistics_schema`."""
    bound = bounds_type(value_type)
    return pa.schema(
        [
            pa.field("rows", pa.int64(), nullable=False),
            pa.field("null_count", pa.int64()),
            pa.field("nan_count", pa.int64()),
            pa.field("min", bound),
            pa.field("max", bound),
        ]
    )


def page_bounds(
    array: pa.Array, rows_per_zone: int | None = None, *, bound_bytes: int = BOUND_BYTES
) -> pa.RecordBatch:
    """Return the statistics of an array: one row, or one row per zone. An empty array gives no row.

    Args:
        array: Values as they will be read: values inside a null struct are null.
        rows_per_zone: Number of values per row of statistics; the last row may have fewer. None: all values.
        bound_bytes: Maximum bytes of a bound of strings or binaries.

    Returns:
        Numbers of rows, nulls and NaNs, and bounds, which are null if unknown; see `bounds_schema`.

    Raises:
        OffsetOverflow: All bounds of strings have more than 2 GiB together.
    """
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type) and has_bounds(array.type):
        return _dictionary_bounds(array, rows_per_zone, bound_bytes)
    kind, num_rows = array.type, len(array)
    step = rows_per_zone or max(num_rows, 1)
    num_zones = -(-num_rows // step)
    rows = np.full(num_zones, step, np.int64)
    if num_zones:
        rows[-1] = num_rows - step * (num_zones - 1)
    nans = None
    if offset_bits(kind):
        nulls, *bounds = _variable_zones(array, step, bound_bytes)
        least, most = (
            pa.Array.from_buffers(_small(kind), num_zones, [_bits(known), as_buffer(ends), as_buffer(text)])
            for known, ends, text in bounds
        )
        if kind != least.type:
            least, most = least.cast(kind), most.cast(kind)
    elif order := _order(kind):
        nulls, nans, known, *ends = _fixed_zones(array, step, order)
        valid = _bits(known)
        if order == "bits":
            ends = [kernels.bytes_to_bits(side) for side in ends]
        least, most = (pa.Array.from_buffers(kind, num_zones, [valid, as_buffer(side)]) for side in ends)
    else:
        return _nulls_only(array, rows, step)
    return pa.RecordBatch.from_arrays(
        [
            array_of(rows),
            _counts(nulls, num_zones),
            array_of(np.zeros(num_zones, np.int64)) if nans is None else _counts(nans, num_zones),
            least,
            most,
        ],
        schema=bounds_schema(kind),
    )


@dataclass(frozen=True, slots=True)
class PageSummary:
    """Statistics of one page as its file stores them."""

    null_count: int | None
    """Number of nulls. None means unknown, here and in the other attributes."""
    nan_count: int | None
    least: bytes | None
    """Encoded lower bound, see `bound_encoding`."""
    most: bytes | None

    @classmethod
    def of(cls, bounds: pa.RecordBatch) -> "PageSummary":
        """Return the summary of the only row of `page_bounds` or `merge_bounds`."""
        (null_count,), (nan_count,) = (bounds[name].to_pylist() for name in ("null_count", "nan_count"))
        return cls(null_count, nan_count, encode_bound(bounds["min"]), encode_bound(bounds["max"]))


def page_summary(values: pa.Array) -> PageSummary:
    """Return the counts and bounds of one value or more; like `page_bounds`, but without making a batch."""
    kind, num_rows = values.type, len(values)
    if isinstance(values, pa.ExtensionArray) or pa.types.is_dictionary(kind):
        return PageSummary.of(page_bounds(values))
    if offset_bits(kind):
        nulls, *bounds = _variable_zones(values, num_rows, BOUND_BYTES)
        least, most = (bytes(text) if bytes(known)[0] else None for known, _, text in bounds)
        return PageSummary(_number(nulls), 0, least, most)
    if order := _order(kind):
        nulls, nans, known, *sides = _fixed_zones(values, num_rows, order)
        least, most = (bytes(side) if bytes(known)[0] else None for side in sides)
        return PageSummary(_number(nulls), _number(nans), least, most)
    return PageSummary(values.null_count, 0, None, None)


def merge_bounds(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return one row of statistics for all rows of `parts`: at least one batch of `page_bounds`, all of one
    type.
    """
    table = pa.Table.from_batches(parts)
    least, most = (table[side].combine_chunks() for side in ("min", "max"))
    if not pa.types.is_null(least.type):
        # A part with values and no bound may hold anything, for example text whose upper bound cannot be
        # raised.
        has_values = pc.less(pc.add(table["null_count"], table["nan_count"]), table["rows"]).combine_chunks()
        least, most = (
            side.slice(0, 0) if pc.any(pc.and_(has_values, side.is_null())).as_py() else side
            for side in (least, most)
        )
        least, most = page_bounds(least)["min"], page_bounds(most)["max"]
    sums = [
        pa.array([pc.sum(table[name], min_count=0).as_py()], pa.int64())
        for name in ("rows", "null_count", "nan_count")
    ]
    bounds = [side.slice(0, 1) if len(side) else pa.nulls(1, side.type) for side in (least, most)]
    return pa.RecordBatch.from_arrays([*sums, *bounds], schema=table.schema)


def _variable_zones(
    array: pa.Array, step: int, bound_bytes: int
) -> tuple[kernels.Block, _VariableBounds, _VariableBounds]:
    kind = array.type
    validity, offsets, data = array.buffers()
    return kernels.variable_zones(
        offsets if offsets is not None else b"",
        data if data is not None else b"",
        validity,
        array.offset,
        len(array),
        step,
        offset_bits(kind),
        bound_bytes,
        pa.types.is_string(kind) or pa.types.is_large_string(kind),
    )


def _fixed_zones(array: pa.Array, step: int, order: str) -> tuple[kernels.Block, ...]:
    validity, values = array.buffers()
    data = values if values is not None else b""
    width = max(fixed_bits(array.type) // 8, 1)
    return kernels.fixed_zones(data, validity, array.offset, len(array), step, order, width)


def _nulls_only(array: pa.Array, rows: np.ndarray, step: int) -> pa.RecordBatch:
    nulls = [array.slice(start, step).null_count for start in range(0, len(array), step)]
    nothing = pa.nulls(len(rows))
    counts = [array_of(rows), array_of(np.array(nulls, np.int64)), array_of(np.zeros(len(rows), np.int64))]
    return pa.RecordBatch.from_arrays([*counts, nothing, nothing], schema=bounds_schema(array.type))


def _dictionary_bounds(
    array: pa.DictionaryArray, rows_per_zone: int | None, bound_bytes: int
) -> pa.RecordBatch:
    """Return the statistics of a dictionary array, one row per zone.

    Values are compared by their ranks in the sorted dictionary. A dictionary that is long beside the array
    is not sorted: the statistics then have no bounds.
    """
    values = array.dictionary
    is_long = len(values) > max(len(array) * _DICTIONARY_SHARE, 1)
    if is_long:
        places = pc.if_else(values.is_valid(), scalar_of(0, pa.uint64()), scalar_of(None, pa.uint64()))
    else:
        ranks = pc.rank(values, tiebreaker="dense")
        places = pc.if_else(values.is_valid(), ranks, scalar_of(None, pa.uint64()))
    zones = page_bounds(places.take(array.indices), rows_per_zone)
    if is_long:
        least = most = pa.nulls(len(zones), values.type)
    else:
        at_rank = np.zeros(len(values) + 1, np.int64)
        at_rank[numbers_of(ranks)] = np.arange(len(values))
        least, most = (
            page_bounds(
                values.take(_at(at_rank, zones[side])),
                rows_per_zone=1,
                bound_bytes=bound_bytes,
            )[side]
            for side in ("min", "max")
        )
    return pa.RecordBatch.from_arrays([*zones.columns[:3], least, most], schema=bounds_schema(array.type))


def _at(places: npt.NDArray[np.int64], ranks: pa.Array) -> pa.Array:
    """Return the positions at ranks, null for null."""
    known = ranks.fill_null(scalar_of(0, ranks.type))
    return array_of(places[numbers_of(known).astype(np.int64)], numbers_of(ranks.is_valid()))


def _order(kind: pa.DataType) -> str | None:
    """Return the order in which the kernel compares values of a fixed width; None for types
    without an order.
    """
    if pa.types.is_boolean(kind):
        return "bits"
    if pa.types.is_unsigned_integer(kind):
        return "unsigned"
    if pa.types.is_floating(kind):
        return "floats"
    if pa.types.is_fixed_size_binary(kind):
        return "bytes" if 0 < kind.byte_width <= _MOST_FIXED_BYTES else None
    if pa.types.is_signed_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_temporal(kind):
        return "signed" if fixed_bits(kind) else None
    return None


def _small(kind: pa.DataType) -> pa.DataType:
    """Return the same type with 32-bit offsets."""
    return {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(kind, kind)


def _counts(block: kernels.Block, num_zones: int) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), num_zones, [None, as_buffer(block)])


def _number(block: kernels.Block) -> int:
    return int.from_bytes(memoryview(block)[:8], "little")


def _bits(flags: kernels.Block) -> pa.Buffer:
    return as_buffer(kernels.bytes_to_bits(flags))
