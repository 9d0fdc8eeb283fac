"""Pages of 0.1 files from Arrow arrays. A page is a position and a number of items, without a description.

    fixed width      the values without gaps; fixed-size lists are stored as their items
    strings          the bytes of all values, then the begin of each value and the end of the last one, as
                     positions in the file
    list             the begin of each list and the end of the last one, among the items of the same batch
    struct           nothing
    dictionary       the keys; the values are stored once per file

The format stores no nulls, except that an empty string in a nullable field is null. A value that would be
read as another value is refused. Source: docs/format.md, "0.1".
"""

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core import kernels
from lance_core.encodings.values import fixed_bits, offset_bits
from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.schema import Field
from lance_core.storage.base import Bytes

Cell = tuple[int, int]
"""Position and number of items of a page, an entry of the page table."""

_LISTS = ("list", "list.struct", "large_list", "large_list.struct")


class Sink(Protocol):
    """The file that pages are written to."""

    position: int

    def write(self, data: Bytes) -> None:
        """Append bytes."""


class Keys(Protocol):
    """Source of the keys of dictionary columns."""

    def keys(self, field: Field, array: pa.DictionaryArray) -> pa.Array:
        """Return the key of each value of a column."""


def check_field(field: Field) -> None:
    """Refuse a field that 0.1 files cannot hold, or that the reference cannot read back from them.

    Raises:
        UnsupportedFeatureError: the type of the field or of a field below it; the message names it.
    """
    if field.logical_type == "struct" and field.children:
        pass
    elif field.logical_type in _LISTS:
        (item,) = field.children
        if item.name != "item" or not item.nullable:
            raise UnsupportedFeatureError(
                "list in a 0.1 file whose items have another name or are required",
                column=field.name,
                found=item.name,
            )
    elif field.children or field.is_blob or not _is_leaf(field.arrow_type):
        raise UnsupportedFeatureError("type in a 0.1 file", column=field.name, found=field.logical_type)
    for child in field.children:
        check_field(child)


def _is_leaf(arrow_type: pa.DataType) -> bool:
    if pa.types.is_fixed_size_list(arrow_type):
        item = _innermost(arrow_type)
        return fixed_bits(item) > 0 and not pa.types.is_dictionary(item)
    if pa.types.is_dictionary(arrow_type):
        # The reference writes dictionaries of floats but cannot read them.
        return bool(offset_bits(arrow_type.value_type)) or pa.types.is_integer(arrow_type.value_type)
    return pa.types.is_null(arrow_type) or bool(offset_bits(arrow_type)) or fixed_bits(arrow_type) > 0


def _innermost(arrow_type: pa.DataType) -> pa.DataType:
    while pa.types.is_fixed_size_list(arrow_type):
        arrow_type = arrow_type.value_type
    return arrow_type


def rows_below(field: Field, array: pa.Array) -> Iterator[tuple[Field, pa.Array]]:
    """Yield the leaves below a field that are not inside a list, each with its values: one per row."""
    if field.logical_type == "struct":
        for child in field.children:
            yield from rows_below(child, array.field(child.name))
    elif not field.children:
        yield field, array


def write_pages(
    field: Field, array: pa.Array, sink: Sink, dictionaries: Keys | None = None
) -> Iterator[tuple[int, Cell]]:
    """Write the pages of one batch of a field and of all fields below it; yield field ids and cells.

    Raises:
        InvalidInputError: a value would be read as another value.
    """
    if field.logical_type == "struct":
        _refuse(array.is_null(), field, "null")
        for child in field.children:
            yield from write_pages(child, array.field(child.name), sink, dictionaries)
    elif field.children:
        _refuse(array.is_null(), field, "null list")
        offsets = array.offsets
        cell = sink.position, len(offsets)
        sink.write(_bytes(pc.subtract(offsets, offsets[0])))
        yield field.id, cell
        yield from write_pages(field.children[0], array.flatten(), sink, dictionaries)
    elif pa.types.is_dictionary(field.arrow_type):
        assert dictionaries is not None
        yield field.id, _write_fixed(dictionaries.keys(field, array), field, sink)
    elif pa.types.is_null(field.arrow_type):
        yield field.id, (sink.position, len(array))
    elif offset_bits(field.arrow_type):
        if field.nullable:
            _refuse(pc.equal(pc.binary_length(array), 0), field, "empty string, which would be read as null,")
        yield field.id, write_strings(array, sink)
    else:
        yield field.id, _write_fixed(array, field, sink)


def write_strings(array: pa.Array, sink: Sink) -> Cell:
    """Write the page of strings or binaries. Nulls are written as empty values."""
    if array.null_count:
        array = pc.fill_null(array, b"" if pa.types.is_binary(array.type) else "")
    _, offsets, data = array.buffers()
    dtype = np.dtype(f"<i{offset_bits(array.type) // 8}")
    bounds = np.frombuffer(offsets, dtype)[array.offset : array.offset + len(array) + 1].astype("<i8")
    first, last = int(bounds[0]), int(bounds[-1])
    bounds += sink.position - first
    if last > first:
        sink.write(data.slice(first, last - first))
    cell = sink.position, len(array)
    sink.write(bounds.data)
    return cell


def write_dictionary(values: pa.Array, sink: Sink) -> Cell:
    """Write the distinct values of a dictionary column to `sink`; return their position and number.

    The values are strings, binaries or integers. A null string or binary is written as an empty one.
    """
    if offset_bits(values.type):
        return write_strings(values, sink)
    cell = sink.position, len(values)
    sink.write(_bytes(values))
    return cell


def _write_fixed(array: pa.Array, field: Field, sink: Sink) -> Cell:
    cell = sink.position, len(array)
    while pa.types.is_fixed_size_list(array.type):
        _refuse(array.is_null(), field, "null")
        array = array.flatten()
    _refuse(array.is_null(), field, "null")
    sink.write(_bytes(array))
    return cell


def _bytes(array: pa.Array) -> Bytes:
    """Return the bytes of the values of a fixed-width array."""
    buffer, bits = array.buffers()[1], fixed_bits(array.type)
    if buffer is None or not len(array):
        return b""
    if bits == 1:
        return kernels.copy_bits(buffer, array.offset, len(array))
    return buffer.slice(array.offset * bits // 8, len(array) * bits // 8)


def _refuse(places: pa.BooleanArray, field: Field, what: str) -> None:
    if pc.any(places).as_py():
        raise InvalidInputError(f"{what} in a 0.1 file, which cannot store it", column=field.name)
