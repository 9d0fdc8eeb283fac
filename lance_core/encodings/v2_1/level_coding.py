"""Codings of repetition and definition levels: how kernels decode the u16 levels of a page."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.values import as_buffer
from lance_core.kernels import Counts, Stream


@dataclass(frozen=True, slots=True)
class LevelCoding:
    """A coding of levels, with or without a compressor around it."""

    coding: str
    """Name of the coding for `kernels.decode_levels`."""
    bits: int = 0
    """Bits of a packed level; 0 for other codings."""
    compression: str = ""
    """Name of the compressor for `kernels.inflate`; empty without a compressor."""

    @property
    def all_zero(self) -> bool:
        """Whether every level is 0, so that no bytes are stored."""
        return self.coding == "packed" and self.bits == 0

    def decode(self, stream: Stream, counts: Counts) -> pa.Buffer:
        """Return all levels of consecutive chunks as u16."""
        return as_buffer(kernels.decode_levels(self._inflated(stream), counts, self.coding, self.bits))

    def pick(self, stream: Stream, counts: Counts, picks: pa.Buffer) -> pa.Buffer:
        """Return the levels whose numbers are in `picks` (int64, ascending), as u16."""
        levels = kernels.pick_levels(self._inflated(stream), counts, picks, self.coding, self.bits)
        return as_buffer(levels)

    def decode_validity(self, stream: Stream, counts: Counts, limit: int, highest: int) -> pa.Buffer | None:
        """Return a bitmap with one bit per level, set if level <= limit; None if all bits are set.

        Raises:
            CorruptData: a level exceeds `highest`.
        """
        bits, num_nulls = kernels.decode_validity(
            self._inflated(stream), counts, self.coding, self.bits, limit, highest
        )
        return as_buffer(bits) if num_nulls else None

    def _inflated(self, stream: Stream) -> Stream:
        return kernels.inflate(stream, self.compression) if self.compression else stream
