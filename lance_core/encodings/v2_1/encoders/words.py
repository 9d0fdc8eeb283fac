"""Values of fixed width in mini-block chunks: plain, packed in fewer bits, as runs, as byte streams.

The whole page is surveyed in one pass; the smallest form wins, and of equal ones the fastest to read.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.v2_1.encoders import messages
from lance_core.encodings.v2_1.encoders.chunks import (
    MAX_CHUNK_VALUES,
    Chunks,
    even_counts,
    even_stream,
    flat_chunk_values,
    flat_chunks,
)
from lance_core.encodings.v2_1.encoders.general import compress_chunks
from lance_core.encodings.v2_1.encoders.options import EncodingOptions
from lance_core.encodings.values import as_buffer
from lance_core.kernels import Counts

_WORDS = (8, 16, 32, 64)
_GROUP = 1024
_RUN_CHUNK_BYTES = 16 << 10
"""Runs that take more are no runs; a chunk stays well below what 2.1 allows."""
_ENTROPY_SAMPLE = 64
_MAX_ENTROPY = 4.0
"""Bits per byte of a stream; above, splitting bytes does not help a compressor."""


def encode_words(
    data: pa.Buffer, bits: int, num_values: int, options: EncodingOptions, *, is_signed: bool = False
) -> Chunks:
    """Values of `bits` bits (8 or more), one after the other in `data`; `is_signed` is about their bounds."""
    compressed = options.compression in ("lz4", "zstd")
    if options.compression == "none" or bits not in _WORDS:
        chunks = _flat(data, bits, num_values)
    elif options.compression is not None and _splits_bytes(data, bits, options):
        chunks = _split(data, bits, num_values)
    else:
        chunks = _smallest(data, bits, num_values, options, is_signed)
    return compress_chunks(chunks, options) if compressed else chunks


def encode_bits(bits: pa.Buffer, offset: int, num_values: int) -> Chunks:
    """A bitmap from bit `offset` on."""
    counts = even_counts(num_values, MAX_CHUNK_VALUES)
    if offset % 8:
        bits, offset = as_buffer(kernels.cut_bits(bits, offset, Counts(np.array([num_values]).data))), 0
    stream = even_stream(bits.slice(offset // 8), (counts + 7) // 8)
    return Chunks([stream], Counts(counts.data), messages.flat(1))


def _flat(data: pa.Buffer, bits: int, num_values: int) -> Chunks:
    counts = even_counts(num_values, flat_chunk_values(bits))
    return Chunks([flat_chunks(data, bits // 8, counts)], Counts(counts.data), messages.flat(bits))


def _smallest(
    data: pa.Buffer, bits: int, num_values: int, options: EncodingOptions, is_signed: bool
) -> Chunks:
    width = bits // 8
    packed_bytes, num_runs, _, least, most = kernels.survey_words(data, bits, is_signed)
    bounds = least.to_bytes(width, "little"), most.to_bytes(width, "little")
    # Long runs count as several, and all end with their chunk.
    num_runs += num_values // kernels.LONGEST_RUN + num_values // MAX_CHUNK_VALUES
    run_bytes = num_runs * (width + 1)
    raw_bytes = num_values * width
    if run_bytes < raw_bytes and run_bytes <= packed_bytes and num_runs < options.run_threshold * num_values:
        counts, values, lengths = kernels.encode_runs(data, bits, MAX_CHUNK_VALUES, _RUN_CHUNK_BYTES)
        return Chunks([values, lengths], counts, messages.runs(bits), bounds)
    if packed_bytes < raw_bytes:
        counts = Counts(even_counts(num_values, _GROUP).data)
        return Chunks([kernels.pack_inline(data, bits)], counts, messages.inline_bitpacking(bits), bounds)
    return replace(_flat(data, bits, num_values), bounds=bounds)


def _splits_bytes(data: pa.Buffer, bits: int, options: EncodingOptions) -> bool:
    if bits not in (32, 64) or options.byte_stream_split == "off":
        return False
    return options.byte_stream_split == "on" or _mean_entropy(data, bits // 8) < _MAX_ENTROPY


def _mean_entropy(data: pa.Buffer, width: int) -> float:
    """Bits per byte of the first values, each byte position on its own."""
    sample = np.frombuffer(data.slice(0, min(data.size, _ENTROPY_SAMPLE * width)), np.uint8).reshape(
        -1, width
    )
    entropy = 0.0
    for position in range(width):
        counts = np.bincount(sample[:, position])
        share = counts[counts > 0] / len(sample)
        entropy -= float((share * np.log2(share)).sum()) / width
    return entropy


def _split(data: pa.Buffer, bits: int, num_values: int) -> Chunks:
    width = bits // 8
    chunk_values = flat_chunk_values(bits)
    counts = even_counts(num_values, chunk_values)
    streams = kernels.split_byte_streams(data, width, chunk_values)
    return Chunks(
        [flat_chunks(streams, width, counts)], Counts(counts.data), messages.byte_stream_split(bits)
    )
