"""Casts with the results of SQL. Arrow's own casts refuse a fraction, for example, where SQL cuts it off."""

from __future__ import annotations

import re
from decimal import ROUND_FLOOR, Context, Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from lance_core.expressions.coercion import as_decimal, is_string, seconds
from lance_core.expressions.comparisons import Datum, viewed, without_negative_scale
from lance_core.schema.arrow_values import scalar_of

# These are no Arrow arrays, because making an array imports pandas, if installed, into every process that
# filters.
_TRUE = ["true", "t", "yes", "y", "on", "1"]
_FALSE = ["false", "f", "no", "n", "off", "0"]
_FINER = {"s": r"(:\d\d:\d\d)\.\d+"} | {
    unit: rf"(:\d\d:\d\d\.\d{{{digits}}})\d+" for unit, digits in (("ms", 3), ("us", 6), ("ns", 9))
}
_WIDE = pa.decimal256(37, 0)
"""Type of the integers with the most digits that Arrow multiplies and divides exactly."""
_FRACTION = re.compile(r":\d\d:\d\d\.(\d+)")
_ZONE = r"(?i)[0-9](Z|[+-][0-9]{2}:?[0-9]{2})$"


def cast(datum: Datum, data_type: pa.DataType) -> Datum:
    """Return values in another type.

    Fractions and finer units of time are cut off. Decimals are rounded to their new scale.

    Raises:
        pa.ArrowInvalid: a value does not fit.
        pa.ArrowNotImplementedError: values of one type never convert to the other.
    """
    given = datum.type
    if given == data_type:
        return datum
    if types.is_dictionary(given):
        decoded = datum.dictionary_decode() if isinstance(datum, pa.Array) else datum.cast(given.value_type)
        return cast(decoded, data_type)
    if types.is_decimal(given) and given.scale < 0:
        return cast(_scaled_up(datum), data_type)
    if is_string(given):
        return _from_text(datum, data_type)
    if is_string(data_type):
        return _to_text(datum, data_type)
    if types.is_integer(data_type) or types.is_floating(data_type):
        return _to_number(datum, data_type)
    if types.is_decimal(data_type):
        return _to_decimal(datum, data_type)
    if types.is_integer(given) and types.is_temporal(data_type):
        return pc.cast(datum, _counted(data_type)).cast(data_type)
    if types.is_timestamp(given) and given.tz:
        if types.is_date(data_type):
            return cast(pc.local_timestamp(datum), data_type)
    elif types.is_timestamp(data_type) and data_type.tz:
        if types.is_date(given):  # A date is the start of its day in UTC, as in the reference.
            return pc.cast(pc.cast(datum, pa.timestamp(data_type.unit)), data_type)
        return _local_to_instant(datum, data_type)
    return pc.cast(_no_half(datum), options=pc.CastOptions(data_type, allow_time_truncate=True))


def _counted(data_type: pa.DataType) -> pa.DataType:
    """Return the integer type that Arrow converts to and from a time type."""
    return pa.int32() if types.is_date32(data_type) or types.is_time32(data_type) else pa.int64()


def _no_half(datum: Datum) -> Datum:
    """Return half floats as single floats, because few kernels accept half floats."""
    return datum.cast(pa.float32()) if types.is_float16(datum.type) else datum


def _to_number(datum: Datum, data_type: pa.DataType) -> Datum:
    if types.is_temporal(datum.type):
        datum = datum.cast(_counted(datum.type))
    datum = _no_half(datum)
    if types.is_floating(data_type):
        if types.is_decimal(datum.type):
            datum = _to_double(datum)
        if types.is_float16(data_type):
            datum = datum.cast(pa.float32(), safe=False)
        return pc.cast(datum, data_type, safe=False)
    if types.is_floating(datum.type):
        datum = pc.trunc(datum)
    return pc.cast(datum, options=pc.CastOptions(data_type, allow_decimal_truncate=True))


