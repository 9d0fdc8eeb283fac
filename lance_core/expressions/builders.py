"""Builders of typed nodes from operands, which coerce types and raise errors that name columns.

All parsers use these functions, so that SQL text and Substrait messages mean the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa
import pyarrow.types as types

from lance_core.errors import InvalidInputError
from lance_core.expressions import casts, preimages
from lance_core.expressions.coercion import (
    common_type,
    exact_literal,
    is_binary,
    is_list,
    is_moment,
    is_number,
    is_string,
    is_time,
    place,
    rounded_decimal,
    seconds,
    value_type,
)
from lance_core.expressions.comparisons import FLIPPED
from lance_core.expressions.tree import (
    And,
    Call,
    Case,
    Cast,
    Column,
    Comparison,
    DistinctFrom,
    Expression,
    IsIn,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    StartsWith,
    StoredJson,
)
from lance_core.schema.arrow_values import array_of_scalars, scalar_of, stored_integer


def describe(expression: Expression) -> str:
    """Return the description of an operand for an error message."""
    if isinstance(expression, Column):
        return f"column {'.'.join(expression.path)!r} of type {expression.type}"
    if isinstance(expression, Literal):
        if not expression.value.is_valid:
            return "null"
        text = shown(expression.value)
        return f"literal {text}" if len(text) <= 60 else f"literal {text[:57]}..."
    return f"an expression of type {expression.type}"


def shown(value: pa.Scalar) -> str:
    """Return a value as text for an error message."""
    try:
        return repr(value.as_py())
    except (OverflowError, ValueError):  # a time that Python cannot represent
        return f"{value.type} {getattr(value, 'value', '')}".rstrip()


def literal(value: object, data_type: pa.DataType | None = None) -> Literal:
    """Return the node of a constant from a Python value."""
    return Literal(scalar_of(value, data_type))


def time_literal(text: Literal, data_type: pa.DataType) -> Literal:
    """Return the timestamp, date or time of a text.

    Digits finer than the unit are cut off from the value. Comparisons still know them through
    `Literal.written`.
    """
    value = cast(text, data_type)
    assert isinstance(value, Literal)
    if not value.value.is_valid or "." not in text.value.as_py():
        return value
    written = casts.seconds_of_text(text.value, data_type)
    return value if written == seconds(value.value) else Literal(value.value, written)


def in_type_of_column(operand: Expression, column: Column) -> Expression:
    """Return a literal in the type of the column with which it is compared. Other operands are returned
    unchanged.

    Raises:
        InvalidInputError: the literal does not fit exactly.
    """
    if not isinstance(operand, Literal) or types.is_null(column.type):
        return operand
    kind = value_type(column.type)
    value = exact_literal(operand.value, kind)
    if value is None and _number(operand) is not None and is_number(kind) and not types.is_integer(kind):
        return operand  # comparisons find its position among the values of the column, see `_placed`
    if value is None:
        hint = _hint(kind, operand.type)
        raise InvalidInputError(f"{describe(operand)} does not fit {describe(column)}{hint}")
    return Literal(value, operand.written)


def in_type_of_factor(operand: Expression, beside: Expression) -> Expression:
    """Return a number in the type of the float column with which it is added or multiplied, as in the
    reference.

    A number beyond the range of floats becomes infinite; a number beyond the range of half floats is refused.
    """
    kind = value_type(beside.type)
    if not isinstance(beside, Column) or not types.is_floating(kind) or _number(operand) is None:
        return operand
    assert isinstance(operand, Literal)
    if types.is_decimal(operand.type) or types.is_float16(kind):
        value = exact_literal(operand.value, kind)
    else:
        value = operand.value.cast(kind, safe=False)
    if value is None:
        raise InvalidInputError(f"{describe(operand)} does not fit {describe(beside)}")
    return Literal(value)


def _number(operand: Expression) -> Decimal | None:
    """Return the number of a literal; None if the operand is not a number literal."""
    if not isinstance(operand, Literal) or not operand.value.is_valid or not is_number(operand.type):
        return None
    if operand.written is not None:
        return operand.written
    value = operand.value.as_py()
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


def _place(operand: Expression, constant: Expression) -> tuple[pa.Scalar, int] | None:
    """Find the position of a constant number or time among the values of an operand, see `coercion.place`.

    None means that both must be converted to a common type: constants beside text, and decimal or infinite
    constants beside floats.
    """
    kind = value_type(operand.type)
    if isinstance(operand, Literal) or not isinstance(constant, Literal) or not constant.value.is_valid:
        return None
    if constant.type == kind and constant.written is None and (types.is_integer(kind) or is_time(kind)):
        return constant.value, 0
    if is_time(kind):
        moment = _seconds(constant, kind)
        return None if moment is None else place(moment, kind)
    number = _number(constant)
    if number is None or not is_number(kind):
        return None
    if types.is_floating(kind) and (types.is_decimal(constant.type) or not number.is_finite()):
        return None
    return place(number, kind)


def _seconds(constant: Literal, kind: pa.DataType) -> Decimal | None:
    """Return the seconds of a constant that is compared with a time type; None if they cannot be compared."""
    given = constant.type
    kinds_that_compare = (is_moment, types.is_time, types.is_duration)
    try:
        if is_string(given):
            return casts.seconds_of_text(constant.value, kind)
        if not any(is_kind(given) and is_kind(kind) for is_kind in kinds_that_compare):
            return None
        number = constant.written if constant.written is not None else seconds(constant.value)
        if types.is_timestamp(kind) and kind.tz and types.is_timestamp(given) and not given.tz:
            return casts.local_to_instant(number, kind.tz)
        return number
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _in_zone(operand: Expression, constant: Expression) -> Expression:
    """Return local times as instants in their own unit, if the constant beside them is an instant."""
    kind, given = value_type(operand.type), constant.type
    is_local = types.is_timestamp(kind) and not kind.tz and not isinstance(operand, Literal)
    if is_local and isinstance(constant, Literal) and types.is_timestamp(given) and given.tz:
        return cast(operand, pa.timestamp(kind.unit, given.tz))
    return operand


def _placed(op: str, operand: Expression, at: pa.Scalar, side: int) -> Expression:
    """Compare an operand with a constant that is at the value `at` (side 0), right above it (1) or right
    below it (-1).
    """
    if side and op in ("=", "!="):
        never = IsIn(operand, pa.nulls(0, at.type), False)
        return never if op == "=" else Not(never)
    is_less = op in ("<", "<=")
    if side > 0:
        op = "<=" if is_less else ">"
    elif side < 0:
        op = "<" if is_less else ">="
    return preimages.compared(Comparison(op, operand, Literal(at)))


def _hint(column: pa.DataType, constant: pa.DataType) -> str:
    """Return a hint how to write the constant beside a column instead; empty if there is none."""
    if is_string(column) and is_number(constant):
        return "; write text in quotes"
    if is_string(constant) and types.is_timestamp(column):
        return "; write timestamp '...'"
    if is_string(constant) and types.is_date(column):
        return "; write date '...'"
    if is_string(constant) and types.is_time(column):
        return "; write time '...'"
    return ""


def cast(operand: Expression, data_type: pa.DataType, *, try_cast: bool = False) -> Expression:
    """Return the operand in another type. A literal is converted at once.

    Raises:
        InvalidInputError: values of this type cannot be cast, or the literal does not fit.
    """
    if operand.type == data_type:
        return operand
    if isinstance(operand, Literal) and not try_cast:
        number = _number(operand) if types.is_decimal(data_type) else None
        try:
            if number is not None:
                return Literal(rounded_decimal(number, data_type))
            value = casts.cast(operand.value, data_type)
            # a finer unit can hold more of the written digits
            if operand.written is not None and is_time(data_type):
                moment = _seconds(operand, data_type)
                value = value if moment is None else place(moment, data_type)[0]
            return Literal(value)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidInputError(f"{describe(operand)} cannot become {data_type}: {error}") from None
    try:
        casts.cast(pa.nulls(0, value_type(operand.type)), data_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise InvalidInputError(f"{describe(operand)} cannot become {data_type}") from None
    return Cast(operand, data_type, try_cast)


def same_type(left: Expression, right: Expression) -> tuple[Expression, Expression]:
    """Return both operands in their common type. A literal that fits the other operand's type gets that type.

    Raises:
        InvalidInputError: the operands have no common type.
    """
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Literal) and not isinstance(other, Literal):
            value = exact_literal(one.value, other.type)
            if value is not None:
                return (Literal(value), other) if one is left else (other, Literal(value))
    common = common_type(left.type, right.type)
    if common is None:
        raise InvalidInputError(f"{describe(left)} and {describe(right)} have no common type")
    left, right = (
        operand if value_type(operand.type) == common else cast(operand, common) for operand in (left, right)
    )
    return left, right


def comparison(op: str, left: Expression, right: Expression) -> Expression:
    """Return the node for `left op right`. A constant is moved to the right side."""
    if isinstance(left, Literal) and not isinstance(right, Literal):
        op, left, right = FLIPPED[op], right, left
    left = _in_zone(left, right)
    if (found := _place(left, right)) is not None:
        return _placed(op, left, *found)
    left, right = same_type(left, right)
    _check_comparable(left)
    if types.is_null(value_type(left.type)):
        return literal(None, pa.bool_())
    return preimages.compared(Comparison(op, left, right))


_MOST_DIGITS = 20


def plain_comparison(op: str, left: Expression, text: str, *, is_text: bool) -> Comparison | None:
    """Return the node of `comparison` for a column and a literal in the type of the column.

    Args:
        op: The operator.
        left: The column.
        text: Characters of the literal.
        is_text: Whether the literal is a text in quotes; otherwise it is a number.

    Returns:
        The node, or None if the literal has to be converted, or the operand is no column.
    """
    kind = left.type
    if not isinstance(left, Column):
        return None
    if is_text:
        is_plain = types.is_string(kind) or types.is_large_string(kind)
        return Comparison(op, left, literal(text, kind)) if is_plain else None
    # No integer of Arrow has more digits, and Python refuses to read thousands.
    if not types.is_integer(kind) or not text.isdecimal() or len(text) > _MOST_DIGITS:
        return None
    try:
        return Comparison(op, left, Literal(stored_integer(int(text), kind)))
    except OverflowError:
        return None


def distinct_from(left: Expression, right: Expression) -> Expression:
    """Return the node for `left IS DISTINCT FROM right`."""
    for operand, constant in ((left, right), (right, left)):
        operand = _in_zone(operand, constant)
        if (found := _place(operand, constant)) is not None:
            at, side = found
            return literal(True) if side else DistinctFrom(operand, Literal(at))
    left, right = same_type(left, right)
    _check_comparable(left)
    if types.is_null(value_type(left.type)):
        return literal(False)
    return DistinctFrom(left, right)


def _check_comparable(operand: Expression) -> None:
    if is_list(operand.type) or types.is_nested(operand.type):
        raise InvalidInputError(f"{describe(operand)} cannot be compared: only single values can")


def between(operand: Expression, low: Expression, high: Expression) -> Expression:
    """Return the node for `operand BETWEEN low AND high`."""
    return conjunction([comparison(">=", operand, low), comparison("<=", operand, high)])


def is_in(operand: Expression, values: Sequence[Expression]) -> Expression:
    """Return the node for `operand IN (values)`. Values that are not constants become comparisons."""
    constants: list[Literal] = []
    others: list[Expression] = []
    has_null = False
    for value in values:
        if not isinstance(value, Literal):
            others.append(comparison("=", operand, value))
        elif not value.value.is_valid:
            has_null = True
        else:
            constants.append(value)
            operand = _in_zone(operand, value)
    common: pa.DataType = value_type(operand.type)
    # A constant between two values of the operand's type, or beyond them, equals none of them.
    places = [(value, _place(operand, value)) for value in constants]
    places = [(value, found) for value, found in places if found is None or not found[1]]
    exact = [found[0] if found else exact_literal(value.value, common) for value, found in places]
    if any(value is None for value in exact):
        for value, _ in places:
            wider = common_type(common, value.type)
            if wider is None:
                raise InvalidInputError(f"{describe(value)} does not fit {describe(operand)}")
            common = wider
        operand = cast(operand, common)
        exact = [_literal_value(cast(value, common)) for value, _ in places]
    found: list[Expression] = list(others)
    if len(others) < len(values) or not others:
        _check_comparable(operand)
        found.insert(0, preimages.listed(IsIn(operand, array_of_scalars(exact, common), has_null)))
    return disjunction(found)


def _literal_value(expression: Expression) -> pa.Scalar:
    assert isinstance(expression, Literal)
    return expression.value


def is_null(operand: Expression) -> Expression:
    """Return the node for `operand IS NULL`."""
    if isinstance(operand, Column) and isinstance(operand.type, pa.JsonType):
        operand = StoredJson(operand.path, pa.large_binary())  # its text is not needed
    return IsNull(operand)


def negation(operand: Expression) -> Expression:
    """Return the node for `NOT operand`."""
    return Not(boolean(operand))


def conjunction(parts: Sequence[Expression]) -> Expression:
    """Return the AND of all parts as one node."""
    return _joined(And, parts)


def disjunction(parts: Sequence[Expression]) -> Expression:
    """Return the OR of all parts as one node."""
    return _joined(Or, parts)


def _joined(kind: type[And] | type[Or], parts: Sequence[Expression]) -> Expression:
    """Return one node of all parts, and of the operands of parts that are such nodes themselves."""
    flat = [inner for part in parts for inner in (part.operands if isinstance(part, kind) else (part,))]
    flat = [boolean(part) for part in flat]
    return flat[0] if len(flat) == 1 else kind(tuple(flat))


def boolean(operand: Expression) -> Expression:
    """Return the operand if it is a condition, otherwise raise `InvalidInputError`."""
    if types.is_null(operand.type):
        return literal(None, pa.bool_())
    if not types.is_boolean(operand.type):
        raise InvalidInputError(f"{describe(operand)} is not a condition: it is neither true nor false")
    return operand


def is_true(operand: Expression, value: bool) -> Expression:
    """Return the node for `operand IS TRUE`, or `IS FALSE` if `value` is false. It is never null."""
    operand = boolean(operand)
    return Call("coalesce", (operand if value else Not(operand), literal(False)), pa.bool_())


def case(branches: Sequence[tuple[Expression, Expression]], otherwise: Expression) -> Expression:
    """Return the node for `CASE WHEN condition THEN value ... ELSE otherwise END`, with values of a common
    type.
    """
    values = [*(value for _, value in branches), otherwise]
    common = value_type(values[0].type)
    for value in values[1:]:
        wider = common_type(common, value.type)
        if wider is None:
            raise InvalidInputError(
                f"the values of a CASE differ: {describe(value)} does not go with {common}"
            )
        common = wider
    typed = tuple((boolean(condition), cast(value, common)) for condition, value in branches)
    return Case(typed, cast(otherwise, common))


def guarded_in(branches: Sequence[tuple[Expression, Expression]], otherwise: Expression) -> Expression | None:
    """Return the node `c IN (...)` of a CASE that guards it against nulls; None for any other CASE.

    DuckDB writes `CASE WHEN c IS NOT NULL THEN c IN (...) END` for `c IN (...)`. Both have the same result.
    """
    (condition, value), *more = branches or [(otherwise, otherwise)]
    is_guarded = (
        not more
        and isinstance(value, IsIn)
        and condition == Not(IsNull(value.operand))
        and isinstance(otherwise, Literal)
        and not otherwise.value.is_valid
    )
    return value if is_guarded else None


def like(
    operand: Expression, pattern: Expression, escape: str | None = None, *, ignore_case: bool = False
) -> Expression:
    """Return the node for `operand LIKE pattern`. A pattern that asks for a prefix becomes `StartsWith`."""
    if not isinstance(pattern, Literal) or not (is_string(pattern.type) or not pattern.value.is_valid):
        raise InvalidInputError(f"the pattern of LIKE has to be a text, not {describe(pattern)}")
    if not is_string(value_type(operand.type)):
        raise InvalidInputError(f"LIKE needs a text, not {describe(operand)}")
    text = pattern.value.as_py()
    if text is None:
        return literal(None, pa.bool_())
    prefix = text[:-1]
    if not ignore_case and text.endswith("%") and not set(prefix) & {"%", "_", "\\", escape}:
        return StartsWith(operand, prefix)
    return Like(operand, text, escape, ignore_case)


def starts_with(operand: Expression, prefix: Expression) -> Expression:
    """Return the node for `starts_with(operand, prefix)`."""
    if not isinstance(prefix, Literal):
        raise InvalidInputError(f"the prefix of starts_with has to be a constant, not {describe(prefix)}")
    given, wanted = value_type(operand.type), prefix.type
    if not prefix.value.is_valid:
        return literal(None, pa.bool_())
    if not (is_string(given) and is_string(wanted)) and not (is_binary(given) and is_binary(wanted)):
        raise InvalidInputError(
            f"starts_with({describe(operand)}, {describe(prefix)}) needs two texts or two binaries"
        )
    return StartsWith(operand, prefix.value.as_py())
