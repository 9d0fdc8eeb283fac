"""A page of one leaf column, which is planned and decoded by row ranges.

Planning finds the bytes of the file that a row range needs. Decoding turns these bytes into arrays. The data
for planning (chunk positions, repetition index, dictionary) is read once and kept.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from lance_core.encodings.picking import Int64s, Picking
from lance_core.encodings.v2_1.layouts.levels import Layer, Node
from lance_core.kernels import MiniBlocks

ByteRange = tuple[int, int]
"""Offset in the file and length, in bytes."""

PAGE_BYTES = 4096
"""Estimated memory of an open page without its chunk index, in bytes (measured: 3 to 5 KiB)."""

Fetch = Callable[[Sequence[ByteRange]], list[pa.Buffer]]
"""Reads byte ranges of the page's file."""


class PageDescription(Protocol):
    """Description of a page in the metadata of the file."""

    @property
    def buffers(self) -> tuple[ByteRange, ...]:
        """Byte ranges of the buffers of the page in the file."""

    @property
    def num_rows(self) -> int:
        """Number of rows; below a fixed-size list of structs, the number of its slots."""

    @property
    def encoding_type(self) -> str:
        """Name of the protobuf message in `encoding`."""

    @property
    def encoding(self) -> bytes:
        """The serialized description of the layout of the page."""


@dataclass(frozen=True, slots=True, eq=False)
class LeafType:
    """Type of a leaf column in the schema, compared by identity: every page needs a hash of it."""

    arrow_type: pa.DataType
    nesting: tuple[Node, ...]
    """Nodes from the leaf outwards. The first node is the leaf itself."""


@dataclass(frozen=True, slots=True)
class LeafSlice:
    """Decoded rows of one leaf: its array, and the layers outside the leaf, innermost first."""

    array: pa.Array
    layers: Sequence[Layer]


@dataclass(frozen=True, slots=True)
class PageRead:
    """A planned read: the byte ranges it needs, and a function that decodes their bytes."""

    ranges: Sequence[ByteRange]
    decode: Callable[[list[pa.Buffer]], LeafSlice]


class Page(ABC):
    """One page of a leaf column."""

    num_rows: int
    """Number of top-level rows."""

    @property
    def index_ranges(self) -> Sequence[ByteRange]:
        """Byte ranges with the data for finding rows, for `learn`; none if they were read, or if there are
        none.
        """
        return ()

    @property
    def is_indexed(self) -> bool:
        """Whether the data for finding rows has been read."""
        return True

    def learn(self, buffers: Sequence[pa.Buffer]) -> None:
        """Keep the data for finding rows, from the bytes of `index_ranges`.

        Raises:
            CorruptData: the bytes contradict the description of the page.
        """
        assert not buffers  # a page with such ranges has its own method

    @abstractmethod
    def plan(self, fetch: Fetch, start: int, end: int) -> PageRead:
        """Plan to read rows `[start, end)`. `fetch` reads the data for planning, if it was not read yet."""

    @abstractmethod
    def pick(self, fetch: Fetch, rows: Int64s) -> Picking[LeafSlice]:
        """Decode the rows with these strictly ascending numbers. `fetch` reads the data for finding rows."""

    def direct(self, fetch: Fetch) -> MiniBlocks | None:
        """Return the description of the page for the kernel that reads and decodes by itself; None if it
        cannot decode the page.
        """
        return None

    def plain_bytes(self, start: int, end: int) -> ByteRange | None:
        """Return the bytes of rows `[start, end)` if they are plain values of one width, without nulls; None
        if they have to be decoded.
        """
        return None

    @property
    @abstractmethod
    def decoded_bytes(self) -> int:
        """Estimated bytes of the decoded page."""

    @property
    def known_bytes(self) -> int:
        """Estimated memory that the open page takes, in bytes."""
        return PAGE_BYTES
