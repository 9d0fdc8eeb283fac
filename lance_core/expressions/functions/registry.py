"""Declaration of functions: the types of their arguments and their computation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from lance_core.errors import InvalidInputError
from lance_core.expressions.builders import cast, describe
from lance_core.expressions.coercion import chosen_type, is_string, value_type
from lance_core.expressions.comparisons import Datum
from lance_core.expressions.tree import Expression, Literal

Bound = tuple[Sequence[Expression], pa.DataType]
"""Arguments in the types that the computation takes, and the type of the result."""


@dataclass(frozen=True)
class Function:
    """Function that expressions may call.

    Attributes:
        bind: Returns the arguments for `compute` and the type of the result, from the name as called and the
            given arguments. It raises `InvalidInputError` for wrong arguments.
        compute: Returns the values of the result from the values of the arguments. The first argument is an
            array; constant other arguments are scalars.
        keeps_nulls: Whether the result is null only if an argument is null, and the schemas of the reference
            say so.
        most_bytes: Returns the most bytes that the result for the arguments of `compute` can have. None: no
            constant makes the result much larger than the arguments.
    """

    bind: Callable[[str, Sequence[Expression]], Bound]
    compute: Callable[..., Datum]
    keeps_nulls: bool = False
    most_bytes: Callable[..., int] | None = None


def expect(name: str, arguments: Sequence[Expression], least: int, most: int | None = None) -> None:
    """Raise `InvalidInputError` unless the number of arguments is in the range `least` to `most`, both
    inclusive.
    """
    most = least if most is None else most
    if not least <= len(arguments) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise InvalidInputError(f"{name} takes {wanted} arguments, not {len(arguments)}")


def unfit(name: str, argument: Expression, wanted: str) -> InvalidInputError:
    """Return the error for an argument of the wrong type."""
    return InvalidInputError(f"{name} takes {wanted}, not {describe(argument)}")


def as_text(name: str, argument: Expression) -> Expression:
    """Return an argument that must be text."""
    if is_string(value_type(argument.type)):
        return argument
    if types.is_null(argument.type):
        return cast(argument, pa.string())
    raise unfit(name, argument, "text")


def as_constant_text(name: str, argument: Expression) -> Literal:
    """Return an argument that must be a constant text."""
    argument = as_text(name, argument)
    if not isinstance(argument, Literal):
        raise unfit(name, argument, "a constant text here")
    return argument


def as_integer(name: str, argument: Expression) -> Expression:
    """Return an argument that must be an integer, cast to int64."""
    if types.is_integer(argument.type) or types.is_null(argument.type):
        return cast(argument, pa.int64())
    raise unfit(name, argument, "an integer here")


def as_constant_integer(name: str, argument: Expression) -> Literal:
    """Return an argument that must be a constant integer."""
    argument = as_integer(name, argument)
    if not isinstance(argument, Literal) or not argument.value.is_valid:
        raise unfit(name, argument, "a constant integer here")
    return argument


def same_types(name: str, arguments: Sequence[Expression]) -> tuple[list[Expression], pa.DataType]:
    """Return the arguments in their common type, and this type."""
    common = value_type(arguments[0].type)
    for argument in arguments[1:]:
        wider = chosen_type(common, argument.type)
        if wider is None:
            raise unfit(name, argument, f"values that go with {common}")
        common = wider
    return [cast(argument, common) for argument in arguments], common


def pair_of(left: Datum, right: Datum) -> tuple[Datum, pa.Array, pa.BooleanArray]:
    """Return two arguments as arrays of the same length, and flags of the rows in which neither is null."""
    if isinstance(right, pa.Scalar):
        right = pa.repeat(right, len(left))
    return left, right, pc.and_(pc.is_valid(left), pc.is_valid(right))


def offsets_and_bytes(values: pa.Array) -> tuple[pa.Buffer, pa.Buffer]:
    """Return the buffers of large_string or large_binary values; the offsets begin at the first value."""
    _, offsets, data = values.buffers()
    return (offsets or pa.py_buffer(bytes(8))).slice(8 * values.offset), data or pa.py_buffer(b"")
