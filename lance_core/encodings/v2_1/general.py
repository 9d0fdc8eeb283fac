"""General compression: LZ4 or ZSTD around what another encoding made.

    LZ4      u32 size before compression | one LZ4 block
    ZSTD     u64 size before compression | one frame; a bare frame is accepted too

Of a mini-block chunk only the first buffer is compressed, each chunk on its own. In a full-zip page each
value is a frame.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import lz4.block
import numpy as np
import pyarrow as pa
import zstandard

from lance_core.encodings.v2_1.encoding import Encoding
from lance_core.encodings.values import Values, VariableValues
from lance_core.kernels import CorruptData, Counts, Stream
from lance_core.proto import encodings_v2_1_pb2 as proto

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_LZ4_MAX_RATIO = 256
_ZSTD_MAX_RATIO = 33_000
"""What one compressed byte can stand for at most; a larger claim is refused before memory is taken."""


@dataclass(frozen=True, slots=True)
class General(Encoding):
    """A compressor and the encoding of what it compressed."""

    name = "general"
    scheme: int
    values: Encoding

    @classmethod
    def parse(cls, compression: proto.BufferCompression, values: Encoding) -> "General":
        """From the page's description."""
        schemes = (proto.COMPRESSION_ALGORITHM_LZ4, proto.COMPRESSION_ALGORITHM_ZSTD)
        if compression.scheme not in schemes:
            raise CorruptData(f"compression scheme {compression.scheme}")
        return cls(compression.scheme, values)

    @property
    def num_buffers(self) -> int:
        return self.values.num_buffers

    def decode_chunks(self, buffers: Sequence[Stream], counts: Counts) -> Values:
        return self.values.decode_chunks([self.inflate(buffers[0]), *buffers[1:]], counts)

    def decode_blocks(self, blocks: Stream, counts: Counts) -> Values:
        return self.values.decode_blocks(self.inflate(blocks), counts)

    def decode_payloads(self, payloads: VariableValues, num_values: int) -> Values:
        dtype = np.dtype(f"<u{payloads.offset_bits // 8}")
        offsets = np.frombuffer(payloads.offsets, dtype, num_values + 1)
        data = memoryview(payloads.data)
        parts = [self._decompress(data[a:b]) for a, b in pairwise(offsets)]
        inflated = np.zeros(num_values + 1, dtype)
        np.cumsum([len(part) for part in parts], out=inflated[1:])
        values = VariableValues(pa.py_buffer(inflated), pa.py_buffer(b"".join(parts)), payloads.offset_bits)
        return self.values.decode_payloads(values, num_values)

    def inflate(self, chunks: Stream) -> Stream:
        """The chunks as they were before compression."""
        parts = [self._decompress(chunk) for chunk in chunks.chunks()]
        lengths = np.fromiter(map(len, parts), np.int64, len(parts))
        starts = np.cumsum(lengths) - lengths
        return Stream(b"".join(parts), starts.data, lengths.data)

    def _decompress(self, data: bytes | memoryview) -> bytes:
        if len(data) == 0:
            return b""
        try:
            if self.scheme == proto.COMPRESSION_ALGORITHM_LZ4:
                return _decompress_lz4(data)
            return _decompress_zstd(data)
        except (lz4.block.LZ4BlockError, zstandard.ZstdError) as error:
            raise CorruptData(f"compressed bytes cannot be read: {error}") from None


def _decompress_lz4(data: bytes | memoryview) -> bytes:
    size = int.from_bytes(data[:4], "little")
    if len(data) < 4 or size > (len(data) - 4) * _LZ4_MAX_RATIO:
        raise CorruptData(f"an LZ4 block of {len(data)} bytes that claims {size}")
    inflated: bytes = lz4.block.decompress(data[4:], uncompressed_size=size)
    if len(inflated) != size:
        raise CorruptData(f"an LZ4 block of {len(inflated)} bytes that claims {size}")
    return inflated


def _decompress_zstd(data: bytes | memoryview) -> bytes:
    bare = len(data) < 8 or (data[:4] == _ZSTD_MAGIC and not data[4] & 0x10)
    frame = data if bare else data[8:]
    content = zstandard.frame_content_size(frame)
    size = content if bare else int.from_bytes(data[:8], "little")
    if content not in (size, -1):
        raise CorruptData(f"a ZSTD frame of {content} bytes under a prefix of {size}")
    if size < 0 or size > len(frame) * _ZSTD_MAX_RATIO:
        raise CorruptData(f"a ZSTD frame of {len(frame)} bytes that claims {size}")
    inflated = zstandard.ZstdDecompressor().decompress(frame, max_output_size=size)
    if len(inflated) != size:
        raise CorruptData(f"a ZSTD frame of {len(inflated)} bytes that claims {size}")
    return inflated
