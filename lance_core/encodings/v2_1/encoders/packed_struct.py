"""Encoder of packed structs: the members of a row side by side."""

import numpy as np
import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.v2_1.chunks import Chunks, even_counts, flat_chunk_values, flat_chunks
from lance_core.encodings.v2_1.encoders.field_options import EncodingOptions
from lance_core.encodings.v2_1.encoders.fixed_size_list import vectors_of, zip_vectors
from lance_core.encodings.v2_1.encoders.variable_width import Text, text_of, zip_text
from lance_core.encodings.v2_1.flat import flat_message
from lance_core.encodings.v2_1.packed_struct import packed_struct_message
from lance_core.encodings.values import as_buffer, fixed_bits, offset_bits
from lance_core.errors import UnsupportedFeatureError
from lance_core.kernels import Counts
from lance_core.proto import encodings_v2_1_pb2 as proto

_MAX_INT32 = (1 << 31) - 1


def is_fixed(packed_type: pa.StructType) -> bool:
    """Return whether all members are plain values of fixed width, so that all rows have the same size."""
    return all(fixed_bits(field.type) for field in packed_type)


def require_no_nulls(array: pa.StructArray, column: str) -> None:
    """Refuse nulls of members in rows that are not null: a packed struct cannot store them.

    Raises:
        UnsupportedFeatureError: a member has such nulls; the message names it.
    """
    structs = [field.name for field in array.type if pa.types.is_struct(field.type)]
    if not structs and not any(member.null_count for member in _members(array)):
        return
    for field, member in zip(array.type, array.flatten(), strict=True):
        if member.null_count > array.null_count:
            raise UnsupportedFeatureError(
                f"packed struct with nulls in the member {field.name!r}", column=column
            )
        if field.name in structs:
            require_no_nulls(member, column)


def encode_packed(array: pa.StructArray) -> Chunks:
    """Encode members of fixed width as mini-block chunks."""
    bits = [fixed_bits(field.type) for field in array.type]
    columns = [_fixed_data(member) for member in _members(array)]
    rows = as_buffer(kernels.interleave_rows(columns, [each // 8 for each in bits], len(array)))
    counts = even_counts(len(array), flat_chunk_values(sum(bits)))
    return Chunks(
        [flat_chunks(rows, sum(bits) // 8, counts)], Counts(counts.data), packed_struct_message(bits)
    )


def zip_packed(array: pa.StructArray) -> tuple[Text, proto.CompressiveEncoding]:
    """Encode members of any width as the values of full-zip entries. A null row is empty."""
    fields: list[tuple[int, int, pa.Buffer | None, pa.Buffer]] = []
    packed = proto.VariablePackedStruct()
    for member in _members(array):
        length_bits = offset_bits(member.type)
        if length_bits:
            text, encoding = zip_text(text_of(member), EncodingOptions())
            fields.append((0, length_bits, text.offsets, text.data))
            packed.fields.add(value=encoding, bits_per_length=length_bits)
        elif pa.types.is_fixed_size_list(member.type):
            vectors = vectors_of(member)
            rows, width = zip_vectors(vectors)
            fields.append((width, 0, None, rows))
            packed.fields.add(value=vectors.encoding, bits_per_value=8 * width)
        elif pa.types.is_struct(member.type):
            text, encoding = zip_packed(member)
            fields.append((0, text.offset_bits, text.offsets, text.data))
            packed.fields.add(value=encoding, bits_per_length=text.offset_bits)
        else:
            bits = fixed_bits(member.type)
            fields.append((bits // 8, 0, None, _fixed_data(member)))
            packed.fields.add(value=flat_message(bits), bits_per_value=bits)
    validity = array.buffers()[0] if array.null_count else None
    offsets, data = kernels.join_variable_rows(fields, len(array), validity, array.offset)
    narrow, bits = as_buffer(offsets), 64
    if len(data) <= _MAX_INT32:
        narrow, bits = pa.py_buffer(np.frombuffer(memoryview(offsets), "<u8").astype("<u4")), 32
    text = Text(narrow, as_buffer(data), len(array), bits, is_text=False)
    return text, proto.CompressiveEncoding(variable_packed_struct=packed)


def _members(array: pa.StructArray) -> list[pa.Array]:
    return [array.field(index) for index in range(array.type.num_fields)]


def _fixed_data(array: pa.Array) -> pa.Buffer:
    width = fixed_bits(array.type) // 8
    return array.buffers()[1].slice(array.offset * width, len(array) * width)
