"""General compression: LZ4 or ZSTD around what another encoding made.

Of a mini-block chunk only the first buffer is compressed, each chunk on its own. In a full-zip page each
value is a frame.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa

from lance_core.encodings.compression import decompress_lz4, decompress_zstd_all
from lance_core.encodings.v2_1.encoding import Encoding
from lance_core.encodings.values import Values, VariableValues
from lance_core.kernels import CorruptData, Counts, OffsetOverflow, Stream
from lance_core.proto import encodings_v2_1_pb2 as proto

_SCHEMES: dict[int, Callable[[Iterable[bytes | memoryview]], Iterator[bytes]]] = {
    proto.COMPRESSION_ALGORITHM_LZ4: partial(map, decompress_lz4),
    proto.COMPRESSION_ALGORITHM_ZSTD: decompress_zstd_all,
}
_MAX_BYTES = {32: (1 << 31) - 1, 64: (1 << 63) - 1}
"""What offsets of a width can address."""


@dataclass(frozen=True, slots=True)
class General(Encoding):
    """A compressor and the encoding of what it compressed."""

    name = "general"
    scheme: int
    values: Encoding

    @classmethod
    def parse(cls, compression: proto.BufferCompression, values: Encoding) -> "General":
        """From the page's description."""
        if compression.scheme not in _SCHEMES:
            raise CorruptData(f"compression scheme {compression.scheme}")
        if values.num_buffers == 0:
            raise CorruptData(f"compressed values of encoding {values.name!r}, which has none")
        return cls(compression.scheme, values)

    @property
    def num_buffers(self) -> int:
        return self.values.num_buffers

    def decode_chunks(self, buffers: Sequence[Stream], counts: Counts) -> Values:
        return self.values.decode_chunks([self.inflate(buffers[0]), *buffers[1:]], counts)

    def pick_chunks(self, buffers: Sequence[Stream], counts: Counts, picks: pa.Buffer) -> Values:
        return self.values.pick_chunks([self.inflate(buffers[0]), *buffers[1:]], counts, picks)

    def decode_blocks(self, blocks: Stream, counts: Counts) -> Values:
        return self.values.decode_blocks(self.inflate(blocks), counts)

    def decode_payloads(self, payloads: VariableValues, num_values: int) -> Values:
        dtype = np.dtype(f"<u{payloads.offset_bits // 8}")
        offsets = np.frombuffer(payloads.offsets, dtype, num_values + 1)
        data = memoryview(payloads.data)
        parts, total = [], 0
        for part in _SCHEMES[self.scheme](data[begin:end] for begin, end in pairwise(offsets)):
            parts.append(part)
            total += len(part)
            if total > _MAX_BYTES[payloads.offset_bits]:
                raise OffsetOverflow("more bytes than 32-bit offsets can address")
        inflated = np.zeros(num_values + 1, dtype)
        np.cumsum([len(part) for part in parts], out=inflated[1:])
        values = VariableValues(pa.py_buffer(inflated), pa.py_buffer(b"".join(parts)), payloads.offset_bits)
        return self.values.decode_payloads(values, num_values)

    def inflate(self, chunks: Stream) -> Stream:
        """The chunks as they were before compression."""
        parts = list(_SCHEMES[self.scheme](chunks.chunks()))
        lengths = np.fromiter(map(len, parts), np.int64, len(parts))
        starts = np.cumsum(lengths) - lengths
        return Stream(b"".join(parts), starts.data, lengths.data)
