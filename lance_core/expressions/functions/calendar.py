"""Functions of the calendar: dates from numbers, intervals that times lie in, and times as text."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from lance_core.errors import InvalidInputError
from lance_core.expressions.builders import cast
from lance_core.expressions.coercion import is_string, value_type
from lance_core.expressions.comparisons import Datum
from lance_core.expressions.functions.registry import Bound, Function, as_constant_text, expect, unfit
from lance_core.expressions.sql_types import parse_interval
from lance_core.expressions.tree import Expression, Literal

_NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_DAY = 86_400 * _NANOSECONDS["s"]
_MOST_YEARS = 262_142
"""Dates lie in the years from -262142 to 262142, as in the reference."""


def _bind_make_date(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 3)
    for argument in arguments:
        kind = value_type(argument.type)
        if not (types.is_integer(kind) or is_string(kind) or types.is_null(kind)):
            raise unfit(name, argument, "integers")
    return [cast(argument, pa.int32()) for argument in arguments], pa.date32()


def _make_date(year: Datum, month: Datum, day: Datum) -> pa.Array:
    known = pc.is_valid(year)
    for part in (month, day):
        known = pc.and_(known, pc.is_valid(part))
    chosen = known.to_numpy(zero_copy_only=False)
    years, months, days = (
        np.broadcast_to(pc.fill_null(part, 1).to_numpy(zero_copy_only=False), len(year)).astype(np.int64)
        if isinstance(part, pa.Array)
        else np.full(len(year), part.as_py() or 1, np.int64)
        for part in (year, month, day)
    )
    first = ((years - 1970) * 12 + months - 1).astype("datetime64[M]")
    dates = first.astype("datetime64[D]") + (days - 1)
    wrong = chosen & (
        (months < 1) | (months > 12) | (dates.astype("datetime64[M]") != first) | (abs(years) > _MOST_YEARS)
    )
    if wrong.any():
        row = np.flatnonzero(wrong)[0]
        raise pa.ArrowInvalid(f"there is no date {years[row]}-{months[row]}-{days[row]}")
    return pa.array(dates.astype(np.int64), pa.int64(), mask=~chosen).cast(pa.int32()).cast(pa.date32())


def _bind_bin(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 2, 3)
    stride = _stride(name, arguments[0])
    moment, kind = arguments[1], value_type(arguments[1].type)
    if types.is_date(kind) or is_string(kind) or types.is_null(kind):
        kind = pa.timestamp("ns")
    if not (types.is_timestamp(kind) or types.is_time(kind)):
        raise unfit(name, moment, "a time")
    months, days, nanoseconds = stride.value.as_py()
    width = days * _DAY + nanoseconds
    if bool(months) == bool(width) or months < 0 or width < 0:
        raise InvalidInputError(f"{name} takes a positive interval of months, or of days and less")
    if months and (len(arguments) == 3 or types.is_time(kind)):
        raise InvalidInputError(f"{name} takes months only for timestamps, counted from January 1970")
    origin = [_origin(name, argument, kind) for argument in arguments[2:]]
    # The moment comes first, because the first argument of a computation is an array.
    return [cast(moment, kind), stride, *origin], kind


def _stride(name: str, argument: Expression) -> Literal:
    if isinstance(argument, Literal) and is_string(argument.type) and argument.value.is_valid:
        argument = Literal(pa.scalar(parse_interval(argument.value.as_py())))
    if not isinstance(argument, Literal) or not isinstance(argument.value, pa.MonthDayNanoIntervalScalar):
        raise unfit(name, argument, "an interval such as interval '15 minutes'")
    if not argument.value.is_valid:
        raise unfit(name, argument, "an interval")
    return argument


def _origin(name: str, argument: Expression, kind: pa.DataType) -> Literal:
    """Return the time from which intervals are counted, in nanoseconds."""
    exact = pa.time64("ns") if types.is_time(kind) else pa.timestamp("ns", getattr(kind, "tz", None))
    argument = cast(argument, exact)
    if not isinstance(argument, Literal) or not argument.value.is_valid:
        raise unfit(name, argument, "a constant time to count from")
    return argument


def _bin(moment: Datum, stride: pa.Scalar, origin: pa.Scalar | None = None) -> Datum:
    """Return the beginning of the interval in which each time lies."""
    kind = moment.type
    months, days, nanoseconds = stride.as_py()
    if months:
        return _bin_months(moment, months)
    width, start = days * _DAY + nanoseconds, 0 if origin is None else origin.value
    unit = _NANOSECONDS[kind.unit]
    if width % unit or start % unit:  # the unit is too coarse for the intervals
        exact = pa.time64("ns") if types.is_time(kind) else pa.timestamp("ns", kind.tz)
        return _bin(moment.cast(exact), stride, origin).cast(kind, safe=False)
    stored = pa.int32() if types.is_time32(kind) else pa.int64()
    counts = pc.subtract_checked(moment.cast(stored).cast(pa.int64()), start // unit)
    steps = pc.fill_null(counts, 0).to_numpy(zero_copy_only=False)
    floors = pa.array(steps - steps % (width // unit))
    found = pc.add_checked(
        pc.if_else(pc.is_valid(counts), floors, pa.scalar(None, pa.int64())), start // unit
    )
    return found.cast(stored).cast(kind)


def _bin_months(moment: Datum, months: int) -> Datum:
    zone = moment.type.tz
    local = pc.local_timestamp(moment) if zone else moment
    counts = pc.add(pc.multiply(pc.subtract(pc.year(local), 1970), 12), pc.subtract(pc.month(local), 1))
    numbers = pc.fill_null(counts, 0).to_numpy(zero_copy_only=False)
    starts = (numbers - numbers % months).astype("datetime64[M]").astype("datetime64[s]")
    found = pa.array(starts.astype(np.int64)).cast(pa.timestamp("s")).cast(local.type)
    if zone:
        found = pc.assume_timezone(found, zone, ambiguous="earliest", nonexistent="latest")
    return pc.if_else(pc.is_valid(moment), found, pa.scalar(None, moment.type))


def _bind_local(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 1)
    kind = value_type(arguments[0].type)
    if not types.is_timestamp(kind):
        raise unfit(name, arguments[0], "a timestamp")
    return [cast(arguments[0], kind)], pa.timestamp(kind.unit)


# Words that stand for others, and those that Arrow writes as the reference does.
_WHOLE = {
    "c": "%a %b %e %H:%M:%S %Y",
    "x": "%m/%d/%y",
    "D": "%m/%d/%y",
    "X": "%H:%M:%S",
    "T": "%H:%M:%S",
    "R": "%H:%M",
    "r": "%I:%M:%S %p",
    "F": "%Y-%m-%d",
    "v": "%e-%b-%Y",
    "h": "%b",
}
_OF_DAY = "HMSIp"
_OF_DATE = "YCyGgmbBdejaAuwUWV"
_OF_ZONE = "z"
_LITERAL = {"%": "%", "n": "\n", "t": "\t"}
_WORD = re.compile(r"%(\.?[369]?f|:z|.|$)", re.DOTALL)


def _bind_to_char(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 2)
    moment, kind = arguments[0], value_type(arguments[0].type)
    if is_string(kind) or types.is_null(kind):
        kind = pa.timestamp("ns")
    if not (types.is_timestamp(kind) or types.is_date(kind) or types.is_time(kind)):
        raise unfit(name, moment, "a date or time")
    text = as_constant_text(name, arguments[1])
    if text.value.is_valid:
        _check_format(name, text.value.as_py(), kind)
    return [cast(moment, kind), text], pa.string()


def _check_format(name: str, text: str, kind: pa.DataType) -> None:
    known = {*_OF_DAY, *_LITERAL, "f"}
    if not types.is_time(kind):
        known |= {*_OF_DATE, "s"}
    if getattr(kind, "tz", None):
        known |= {"z", ":z", "Z"}
    for word in _words(text):
        if isinstance(word, re.Match) and word[1].lstrip(".369") not in known:
            raise InvalidInputError(f"{name} does not know {word[0]!r} of a {kind}")


def _words(text: str) -> list[str | re.Match[str]]:
    """Return the parts of a format: words such as `%Y`, and the text between them."""
    text = re.sub(r"%(.)", lambda found: _WHOLE.get(found[1], found[0]), text, flags=re.DOTALL)
    parts: list[str | re.Match[str]] = []
    end = 0
    for found in _WORD.finditer(text):
        if text[end : found.start()]:
            parts.append(text[end : found.start()])
        parts.append(found)
        end = found.end()
    return [*parts, text[end:]] if text[end:] else parts


def _to_char(moment: Datum, text: pa.Scalar) -> Datum:
    if not text.is_valid:
        return pa.nulls(len(moment), pa.string())
    kind = moment.type
    if types.is_date(kind):
        moment = moment.cast(pa.timestamp("s") if types.is_date32(kind) else pa.timestamp("ms"))
    elif types.is_time(kind):
        stored = pa.int32() if types.is_time32(kind) else pa.int64()
        moment = moment.cast(stored).cast(pa.int64()).cast(pa.timestamp(kind.unit))
    seconds = pc.floor_temporal(moment, unit="second").cast(pa.timestamp("s", moment.type.tz))
    parts: list[Datum] = [
        pa.scalar(word) if isinstance(word, str) else _written(word[1], moment, seconds)
        for word in _words(text.as_py())
    ]
    joined = pc.binary_join_element_wise(*parts, pa.scalar(""), pa.scalar(""))
    joined = joined if isinstance(joined, pa.Array) else pa.repeat(joined, len(moment))
    return pc.if_else(pc.is_valid(moment), joined, pa.scalar(None, pa.string()))


def _written(word: str, moment: Datum, seconds: Datum) -> Datum:
    if word in _LITERAL:
        return pa.scalar(_LITERAL[word])
    if word == "s":
        return seconds.cast(pa.int64()).cast(pa.string())
    if word.endswith("f"):
        return _fraction(word[:-1], moment)
    if word == "z":
        return pc.strftime(seconds, "%z")
    if word in (":z", "Z"):
        return pc.replace_substring_regex(pc.strftime(seconds, "%z"), r"(\d\d)$", r":\1")
    return pc.strftime(seconds, f"%{word}")


def _fraction(form: str, moment: Datum) -> Datum:
    """Return the fraction of the second: `f` has nine digits, `3f`, `6f` and `9f` as many as they say. A
    point before comes with it; `.f` has as many digits as are needed in threes, or nothing.
    """
    finer = [(pc.millisecond, "ms"), (pc.microsecond, "us"), (pc.nanosecond, "ns")]
    units = ["s", "ms", "us", "ns"]
    known = [
        pc.utf8_lpad(part(moment).cast(pa.string()), 3, "0")
        if units.index(unit) <= units.index(moment.type.unit)
        else pc.if_else(pc.is_valid(moment), "000", pa.scalar(None, pa.string()))
        for part, unit in finer
    ]
    digits = pc.binary_join_element_wise(*known, "")
    if form != ".":
        count = int(form.strip(".") or 9)
        digits = pc.utf8_slice_codeunits(digits, 0, count)
        return pc.binary_join_element_wise(".", digits, "") if form.startswith(".") else digits
    for _ in range(3):
        digits = pc.replace_substring_regex(digits, "000$", "")
    return pc.if_else(pc.equal(digits, ""), "", pc.binary_join_element_wise(".", digits, ""))


_CALENDAR_TEXT = Function(_bind_to_char, _to_char)

FUNCTIONS: dict[str, Function] = {
    "make_date": Function(_bind_make_date, _make_date),
    "date_bin": Function(_bind_bin, _bin),
    "to_char": _CALENDAR_TEXT,
    "date_format": _CALENDAR_TEXT,
    "to_local_time": Function(
        _bind_local, lambda moment: pc.local_timestamp(moment) if moment.type.tz else moment
    ),
}
