"""Decoded values of one leaf column, before they become an Arrow array.

A value container does not know its number of values or its Arrow type; its owner does. All buffers start at
bit 0 of the first value, so a slice only moves the start of its buffers.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from lance_core import kernels
from lance_core.errors import UnsupportedFeatureError
from lance_core.kernels import CorruptData

_NOT_JOINED = ("These dictionaries cannot be combined", "Cannot yet unify dictionaries with nulls")


class Values(Protocol):
    """Methods of every container of decoded values."""

    def slice(self, start: int, num_values: int) -> "Values":
        """Return the values `[start, start + num_values)`."""
        ...

    def pick(self, picks: pa.Buffer, num_values: int) -> "Values":
        """Return the values whose numbers are in `picks` (int64). The container has `num_values` values.

        Raises:
            CorruptData: a number is too large.
        """
        ...

    def to_arrow(self, num_values: int, arrow_type: pa.DataType, validity: pa.Buffer | None) -> pa.Array:
        """Return an array of `num_values` values.

        Raises:
            CorruptData: the values do not have the width or the shape of the type.
        """
        ...

    @property
    def num_bytes(self) -> int:
        """Bytes of the values as kept dictionary items; 0 for kinds that are never dictionary items."""
        ...

    def look_up(self, indices: "FixedValues", num_indices: int, num_values: int) -> "Values":
        """Return the values at `indices`. This container has the `num_values` items of a dictionary page.

        Raises:
            CorruptData: an index names no item.
            UnsupportedFeatureError: values of this kind are never dictionary items.
        """
        ...


class _NoItems:
    """Base of the values that are never dictionary items."""

    __slots__ = ()

    @property
    def num_bytes(self) -> int:
        return 0

    def look_up(self, indices: "FixedValues", num_indices: int, num_values: int) -> Values:
        raise UnsupportedFeatureError("a dictionary of this kind of items")


def as_buffer(block: "kernels.Block") -> pa.Buffer:
    """Return an Arrow buffer over a kernel's block, without a copy."""
    return pa.py_buffer(block)


def concat_arrays(arrays: Sequence[pa.Array]) -> pa.Array:
    """Return the arrays one after the other.

    Dictionaries of floats are joined as dictionaries of integers with the same bits, for two reasons. When
    Arrow joins dictionaries of half floats, it reads their bits as numbers: 1.0 becomes 15360.0. And for
    Arrow a dictionary with a NaN differs from itself; dictionaries that differ cannot be joined if they have
    nulls.

    Raises:
        pyarrow.ArrowCapacityError: one array cannot hold all values: they need larger offsets or larger
            dictionary indices, or different dictionaries have nulls.
    """
    words = _with_words(arrays[0].type) if len(arrays) > 1 else None
    try:
        if words is None:
            return pa.concat_arrays(arrays)
        return seen_as(arrays[0].type, pa.concat_arrays([seen_as(words, array) for array in arrays]))
    except pa.ArrowInvalid as error:
        _raise_capacity(error)
        raise


def flatten_lists(array: pa.Array) -> pa.Array:
    """Return the items of all lists that are not null.

    Arrow's `flatten` joins arrays, which is wrong for dictionaries of floats (see `concat_arrays`). They are
    joined as integers with the same bits.
    """
    if array.null_count == len(array):  # Arrow cannot make an empty array of some types
        return array.values.slice(0, 0)
    words = _with_words(array.type)
    if words is None:
        return array.flatten()
    return seen_as(array.type.value_type, seen_as(words, array).flatten())


def take_values(array: pa.Array, places: pa.Array) -> pa.Array:
    """Return the values at `places`.

    Raises:
        pyarrow.ArrowCapacityError: the values need larger offsets.
    """
    try:
        return uncut(array).take(places)
    except pa.ArrowInvalid as error:
        _raise_capacity(error)
        raise


def seen_as(arrow_type: pa.DataType, array: pa.Array) -> pa.Array:
    """Return the values as an array of another type of the same layout. Only unusual arrays are copied.

    `Array.view` cannot be used: it refuses nulls of a required field below a null struct.
    """
    # An imported empty array has no buffers but may have an offset, which cannot be exported again.
    if any(part.offset and not len(part) for part in _all_parts(array)):
        array = pa.concat_arrays([array])
    return pa.array(_Seen(arrow_type, array))


