"""The types whose values have an order."""

from __future__ import annotations

import pyarrow as pa

_ORDERED = (
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


def value_type(data_type: pa.DataType) -> pa.DataType:
    """Return the type of the values that a dictionary stands for; any other type unchanged."""
    return data_type.value_type if pa.types.is_dictionary(data_type) else data_type


def has_order(data_type: pa.DataType) -> bool:
    """Return whether the values of a type that is no dictionary are ordered, so that they can be compared."""
    return not isinstance(data_type, pa.BaseExtensionType) and any(known(data_type) for known in _ORDERED)
