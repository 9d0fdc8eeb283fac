"""JSON columns: stored as binary JSON in large_binary values, given to callers as text.

A value is a container: a big-endian header with its kind and number of members, an entry per member with type
and length, then the bytes of all members. No other layer knows binary JSON; the file version makes no
difference. Source: docs/format.md, "Logical types".
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from lance_core.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError
from lance_core.kernels import Block, CorruptData, OffsetOverflow, json_binary, json_text
from lance_core.schema.fields import Field


def holds_json(field: Field) -> bool:
    """Return whether a field, or a field below it, is binary JSON."""
    return any(node.is_json for node in field.walk())


def show_json(array: pa.Array, field: Field) -> pa.Array:
    """Return the array with all binary JSON of `field` converted to text (utf8), at any depth.

    Raises:
        CorruptFileError: a value is not binary JSON, or its text is not UTF-8.
        UnsupportedFeatureError: more than 2 GiB of text in one array.
    """
    if field.is_json:
        return show_text(array, field.name)
    if not holds_json(field):
        return array
    if pa.types.is_struct(array.type):
        children = [show_json(array.field(place), child) for place, child in enumerate(field.children)]
        return pa.StructArray.from_arrays(
            children, fields=_fields(array.type, children), mask=array.is_null() if array.null_count else None
        )
    if pa.types.is_map(array.type):
        entries = pa.StructArray.from_arrays(
            [array.keys, array.items], fields=[array.type.key_field, array.type.item_field]
        )
        shown = show_json(entries, field.children[0])
        return _with_values(pa.map_(*shown.type.fields), array, shown, num_buffers=2)
    shown = show_json(array.values, field.children[0])
    item = array.type.value_field.with_type(shown.type)
    if pa.types.is_fixed_size_list(array.type):
        return _with_values(pa.list_(item, array.type.list_size), array, shown, num_buffers=1)
    make = pa.large_list if pa.types.is_large_list(array.type) else pa.list_
    return _with_values(make(item), array, shown, num_buffers=2)


def store_json(array: pa.Array, column: str) -> pa.Array:
    """Convert a column of JSON text to binary JSON. Binary JSON (large_binary) is checked and returned as it
    is.

    The reference accepts more than standard JSON, and so does this function: see docs/format.md, "Logical
    types".

    Raises:
        InvalidInputError: a value is not JSON (the message has its number in the array) or not UTF-8, or the
            array has another type.
    """
    types = pa.types
    if not any(kind(array.type) for kind in (types.is_large_binary, types.is_string, types.is_large_string)):
        raise InvalidInputError("type of JSON values", column=column, expected="string", found=array.type)
    try:
        if types.is_large_binary(array.type):
            _converted(array, json_text)
            return array
        array = array.cast(pa.large_utf8())
        array.validate(full=True)
        validity, blocks = _converted(array, json_binary)
    except (CorruptData, pa.ArrowInvalid) as error:
        raise InvalidInputError(f"JSON: {error}", column=column) from None
    return pa.Array.from_buffers(pa.large_binary(), len(array), [validity, *map(pa.py_buffer, blocks)])


def column_buffers(array: pa.Array) -> tuple[pa.Buffer, pa.Buffer, pa.Buffer | None, int, int]:
    """Return the arguments of the kernels of JSON for an array with 64-bit offsets: offsets, bytes, validity,
    its first bit, and the number of values.
    """
    validity, offsets, data = array.buffers()
    return (
        (offsets or pa.py_buffer(bytes(8))).slice(8 * array.offset),
        data or pa.py_buffer(b""),
        validity,
        array.offset,
        len(array),
    )


def _converted(
    array: pa.Array, kernel: Callable[..., tuple[Block, Block]]
) -> tuple[pa.Buffer | None, tuple[Block, Block]]:
    """Run a kernel on the values of an array with 64-bit offsets. Return the validity, which begins at bit 0,
    and the kernel's two blocks.
    """
    blocks = kernel(*column_buffers(array))
    validity = array.buffers()[0]
    if validity is not None and array.offset:
        validity = array.is_valid().buffers()[1]
    return validity, blocks


def show_text(array: pa.Array, column: str | None = None) -> pa.Array:
    """Return binary JSON (large_binary) as text (utf8); `column` is for errors, which are those of
    `show_json`.
    """
    try:
        validity, blocks = _converted(array, json_text)
    except CorruptData as error:
        raise CorruptFileError(str(error), column=column) from None
    except OffsetOverflow:
        raise UnsupportedFeatureError("more than 2 GiB of JSON in one array", column=column) from None
    text = pa.Array.from_buffers(pa.utf8(), len(array), [validity, *map(pa.py_buffer, blocks)])
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        raise CorruptFileError("JSON text is not UTF-8", column=column) from None
    return text


def _fields(data_type: pa.StructType, children: list[pa.Array]) -> list[pa.Field]:
    return [field.with_type(child.type) for field, child in zip(data_type, children, strict=True)]


def _with_values(data_type: pa.DataType, array: pa.Array, values: pa.Array, num_buffers: int) -> pa.Array:
    """Return the lists of `array` with other items."""
    buffers = array.buffers()[:num_buffers]
    return pa.Array.from_buffers(data_type, len(array), buffers, offset=array.offset, children=[values])
