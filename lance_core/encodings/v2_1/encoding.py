"""What a compressive encoding can do.

The same encodings appear in three places, with different bytes: in the chunks of a mini-block page, as a
block of its own (levels, dictionary items), and as the value of a full-zip entry. Each class implements the
places where the format allows it.
"""

from collections.abc import Sequence
from typing import ClassVar

import pyarrow as pa

from lance_core.encodings.values import Values, VariableValues
from lance_core.errors import UnsupportedFeatureError
from lance_core.kernels import CorruptData, Counts, Stream

MAX_VALUES = 1 << 48
"""Counts beyond this are lies, and would not fit into the arithmetic on sizes."""


class Encoding:
    """One node of the chain of encodings that a page names for its values."""

    name: ClassVar[str]

    @property
    def num_buffers(self) -> int:
        """Buffers per mini-block chunk."""
        return 1

    def decode_chunks(self, buffers: Sequence[Stream], counts: Counts) -> Values:
        """Decode a row of mini-block chunks; `buffers` holds one stream per chunk buffer."""
        raise self._not_here("mini-block chunks")

    def pick_chunks(self, buffers: Sequence[Stream], counts: Counts, picks: pa.Buffer) -> Values:
        """The values that `picks` (int64, ascending) number among those of a row of chunks."""
        return self.decode_chunks(buffers, counts).pick(picks, counts.total)

    def decode_blocks(self, blocks: Stream, counts: Counts) -> Values:
        """Decode blocks that stand for themselves, `counts` values in each."""
        raise self._not_here("a block")

    @property
    def row_bytes(self) -> int:
        """Width of the value of a fixed-width full-zip entry, in bytes."""
        raise self._not_here("fixed-width full-zip entries")

    def decode_rows(self, rows: pa.Buffer, num_rows: int) -> Values:
        """Decode values of `row_bytes` each, as full-zip entries hold them."""
        raise self._not_here("fixed-width full-zip entries")

    def decode_payloads(self, payloads: VariableValues, num_values: int) -> Values:
        """Decode the values of variable-width full-zip entries; a null entry has an empty payload."""
        raise self._not_here("variable-width full-zip entries")

    def _not_here(self, place: str) -> UnsupportedFeatureError:
        return UnsupportedFeatureError(f"encoding {self.name!r} in {place}")


def one_block(block: pa.Buffer) -> Stream:
    """A row of one block."""
    return Stream(block, _int64(0), _int64(block.size))


def one_count(num_values: int) -> Counts:
    """The number of values of a row of one block."""
    if num_values > MAX_VALUES:
        raise CorruptData(f"{num_values} values in one block")
    return Counts(_int64(num_values))


def _int64(value: int) -> bytes:
    return value.to_bytes(8, "little", signed=True)
