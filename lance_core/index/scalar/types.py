"""Types of columns that scalar indices hold. Each function raises `TypeError` for other types."""

from __future__ import annotations

import pyarrow as pa

from lance_core.encodings.values import offset_bits


def check_ordered(field: pa.Field) -> None:
    """Check the column of a B-tree or bitmap index."""
    if not _is_ordered(field.type):
        raise TypeError("must be int, float, bool, text, binary, fixed-size binary, decimal, or temporal")


def check_list(field: pa.Field) -> None:
    """Check the column of a label list index."""
    if not (pa.types.is_list(field.type) or pa.types.is_large_list(field.type)):
        raise TypeError("must be a list")
    if not _is_ordered(field.type.value_type):
        raise TypeError("must be a list of int, float, bool, text, binary, decimal, or temporal values")


def check_text(field: pa.Field) -> None:
    """Check the column of an n-gram index."""
    if not (pa.types.is_string(field.type) or pa.types.is_large_string(field.type)):
        raise TypeError("must be a string")


def check_any(field: pa.Field) -> None:
    """Accept the column of a zone map. Zones of values without an order have no bounds."""


def check_hashed(field: pa.Field) -> None:
    """Check the column of a Bloom filter index."""
    data_type = field.type
    is_known = (
        pa.types.is_integer(data_type)
        or pa.types.is_float32(data_type)
        or pa.types.is_float64(data_type)
        or bool(offset_bits(data_type))
        or (pa.types.is_temporal(data_type) and not _is_span(data_type))
    )
    if not is_known:
        raise TypeError("must be int, float32, float64, text, binary, date, time, or timestamp")


def _is_ordered(data_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(data_type)
        or pa.types.is_floating(data_type)
        or pa.types.is_boolean(data_type)
        or offset_bits(data_type)
        or (pa.types.is_temporal(data_type) and not pa.types.is_interval(data_type))
        or pa.types.is_decimal(data_type)
        or pa.types.is_fixed_size_binary(data_type)
    )


def _is_span(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_duration(data_type) or pa.types.is_interval(data_type))
