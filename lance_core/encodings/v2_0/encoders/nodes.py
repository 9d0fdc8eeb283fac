"""Columns of nested fields. Every field has a column of its own, except the members of packed structs.

    struct            one page for the whole file; it has only the number of items
    list              the end of each list among the items, which are the next column
    packed struct     all members of a row side by side
    blob              position and size of each value; the values are outside the pages

Source: docs/format.md, "2.0".
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.encodings.v2_0.encoders.pages import (
    EncodedPage,
    PageBuffers,
    Placement,
    flat,
    no_nulls,
)
from lance_core.encodings.v2_0.encoders.values import (
    check_type,
    encode_values,
    fixed_buffer,
    null_flags,
)
from lance_core.encodings.values import fixed_bits, flatten_lists
from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.proto import encodings_v2_0_pb2 as proto
from lance_core.schema import Field
from lance_core.schema.arrow_values import numbers_of, scalar_of

_BLOB_ROW = 16
_LISTS = ("list", "list.struct", "large_list", "large_list.struct")


def is_struct_column(field: Field) -> bool:
    """Return whether the field's own column has one page for the whole file."""
    return field.logical_type == "struct" and not field.is_packed


def check_field(field: Field) -> None:
    """Refuse a field that 2.0 files cannot hold, before anything is written.

    Raises:
        UnsupportedFeatureError: the type of the field or of a field below it; the message names it.
    """
    if field.is_blob:
        return
    if field.is_blob_v2:
        raise UnsupportedFeatureError("blobs of version 2 in a 2.0 file", column=field.name, expected="2.2")
    if field.is_packed:
        for child in field.children:
            if not _packed_width(child):
                raise UnsupportedFeatureError(
                    "type in a packed struct of a 2.0 file", column=child.name, found=child.logical_type
                )
    elif field.children and not is_struct_column(field) and field.logical_type not in _LISTS:
        raise UnsupportedFeatureError("type in a 2.0 file", column=field.name, found=field.logical_type)
    elif field.children:
        for child in field.children:
            check_field(child)
    elif not is_struct_column(field):
        check_type(field.arrow_type, field.name)


def encode_node(
    field: Field, array: pa.Array, place: Placement, *, in_list: bool = False
) -> Iterator[EncodedPage]:
    """Yield one page for the column of the field and of each field below it, in column order.

    Args:
        field: a field that `check_field` accepts.
        array: values of its storage type.
        place: writes the bytes of blobs to the file and returns their position.
        in_list: whether the values are items of lists.

    Raises:
        InvalidInputError: a null where 2.0 files store no nulls.
    """
    if field.is_blob:
        yield _blobs(array, place)
    elif field.is_packed:
        yield _packed(field, array)
    elif field.logical_type == "struct":
        _refuse_nulls(field, array)
        yield EncodedPage(len(array), proto.ArrayEncoding(struct=proto.SimpleStruct()))
        for child in field.children:
            yield from encode_node(child, array.field(child.name), place, in_list=in_list)
    elif field.children:
        page, items = _lists(array)
        yield page
        yield from encode_node(field.children[0], items, place, in_list=True)
    else:
        buffers = PageBuffers()
        encoding = encode_values(buffers, array, field.metadata)
        yield EncodedPage(len(array), encoding, tuple(buffers.buffers), None if in_list else array)


def _refuse_nulls(field: Field, array: pa.Array) -> None:
    if array.null_count:
        raise InvalidInputError(
            "null struct in a 2.0 file, which stores no null structs; 2.1 files do",
            column=field.name,
            found=f"{array.null_count} nulls",
        )


def _lists(array: pa.Array) -> tuple[EncodedPage, pa.Array]:
    """Return a page with the end of each list, and the items that the lists cover."""
    lengths = numbers_of(pc.fill_null(pc.list_value_length(array).cast(pa.int64()), scalar_of(0)))
    items = flatten_lists(array)
    adjustment = len(items) + 1
    ends = np.cumsum(lengths, dtype=np.uint64)
    if array.null_count:
        ends += null_flags(array) * np.uint64(adjustment)
    page = PageBuffers()
    offsets = no_nulls(flat(page, ends.astype("<u8").data, 64))
    lists = proto.List(offsets=offsets, null_offset_adjustment=adjustment, num_items=len(items))
    return EncodedPage(len(array), proto.ArrayEncoding(list=lists), tuple(page.buffers)), items


def _packed_width(field: Field) -> int:
    """Return the size in bytes of a packed struct's member; 0 if the type is not allowed there."""
    if field.children:
        return 0
    items, arrow_type = 1, field.arrow_type
    while pa.types.is_fixed_size_list(arrow_type):
        items, arrow_type = items * arrow_type.list_size, arrow_type.value_type
    bits = 0 if pa.types.is_dictionary(arrow_type) else fixed_bits(arrow_type)
    return 0 if bits % 8 else items * bits // 8


def _packed(field: Field, array: pa.StructArray) -> EncodedPage:
    _refuse_nulls(field, array)
    widths = [_packed_width(child) for child in field.children]
    rows = np.empty((len(array), sum(widths)), np.uint8)
    page = PageBuffers()
    inner: list[proto.ArrayEncoding] = []
    start = 0
    for child, width in zip(field.children, widths, strict=True):
        values = array.field(child.name)
        while pa.types.is_fixed_size_list(values.type):
            _refuse_nulls(child, values)
            values = values.flatten()
        _refuse_nulls(child, values)
        data = np.frombuffer(fixed_buffer(values, fixed_bits(values.type)), np.uint8)
        rows[:, start : start + width] = data.reshape(len(array), width)
        start += width
        described = proto.Flat(bits_per_value=width * 8, buffer=proto.Buffer())
        inner.append(no_nulls(proto.ArrayEncoding(flat=described)))
    packed = proto.PackedStruct(inner=inner, buffer=page.add(rows.reshape(-1).data))
    return EncodedPage(len(array), proto.ArrayEncoding(packed_struct=packed), tuple(page.buffers))


def _blobs(array: pa.LargeBinaryArray, place: Placement) -> EncodedPage:
    """Place the values of a page in the file, and return a page with position and size of each.

    A null is (1, 0), an empty value (0, 0).
    """
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, "<i8")[array.offset : array.offset + len(array) + 1]
    first, last = int(bounds[0]), int(bounds[-1])
    position = place(data.slice(first, last - first)) if last > first else 0
    sizes = np.diff(bounds)
    is_null = null_flags(array).astype(bool)
    rows = np.empty((len(array), 2), "<u8")
    rows[:, 0] = np.where(sizes > 0, bounds[:-1] - first + position, 0)
    rows[:, 1] = sizes
    rows[is_null] = (1, 0)
    page = PageBuffers()
    inner = [
        no_nulls(proto.ArrayEncoding(flat=proto.Flat(bits_per_value=64, buffer=proto.Buffer())))
        for _ in range(_BLOB_ROW // 8)
    ]
    packed = proto.PackedStruct(inner=inner, buffer=page.add(rows.reshape(-1).data))
    return EncodedPage(len(array), proto.ArrayEncoding(packed_struct=packed), tuple(page.buffers))
