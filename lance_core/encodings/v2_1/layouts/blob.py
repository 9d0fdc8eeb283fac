"""The blob layout: a page of descriptors. The values lie outside the pages of the file.

size > 0                 the value is the bytes [position, position + size) of the file
size 0, position 0       an empty value
size 0, position p > 0   no value: the definition level is p >> 16, the repetition level p & 0xffff

Source: docs/format.md, "Blobs".
"""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from lance_core.encodings.picking import Int64s, Picking
from lance_core.encodings.v2_1.layouts.levels import Node, Structure
from lance_core.encodings.v2_1.layouts.page import (
    ByteRange,
    Fetch,
    LeafSlice,
    LeafType,
    Page,
    PageDescription,
    PageRead,
)
from lance_core.errors import UnsupportedFeatureError
from lance_core.kernels import CorruptData
from lance_core.proto import encodings_v2_1_pb2 as proto

OpenLayout = Callable[[proto.PageLayout, PageDescription, LeafType], Page]


class BlobPage(Page):
    """A page of descriptors. Its rows are structs of position and size, null if the value is null."""

    def __init__(
        self, layout: proto.BlobLayout, metadata: PageDescription, leaf: LeafType, open_layout: OpenLayout
    ) -> None:
        self._structure = Structure(layout.layers, leaf.nesting)
        if self._structure.has_lists:
            raise UnsupportedFeatureError("blobs inside lists")
        # The inner page has no nulls and no nesting: the descriptors contain the levels.
        self._inner = open_layout(layout.inner_layout, metadata, LeafType(leaf.arrow_type, (Node(),)))
        self.num_rows = self._inner.num_rows

    @property
    def decoded_bytes(self) -> int:
        return self._inner.decoded_bytes

    @property
    def is_indexed(self) -> bool:
        return self._inner.is_indexed

    @property
    def index_ranges(self) -> Sequence[ByteRange]:
        return self._inner.index_ranges

    def learn(self, buffers: Sequence[pa.Buffer]) -> None:
        self._inner.learn(buffers)

    def plan(self, fetch: Fetch, start: int, end: int) -> PageRead:
        read = self._inner.plan(fetch, start, end)
        return PageRead(read.ranges, lambda buffers: self._with_nulls(read.decode(buffers).array))

    def pick(self, fetch: Fetch, rows: Int64s) -> Picking[LeafSlice]:
        slice_ = yield from self._inner.pick(fetch, rows)
        return self._with_nulls(slice_.array)

    def _with_nulls(self, descriptors: pa.Array) -> LeafSlice:
        position, size = (np.asarray(descriptors.field(i)) for i in range(2))
        missing = np.where(size == 0, position, 0)
        if (missing & 0xFFFF).any() or (missing >> 32).any():
            raise CorruptData("a descriptor without a value and with a repetition level")
        levels = (missing >> 16).astype("<u2")
        if len(levels) and int(levels.max()) > self._structure.max_def:
            raise CorruptData(
                f"definition level {levels.max()} where {self._structure.max_def} is the highest"
            )
        layers = self._structure.unravel(None, pa.py_buffer(levels), len(descriptors))
        children = [descriptors.field(i) for i in range(descriptors.type.num_fields)]
        array = pa.Array.from_buffers(
            descriptors.type, len(descriptors), [layers[0].validity], children=children
        )
        return LeafSlice(array, layers[1:])
