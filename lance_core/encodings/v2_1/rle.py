"""Run lengths: the value of each run, and beside it one byte that says how often it stands.

    int32 [5 x 300, 6 x 2]     values 5 5 6 (i32 each)     lengths ff 2d 02

A mini-block chunk keeps values and lengths in two buffers; a block holds `u64 size of the values | values |
lengths`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lance_core import kernels
from lance_core.encodings.v2_1.encoding import Encoding
from lance_core.encodings.v2_1.flat import Flat
from lance_core.encodings.values import FixedValues, as_buffer
from lance_core.kernels import CorruptData, Counts, Stream


@dataclass(frozen=True, slots=True)
class Rle(Encoding):
    """Runs of fixed-width values."""

    name = "rle"
    bits_per_value: int

    @classmethod
    def parse(cls, values: Encoding, run_lengths: Encoding) -> "Rle":
        """From the encodings of the run values and the run lengths, both flat in 2.1 and 2.2."""
        if not isinstance(values, Flat) or values.bits_per_value not in (8, 16, 32, 64):
            raise CorruptData("run-length encoding of values that are not flat words")
        if not isinstance(run_lengths, Flat) or run_lengths.bits_per_value != 8:
            raise CorruptData("run lengths that are not single bytes")
        return cls(values.bits_per_value)

    @property
    def num_buffers(self) -> int:
        return 2

    def decode_chunks(self, buffers: Sequence[Stream], counts: Counts) -> FixedValues:
        values, lengths = buffers
        return FixedValues(
            as_buffer(kernels.expand_runs(values, lengths, counts, self.bits_per_value)), self.bits_per_value
        )

    def decode_blocks(self, blocks: Stream, counts: Counts) -> FixedValues:
        return self.decode_chunks(kernels.split_runs(blocks, counts), counts)