@dataclass(frozen=True, slots=True)
class _Seen:
    """An array that the Arrow C data interface exports under another type."""

    arrow_type: pa.DataType
    array: pa.Array

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self.arrow_type.__arrow_c_schema__(), self.array.__arrow_c_array__()[1]


def uncut(array: pa.Array) -> pa.Array:
    """Return the array, copied if it contains nested fixed-size lists with an offset.

    Arrow's `take` and `filter` return wrong rows for such lists.
    """
    for part in _all_parts(array):
        is_nested = pa.types.is_fixed_size_list(part.type) and pa.types.is_fixed_size_list(part.values.type)
        if is_nested and (part.offset or part.values.offset):
            return pa.concat_arrays([array])
    return array


def _all_parts(array: pa.Array) -> Iterator[pa.Array]:
    """Yield the array and all arrays below it, without dictionaries."""
    yield array
    if isinstance(array, pa.ExtensionArray):
        yield from _all_parts(array.storage)
    elif isinstance(array, pa.StructArray):
        for number in range(array.type.num_fields):
            yield from _all_parts(array.field(number))
    elif isinstance(array, pa.MapArray):
        yield from _all_parts(array.keys)
        yield from _all_parts(array.items)
    elif isinstance(array, pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray):
        yield from _all_parts(array.values)


def _raise_capacity(error: pa.ArrowInvalid) -> None:
    """Raise ArrowCapacityError if `error` says that one array cannot hold the values."""
    message = str(error)
    if "overflow" in message or message.startswith(_NOT_JOINED):
        raise pa.ArrowCapacityError(message) from None


def _with_words(arrow_type: pa.DataType) -> pa.DataType | None:
    """Return the type with integers in place of floats in all its dictionaries; None if there are no such
    dictionaries.
    """
    return with_other_leaves(arrow_type, _words)


def _words(arrow_type: pa.DataType) -> pa.DataType | None:
    if not pa.types.is_dictionary(arrow_type) or not pa.types.is_floating(arrow_type.value_type):
        return None
    words = {16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}[arrow_type.value_type.bit_width]
    return pa.dictionary(arrow_type.index_type, words, arrow_type.ordered)


def with_other_leaves(
    arrow_type: pa.DataType, other: Callable[[pa.DataType], pa.DataType | None]
) -> pa.DataType | None:
    """Return the type with some leaves replaced; None if `other` replaces no leaf.

    `other` returns the new type of a leaf, or None to keep the leaf. An extension type around a replaced leaf
    becomes its storage type.
    """
    if isinstance(arrow_type, pa.BaseExtensionType):
        return with_other_leaves(arrow_type.storage_type, other)
    fields = [arrow_type.field(place) for place in range(arrow_type.num_fields)]
    if not fields:
        return other(arrow_type)
    below = [with_other_leaves(field.type, other) for field in fields]
    if all(new is None for new in below):
        return None
    changed = [field.with_type(new or field.type) for new, field in zip(below, fields, strict=True)]
    if pa.types.is_struct(arrow_type):
        return pa.struct(changed)
    if pa.types.is_map(arrow_type):
        return pa.map_(*changed[0].type, arrow_type.keys_sorted)
    if pa.types.is_fixed_size_list(arrow_type):
        return pa.list_(changed[0], arrow_type.list_size)
    if pa.types.is_large_list(arrow_type):
        return pa.large_list(changed[0])
    return pa.list_(changed[0]) if pa.types.is_list(arrow_type) else None  # no other nested type is stored


