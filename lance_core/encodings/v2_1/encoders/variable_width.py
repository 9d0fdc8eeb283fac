"""Encoder of strings and binaries: plain, as symbol codes, or compressed."""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.v2_1.chunks import Chunks
from lance_core.encodings.v2_1.encoders.field_options import EncodingOptions
from lance_core.encodings.v2_1.encoders.general import compress_chunks, compress_values
from lance_core.encodings.v2_1.fsst import fsst_message
from lance_core.encodings.v2_1.general import general_message
from lance_core.encodings.v2_1.variable import variable_message
from lance_core.encodings.values import as_buffer, offset_bits
from lance_core.proto import encodings_v2_1_pb2 as proto

_MAX_CHUNK_VALUES = 2048
_FSST_LEAST_BYTES = 32 << 10
"""Least bytes of values and offsets for which symbols are tried."""
_FSST_MOST_BYTES = 1 << 30
"""Exclusive bound on the bytes of values for symbols. Codes can take twice as many bytes, and have the same
offset type.
"""
_FSST_LEAST_LENGTH = 5
"""Symbols are tried only if the longest value has at least this many bytes."""
_LONG_BYTES = 32 << 10
"""If the longest value has more bytes, values are compressed even if the field does not ask for it."""
_COMPRESSED_LEAST_BYTES = 32 << 10
_FSST_SAMPLE_BYTES = 32 << 10
_FSST_WORTH = 0.9
"""Codes are used if a sample of them takes less than this share of its plain size."""


@dataclass(frozen=True, slots=True)
class Text:
    """Values of variable length. Their first offset need not be 0."""

    offsets: pa.Buffer
    data: pa.Buffer
    num_values: int
    offset_bits: int
    is_text: bool
    """Whether the values are strings rather than binaries."""

    @property
    def num_bytes(self) -> int:
        """Total bytes of all values."""
        width = self.offset_bits // 8
        first = int.from_bytes(self.offsets[:width], "little")
        end = self.num_values * width
        return int.from_bytes(self.offsets[end : end + width], "little") - first

    @property
    def longest(self) -> int:
        """Bytes of the longest value."""
        return kernels.longest_value(self.offsets, self.num_values, self.offset_bits)


def text_of(array: pa.Array) -> Text:
    """Return the values of an array of strings or binaries."""
    bits = offset_bits(array.type)
    _, offsets, data = array.buffers()
    is_text = pa.types.is_string(array.type) or pa.types.is_large_string(array.type)
    first = array.offset * bits // 8
    size = (len(array) + 1) * bits // 8
    return Text(offsets.slice(first, size), data or pa.py_buffer(b""), len(array), bits, is_text)


def encode_text(text: Text, options: EncodingOptions) -> Chunks:
    """Encode strings or binaries as mini-block chunks."""
    text, encoding = code_text(text, options)
    counts, stream = kernels.chunk_variable(
        text.offsets, text.data, text.num_values, text.offset_bits, options.chunk_bytes, _MAX_CHUNK_VALUES
    )
    chunks = Chunks([stream], counts, encoding)
    return compress_chunks(chunks, options) if options.compression in ("lz4", "zstd") else chunks


def zip_text(text: Text, options: EncodingOptions) -> tuple[Text, proto.CompressiveEncoding]:
    """Encode values for full-zip entries. Return them and their encoding: ZSTD frames, symbol codes, or
    plain.

    As in the reference, each value is compressed if the field asks for LZ4 or ZSTD, or if a value is long.
    """
    wanted = options.compression in ("lz4", "zstd") or (
        options.compression is None and text.longest > _LONG_BYTES
    )
    if wanted and text.num_bytes >= _COMPRESSED_LEAST_BYTES:
        dtype = np.dtype(f"<u{text.offset_bits // 8}")
        ends = np.frombuffer(text.offsets, dtype, text.num_values + 1).astype(np.int64)
        if frames := compress_values(text.data, ends, options.level):
            data, lengths = frames
            offsets = np.zeros(text.num_values + 1, dtype)
            np.cumsum(lengths, out=offsets[1:])
            coded = replace(text, offsets=pa.py_buffer(offsets), data=pa.py_buffer(data))
            return coded, general_message("zstd", options.level, variable_message(text.offset_bits))
    return code_text(text, options)


def code_text(text: Text, options: EncodingOptions) -> tuple[Text, proto.CompressiveEncoding]:
    """Encode values as symbol codes if these are smaller. Return the values and their encoding."""
    num_bytes = text.num_bytes
    wanted = options.compression == "fsst" or (options.compression is None and text.is_text)
    least_bytes = _FSST_LEAST_BYTES - len(text.offsets)
    if wanted and least_bytes <= num_bytes < _FSST_MOST_BYTES and text.longest >= _FSST_LEAST_LENGTH:
        values = (text.offsets, text.data, text.num_values, text.offset_bits)
        table = kernels.train_symbols(*values, _FSST_SAMPLE_BYTES)
        coded_bytes, sample_bytes = kernels.try_symbols(table, *values, _FSST_SAMPLE_BYTES)
        if coded_bytes < _FSST_WORTH * sample_bytes:
            offsets, data = kernels.compress_symbols(table, *values)
            coded = replace(text, offsets=as_buffer(offsets), data=as_buffer(data))
            return coded, fsst_message(bytes(memoryview(table)), text.offset_bits)
    return text, variable_message(text.offset_bits)
