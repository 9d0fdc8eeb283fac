"""Encoded values cut into mini-block chunks, before levels join them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_core.kernels import Counts, Stream
from lance_core.proto import encodings_v2_1_pb2 as proto
from lance_core.storage.base import Bytes

MAX_FLAT_BYTES = 8186
"""A chunk of plain values stays below this; most come out at 4096 bytes."""
MAX_CHUNK_VALUES = 4096


@dataclass(frozen=True, slots=True)
class Chunks:
    """The values of a page."""

    streams: Sequence[Stream]
    """One per value buffer."""
    counts: Counts
    """Values per chunk: powers of two, but for the last."""
    encoding: proto.CompressiveEncoding
    bounds: tuple[bytes, bytes] | None = None
    """The least and the greatest word, where they are known."""


def flat_chunk_values(value_bits: int) -> int:
    """Values per chunk of a fixed width: the largest power of two within the limits, at least 2."""
    most = min(MAX_CHUNK_VALUES, max(2, (MAX_FLAT_BYTES - 1) * 8 // max(value_bits, 1)))
    return 1 << (most.bit_length() - 1)


def even_counts(num_values: int, chunk_values: int) -> npt.NDArray[np.int64]:
    """Values per chunk where all chunks but the last have `chunk_values`."""
    num_chunks = -(-num_values // chunk_values)
    counts = np.full(num_chunks, chunk_values, np.int64)
    counts[-1] = num_values - (num_chunks - 1) * chunk_values
    return counts


def even_stream(data: Bytes, lengths: npt.NDArray[np.int64]) -> Stream:
    """Chunks that follow one another in `data`."""
    return Stream(data, (np.cumsum(lengths) - lengths).data, lengths.data)


def flat_chunks(data: Bytes, width: int, counts: npt.NDArray[np.int64]) -> Stream:
    """Plain values of `width` bytes, where they are."""
    return even_stream(data, counts * width)
