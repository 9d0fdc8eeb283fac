"""Pages of one column in many small files, one page per file, which are decoded as one page.

A page of few rows costs more to open than to decode. But the buffers of a page may stand behind those of
another page with the same layout.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.picking import Int64s
from lance_core.encodings.values import as_buffer

_RECORD = np.dtype(
    [
        ("layout", np.int64),
        ("num_rows", np.int64),
        ("counts", np.int64, 2),
        ("num_buffers", np.int64),
        ("buffers", np.int64, (4, 2)),
        ("symbols", np.int64, 2),
    ]
)
"""One page in the result of the kernels that parse pages. A buffer is a position in memory, and a size."""


@dataclass(frozen=True, slots=True)
class FilePages:
    """Pages of one column, of one file each.

    Attributes:
        data: The bytes of all files.
        layout: The number of the layout of each page.
        num_rows, num_buffers: One number of each page.
        num_items, num_dictionary_items: One number of each page of 2.1 and 2.2.
    """

    data: bytes
    _records: npt.NDArray[np.void]

    @classmethod
    def parse(cls, data: bytes, records: memoryview) -> FilePages:
        """Take the records of a kernel."""
        return cls(data, np.frombuffer(records, _RECORD))

    def some(self, numbers: Int64s) -> FilePages:
        """Return the pages with these numbers."""
        return FilePages(self.data, self._records[numbers])

    @property
    def layout(self) -> Int64s:
        return self._column("layout")

    @property
    def num_rows(self) -> Int64s:
        return self._column("num_rows")

    @property
    def num_items(self) -> Int64s:
        return self.counts(0)

    @property
    def num_dictionary_items(self) -> Int64s:
        return self.counts(1)

    @property
    def num_buffers(self) -> Int64s:
        return self._column("num_buffers")

    def counts(self, number: int) -> Int64s:
        """Return one of the numbers that descriptions of pages have, but not their layout, of each page."""
        counts: Int64s = self._column("counts")[:, number]
        return counts

    def symbol_tables(self) -> list[bytes]:
        """Return the symbol table of each page of 2.1 and 2.2, which is empty without FSST."""
        places = self._column("symbols")
        if not places[:, 1].any():
            return [b""] * len(places)
        return [self.data[begin:end] for begin, end in np.cumsum(places, axis=1).tolist()]

    def buffers(self, number: int) -> Int64s:
        """Return position in `data` and size of one buffer of each page, in two columns. A negative `number`
        counts from the last buffer.
        """
        places = self._column("buffers")
        numbers = self.num_buffers + number if number < 0 else np.full(len(places), number)
        chosen: Int64s = places[np.arange(len(places)), numbers]
        return chosen

    def _column(self, name: str) -> Int64s:
        numbers: Int64s = self._records[name]
        return numbers


class TooManyBytes(Exception):  # noqa: N818 - a caller reads fewer rows at once
    """Pages that are decoded together would take more memory than the caller allows."""


class Room:
    """The bytes that the values of a group of files may still take."""

    def __init__(self, most_bytes: int) -> None:
        self._left = most_bytes

    def take(self, num_bytes: int) -> None:
        """Take the estimated size of some values. Raises TooManyBytes if there is less room."""
        check_size(num_bytes, self._left)
        self._left -= num_bytes


def check_size(num_bytes: int, most_bytes: int) -> None:
    """Check the estimated size of what is decoded from several pages.

    Raises:
        TooManyBytes: it is above `most_bytes`.
    """
    if num_bytes > most_bytes:
        raise TooManyBytes(f"{num_bytes} bytes")


def joined_buffer(pages: FilePages, number: int) -> pa.Buffer:
    """Return one buffer of all pages, one behind the other."""
    places = pages.buffers(number)
    return as_buffer(kernels.join_ranges(pages.data, places[:, 0].copy(), places[:, 1].copy()))
