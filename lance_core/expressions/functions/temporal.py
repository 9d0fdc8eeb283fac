"""Functions of dates and times: parts of them, truncation, conversions, and steps by intervals.

Nothing here asks for the current time: the same filter on the same version gives the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from lance_core.errors import InvalidInputError
from lance_core.expressions.builders import cast
from lance_core.expressions.casts import cast as cast_values
from lance_core.expressions.coercion import is_string, value_type
from lance_core.expressions.comparisons import Datum
from lance_core.expressions.functions.registry import (
    Bound,
    Function,
    as_constant_text,
    expect,
    unfit,
)
from lance_core.expressions.tree import Expression

_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_PARTS: dict[str, Callable[[Datum], Datum]] = {
    "year": pc.year,
    "quarter": pc.quarter,
    "month": pc.month,
    "week": pc.iso_week,
    "day": pc.day,
    "dow": lambda moment: pc.day_of_week(moment, count_from_zero=True, week_start=7),
    "isodow": lambda moment: pc.day_of_week(moment, count_from_zero=False, week_start=1),
    "doy": pc.day_of_year,
    "hour": pc.hour,
    "minute": pc.minute,
    "second": pc.second,
}
_PARTS_OF_SECOND = {"millisecond": 1, "microsecond": 2, "nanosecond": 3}
"""Thousandfold divisions of a second."""
_PARTS_OF_DAY = {"hour", "minute", "second"}
_TRUNCATIONS = (
    "microsecond",
    "millisecond",
    "second",
    "minute",
    "hour",
    "day",
    "week",
    "month",
    "quarter",
    "year",
)


def _bind_part(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 2)
    part, moment = as_constant_text(name, arguments[0]), arguments[1]
    wanted = _part_name(part.value.as_py())
    kind = value_type(moment.type)
    if is_string(kind):
        moment = cast(moment, pa.timestamp("ns"))
    elif types.is_time(kind):
        if wanted not in _PARTS_OF_DAY and wanted not in _PARTS_OF_SECOND and wanted != "epoch":
            raise unfit(name, moment, f"a date or timestamp for {wanted!r}")
    elif not (types.is_date(kind) or types.is_timestamp(kind)):
        raise unfit(name, moment, "a date, time or timestamp")
    result = pa.float64() if wanted == "epoch" else pa.int64() if wanted == "nanosecond" else pa.int32()
    # The moment comes first, because the first argument of a computation is an array.
    return [moment, cast(part, pa.string())], result


def _part_name(given: str | None) -> str:
    wanted = (given or "").lower()
    for name in (wanted, wanted.removesuffix("s")):
        if name in _PARTS or name in _PARTS_OF_SECOND or name == "epoch":
            return name
    known = ", ".join([*_PARTS, *_PARTS_OF_SECOND, "epoch"])
    raise InvalidInputError(f"there is no part {given!r} of a date; there are {known}")


def _part(moment: Datum, part: pa.Scalar) -> Datum:
    wanted = _part_name(part.as_py())
    if wanted == "epoch":
        return _epoch(moment)
    if types.is_date(moment.type):
        if wanted in _PARTS_OF_DAY or wanted in _PARTS_OF_SECOND:
            moment = moment.cast(pa.timestamp("s"))
        elif types.is_date64(moment.type):
            moment = moment.cast(pa.timestamp("ms"))
    if wanted in _PARTS_OF_SECOND:
        result = pc.second(moment)
        for finer in (pc.millisecond, pc.microsecond, pc.nanosecond)[: _PARTS_OF_SECOND[wanted]]:
            result = pc.add(pc.multiply(result, 1000), finer(moment))
        return result.cast(pa.int64() if wanted == "nanosecond" else pa.int32())
    return _PARTS[wanted](moment).cast(pa.int32())


def _epoch(moment: Datum) -> Datum:
    if types.is_date(moment.type):
        moment = moment.cast(pa.timestamp("s"))
    integers = (
        moment.cast(pa.int32()).cast(pa.int64()) if types.is_time32(moment.type) else moment.cast(pa.int64())
    )
    return pc.divide(integers.cast(pa.float64(), safe=False), float(_UNITS[moment.type.unit]))


def _bind_truncation(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 2)
    unit, moment = as_constant_text(name, arguments[0]), arguments[1]
    if (unit.value.as_py() or "").lower() not in _TRUNCATIONS:
        raise InvalidInputError(f"{name} takes one of {', '.join(_TRUNCATIONS)}, not {unit.value.as_py()!r}")
    kind = value_type(moment.type)
    if types.is_date(kind) or is_string(kind) or types.is_null(kind):
        kind = pa.timestamp("ns")
    if not types.is_timestamp(kind):
        raise unfit(name, moment, "a date or timestamp")
    return [cast(moment, kind), unit], kind


def _truncated(moment: Datum, unit: pa.Scalar) -> Datum:
    wanted = unit.as_py().lower()
    steps = {"millisecond": 1_000, "microsecond": 1_000_000}
    if wanted in steps and _UNITS[moment.type.unit] <= steps[wanted]:
        return moment
    return pc.floor_temporal(moment, unit=wanted).cast(moment.type)


def _to_timestamp(unit: str, result: str) -> Function:
    """Return the function that converts numbers of `unit` since 1970, texts and timestamps to timestamps in
    `result`.
    """

    def bind(name: str, arguments: Sequence[Expression]) -> Bound:
        expect(name, arguments, 1)
        operand, kind = arguments[0], value_type(arguments[0].type)
        if types.is_integer(kind):
            operand = cast(operand, pa.int64())
        elif types.is_floating(kind):
            operand = cast(operand, pa.float64())
        elif not (types.is_timestamp(kind) or is_string(kind) or types.is_null(kind)):
            raise unfit(name, operand, "a number, text or timestamp")
        return [operand], pa.timestamp(result)

    def compute(operand: Datum) -> Datum:
        if types.is_integer(operand.type):
            return operand.cast(pa.timestamp(unit)).cast(pa.timestamp(result))
        if types.is_floating(operand.type):
            scaled = pc.multiply(operand, float(_UNITS[result] // _UNITS[unit]))
            return pc.trunc(scaled).cast(pa.int64()).cast(pa.timestamp(result))
        return cast_values(operand, pa.timestamp(result))

    return Function(bind, compute)


def _bind_to_date(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 1)
    operand, kind = arguments[0], value_type(arguments[0].type)
    if not (is_string(kind) or types.is_timestamp(kind) or types.is_date(kind) or types.is_null(kind)):
        raise unfit(name, operand, "a text, date or timestamp")
    return [operand], pa.date32()


def _bind_from_unixtime(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 1)
    if not (types.is_integer(arguments[0].type) or types.is_null(arguments[0].type)):
        raise unfit(name, arguments[0], "an integer")
    return [cast(arguments[0], pa.int64())], pa.timestamp("s")


def _bind_to_unixtime(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 1)
    kind = value_type(arguments[0].type)
    if not (types.is_timestamp(kind) or types.is_date(kind) or is_string(kind) or types.is_null(kind)):
        raise unfit(name, arguments[0], "a text, date or timestamp")
    return [cast(arguments[0], pa.timestamp("s", getattr(kind, "tz", None)))], pa.int64()


def moved(sign: int, moment: Datum, interval: pa.Scalar) -> Datum:
    """Return dates or timestamps, moved by an interval: first by its months, then by its days, then by the
    rest.

    If the month has no such day, its last day is taken. With a zone, months and days are added to the local
    time.
    """
    step = interval.as_py()
    if step is None:
        return pa.nulls(len(moment), moment.type)
    months, days, nanoseconds = (sign * count for count in step)
    given = moment.type
    zone = getattr(given, "tz", None)
    if months or days:
        local = pc.local_timestamp(moment) if zone else moment
        local = _moved_by_days(_moved_by_months(local, months) if months else local, days)
        moment = (
            pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="latest") if zone else local
        )
    if not nanoseconds:
        return moment.cast(given)
    count = nanoseconds * _UNITS[given.unit] // _UNITS["ns"]
    return pc.add(moment, pa.scalar(count, pa.duration(given.unit))).cast(given)


def _moved_by_days(moment: Datum, days: int) -> Datum:
    if types.is_date(moment.type):
        return pc.add(moment.cast(pa.date32()).cast(pa.int32()), pa.scalar(days, pa.int32())).cast(
            pa.date32()
        )
    seconds = pa.scalar(days * 86_400, pa.duration("s")).cast(pa.duration(moment.type.unit))
    return pc.add(moment, seconds)


def _moved_by_months(moment: Datum, months: int) -> Datum:
    """Return the same day and time of day in another month; the last day if that month is shorter."""
    start = pc.floor_temporal(moment, unit="month")
    day = pc.cast(moment, pa.date32()).cast(pa.int32())
    in_month = pc.subtract(day, pc.cast(start, pa.date32()).cast(pa.int32()))
    count = pc.add(
        pc.add(pc.multiply(pc.subtract(pc.year(moment), 1970), 12), pc.subtract(pc.month(moment), 1)), months
    )
    first, after = _first_days(count), _first_days(pc.add(count, 1))
    target = pc.min_element_wise(pc.add(first, in_month), pc.subtract(after, 1), skip_nulls=False)
    if types.is_date(moment.type):
        return target.cast(pa.int32()).cast(pa.date32()).cast(moment.type)
    seconds = pc.multiply(pc.subtract(target, day).cast(pa.int64()), 86_400)
    return pc.add(moment, seconds.cast(pa.duration("s")).cast(pa.duration(moment.type.unit)))


def _first_days(months: Datum) -> Datum:
    """Return the first day of each month as days since 1970, in int32; `months` count since January 1970."""
    filled = pc.fill_null(months, 0).to_numpy(zero_copy_only=False).astype("datetime64[M]")
    days = pa.array(filled.astype("datetime64[D]").astype("int32"))
    return pc.if_else(pc.is_valid(months), days, pa.scalar(None, pa.int32()))


_DATE_PART = Function(_bind_part, _part, keeps_nulls=True)
_DATE_TRUNC = Function(_bind_truncation, _truncated, keeps_nulls=True)

FUNCTIONS = {
    "date_part": _DATE_PART,
    "datepart": _DATE_PART,
    "date_trunc": _DATE_TRUNC,
    "datetrunc": _DATE_TRUNC,
    "to_timestamp": _to_timestamp("s", "ns"),
    "to_timestamp_seconds": _to_timestamp("s", "s"),
    "to_timestamp_millis": _to_timestamp("ms", "ms"),
    "to_timestamp_micros": _to_timestamp("us", "us"),
    "to_timestamp_nanos": _to_timestamp("ns", "ns"),
    "to_date": Function(_bind_to_date, lambda operand: cast_values(operand, pa.date32())),
    "from_unixtime": Function(_bind_from_unixtime, lambda operand: operand.cast(pa.timestamp("s"))),
    "to_unixtime": Function(_bind_to_unixtime, lambda operand: operand.cast(pa.int64())),
}