def _to_double(decimals: Datum) -> Datum:
    """Return decimals as the nearest doubles.

    Arrow's own cast multiplies by powers of 0.1, which no double represents exactly.
    """
    scale = decimals.type.scale
    integers = pa.decimal256 if types.is_decimal256(decimals.type) else pa.decimal128
    whole = pc.cast(viewed(decimals, integers(decimals.type.precision, 0)), pa.float64(), safe=False)
    return pc.divide(whole, 10.0**scale) if scale > 0 else pc.multiply(whole, 10.0**-scale)


def _scaled_up(datum: Datum) -> Datum:
    """Return decimals of a negative scale as decimals of scale 0."""
    target = as_decimal(datum.type)
    factor = pa.scalar(Decimal(10**-datum.type.scale))
    return pc.multiply(without_negative_scale(datum).cast(_WIDE), factor.cast(_WIDE)).cast(target)


def _scaled_down(datum: Datum, data_type: pa.DataType) -> Datum:
    """Return decimals rounded to a type of a negative scale."""
    steps = 10**-data_type.scale
    rounded = pc.round(datum, ndigits=data_type.scale, round_mode="half_towards_infinity")
    stored = pc.divide(rounded.cast(_WIDE), pa.scalar(Decimal(steps)).cast(_WIDE))
    wide = types.is_decimal256(data_type)
    whole = (pa.decimal256 if wide else pa.decimal128)(data_type.precision, 0)
    return viewed(pc.cast(stored, options=pc.CastOptions(whole, allow_decimal_truncate=True)), data_type)


def _to_decimal(datum: Datum, data_type: pa.DataType) -> Datum:
    if data_type.scale < 0:
        if types.is_floating(datum.type):
            datum = pc.round(_no_half(datum), ndigits=data_type.scale, round_mode="half_towards_infinity")
        return _scaled_down(_to_decimal(datum, as_decimal(data_type)), data_type)
    if types.is_integer(datum.type):
        datum = datum.cast(as_decimal(datum.type))
    elif types.is_decimal(datum.type) and data_type.scale < datum.type.scale:
        datum = pc.round(datum, ndigits=data_type.scale, round_mode="half_towards_infinity")
    return pc.cast(_no_half(datum), data_type)


def _to_text(datum: Datum, data_type: pa.DataType) -> Datum:
    given = datum.type
    text = pc.cast(_no_half(datum), data_type)
    if types.is_floating(given):
        text = pc.replace_substring(pc.replace_substring(text, "nan", "NaN"), "e+", "e")
        return pc.replace_substring_regex(text, "^(-?[0-9]+)$", r"\1.0")
    if types.is_timestamp(given):
        text = pc.replace_substring_regex(text, r"\.0+$", "").cast(data_type)
        if given.tz:
            zone = pc.strftime(datum, format="%z")
            local = pc.replace_substring_regex(text, r"(Z|[+-][0-9:]+)$", "")
            text = pc.binary_join_element_wise(
                pc.replace_substring_regex(local, r"\.0+$", ""),
                pc.replace_substring_regex(zone, "^(...)", r"\1:").cast(data_type),
                scalar_of("", data_type),
            )
            text = pc.replace_substring_regex(text, r"\+00:00$", "Z")
        return pc.replace_substring(text, " ", "T")
    if types.is_time(given):
        return pc.replace_substring_regex(text, r"\.0+$", "")
    return text


def _from_text(text: Datum, data_type: pa.DataType) -> Datum:
    if types.is_boolean(data_type):
        lower = pc.utf8_lower(text).cast(pa.string())
        is_true, is_false = (pc.is_in(lower, pa.array(names)) for names in (_TRUE, _FALSE))
        known = pc.or_(is_true, is_false)
        if not pc.all(pc.or_(known, pc.is_null(text))).as_py():
            raise pa.ArrowInvalid("a text is not a boolean such as true or false")
        return pc.if_else(pc.is_valid(text), is_true, scalar_of(None, pa.bool_()))
    if types.is_timestamp(data_type):
        return _text_to_timestamp(text, data_type)
    if types.is_decimal(data_type):
        return _to_decimal(pc.cast(text, pa.decimal256(76, 30)), data_type)
    if types.is_time(data_type):
        day = scalar_of("1970-01-01 ", text.type)
        moment = pc.binary_join_element_wise(day, text, scalar_of("", text.type))
        return pc.cast(_parsed(moment, pa.timestamp(data_type.unit)), data_type)
    return pc.cast(text, data_type)


