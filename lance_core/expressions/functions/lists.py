"""Functions of lists: lengths, elements, membership. They work on the flat values of all lists at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from lance_core import kernels
from lance_core.encodings.values import take_values
from lance_core.errors import InvalidInputError
from lance_core.expressions.builders import cast
from lance_core.expressions.coercion import common_type, exact_literal, is_list
from lance_core.expressions.column_names import child_type
from lance_core.expressions.comparisons import Datum, compare, is_in, true_only
from lance_core.expressions.functions.registry import Bound, Function, as_integer, expect, unfit
from lance_core.expressions.tree import Expression, Literal
from lance_core.schema.arrow_values import array_of, bytes_of, numbers_of, offsets_of, scalar_of, validity_of


def _as_list(name: str, argument: Expression) -> Expression:
    """Return a list argument as a list of variable length, which can be flattened."""
    kind = argument.type
    if not is_list(kind):
        raise unfit(name, argument, "a list")
    return cast(argument, pa.list_(kind.value_field)) if types.is_fixed_size_list(kind) else argument


def _bind_length(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 1)
    return [_as_list(name, arguments[0])], pa.uint64()


def _bind_empty(name: str, arguments: Sequence[Expression]) -> Bound:
    return _bind_length(name, arguments)[0], pa.bool_()


def _bind_element(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 2)
    operand = _as_list(name, arguments[0])
    return [operand, as_integer(name, arguments[1])], operand.type.value_type


def _element(lists: Datum, index: Datum) -> Datum:
    """Return the element at an index from 1, or from -1 backwards; null if the list has none."""
    items, offsets = _items(lists)
    indices = pa.repeat(index, 1) if isinstance(index, pa.Scalar) else index
    indices = bytes_of(pc.fill_null(indices, scalar_of(0)))
    places, has_item = kernels.list_places(*offsets, indices)
    has = pa.BooleanArray.from_buffers(pa.bool_(), len(lists), [None, pa.py_buffer(has_item)])
    if lists.null_count:
        has = pc.and_(has, lists.is_valid())
    # Arrow takes values at places without nulls in a fifth of the time.
    is_number = types.is_primitive(items.type) and len(items)
    validity = None if is_number else has.buffers()[1]
    places = pa.Array.from_buffers(pa.int64(), len(lists), [validity, pa.py_buffer(places)])
    found = take_values(items, places)
    return pc.if_else(has, found, scalar_of(None, items.type)) if is_number else found


def _items(lists: pa.Array) -> tuple[pa.Array, tuple[pa.Buffer, int, int]]:
    """Return the items of all lists, those of null lists included, and the offsets of the lists for kernels:
    as bytes, with the number of lists and the bits of an offset.
    """
    offsets = offsets_of(lists)
    first, last = int(offsets[0]), int(offsets[-1])
    return lists.values.slice(first, last - first), (pa.py_buffer(offsets), len(lists), 8 * offsets.itemsize)


def _value_in(name: str, operand: Expression, value: Expression) -> tuple[Expression, Expression]:
    """Return a list, and a value or list of values in the type of its elements."""
    kind = operand.type.value_type
    if types.is_nested(kind):
        raise unfit(name, operand, "a list of single values")
    if isinstance(value, Literal):
        exact = exact_literal(value.value, kind)
        if exact is not None:
            return operand, Literal(exact)
    common = common_type(kind, value.type)
    if common is None:
        raise unfit(name, value, f"a value that goes with {kind}")
    return cast(operand, pa.list_(common)), cast(value, common)


def _bind_has(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 2)
    return _value_in(name, _as_list(name, arguments[0]), arguments[1]), pa.bool_()


def _owners(lists: pa.Array) -> pa.Array:
    """Return for each item of `_items` the row of its list."""
    return array_of(np.repeat(np.arange(len(lists)), np.diff(offsets_of(lists))))


def _matching_items(lists: pa.Array, value: Datum) -> pa.BooleanArray:
    """Return whether each item of `_items` equals the value, or the value in the row of its list."""
    value = value if isinstance(value, pa.Scalar) else value.take(_owners(lists))
    return compare("=", _items(lists)[0], value)


def _rows_with(lists: pa.Array, found: pa.BooleanArray) -> pa.BooleanArray:
    """Return whether each list has one of the items that are `found`; null for a null list."""
    bits = true_only(found).buffers()[1]
    rows = kernels.lists_with(*_items(lists)[1], bits or b"")
    validity = validity_of(lists)
    return pa.Array.from_buffers(pa.bool_(), len(lists), [validity, pa.py_buffer(rows)])


def _has(lists: Datum, value: Datum) -> Datum:
    if isinstance(value, pa.Scalar) and not value.is_valid:
        return pa.nulls(len(lists), pa.bool_())
    found = _rows_with(lists, _matching_items(lists, value))
    return (
        found
        if isinstance(value, pa.Scalar)
        else pc.if_else(pc.is_valid(value), found, pa.scalar(None, pa.bool_()))
    )


def _bind_has_values(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 2)
    operand = _as_list(name, arguments[0])
    wanted = arguments[1]
    if not isinstance(wanted, Literal) or not is_list(wanted.type):
        raise unfit(name, wanted, "a constant list here")
    exact = exact_literal(wanted.value, operand.type)
    if exact is None:
        common = common_type(operand.type.value_type, wanted.type.value_type)
        if common is None:
            raise unfit(name, wanted, f"a list of values that go with {operand.type.value_type}")
        return [cast(operand, pa.list_(common)), cast(wanted, pa.list_(common))], pa.bool_()
    return [operand, Literal(exact)], pa.bool_()


def _has_any(lists: Datum, wanted: pa.Scalar) -> Datum:
    if not wanted.is_valid:
        return pa.nulls(len(lists), pa.bool_())
    return _rows_with(lists, is_in(_items(lists)[0], wanted.values.drop_null(), False))


def _has_all(lists: Datum, wanted: pa.Scalar) -> Datum:
    if not wanted.is_valid:
        return pa.nulls(len(lists), pa.bool_())
    result = pc.if_else(pc.is_valid(lists), pa.scalar(True), pa.scalar(None, pa.bool_()))
    for value in wanted.values.unique():
        found = pc.is_null(_items(lists)[0]) if not value.is_valid else _matching_items(lists, value)
        result = pc.and_(result, _rows_with(lists, found))
    return result


def _bind_position(name: str, arguments: Sequence[Expression]) -> Bound:
    return _bind_has(name, arguments)[0], pa.uint64()


def _position(lists: Datum, value: Datum) -> Datum:
    """Return the index from 1 of the first element that equals the value; null if there is none."""
    found = np.flatnonzero(numbers_of(true_only(_matching_items(lists, value))))
    rows, first = np.unique(numbers_of(_owners(lists))[found], return_index=True)
    offsets = offsets_of(lists)
    positions = np.zeros(len(lists), np.uint64)
    positions[rows] = found[first] - (offsets[rows] - offsets[0]) + 1
    return array_of(positions, (positions > 0) & numbers_of(lists.is_valid()))


def _bind_extreme(name: str, arguments: Sequence[Expression]) -> Bound:
    expect(name, arguments, 1)
    operand = _as_list(name, arguments[0])
    if types.is_nested(operand.type.value_type):
        raise unfit(name, operand, "a list of single values")
    return [operand], operand.type.value_type


def _extreme(order: str) -> Callable[[Datum], Datum]:
    """Return the greatest or least element that is not null; NaN is the greatest number."""

    def compute(lists: Datum) -> Datum:
        values, owners = _items(lists)[0], _owners(lists)
        kind = values.type
        if types.is_float16(kind):  # Arrow sorts none
            values = values.cast(pa.float32())
        table = pa.table({"row": owners, "value": values}).filter(pc.is_valid(values))
        # Arrow sorts NaN after all numbers, in ascending and in descending order. The greatest element is
        # therefore the last of an ascending order.
        table = table.take(pc.sort_indices(table, [("row", "ascending"), ("value", "ascending")]))
        rows = table["row"].to_numpy()
        edge = np.r_[True, rows[1:] != rows[:-1]] if order == "least" else np.r_[rows[1:] != rows[:-1], True]
        chosen = np.flatnonzero(edge[: len(rows)])
        positions = np.full(len(lists), -1, np.int64)
        positions[rows[chosen]] = chosen
        has_item = (positions >= 0) & numbers_of(lists.is_valid())
        return table["value"].combine_chunks().take(array_of(positions, has_item)).cast(kind)

    return compute


def _bind_field(name: str, arguments: Sequence[Expression]) -> Bound:
    """Bind `get_field(struct, 'name')`, the child of a struct that is not a column."""
    expect(name, arguments, 2)
    operand, child = arguments
    wanted = child.value.as_py() if isinstance(child, Literal) else None
    if not isinstance(wanted, str):
        raise InvalidInputError(f"{name} takes the name of a child as a text")
    return [operand, child], child_type(["..."], operand.type, wanted)


def _bind_float16(name: str, arguments: Sequence[Expression]) -> Bound:
    """Bind `_cast_list_f16(list)`, the list with its floats rounded to float16."""
    expect(name, arguments, 1)
    operand = arguments[0]
    if not is_list(operand.type) or operand.type.value_type not in (pa.float32(), pa.float16()):
        raise unfit(name, operand, "a list of float32 or float16")
    element = operand.type.value_field.with_type(pa.float16())
    size = operand.type.list_size if types.is_fixed_size_list(operand.type) else -1
    return [operand], pa.list_(element, size)


def _as_float16(lists: Datum) -> Datum:
    element = lists.type.value_field.with_type(pa.float16())
    size = lists.type.list_size if types.is_fixed_size_list(lists.type) else -1
    return lists.cast(pa.list_(element, size))


_LENGTH = Function(_bind_length, lambda lists: pc.list_value_length(lists).cast(pa.uint64()))
_ELEMENT = Function(_bind_element, _element)
_HAS = Function(_bind_has, _has)
_HAS_ANY = Function(_bind_has_values, _has_any)
_HAS_ALL = Function(_bind_has_values, _has_all)
_POSITION = Function(_bind_position, _position)

FUNCTIONS = {
    "array_length": _LENGTH,
    "list_length": _LENGTH,
    "cardinality": _LENGTH,
    "len": _LENGTH,
    "empty": Function(_bind_empty, lambda lists: pc.equal(pc.list_value_length(lists), 0)),
    "array_element": _ELEMENT,
    "array_extract": _ELEMENT,
    "list_element": _ELEMENT,
    "list_extract": _ELEMENT,
    "array_has": _HAS,
    "array_contains": _HAS,
    "list_has": _HAS,
    "list_contains": _HAS,
    "array_has_any": _HAS_ANY,
    "list_has_any": _HAS_ANY,
    "array_has_all": _HAS_ALL,
    "list_has_all": _HAS_ALL,
    "array_position": _POSITION,
    "list_position": _POSITION,
    "array_max": Function(_bind_extreme, _extreme("greatest")),
    "array_min": Function(_bind_extreme, _extreme("least")),
    "_cast_list_f16": Function(_bind_float16, _as_float16),
    "get_field": Function(_bind_field, lambda structs, name: pc.struct_field(structs, name.as_py())),
}
