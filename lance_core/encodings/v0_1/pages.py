"""Pages of 0.1 files: a position and a number of items for each batch of rows, and runs of items in them.

Nothing says how many bytes a page has, and nothing in the file is aligned. So every page is checked against
the size of the file when its column is opened, and bytes are moved to aligned memory when they are read.
Source: docs/format.md, "0.1".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.encodings.values import as_buffer
from lance_core.errors import CorruptFileError
from lance_core.kernels import Block
from lance_core.storage.base import ReadableFile

Numbers = npt.NDArray[np.int64]

_MOST_ITEMS = 1 << 40
"""Largest number of items of a page whose items take no bytes; the file size does not bound it."""


@dataclass(frozen=True)
class Run:
    """Items `[start, start + count)` of each of some consecutive batches."""

    first_batch: int
    starts: Numbers
    counts: Numbers

    @property
    def num_items(self) -> int:
        return int(self.counts.sum())

    @property
    def batches(self) -> slice:
        return slice(self.first_batch, self.first_batch + len(self.starts))


class Reader(Protocol):
    """Decodes the items of one field, whose children it knows."""

    @property
    def num_bytes(self) -> float:
        """About how many bytes all items of the file take as Arrow arrays."""

    def read(self, run: Run) -> pa.Array:
        """Return the items of a run as one array.

        Raises:
            CorruptFileError: the bytes contradict the format.
            OffsetOverflow: more than 32-bit offsets can address; the run has to be cut.
        """


@dataclass(frozen=True)
class Pages:
    """The pages of one field, one per batch."""

    file: ReadableFile
    column: str
    positions: Numbers
    lengths: Numbers
    """Items of each page."""

    def check_sizes(self, bits: int, *, extra_items: int = 0) -> None:
        """Check that each page lies in the file, if an item takes `bits` bits and `extra_items` follow.

        After this no position that is computed inside a page can leave the file or overflow.
        """
        known = (self.positions >= 0) & (self.positions <= self.file.size)
        most = (self.file.size - np.where(known, self.positions, 0)) * 8 // bits if bits else _MOST_ITEMS
        bad = ~known | (self.lengths < 0) | (self.lengths > most - extra_items)
        if bad.any():
            page = int(bad.argmax())
            raise self.corrupt(
                page,
                "page leaves the file",
                f"items of {bits} bits within {self.file.size} bytes",
                f"{self.lengths[page]} items at {self.positions[page]}",
            )

    def check_run(self, run: Run) -> None:
        """Check that the items of a run, which come from offsets in the file, are in their pages."""
        lengths = self.lengths[run.batches]
        bad = (run.starts < 0) | (run.starts > lengths) | (run.counts > lengths - run.starts)
        if bad.any():
            index = int(bad.argmax())
            raise self.corrupt(
                run.first_batch + index,
                "lists reach beyond the items of the page",
                f"at most {lengths[index]} items",
                f"{run.counts[index]} items from {run.starts[index]}",
            )

    def check_ranges(self, run: Run, positions: Numbers, sizes: Numbers) -> None:
        """Check that one range per batch of a run, which comes from numbers in the file, lies in it."""
        bad = (positions < 0) | (positions > self.file.size) | (sizes > self.file.size - positions)
        if bad.any():
            index = int(bad.argmax())
            raise self.corrupt(
                run.first_batch + index,
                "values leave the file",
                f"within {self.file.size} bytes",
                f"{sizes[index]} bytes at {positions[index]}",
            )

    def read(self, run: Run, positions: Numbers, sizes: Numbers) -> list[pa.Buffer]:
        """Return the bytes of one range per batch of a run, not aligned."""
        self.check_ranges(run, positions, sizes)
        return self.file.read_ranges(list(zip(positions.tolist(), sizes.tolist(), strict=True)))

    def corrupt(self, page: int, message: str, expected: object, found: object) -> CorruptFileError:
        """Return the error of one page, to be raised."""
        return CorruptFileError(
            message, file=self.file.name, column=self.column, page=page, expected=expected, found=found
        )


def join(buffers: Sequence[pa.Buffer]) -> pa.Buffer:
    """Return the bytes of all buffers in one aligned buffer; a single one that is aligned is not copied."""
    if len(buffers) == 1 and buffers[0].address % 64 == 0:
        return buffers[0]
    joined = as_buffer(Block(sum(buffer.size for buffer in buffers)))
    np.concatenate(
        [np.frombuffer(buffer, np.uint8) for buffer in buffers], out=np.frombuffer(joined, np.uint8)
    )
    return joined
