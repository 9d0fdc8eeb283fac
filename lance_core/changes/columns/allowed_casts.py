"""Casts of columns: the allowed types, and the cast of the values."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from lance_core.errors import InvalidInputError
from lance_core.file.footer import FileVersion
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
        for values, old_child, new_child in zip(array.flatten(), old.children, new.children, strict=True)
    ]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(new.arrow_type), mask=mask)


def _cast(array: pa.Array, wanted: pa.DataType, path: str) -> pa.Array:
    try:
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if pa.types.is_dictionary(wanted):
            encoded = array.cast(wanted.value_type).dictionary_encode()
            indices = encoded.indices.cast(wanted.index_type)
            return pa.DictionaryArray.from_arrays(indices, encoded.dictionary, ordered=wanted.ordered)
        return pc.cast(array, wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(
            "values cannot be cast", column=path, expected=wanted, found=f"{array.type}: {error}"
        ) from None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))
