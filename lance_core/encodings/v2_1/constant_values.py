"""Constant: no bytes at all, because there are no values.

The reference writes it below a fixed-size list whose items are all null in a page: each full-zip entry is
then the bitmap of the items and nothing else. A constant with a value is defined by the format but written
by no release.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_core.encodings.v2_1.encoding import Encoding
from lance_core.encodings.values import NoValues
from lance_core.errors import UnsupportedFeatureError
from lance_core.kernels import Counts, Stream
from lance_core.proto import encodings_v2_1_pb2 as proto


@dataclass(frozen=True, slots=True)
class Constant(Encoding):
    """Values that are all null."""

    name = "constant"

    @classmethod
    def parse(cls, message: proto.Constant) -> "Constant":
        """From the page's description."""
        if message.HasField("value"):
            raise UnsupportedFeatureError("encoding 'constant' with a value")
        return cls()

    @property
    def num_buffers(self) -> int:
        return 0

    def decode_chunks(self, buffers: Sequence[Stream], counts: Counts) -> NoValues:
        return NoValues()

    @property
    def row_bytes(self) -> int:
        return 0

    def decode_rows(self, rows: pa.Buffer, num_rows: int) -> NoValues:
        return NoValues()
