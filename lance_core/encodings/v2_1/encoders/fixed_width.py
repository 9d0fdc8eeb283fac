"""Encoder of fixed-width values in mini-block chunks: plain, bit packing, runs, or byte stream split.

The whole page is surveyed in one pass. The smallest form is used; of equal forms, the fastest to read.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.v2_1.bitpacking import chunk_packed
from lance_core.encodings.v2_1.byte_stream_split import chunk_byte_streams
from lance_core.encodings.v2_1.chunks import MAX_CHUNK_VALUES, Chunks
from lance_core.encodings.v2_1.encoders.field_options import EncodingOptions
from lance_core.encodings.v2_1.encoders.general import compress_chunks
from lance_core.encodings.v2_1.flat import chunk_flat
from lance_core.encodings.v2_1.rle import chunk_runs

_WORDS = (8, 16, 32, 64)
_ENTROPY_SAMPLE = 64
_MAX_ENTROPY = 4.0
"""Largest entropy, in bits per byte, for which byte stream split helps a compressor."""


def encode_words(
    data: pa.Buffer, bits: int, num_values: int, options: EncodingOptions, *, is_signed: bool = False
) -> Chunks:
    """Encode contiguous values of `bits` bits (8 or more). `is_signed` only affects their bounds."""
    compressed = options.compression in ("lz4", "zstd")
    if options.compression == "none" or bits not in _WORDS:
        chunks = chunk_flat(data, bits, num_values)
    elif options.compression is not None and _splits_bytes(data, bits, options):
        chunks = chunk_byte_streams(data, bits, num_values)
    else:
        chunks = _smallest(data, bits, num_values, options, is_signed)
    return compress_chunks(chunks, options) if compressed else chunks


def _smallest(
    data: pa.Buffer, bits: int, num_values: int, options: EncodingOptions, is_signed: bool
) -> Chunks:
    width = bits // 8
    packed_bytes, num_runs, _, least, most = kernels.survey_words(data, bits, is_signed)
    bounds = least.to_bytes(width, "little"), most.to_bytes(width, "little")
    # A run longer than `LONGEST_RUN` is stored as several runs, and no run continues in the next chunk.
    num_runs += num_values // kernels.LONGEST_RUN + num_values // MAX_CHUNK_VALUES
    run_bytes = num_runs * (width + 1)
    raw_bytes = num_values * width
    if run_bytes < raw_bytes and run_bytes <= packed_bytes and num_runs < options.run_threshold * num_values:
        chunks = chunk_runs(data, bits)
    elif packed_bytes < raw_bytes:
        chunks = chunk_packed(data, bits, num_values)
    else:
        chunks = chunk_flat(data, bits, num_values)
    return replace(chunks, bounds=bounds)


def _splits_bytes(data: pa.Buffer, bits: int, options: EncodingOptions) -> bool:
    if bits not in (32, 64) or options.byte_stream_split == "off":
        return False
    return options.byte_stream_split == "on" or _mean_entropy(data, bits // 8) < _MAX_ENTROPY


def _mean_entropy(data: pa.Buffer, width: int) -> float:
    """Return the mean entropy of the first values, in bits per byte. Each byte position is counted on its
    own.
    """
    sample = np.frombuffer(data.slice(0, min(data.size, _ENTROPY_SAMPLE * width)), np.uint8).reshape(
        -1, width
    )
    entropy = 0.0
    for position in range(width):
        counts = np.bincount(sample[:, position])
        share = counts[counts > 0] / len(sample)
        entropy -= float((share * np.log2(share)).sum()) / width
    return entropy
