"""Casts of columns: the allowed types, and the cast of the values."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from lance_core.encodings.values import flatten_lists
from lance_core.errors import InvalidInputError
from lance_core.expressions.casts import cast
from lance_core.file.footer import FileVersion
from lance_core.scan.read.blobs import fields_below, values_below, with_children
from lance_core.schema import Field, storage_type


def can_cast(given: pa.DataType, wanted: pa.DataType, version: FileVersion) -> bool:
    """Return whether a column can be cast from one type to another.

    Integers can become other integers, and so on for floats, times, booleans, text, bytes, decimals and lists
    of these, as in the reference. In 0.1 tables no column can become a dictionary.
    """
    types = pa.types
    if types.is_dictionary(wanted) and version == FileVersion.V0_1:
        return False
    if types.is_dictionary(given):
        return can_cast(given.value_type, wanted, version)
    if types.is_dictionary(wanted):
        return can_cast(given, wanted.value_type, version)
    for is_kind in (
        types.is_integer,
        types.is_floating,
        types.is_temporal,
        types.is_boolean,
        _is_text,
        _is_bytes,
        types.is_decimal,
    ):
        if is_kind(given):
            return bool(is_kind(wanted))
    if _is_list(given) and _is_list(wanted):
        return can_cast(given.value_type, wanted.value_type, version)
    return False


def cast_field(array: pa.Array, old: Field, new: Field, casts: Collection[int], path: str = "") -> pa.Array:
    """Return the values of a field; the field and its children whose old ids are in `casts` are cast.

    Raises:
        InvalidInputError: A value does not fit the new type.
    """
    name = path + old.name
    if old.id in casts:
        return _cast(array, storage_type(new.arrow_type), name)
    if array.type.equals(new.arrow_type):
        return array
    children = [
        cast_field(values, old_child, new_child, casts, f"{name}.")
        for values, old_child, new_child in zip(values_below(array), old.children, new.children, strict=True)
    ]
    return with_children(array, children, fields_below(new.arrow_type))


def _cast(array: pa.Array, wanted: pa.DataType, path: str) -> pa.Array:
    try:
        return _converted(array, wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(
            "values cannot be cast", column=path, expected=wanted, found=f"{array.type}: {error}"
        ) from None


def _converted(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return the values as a CAST of SQL converts them. A date is the midnight in the zone of a new type."""
    given = array.type
    if pa.types.is_dictionary(given):
        return _converted(array.dictionary_decode(), wanted)
    if pa.types.is_dictionary(wanted):
        encoded = _converted(array, wanted.value_type).dictionary_encode()
        indices = encoded.indices.cast(wanted.index_type)
        return pa.DictionaryArray.from_arrays(indices, encoded.dictionary, ordered=wanted.ordered)
    if pa.types.is_fixed_size_list(given):
        items = array.values.slice(array.offset * given.list_size, len(array) * given.list_size)
        lists = pa.list_(wanted.value_field, given.list_size)
        converted = _converted(items, wanted.value_type)
        return pc.cast(pa.FixedSizeListArray.from_arrays(converted, type=lists, mask=array.is_null()), wanted)
    if _is_list(given):
        items = _converted(flatten_lists(array), wanted.value_type)
        return pc.cast(with_children(array, [items], [wanted.value_field]), wanted)
    if pa.types.is_date(given) and pa.types.is_timestamp(wanted):
        array = cast(array, pa.timestamp(wanted.unit))
    return cast(array, wanted)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))
