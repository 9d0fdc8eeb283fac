"""General compression as Lance frames it: a size, then what the compressor made.

    LZ4      u32 size before compression | one LZ4 block
    ZSTD     u64 size before compression | one frame; a bare frame is accepted too

No bytes stand for no bytes.
"""

import lz4.block
import zstandard

from lance_core.kernels import CorruptData

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_LZ4_MAX_RATIO = 256
_ZSTD_MAX_RATIO = 33_000
"""Largest number of bytes that one compressed byte can stand for. A larger claim is refused before
allocation.
"""


def decompress_lz4(data: bytes | memoryview) -> bytes:
    """Return the bytes before compression; no bytes stand for none.

    Raises:
        CorruptData: the block cannot be read, or has another size than it claims.
    """
    if len(data) == 0:
        return b""
    size = int.from_bytes(data[:4], "little")
    if len(data) < 4 or size > (len(data) - 4) * _LZ4_MAX_RATIO:
        raise CorruptData(f"an LZ4 block of {len(data)} bytes that claims {size}")
    try:
        inflated: bytes = lz4.block.decompress(data[4:], uncompressed_size=size)
    except lz4.block.LZ4BlockError as error:
        raise CorruptData(f"compressed bytes cannot be read: {error}") from None
    if len(inflated) != size:
        raise CorruptData(f"an LZ4 block of {len(inflated)} bytes that claims {size}")
    return inflated


def decompress_zstd(data: bytes | memoryview) -> bytes:
    """Return the bytes before compression; no bytes stand for none. Errors are those of `decompress_lz4`."""
    if len(data) == 0:
        return b""
    bare = len(data) < 8 or (bytes(data[:4]) == _ZSTD_MAGIC and not data[4] & 0x10)
    frame = data if bare else data[8:]
    try:
        content = zstandard.frame_content_size(frame)
        size = content if bare else int.from_bytes(data[:8], "little")
        if content not in (size, -1):
            raise CorruptData(f"a ZSTD frame of {content} bytes under a prefix of {size}")
        if size < 0 or size > len(frame) * _ZSTD_MAX_RATIO:
            raise CorruptData(f"a ZSTD frame of {len(frame)} bytes that claims {size}")
        inflated = zstandard.ZstdDecompressor().decompress(frame, max_output_size=size)
    except zstandard.ZstdError as error:
        raise CorruptData(f"compressed bytes cannot be read: {error}") from None
    if len(inflated) != size:
        raise CorruptData(f"a ZSTD frame of {len(inflated)} bytes that claims {size}")
    return inflated
