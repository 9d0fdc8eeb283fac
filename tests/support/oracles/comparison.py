"""Strict comparison of two Arrow tables: schema, validity and value bytes, with the first difference named.

Equality of `pyarrow` is not enough here: it calls 0.0 and -0.0 equal, takes every NaN for different (or, when
asked, every NaN for the same) and says only yes or no. Here floats are compared bit by bit, null positions
compare equal whatever bytes lie below them, and a difference is reported with its row and both values.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

SHOWN_CHARACTERS = 300


class TableDifferenceError(AssertionError):
    """Two tables are not the same; the message says where they part for the first time."""


def assert_tables_equal(expected: pa.Table, actual: pa.Table, *, label: str = "") -> None:
    """Raise `TableDifferenceError` unless schema (metadata included), rows and value bits are the same.

    `actual` is validated in full first, so a result whose buffers are unsound never counts as equal.
    """
    prefix = f"{label}: " if label else ""
    try:
        actual.validate(full=True)
    except pa.ArrowInvalid as error:
        raise TableDifferenceError(f"{prefix}the result is not valid Arrow data: {error}") from error
    difference = schema_difference(expected.schema, actual.schema)
    if difference:
        raise TableDifferenceError(prefix + difference)
    if expected.num_rows != actual.num_rows:
        raise TableDifferenceError(f"{prefix}expected {expected.num_rows} rows, found {actual.num_rows}")
    for index, field in enumerate(expected.schema):
        _compare_column(f"{prefix}{field.name}", expected.column(index), actual.column(index))


def assert_values_equal(expected: pa.ChunkedArray, actual: pa.ChunkedArray, *, label: str) -> None:
    """Compare the values of two columns whose types may differ only in names and nullability."""
    if len(expected) != len(actual):
        raise TableDifferenceError(f"{label}: expected {len(expected)} rows, found {len(actual)}")
    _compare_column(label, expected, actual)


def schema_difference(expected: pa.Schema, actual: pa.Schema) -> str | None:
    """Return the first difference between two schemas in words, or None."""
    if expected.names != actual.names:
        return f"expected columns {_shorten(expected.names)}, found {_shorten(actual.names)}"
    for left, right in zip(expected, actual, strict=True):
        difference = _field_difference(left.name, left, right)
        if difference:
            return difference
    if (expected.metadata or {}) != (actual.metadata or {}):
        return f"schema metadata: expected {_shorten(expected.metadata)}, found {_shorten(actual.metadata)}"
    return None


def _field_difference(path: str, expected: pa.Field, actual: pa.Field) -> str | None:
    if expected.name != actual.name:
        return f"{path}: expected a field named {expected.name!r}, found {actual.name!r}"
    if expected.nullable != actual.nullable:
        return f"{path}: expected nullable={expected.nullable}, found {actual.nullable}"
    if (expected.metadata or {}) != (actual.metadata or {}):
        return f"{path}: expected field metadata {expected.metadata}, found {actual.metadata}"
    if not expected.type.equals(actual.type) or expected.type.num_fields != actual.type.num_fields:
        return f"{path}: expected type {expected.type}, found {actual.type}"
    for left, right in zip(_child_fields(expected.type), _child_fields(actual.type), strict=True):
        difference = _field_difference(f"{path}.{left.name}", left, right)
        if difference:
            return difference
    return None


def _child_fields(data_type: pa.DataType) -> list[pa.Field]:
    if isinstance(data_type, pa.BaseExtensionType):
        data_type = data_type.storage_type
    if pa.types.is_dictionary(data_type):
        return []
    return [data_type.field(index) for index in range(data_type.num_fields)]


def _compare_column(path: str, expected: pa.ChunkedArray, actual: pa.ChunkedArray) -> None:
    for start, left, right in _aligned(expected, actual):
        if _same_bits(left, right):
            continue
        found = _first_difference(path, left, right, np.arange(len(left)))
        if found is not None:
            where, row, what = found
            raise TableDifferenceError(
                f"{where}: row {start + row}: {what}"
                f"\n  expected row: {_shorten(left[row])}\n  found row:    {_shorten(right[row])}"
            )


def _aligned(expected: pa.ChunkedArray, actual: pa.ChunkedArray) -> Iterator[tuple[int, pa.Array, pa.Array]]:
    """(first row, expected, found) of pieces that lie in one chunk of both.

    Chunks are not combined: the dictionaries of several chunks may not fit into one key type.
    """
    if expected.num_chunks == actual.num_chunks == 1:
        yield 0, expected.chunk(0), actual.chunk(0)
        return
    ends = {end for column in (expected, actual) for end in accumulate(map(len, column.chunks))}
    start = 0
    for end in sorted(ends - {0}):
        left, right = (column.slice(start, end - start).chunks for column in (expected, actual))
        yield start, left[0], right[0]
        start = end


def _same_bits(left: pa.Array, right: pa.Array) -> bool:
    """Return whether Arrow finds the two equal when floats are taken as integers; False decides nothing.

    One call where the walk takes hundreds: nearly all that is compared is equal.
    """
    try:
        bits = _bits_type(left.type)
    except TypeError:  # an extension type in Python that has no hash
        return False
    return bits is not None and left.type == right.type and left.view(bits).equals(right.view(bits))


@cache
def _bits_type(data_type: pa.DataType) -> pa.DataType | None:
    """Return the type with integers in place of floats, nullable at all levels; None if Arrow has no such
    view.
    """
    if pa.types.is_floating(data_type):
        return {16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}[data_type.bit_width]
    if isinstance(data_type, pa.BaseExtensionType):
        return None
    if pa.types.is_dictionary(data_type):
        return None if pa.types.is_floating(data_type.value_type) else data_type
    if not data_type.num_fields:
        return data_type
    fields = [data_type.field(index) for index in range(data_type.num_fields)]
    types = [_bits_type(field.type) for field in fields]
    if None in types:
        return None
    if pa.types.is_map(data_type):
        return pa.map_(_bits_type(data_type.key_type), _bits_type(data_type.item_type))
    children = [pa.field(field.name, bits) for field, bits in zip(fields, types, strict=True)]
    if pa.types.is_struct(data_type):
        return pa.struct(children)
    if pa.types.is_fixed_size_list(data_type):
        return pa.list_(children[0], data_type.list_size)
    return pa.large_list(children[0]) if pa.types.is_large_list(data_type) else pa.list_(children[0])


def _shorten(value: object) -> str:
    text = repr(value.as_py() if isinstance(value, pa.Scalar) else value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}... ({len(text)} characters)"


Found = tuple[str, int, str] | None


def _first_difference(path: str, expected: pa.Array, actual: pa.Array, rows: np.ndarray) -> Found:
    """(path, row, what) of the first difference; `rows[i]` is the top-level row that holds element i."""
    if isinstance(expected, pa.ExtensionArray):
        expected = expected.storage
    if isinstance(actual, pa.ExtensionArray):
        actual = actual.storage
    if pa.types.is_dictionary(expected.type):
        expected, actual = expected.dictionary_decode(), actual.dictionary_decode()
    valid, other_valid = _validity(expected), _validity(actual)
    if (at := _first_true(valid != other_valid)) is not None:
        what = (
            f"expected {'a value' if valid[at] else 'null'}, found {'a value' if other_valid[at] else 'null'}"
        )
        return path, int(rows[at]), f"element {at}: {what}"

    data_type = expected.type
    if pa.types.is_null(data_type):
        return None
    if pa.types.is_struct(data_type):
        children = zip(data_type, expected.flatten(), actual.flatten(), strict=True)
        for field, left, right in children:
            found = _first_difference(f"{path}.{field.name}", left, right, rows)
            if found:
                return found
        return None
    if pa.types.is_fixed_size_list(data_type):
        rows = np.repeat(rows[valid], data_type.list_size)
        return _first_difference(f"{path}[]", expected.flatten(), actual.flatten(), rows)
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type) or pa.types.is_map(data_type):
        return _list_difference(path, expected, actual, valid, rows)

    at = _first_true(_differing_leaves(expected, actual, valid))
    if at is None:
        return None
    what = f"element {at}: expected {_shorten(expected[at])}, found {_shorten(actual[at])}"
    return path, int(rows[at]), what + _bits_of(expected, actual, at)


def _list_difference(
    path: str, expected: pa.Array, actual: pa.Array, valid: np.ndarray, rows: np.ndarray
) -> Found:
    lengths, other_lengths = _list_lengths(expected, valid), _list_lengths(actual, valid)
    if (at := _first_true(lengths != other_lengths)) is not None:
        what = f"element {at}: expected a list of {lengths[at]} items, found {other_lengths[at]}"
        return path, int(rows[at]), what
    rows = np.repeat(rows, lengths)
    pairs = zip(_list_children(expected, valid), _list_children(actual, valid), strict=True)
    for (suffix, left), (_, right) in pairs:
        found = _first_difference(path + suffix, left, right, rows)
        if found:
            return found
    return None


def _list_lengths(array: pa.Array, valid: np.ndarray) -> np.ndarray:
    return np.where(valid, np.diff(array.offsets.to_numpy()), 0)


def _list_children(array: pa.Array, valid: np.ndarray) -> list[tuple[str, pa.Array]]:
    """Return the children of the valid lists only: what lies below a null list is nobody's value."""
    if pa.types.is_map(array.type):
        children = [(".key", array.keys), (".value", array.items)]
    else:
        children = [("[]", array.values)]
    offsets = array.offsets.to_numpy()
    lengths = _list_lengths(array, valid)
    first, last = int(offsets[0]), int(offsets[-1])
    if int(lengths.sum()) == last - first:
        return [(suffix, child.slice(first, last - first)) for suffix, child in children]
    starts = offsets[:-1] - (np.cumsum(lengths) - lengths)
    positions = pa.array(np.repeat(starts, lengths) + np.arange(int(lengths.sum())))
    return [(suffix, child.take(positions)) for suffix, child in children]


