"""Offsets of strings and lists: one more than there are values. A value reaches from its offset to the next
one.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_core.encodings.v0_1.pages import Numbers, Pages, Run
from lance_core.kernels import OffsetOverflow

_INT32_MAX = (1 << 31) - 1


@dataclass(frozen=True)
class Extents:
    """Positions of the values of a run: in the file for strings, among the items of the batch for lists."""

    lengths: Numbers
    """Length of each value."""
    firsts: Numbers
    """Begin of the first value of each batch."""
    lasts: Numbers
    """End of the last value of each batch."""
    _offsets: Numbers
    _ends: Numbers
    """Index after the offsets of each batch, in `_offsets`."""

    @property
    def starts(self) -> Numbers:
        """Begin of each value."""
        return np.delete(self._offsets, self._ends - 1)

    def arrow_offsets(self, bits: int) -> pa.Buffer:
        """Return Arrow offsets of the whole run, from 0 on. `bits` is 32 or 64.

        Raises:
            OffsetOverflow: the values are too long for 32 bits.
        """
        offsets = np.zeros(len(self.lengths) + 1, np.int64)
        np.cumsum(self.lengths, out=offsets[1:])
        if bits == 32:
            if offsets[-1] > _INT32_MAX:
                raise OffsetOverflow("values are longer than 32-bit offsets can address")
            return pa.py_buffer(offsets.astype(np.int32))
        return pa.py_buffer(offsets)


def read_extents(pages: Pages, run: Run, bits: int) -> Extents:
    """Read the offsets of a run, which have `bits` bits in the file.

    Raises:
        CorruptFileError: offsets decrease or are negative.
    """
    pages.check_run(run)
    width = bits // 8
    positions = pages.positions[run.batches] + run.starts * width
    buffers = pages.read(run, positions, (run.counts + 1) * width)
    offsets = np.concatenate([np.frombuffer(buffer, f"<i{width}") for buffer in buffers]).astype(
        np.int64, copy=False
    )
    ends = np.cumsum(run.counts + 1)
    firsts, lasts = offsets[ends - run.counts - 1], offsets[ends - 1]
    lengths = np.delete(np.diff(offsets), ends[:-1] - 1)
    if len(lengths) and lengths.min() < 0:
        index = int(np.searchsorted(np.cumsum(run.counts), int((lengths < 0).argmax()), side="right"))
        raise pages.corrupt(run.first_batch + index, "offsets decrease", "ascending offsets", lengths.min())
    if (firsts < 0).any():
        index = int((firsts < 0).argmax())
        raise pages.corrupt(run.first_batch + index, "negative offset", "at least 0", firsts[index])
    return Extents(lengths, firsts, lasts, offsets, ends)
