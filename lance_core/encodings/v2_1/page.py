"""A page of one leaf column: planned and decoded by row ranges.

Planning says which bytes of the file a row range needs; decoding turns those bytes into arrays. What a page
must know to plan (chunk positions, repetition index, dictionary) is read once and kept.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from lance_core.encodings.pieces import Int64s, Picking
from lance_core.encodings.v2_1.levels import Layer, Node
from lance_core.kernels import MiniBlocks

ByteRange = tuple[int, int]
"""Offset in the file and length, in bytes."""

PAGE_BYTES = 4096
"""Memory of what is kept of a page without its mini-blocks (measured: 3 to 5 KiB)."""

Fetch = Callable[[Sequence[ByteRange]], list[pa.Buffer]]
"""Reads byte ranges of the page's file."""


class PageDescription(Protocol):
    """Description of a page in the metadata of the file."""

    @property
    def buffers(self) -> tuple[ByteRange, ...]:
        """Byte ranges of the buffers of the page in the file."""

    @property
    def num_rows(self) -> int:
        """Rows; below a fixed-size list of structs, its slots."""

    @property
    def encoding_type(self) -> str:
        """Name of the message in `encoding`."""

    @property
    def encoding(self) -> bytes:
        """The serialised description of the page's layout."""


@dataclass(frozen=True, slots=True, eq=False)
class LeafType:
    """Type of a leaf column in the schema. Compared by identity, because every page needs a hash of it."""

    arrow_type: pa.DataType
    nesting: tuple[Node, ...]
    """Innermost first; the first is the leaf itself."""


@dataclass(frozen=True, slots=True)
class LeafSlice:
    """Decoded rows of one leaf: its array, and the layers around it, innermost first."""

    array: pa.Array
    layers: Sequence[Layer]


@dataclass(frozen=True, slots=True)
class PageRead:
    """A planned read: the bytes it needs, and what makes a slice of them."""

    ranges: Sequence[ByteRange]
    decode: Callable[[list[pa.Buffer]], LeafSlice]


class Page(ABC):
    """One page of a leaf column."""

    num_rows: int
    """Top-level rows."""

    @property
    def is_indexed(self) -> bool:
        """Whether everything was read that finding rows needs."""
        return True

    @abstractmethod
    def plan(self, fetch: Fetch, start: int, end: int) -> PageRead:
        """Plan to read rows `[start, end)`; `fetch` brings what planning itself needs."""

    @abstractmethod
    def pick(self, fetch: Fetch, rows: Int64s) -> Picking[LeafSlice]:
        """Return the rows of strictly ascending numbers; `fetch` brings what finding them needs."""

    def direct(self, fetch: Fetch) -> MiniBlocks | None:
        """Return the description of the page for the kernel that reads by itself, or None if it cannot decode
        it.
        """
        return None

    @property
    @abstractmethod
    def decoded_bytes(self) -> int:
        """About how many bytes the decoded page takes."""

    @property
    def known_bytes(self) -> int:
        """About how much memory is taken by what is kept of the page."""
        return PAGE_BYTES