def _text_to_timestamp(text: Datum, data_type: pa.DataType) -> Datum:
    """Parse timestamps. Times with an offset are converted to UTC; digits finer than the unit are cut off."""
    zoned = pc.match_substring_regex(text, _ZONE)
    nothing = scalar_of(None, text.type)
    instants = _parsed(pc.if_else(zoned, text, nothing), pa.timestamp(data_type.unit, "UTC"))
    plain = _parsed(pc.if_else(zoned, nothing, text), pa.timestamp(data_type.unit))
    if data_type.tz:
        return pc.coalesce(instants.cast(data_type), _local_to_instant(plain, data_type))
    return pc.coalesce(instants.cast(data_type), plain)


def _parsed(text: Datum, data_type: pa.DataType) -> Datum:
    try:
        return pc.cast(text, data_type)
    except pa.ArrowInvalid:
        # A text without its last digits is an earlier time, in any year, also before 1970.
        return pc.cast(pc.replace_substring_regex(text, _FINER[data_type.unit], r"\1"), data_type)


def seconds_of_text(text: pa.Scalar, data_type: pa.DataType) -> Decimal:
    """Return the seconds of a text in a time type, with all digits; see `coercion.seconds`.

    Raises:
        pa.ArrowInvalid: the text has another form.
    """
    whole = cast(text, _whole_seconds(data_type))
    fraction = _FRACTION.search(text.as_py())
    if fraction is None or not (types.is_timestamp(whole.type) or types.is_time(whole.type)):
        return seconds(whole)
    # The fraction was cut off from the text, so it must be added, also before 1970.
    return Context(prec=len(fraction[1]) + 25).add(seconds(whole), Decimal(f"0.{fraction[1]}"))


def local_to_instant(number: Decimal, zone: str) -> Decimal:
    """Return the instant of a local time in a zone. Both are in seconds since 1970."""
    whole = number.to_integral_value(ROUND_FLOOR)
    local = scalar_of(int(whole), pa.timestamp("s"))
    shift = seconds(cast(local, pa.timestamp("s", zone))) - whole
    return Context(prec=len(number.as_tuple().digits) + 25).add(number, shift)


def _whole_seconds(data_type: pa.DataType) -> pa.DataType:
    """Return the time type that counts seconds; dates are returned unchanged."""
    if types.is_timestamp(data_type):
        return pa.timestamp("s", data_type.tz)
    return pa.time32("s") if types.is_time(data_type) else data_type


def _local_to_instant(datum: Datum, data_type: pa.DataType) -> Datum:
    """Convert local times to instants in the zone of the type. An ambiguous local time is the earlier
    instant.
    """
    local = cast(datum, pa.timestamp(data_type.unit))
    return pc.assume_timezone(local, data_type.tz, ambiguous="earliest", nonexistent="earliest")


def try_cast(datum: Datum, data_type: pa.DataType) -> Datum:
    """Return values in another type, with null for values that do not fit. Equal values are
    converted once.
    """
    try:
        return cast(datum, data_type)
    except pa.ArrowInvalid:
        if isinstance(datum, pa.Scalar):
            return scalar_of(None, data_type)
    encoded = datum.dictionary_encode()
    return pa.concat_arrays(_halved(encoded.dictionary, data_type)).take(encoded.indices)


def _halved(values: pa.Array, data_type: pa.DataType) -> list[pa.Array]:
    """Cast an array in parts. A part that fails is halved, down to single values, which become null."""
    waiting, done = [values], []
    while waiting:
        part = waiting.pop()
        try:
            done.append(cast(part, data_type))
        except pa.ArrowInvalid:
            if len(part) == 1:
                done.append(pa.nulls(1, data_type))
            else:
                middle = len(part) // 2
                waiting += [part[middle:], part[:middle]]
    return done