def _differing_leaves(expected: pa.Array, actual: pa.Array, valid: np.ndarray) -> np.ndarray:
    data_type = expected.type
    if _is_variable_width(data_type):
        differing = pc.not_equal(_as_binary(expected), _as_binary(actual))
        return pc.fill_null(differing, False).to_numpy(zero_copy_only=False)
    if pa.types.is_boolean(data_type):
        differing = pc.fill_null(pc.xor(expected, actual), False)
        return differing.to_numpy(zero_copy_only=False)
    return (_value_bytes(expected) != _value_bytes(actual)).any(axis=1) & valid


def _is_variable_width(data_type: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    views = (pa.types.is_string_view, pa.types.is_binary_view)
    return any(test(data_type) for test in (*tests, *views))


def _as_binary(array: pa.Array) -> pa.Array:
    return array.cast(pa.large_binary())


def _value_bytes(array: pa.Array) -> np.ndarray:
    """Return the value slots of a fixed-width array as unsigned words, shape (len(array), words per
    value).
    """
    width = array.type.byte_width
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        return np.zeros((len(array), 1), np.uint8)
    raw = np.frombuffer(buffer, np.uint8, len(array) * width, array.offset * width)
    word = next(size for size in (8, 4, 2, 1) if width % size == 0)
    return raw.view(f"u{word}").reshape(len(array), width // word)


def _validity(array: pa.Array) -> np.ndarray:
    return array.is_valid().to_numpy(zero_copy_only=False)


def _first_true(flags: np.ndarray) -> int | None:
    return int(np.argmax(flags)) if flags.any() else None


def _bits_of(expected: pa.Array, actual: pa.Array, at: int) -> str:
    if not pa.types.is_floating(expected.type):
        return ""
    left, right = (_value_bytes(array)[at, 0] for array in (expected, actual))
    return f" (bits {left:#x} and {right:#x})"
