"""Casts with the results of SQL where those of Arrow differ: fractions are cut off instead of refused."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from lance_core.scan.expressions.coercion import is_string
from lance_core.scan.expressions.comparisons import Datum


def cast(datum: Datum, data_type: pa.DataType) -> Datum:
    """Values in another type.

    Fractions and finer units of time are cut off, decimals rounded to their new scale; what does not fit is
    an `ArrowInvalid`.
    """
    given = datum.type
    if given == data_type:
        return datum
    if types.is_dictionary(given):
        decoded = datum.dictionary_decode() if isinstance(datum, pa.Array) else datum.cast(given.value_type)
        return cast(decoded, data_type)
    if types.is_floating(given) and types.is_integer(data_type):
        return pc.cast(pc.trunc(_no_half(datum)), data_type)
    if types.is_floating(data_type):
        return pc.cast(_no_half(datum), data_type, safe=False)
    if types.is_decimal(given) and types.is_decimal(data_type) and data_type.scale < given.scale:
        datum = pc.round(datum, data_type.scale, round_mode="half_towards_infinity")
    if is_string(data_type) and not is_string(given):
        return _to_string(datum, data_type)
    if types.is_timestamp(given) and types.is_timestamp(data_type) and bool(given.tz) != bool(data_type.tz):
        return _change_zone(datum, data_type)
    options = pc.CastOptions(data_type, allow_time_truncate=True, allow_decimal_truncate=True)
    return pc.cast(datum, options=options)


def _no_half(datum: Datum) -> Datum:
    """Few kernels know half floats."""
    return datum.cast(pa.float32()) if types.is_float16(datum.type) else datum


def _to_string(datum: Datum, data_type: pa.DataType) -> Datum:
    text = pc.cast(_no_half(datum), data_type)
    if types.is_timestamp(datum.type):
        return pc.replace_substring(text, " ", "T")
    return text


def _change_zone(datum: Datum, data_type: pa.DataType) -> Datum:
    """Between local times and instants: a local time is one in the zone of the type."""
    if data_type.tz:
        return pc.cast(pc.assume_timezone(datum, data_type.tz), data_type)
    return pc.cast(pc.local_timestamp(datum), data_type)
