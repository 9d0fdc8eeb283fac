"""General compression: LZ4 or ZSTD around another encoding.

In a mini-block chunk only the first buffer is compressed, chunk by chunk. In a full-zip page each value is a
frame. Source: docs/format.md, "General".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.v2_1.encoding import (
    DescribeInner,
    DirectValues,
    Encoding,
    ParseInner,
    describe_compression,
)
from lance_core.encodings.v2_1.level_coding import LevelCoding
from lance_core.encodings.values import Values, VariableValues, as_buffer
from lance_core.kernels import CorruptData, Counts, Stream
from lance_core.proto import encodings_v2_1_pb2 as proto

_SCHEMES: dict[int, str] = {
    proto.COMPRESSION_ALGORITHM_LZ4: "lz4",
    proto.COMPRESSION_ALGORITHM_ZSTD: "zstd",
}


@dataclass(frozen=True, slots=True)
class General(Encoding):
    """A compressor and the encoding inside it."""

    name = "general"
    expansion = 4
    compression: str
    """Name of the compressor in the kernels."""
    values: Encoding

    @classmethod
    def parse(cls, message: proto.General, parse_inner: ParseInner) -> General:
        """Make the encoding from its description."""
        scheme, values = message.compression.scheme, parse_inner(message.values)
        if scheme not in _SCHEMES:
            raise CorruptData(f"compression scheme {scheme}")
        if values.num_buffers == 0:
            raise CorruptData(f"compressed values of encoding {values.name!r}, which has none")
        return cls(_SCHEMES[scheme], values)

    @staticmethod
    def describe(message: proto.General, describe_inner: DescribeInner) -> str:
        return f"general({describe_compression(message.compression)}, {describe_inner(message.values)})"

    @property
    def num_buffers(self) -> int:
        return self.values.num_buffers

    def decode_chunks(self, buffers: Sequence[Stream], counts: Counts) -> Values:
        return self.values.decode_chunks([self.inflate(buffers[0]), *buffers[1:]], counts)

    def pick_chunks(self, buffers: Sequence[Stream], counts: Counts, picks: pa.Buffer) -> Values:
        return self.values.pick_chunks([self.inflate(buffers[0]), *buffers[1:]], counts, picks)

    def direct(self) -> DirectValues | None:
        inner = self.values.direct()
        if inner is None or inner.compression != "none":
            return None
        return inner._replace(compression=self.compression)

    def level_coding(self) -> LevelCoding | None:
        inner = self.values.level_coding()
        if inner is None or inner.compression:
            return None
        return replace(inner, compression=self.compression)

    def decode_blocks(self, blocks: Stream, counts: Counts) -> Values:
        return self.values.decode_blocks(self.inflate(blocks), counts)

    def decode_payloads(self, payloads: VariableValues, num_values: int) -> Values:
        offsets, data = kernels.inflate_values(
            payloads.offsets, payloads.data, num_values, payloads.offset_bits, self.compression
        )
        values = VariableValues(as_buffer(offsets), as_buffer(data), payloads.offset_bits)
        return self.values.decode_payloads(values, num_values)

    def inflate(self, chunks: Stream) -> Stream:
        """Decompress the chunks."""
        return kernels.inflate(chunks, self.compression)


def general_message(
    compression: str, level: int | None, values: proto.CompressiveEncoding
) -> proto.CompressiveEncoding:
    """Return the description of "lz4" or "zstd" around another encoding."""
    scheme = next(number for number, name in _SCHEMES.items() if name == compression)
    compressor = proto.BufferCompression(scheme=proto.CompressionScheme.Name(scheme), level=level)
    return proto.CompressiveEncoding(general=proto.General(compression=compressor, values=values))
