"""Pages of one leaf in many small files, one page per file, which are decoded as one page.

A page of few rows costs more to open than to decode. But the chunks of mini-block pages, and the entries of
full-zip pages, may stand behind those of another page with the same layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.picking import Int64s
from lance_core.encodings.v2_1.page import ByteRange
from lance_core.encodings.values import as_buffer

_RECORD = np.dtype(
    [
        ("layout", np.int64),
        ("num_rows", np.int64),
        ("num_items", np.int64),
        ("num_dictionary_items", np.int64),
        ("num_buffers", np.int64),
        ("buffers", np.int64, (4, 2)),
    ]
)
"""One page in the result of `kernels.parse_file_pages`. A buffer is a position in memory, and a size."""


@dataclass(frozen=True, slots=True)
class FilePages:
    """Pages of one leaf, of one file each, whose layouts are equal but for counts.

    Attributes:
        data: The bytes of all files.
        layout: The number of the layout of each page.
        num_rows, num_items, num_dictionary_items, num_buffers: One number of each page.
    """

    data: bytes
    _records: npt.NDArray[np.void]

    @classmethod
    def parse(cls, data: bytes, records: memoryview) -> FilePages:
        """Take the records of `kernels.parse_file_pages`, whose layouts may differ."""
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
        return self._column("num_items")

    @property
    def num_dictionary_items(self) -> Int64s:
        return self._column("num_dictionary_items")

    @property
    def num_buffers(self) -> Int64s:
        return self._column("num_buffers")

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


def check_size(num_bytes: int, most_bytes: int) -> None:
    """Check the estimated size of what is decoded from several pages.

    Raises:
        TooManyBytes: it is above `most_bytes`.
    """
    if num_bytes > most_bytes:
        raise TooManyBytes(f"{num_bytes} bytes")


@dataclass(frozen=True, slots=True)
class JoinedPage:
    """Description of the page that several pages make up, with buffers in memory of its own."""

    buffers: tuple[ByteRange, ...]
    num_rows: int
    encoding_type = ""
    encoding = b""


def nothing_to_fetch(ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
    """Return nothing: the data for finding rows of a joined page are known, so it asks for no bytes."""
    assert not ranges
    return []


def joined_buffer(pages: FilePages, number: int) -> pa.Buffer:
    """Return one buffer of all pages, one behind the other."""
    places = pages.buffers(number)
    return as_buffer(kernels.join_ranges(pages.data, places[:, 0].copy(), places[:, 1].copy()))
