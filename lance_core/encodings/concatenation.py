"""Concatenation of arrays whose dictionaries together need larger indices than their rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lance_core.encodings.values import concat_arrays, flatten_lists


def concatenated(parts: list[pa.Array]) -> pa.Array:
    """Return the parts one after the other, also if dictionaries stand anywhere in their type.

    If the indices cannot count the dictionaries of all parts, the result gets a dictionary of the values that
    rows use. Raises `pyarrow.ArrowCapacityError` if the indices cannot count these either.
    """
    try:
        return concat_arrays(parts)
    except pa.ArrowCapacityError:
        data_type = parts[0].type
        if isinstance(data_type, pa.BaseExtensionType):
            return pa.ExtensionArray.from_storage(data_type, concatenated([part.storage for part in parts]))
        if pa.types.is_dictionary(data_type):
            return _concatenated_dictionaries(parts, data_type)
        if pa.types.is_struct(data_type):
            children = [
                concatenated([part.field(position) for part in parts])
                for position in range(data_type.num_fields)
            ]
            return pa.StructArray.from_arrays(children, fields=list(data_type), mask=_is_null(parts))
        if pa.types.is_fixed_size_list(data_type):
            # The items of null lists stay: `flatten` would leave them out.
            size = data_type.list_size
            items = concatenated([part.values.slice(part.offset * size, len(part) * size) for part in parts])
            return pa.FixedSizeListArray.from_arrays(items, type=data_type, mask=_is_null(parts))
        if pa.types.is_map(data_type):
            entries = pa.struct([data_type.key_field, data_type.item_field])
            as_lists = pa.list_(pa.field("entries", entries, nullable=False))
            lists = concatenated([part.cast(as_lists) for part in parts])
            keys, values = lists.values.field(0), lists.values.field(1)
            return pa.MapArray.from_arrays(lists.offsets, keys, values, data_type, mask=_is_null(parts))
        if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
            lengths = np.concatenate([part.value_lengths().fill_null(0).to_numpy() for part in parts])
            offsets = pa.array(np.cumsum([0, *lengths]), pa.int32() if pa.types.is_list(data_type) else None)
            items = concatenated([flatten_lists(part) for part in parts])
            return type(parts[0]).from_arrays(offsets, items, type=data_type, mask=_is_null(parts))
        raise


def _concatenated_dictionaries(parts: list[pa.Array], data_type: pa.DictionaryType) -> pa.Array:
    """Return the parts with one dictionary of the values that their rows use."""
    used = pa.concat_arrays([part.dictionary_decode() for part in parts]).dictionary_encode()
    try:
        indices = used.indices.cast(data_type.index_type)
    except pa.ArrowInvalid as error:
        raise pa.ArrowCapacityError(str(error)) from None
    return pa.DictionaryArray.from_arrays(indices, used.dictionary, ordered=data_type.ordered)


def _is_null(parts: list[pa.Array]) -> pa.BooleanArray:
    return pa.concat_arrays([part.is_null() for part in parts])
