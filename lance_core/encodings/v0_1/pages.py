"""Pages of 0.1 files: for each batch of rows a position and a number of items.

A 0.1 file stores no page sizes and aligns nothing. Therefore every page is checked against the size of the
file when its column is opened, and bytes are copied to aligned memory when they are read. Source:
docs/format.md, "0.1".
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
    """Items `[start, start + count)` of each of several consecutive batches."""

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
    """Reader of the items of one field and of the fields below it."""

    @property
    def num_bytes(self) -> float:
        """Estimated bytes of all items of the file as Arrow arrays."""

    def read(self, run: Run) -> pa.Array:
        """Return the items of a run as one array.

        Raises:
            CorruptFileError: the bytes contradict the format.
            OffsetOverflow: the items need offsets above 32 bits. The caller has to read a shorter run.
        """


@dataclass(frozen=True)
class Pages:
    """The pages of one field, one per batch."""

    file: ReadableFile
    column: str
    positions: Numbers
    lengths: Numbers
    """Number of items of each page."""

    def check_sizes(self, bits: int, *, extra_items: int = 0) -> None:
        """Check that each page lies in the file, if an item takes `bits` bits and `extra_items` follow the
        items.

        After this check, no position computed inside a page can leave the file or overflow.

        Raises:
            CorruptFileError: a page leaves the file.
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
        """Check that the items of a run exist. Runs of list items come from offsets in the file, which may be
        wrong.
        """
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
        """Check that the byte ranges, one per batch of the run, lie in the file. Their numbers come from the
        file.
        """
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
        """Return the bytes of each range, one per batch of the run. The buffers may be unaligned."""
        self.check_ranges(run, positions, sizes)
        return self.file.read_ranges(list(zip(positions.tolist(), sizes.tolist(), strict=True)))

    def corrupt(self, page: int, message: str, expected: object, found: object) -> CorruptFileError:
        """Return the error for a page. The caller raises it."""
        return CorruptFileError(
            message, file=self.file.name, column=self.column, page=page, expected=expected, found=found
        )


def join(buffers: Sequence[pa.Buffer]) -> pa.Buffer:
    """Return the bytes of all buffers in one aligned buffer. A single aligned buffer is not copied."""
    if len(buffers) == 1 and buffers[0].address % 64 == 0:
        return buffers[0]
    joined = as_buffer(Block(sum(buffer.size for buffer in buffers)))
    np.concatenate(
        [np.frombuffer(buffer, np.uint8) for buffer in buffers], out=np.frombuffer(joined, np.uint8)
    )
    return joined
