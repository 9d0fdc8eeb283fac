"""Conversion of arrays to their stored types: no extension types, no views, and the field names of the
schema.
"""

import pyarrow as pa

from lance_core.errors import InvalidInputError


def as_stored(array: pa.Array, arrow_type: pa.DataType, column: str) -> pa.Array:
    """Convert an array to `arrow_type`, which may differ from its type only in names, extension types and
    views.

    Raises:
        InvalidInputError: the array has another type.
    """
    if array.type == arrow_type and not isinstance(array.type, pa.BaseExtensionType):
        return array
    if isinstance(array.type, pa.BaseExtensionType):
        return as_stored(array.storage, arrow_type, column)
    if pa.types.is_string_view(array.type) or pa.types.is_binary_view(array.type):
        plain = array.cast(pa.string() if pa.types.is_string_view(array.type) else pa.binary())
        return as_stored(plain, arrow_type, column)
    nested = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_struct)
    if pa.types.is_map(array.type) and pa.types.is_map(arrow_type):
        keys = as_stored(array.keys, arrow_type.key_type, column)
        items = as_stored(array.items, arrow_type.item_type, column)
        entries = pa.StructArray.from_arrays(
            [keys, items], fields=[arrow_type.key_field, arrow_type.item_field]
        )
        return _around(array, arrow_type, [entries], 2)
    if any(is_kind(array.type) and is_kind(arrow_type) for is_kind in nested):
        if array.offset:
            array = pa.concat_arrays([array])
        if pa.types.is_struct(arrow_type):
            if array.type.num_fields != arrow_type.num_fields:
                raise _other_type(array, arrow_type, column)
            children = [
                as_stored(array.field(index), arrow_type.field(index).type, column)
                for index in range(arrow_type.num_fields)
            ]
            return _around(array, arrow_type, children, 1)
        if pa.types.is_fixed_size_list(arrow_type) and array.type.list_size != arrow_type.list_size:
            raise _other_type(array, arrow_type, column)
        values = as_stored(array.values, arrow_type.value_type, column)
        return _around(array, arrow_type, [values], 1 if pa.types.is_fixed_size_list(arrow_type) else 2)
    raise _other_type(array, arrow_type, column)


def _around(array: pa.Array, arrow_type: pa.DataType, children: list[pa.Array], num_buffers: int) -> pa.Array:
    buffers = array.buffers()[:num_buffers]
    return pa.Array.from_buffers(
        arrow_type, len(array), buffers, array.null_count, array.offset, children=children
    )


def _other_type(array: pa.Array, arrow_type: pa.DataType, column: str) -> InvalidInputError:
    return InvalidInputError("values of another type", column=column, expected=arrow_type, found=array.type)
