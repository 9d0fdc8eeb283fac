"""LZ4 and ZSTD around what another encoding made, where that makes it smaller."""

from collections.abc import Callable

import lz4.block
import numpy as np
import zstandard

from lance_core.encodings.v2_1.encoders import messages
from lance_core.encodings.v2_1.encoders.chunks import Chunks, even_stream
from lance_core.encodings.v2_1.encoders.options import EncodingOptions
from lance_core.proto import encodings_v2_1_pb2 as proto
from lance_core.storage.base import Bytes

LEAST_BYTES = 4096
"""Less is not worth a compressor."""
_ZSTD_LEVEL = 3
_SCHEMES = {"lz4": messages.LZ4, "zstd": messages.ZSTD}


def scheme_of(compression: str) -> proto.CompressionScheme:
    """The number of a compressor in descriptions of pages."""
    return _SCHEMES[compression]


def compressor(compression: str, level: int | None) -> Callable[[Bytes], bytes]:
    """Makes frames with the size of the data in front (docs/format.md, general)."""
    if compression == "lz4":
        return _lz4
    context = zstandard.ZstdCompressor(level=_ZSTD_LEVEL if level is None else level)

    def zstd(data: Bytes) -> bytes:
        return memoryview(data).nbytes.to_bytes(8, "little") + context.compress(data)

    return zstd


def compress_chunks(chunks: Chunks, options: EncodingOptions) -> Chunks:
    """The first buffer of every chunk compressed, or the chunks as they were where that saves nothing."""
    first = chunks.streams[0]
    assert options.compression is not None
    if first.num_bytes < LEAST_BYTES:
        return chunks
    frames = list(map(compressor(options.compression, options.level), first.chunks()))
    lengths = np.fromiter(map(len, frames), np.int64, len(frames))
    if int(lengths.sum()) >= first.num_bytes:
        return chunks
    encoding = messages.general(scheme_of(options.compression), options.level, chunks.encoding)
    return Chunks([even_stream(b"".join(frames), lengths), *chunks.streams[1:]], chunks.counts, encoding)


def _lz4(data: Bytes) -> bytes:
    return bytes(lz4.block.compress(data, store_size=True))
