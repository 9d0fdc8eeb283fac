"""Constant: an encoding without bytes, because there are no values.

The reference writes it as the items of a fixed-size list if all items of a page are null. Each full-zip entry
is then only the bitmap of its items. The format also defines a constant with a value, but no release writes
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_core.encodings.v2_1.encoding import DescribeInner, Encoding, ParseInner
from lance_core.encodings.values import NoValues
from lance_core.errors import UnsupportedFeatureError
from lance_core.kernels import Counts, Stream
from lance_core.proto import encodings_v2_1_pb2 as proto


@dataclass(frozen=True, slots=True)
class Constant(Encoding):
    """Values that are all null, without bytes."""

    name = "constant"
    is_list_item = True

    @classmethod
    def parse(cls, message: proto.Constant, parse_inner: ParseInner) -> Constant:
        """Make the encoding from its description."""
        if message.HasField("value"):
            raise UnsupportedFeatureError("encoding 'constant' with a value")
        return cls()

    @staticmethod
    def describe(message: proto.Constant, describe_inner: DescribeInner) -> str:
        return f"constant({len(message.value)} bytes)" if message.HasField("value") else "constant"

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

    def row_widths(self, num_values: int) -> list[int]:
        return []

    def decode_row_parts(self, parts: Sequence[pa.Buffer], num_rows: int, num_values: int) -> NoValues:
        return NoValues()
