"""Compression with LZ4 and ZSTD around other encodings, if it makes them smaller."""

import struct
from dataclasses import replace
from itertools import chain, pairwise
from operator import itemgetter
from typing import Any

import lz4.block
import numpy as np
import numpy.typing as npt
import zstandard

from lance_core import kernels
from lance_core.encodings.v2_1.chunks import Chunks, even_stream
from lance_core.encodings.v2_1.encoders.field_options import EncodingOptions
from lance_core.encodings.v2_1.general import general_message
from lance_core.kernels import Stream
from lance_core.storage.base import Bytes

_LEAST_BYTES = 4096
"""Fewer bytes are not compressed."""
_ZSTD_LEVEL = 3
_SAMPLE_BYTES = 256 << 10
_WORTH = 0.97
"""Values are compressed if a compressed sample has at most this share of its plain size."""


def compress_block(data: Bytes, compression: str, level: int | None) -> bytes:
    """Compress a block. Return the size of the data and the frame. Source: docs/format.md, "General"."""
    if compression == "lz4":
        return bytes(lz4.block.compress(data, store_size=True))
    return memoryview(data).nbytes.to_bytes(8, "little") + _zstd(level).compress(data)


def compress_chunks(chunks: Chunks, options: EncodingOptions) -> Chunks:
    """Compress the first buffer of every chunk. Return the chunks unchanged if that saves nothing."""
    first = chunks.streams[0]
    assert options.compression is not None
    if first.num_bytes < _LEAST_BYTES:
        return chunks
    frames = (
        kernels.compress_lz4(first) if options.compression == "lz4" else _zstd_frames(first, options.level)
    )
    if frames.num_bytes >= first.num_bytes:
        return chunks
    encoding = general_message(options.compression, options.level, chunks.encoding)
    return replace(chunks, streams=[frames, *chunks.streams[1:]], encoding=encoding)


def compress_values(
    data: Bytes, ends: npt.NDArray[np.int64], level: int | None
) -> tuple[bytes, npt.NDArray[np.int64]] | None:
    """Compress every value of a full-zip page to a ZSTD frame; return None if that saves too little.

    Args:
        data: the values, one after the other.
        ends: the position of the first value, then the end of each value.
        level: compression level, None for the default.

    Returns:
        The frames, one after the other, and their lengths. A frame follows the size of its value (u64).
    """
    view = memoryview(data).cast("B")
    parts = [view[begin:end] for begin, end in pairwise(ends.tolist())]
    num_bytes = int(ends[-1] - ends[0])
    sample = parts[:: max(1, num_bytes // _SAMPLE_BYTES)]
    if len(_framed(sample, level)[0]) >= _WORTH * sum(map(len, sample)):
        return None
    frames = _framed(parts, level)
    return frames if len(frames[0]) < num_bytes else None


def _zstd(level: int | None) -> zstandard.ZstdCompressor:
    return zstandard.ZstdCompressor(level=_ZSTD_LEVEL if level is None else level)


def _zstd_frames(chunks: Stream, level: int | None) -> Stream:
    return even_stream(*_framed(list(chunks.chunks()), level))


def _framed(parts: list[Any], level: int | None) -> tuple[bytes, npt.NDArray[np.int64]]:
    """Compress each part in one call of the compressor. Return frames that follow their sizes, and their
    lengths.
    """
    if not parts:
        return b"", np.zeros(0, np.int64)
    made: Any = _zstd(level).multi_compress_to_buffer(parts)
    frames = list(made)
    sizes = np.fromiter(map(len, parts), "<u8", len(parts))
    lengths = np.fromiter(map(len, frames), np.int64, len(frames)) + sizes.itemsize
    prefixes = map(itemgetter(0), struct.iter_unpack(f"{sizes.itemsize}s", sizes.data.cast("B")))
    return b"".join(chain.from_iterable(zip(prefixes, frames, strict=True))), lengths