def slice_bits(bitmap: pa.Buffer, start: int, num_bits: int) -> pa.Buffer:
    """Return the bits `[start, start + num_bits)`. They are copied only if `start` is not a multiple of 8."""
    if start % 8 == 0:
        return bitmap.slice(start // 8, (num_bits + 7) // 8)
    return as_buffer(kernels.copy_bits(bitmap, start, num_bits))


@dataclass(frozen=True, slots=True)
class FixedValues(_NoItems):
    """Values of one width, one after the other. Values of one bit are a bitmap."""

    data: pa.Buffer
    bits: int

    def slice(self, start: int, num_values: int) -> "FixedValues":
        if self.bits == 1:
            return FixedValues(slice_bits(self.data, start, num_values), 1)
        width = self.bits // 8
        return FixedValues(self.data.slice(start * width, num_values * width), self.bits)

    def pick(self, picks: pa.Buffer, num_values: int) -> "FixedValues":
        count = picks.size // 8
        if self.bits == 1:
            return FixedValues(as_buffer(kernels.gather_bits(picks, count, 64, self.data, num_values)[0]), 1)
        items = self.data.slice(0, num_values * self.bits // 8)
        return FixedValues(
            as_buffer(kernels.gather_fixed(picks, count, 64, items, self.bits // 8)), self.bits
        )

    def to_arrow(self, num_values: int, arrow_type: pa.DataType, validity: pa.Buffer | None) -> pa.Array:
        data = self.data
        if pa.types.is_dictionary(arrow_type):  # Arrow aborts the process if a dictionary array has no items
            raise CorruptData(f"plain values in a column of type {arrow_type}")
        if data.size * 8 < num_values * self.bits:
            raise CorruptData(f"{data.size} bytes for {num_values} values of {self.bits} bits")
        if pa.types.is_boolean(arrow_type) and self.bits == 8:
            data = as_buffer(kernels.bytes_to_bits(data.slice(0, num_values)))
        elif fixed_bits(arrow_type) != self.bits:
            raise CorruptData(f"values of {self.bits} bits in a column of type {arrow_type}")
        return pa.Array.from_buffers(arrow_type, num_values, [validity, data])

    def look_up(self, indices: "FixedValues", num_indices: int, num_values: int) -> Values:
        if self.bits % 8:
            return _NoItems.look_up(self, indices, num_indices, num_values)
        values = kernels.gather_fixed(indices.data, num_indices, indices.bits, self.data, self.bits // 8)
        return FixedValues(as_buffer(values), self.bits)


@dataclass(frozen=True, slots=True)
class VariableValues:
    """Offsets and the bytes that they point into. There is one offset more than there are values."""

    offsets: pa.Buffer
    data: pa.Buffer
    offset_bits: int

    def slice(self, start: int, num_values: int) -> "VariableValues":
        width = self.offset_bits // 8
        return VariableValues(
            self.offsets.slice(start * width, (num_values + 1) * width), self.data, self.offset_bits
        )

    def pick(self, picks: pa.Buffer, num_values: int) -> "VariableValues":
        offsets, data = kernels.gather_variable(
            picks, picks.size // 8, 64, self.offsets, self.data, num_values, self.offset_bits
        )
        return VariableValues(as_buffer(offsets), as_buffer(data), self.offset_bits)

    def to_arrow(self, num_values: int, arrow_type: pa.DataType, validity: pa.Buffer | None) -> pa.Array:
        if offset_bits(arrow_type) != self.offset_bits:
            raise CorruptData(f"values with {self.offset_bits}-bit offsets in a column of type {arrow_type}")
        return pa.Array.from_buffers(arrow_type, num_values, [validity, self.offsets, self.data])

    @property
    def num_bytes(self) -> int:
        return int(self.offsets.size + self.data.size)

    def look_up(self, indices: FixedValues, num_indices: int, num_values: int) -> "VariableValues":
        offsets, data = kernels.gather_variable(
            indices.data, num_indices, indices.bits, self.offsets, self.data, num_values, self.offset_bits
        )
        return VariableValues(as_buffer(offsets), as_buffer(data), self.offset_bits)


@dataclass(frozen=True, slots=True)
class ListValues(_NoItems):
    """Fixed-size lists: `dimension` items per value, and the validity of the items if some are null."""

    items: Values
    dimension: int
    item_validity: pa.Buffer | None

    def slice(self, start: int, num_values: int) -> "ListValues":
        first, count = start * self.dimension, num_values * self.dimension
        validity = self.item_validity
        return ListValues(
            self.items.slice(first, count),
            self.dimension,
            slice_bits(validity, first, count) if validity is not None else None,
        )

    def pick(self, picks: pa.Buffer, num_values: int) -> "ListValues":
        items, num_items = _items_of(picks, self.dimension), num_values * self.dimension
        validity = self.item_validity
        return ListValues(
            self.items.pick(items, num_items),
            self.dimension,
            FixedValues(validity, 1).pick(items, num_items).data if validity is not None else None,
        )

    def to_arrow(self, num_values: int, arrow_type: pa.DataType, validity: pa.Buffer | None) -> pa.Array:
        if not pa.types.is_fixed_size_list(arrow_type) or arrow_type.list_size != self.dimension:
            raise CorruptData(f"lists of {self.dimension} items in a column of type {arrow_type}")
        items = self.items.to_arrow(num_values * self.dimension, arrow_type.value_type, self.item_validity)
        return pa.Array.from_buffers(arrow_type, num_values, [validity], children=[items])


@dataclass(frozen=True, slots=True)
class PackedValues(_NoItems):
    """A packed struct, split into its members."""

    fields: Sequence[Values]

    def slice(self, start: int, num_values: int) -> "PackedValues":
        return PackedValues([field.slice(start, num_values) for field in self.fields])

    def pick(self, picks: pa.Buffer, num_values: int) -> "PackedValues":
        return PackedValues([field.pick(picks, num_values) for field in self.fields])

    def to_arrow(self, num_values: int, arrow_type: pa.DataType, validity: pa.Buffer | None) -> pa.Array:
        if not pa.types.is_struct(arrow_type) or arrow_type.num_fields != len(self.fields):
            raise CorruptData(
                f"a packed struct of {len(self.fields)} fields in a column of type {arrow_type}"
            )
        children = [
            values.to_arrow(num_values, arrow_type.field(i).type, None)
            for i, values in enumerate(self.fields)
        ]
        return pa.Array.from_buffers(arrow_type, num_values, [validity], children=children)


@dataclass(frozen=True, slots=True)
class DictionaryValues(_NoItems):
    """Indices into the dictionary of an Arrow dictionary column."""

    indices: FixedValues
    dictionary: pa.Array

    def slice(self, start: int, num_values: int) -> "DictionaryValues":
        return DictionaryValues(self.indices.slice(start, num_values), self.dictionary)

    def pick(self, picks: pa.Buffer, num_values: int) -> "DictionaryValues":
        return DictionaryValues(self.indices.pick(picks, num_values), self.dictionary)

    def to_arrow(self, num_values: int, arrow_type: pa.DataType, validity: pa.Buffer | None) -> pa.Array:
        indices = self.indices.to_arrow(num_values, arrow_type.index_type, validity)
        return pa.DictionaryArray.from_arrays(
            indices, self.dictionary, ordered=arrow_type.ordered, safe=False
        )


@dataclass(frozen=True, slots=True)
class NoValues(_NoItems):
    """Values that are all null, or whose type has no values: null and structs without members."""

    def slice(self, start: int, num_values: int) -> "NoValues":
        return self

    def pick(self, picks: pa.Buffer, num_values: int) -> "NoValues":
        return self

    def to_arrow(self, num_values: int, arrow_type: pa.DataType, validity: pa.Buffer | None) -> pa.Array:
        if pa.types.is_struct(arrow_type) and arrow_type.num_fields == 0:
            return pa.Array.from_buffers(arrow_type, num_values, [validity], children=[])
        return pa.nulls(num_values, arrow_type)


def _items_of(picks: pa.Buffer, dimension: int) -> pa.Buffer:
    """Return the numbers of the items in the picked lists, which have `dimension` items each."""
    firsts = np.frombuffer(picks, np.int64) * dimension
    return pa.py_buffer((firsts[:, np.newaxis] + np.arange(dimension)).ravel())


def fixed_bits(arrow_type: pa.DataType) -> int:
    """Return the size in bits of one value of a fixed-width type; 0 for other types."""
    try:
        return int(arrow_type.bit_width)
    except ValueError:
        return 0


def is_empty_binary(arrow_type: pa.DataType) -> bool:
    """Return whether values have a fixed width of zero bytes. Only their validity is stored."""
    return bool(pa.types.is_fixed_size_binary(arrow_type) and arrow_type.byte_width == 0)


def offset_bits(arrow_type: pa.DataType) -> int:
    """Return the size in bits of an offset of a string or binary type; 0 for other types."""
    if pa.types.is_string(arrow_type) or pa.types.is_binary(arrow_type):
        return 32
    if pa.types.is_large_string(arrow_type) or pa.types.is_large_binary(arrow_type):
        return 64
    return 0


def least_bytes(arrow_type: pa.DataType) -> float:
    """Return the least number of bytes that one value takes, null or not. Estimates of decoded sizes start
    from it.
    """
    if pa.types.is_struct(arrow_type):
        return sum(least_bytes(field.type) for field in arrow_type)
    if pa.types.is_fixed_size_list(arrow_type):
        return float(arrow_type.list_size * least_bytes(arrow_type.value_type))
    return (fixed_bits(arrow_type) or offset_bits(arrow_type)) / 8
