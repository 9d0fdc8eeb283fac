"""Sizes of decoded arrays in bytes. Values that share bytes are counted in full, each for itself."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_VIEW_BYTES = 16


def decoded_bytes(array: pa.Array) -> int:
    """Return the size in bytes of the values of a valid array, where values that share bytes count in full.

    A value counts as 1 byte or more. The size of a dictionary array is that of its decoded values, the size
    of views is that of their texts.
    """
    array_type = array.type
    if isinstance(array_type, pa.BaseExtensionType):
        return decoded_bytes(array.storage)
    if pa.types.is_dictionary(array_type):
        return _dictionary_bytes(array)
    if pa.types.is_string_view(array_type) or pa.types.is_binary_view(array_type):
        return _total(pa.array(_view_lengths(array))) + _VIEW_BYTES * len(array)
    if pa.types.is_struct(array_type):
        return len(array) + sum(decoded_bytes(array.field(index)) for index in range(array_type.num_fields))
    if pa.types.is_fixed_size_list(array_type):
        size = array_type.list_size
        return len(array) + decoded_bytes(array.values.slice(array.offset * size, len(array) * size))
    if pa.types.is_nested(array_type):
        return len(array) + _items_bytes(array)
    return max(len(array), int(array.nbytes))


def _items_bytes(array: pa.Array) -> int:
    """Return the size of the items of lists with offsets and of maps."""
    if not len(array):
        return 0
    offsets = array.offsets
    start, end = offsets[0].as_py(), offsets[len(array)].as_py()
    items = sum(decoded_bytes(child.slice(start, end - start)) for child in _children(array))
    return int(array.offsets.nbytes) + items


def _children(array: pa.Array) -> list[pa.Array]:
    return [array.keys, array.items] if pa.types.is_map(array.type) else [array.values]


def _dictionary_bytes(array: pa.DictionaryArray) -> int:
    values, indices = array.dictionary, array.indices
    total = int(indices.nbytes) + decoded_bytes(values)
    if _has_offsets(values.type):
        return total + _total(pc.binary_length(values).cast(pa.int64()).take(indices))
    if pa.types.is_string_view(values.type) or pa.types.is_binary_view(values.type):
        return total + _total(pa.array(_view_lengths(values)).take(indices))
    # Values of one width; anything nested in a dictionary is refused with the schema.
    return total + len(array) * -(-decoded_bytes(values) // max(1, len(values)))


def _total(lengths: pa.Array) -> int:
    return int(pc.sum(lengths).as_py() or 0)


def _has_offsets(array_type: pa.DataType) -> bool:
    return array_type in (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())


def _view_lengths(array: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the lengths of views, 0 for nulls. A view begins with the 32 bits of its length."""
    if not len(array):
        return np.zeros(0, np.int64)
    views = np.frombuffer(array.buffers()[1], np.int32)
    lengths = views[:: _VIEW_BYTES // 4][array.offset : array.offset + len(array)].astype(np.int64)
    if array.null_count:
        lengths[array.is_null().to_numpy(zero_copy_only=False)] = 0
    return lengths
