"""Encoded values, divided into mini-block chunks. The levels are added later."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_core.kernels import Counts, Stream
from lance_core.proto import encodings_v2_1_pb2 as proto
from lance_core.storage.base import Bytes

MAX_FLAT_BYTES = 8186
"""Exclusive bound on the bytes of plain values in a chunk. Most chunks have 4096 bytes."""
MAX_CHUNK_VALUES = 4096


@dataclass(frozen=True, slots=True)
class Chunks:
    """The encoded values of a page."""

    streams: Sequence[Stream]
    """One stream per value buffer of a chunk."""
    counts: Counts
    """Number of values in each chunk: a power of two, except in the last chunk."""
    encoding: proto.CompressiveEncoding
    bounds: tuple[bytes, bytes] | None = None
    """The least and the greatest value as words, if known."""


def flat_chunk_values(value_bits: int) -> int:
    """Return the number of values per chunk of a fixed-width type: a power of two, at least 2."""
    most = min(MAX_CHUNK_VALUES, max(2, (MAX_FLAT_BYTES - 1) * 8 // max(value_bits, 1)))
    return 1 << (most.bit_length() - 1)


def even_counts(num_values: int, chunk_values: int) -> npt.NDArray[np.int64]:
    """Return the number of values in each chunk, if all chunks except the last have `chunk_values`."""
    num_chunks = -(-num_values // chunk_values)
    counts = np.full(num_chunks, chunk_values, np.int64)
    counts[-1] = num_values - (num_chunks - 1) * chunk_values
    return counts


def even_stream(data: Bytes, lengths: npt.NDArray[np.int64]) -> Stream:
    """Return the stream of chunks that are contiguous in `data`. `lengths` are their sizes in bytes."""
    return Stream(data, (np.cumsum(lengths) - lengths).data, lengths.data)


def flat_chunks(data: Bytes, width: int, counts: npt.NDArray[np.int64]) -> Stream:
    """Return the stream of chunks of plain values of `width` bytes, without a copy."""
    return even_stream(data, counts * width)
