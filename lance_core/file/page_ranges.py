"""Page ranges: rows of pages that one call of a kernel reads and decodes, for all columns of a window."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.v2_1.layouts.direct import DecodedRows, direct_array
from lance_core.encodings.values import fixed_bits
from lance_core.file.row_runs import Rows
from lance_core.process.counters import PAGE_READS

_NUMBER_BITS = 128


class PageRange(NamedTuple):
    """Rows `[start, end)` of pages of one column of an open file, which a kernel decodes to one array."""

    pages: kernels.MiniBlocks | kernels.FlatPage
    reader: kernels.PieceReader
    start: int
    end: int
    leaf_type: pa.DataType
    list_type: pa.DataType | None
    """Type of the lists around the values; None without lists."""
    kept: tuple[Rows, int] | None = None
    """Ascending numbers of the wanted rows, and the number that row `start` has among these; None if all rows
    of the range are wanted.
    """

    def array(self, rows: DecodedRows) -> pa.Array:
        """Return the array of these rows from the result of the kernel."""
        return direct_array(rows, self.leaf_type, self.list_type)


def has_short_values(arrow_type: pa.DataType) -> bool:
    """Return whether values are numbers, or as short as numbers, with one width."""
    return 0 < fixed_bits(arrow_type) <= _NUMBER_BITS


@dataclass(frozen=True, slots=True)
class PlainValues:
    """Values of one width in a local file, one after the other, without nulls."""

    reader: kernels.PieceReader
    offset: int
    width: int
    """Bytes of a value."""
    num_values: int


def at_rows(ranges: Sequence[PageRange], first_row: int, rows: Rows, most_rows: int) -> list[PageRange]:
    """Return the parts of consecutive page ranges that have wanted rows, with these rows to keep.

    Args:
        first_row: Row number of the first row of the ranges.
        rows: Ascending numbers of the wanted rows, which are all in the ranges.
        most_rows: Most rows that are decoded at once, since some of them are dropped.
    """
    parts = []
    for one in ranges:
        end_row = first_row + one.end - one.start
        for begin in range(max(first_row, int(rows[0])), min(end_row, int(rows[-1]) + 1), most_rows):
            some = rows[slice(*np.searchsorted(rows, (begin, min(begin + most_rows, end_row))))]
            if len(some):
                first, end = int(some[0]), int(some[-1]) + 1
                kept = None if end - first == len(some) else (some, first)
                move = one.start - first_row
                parts.append(
                    PageRange(
                        one.pages, one.reader, first + move, end + move, one.leaf_type, one.list_type, kept
                    )
                )
        first_row = end_row
    return parts


def decode_page_ranges(ranges: Sequence[PageRange]) -> list[pa.Array | None]:
    """Return the array of each page range; None if the kernel cannot decode it.

    Then the Python decoder has to run: it raises the error that names file, column and page.
    """
    wanted = [one[:4] for one in ranges]
    PAGE_READS.add(amount=len(wanted))
    decoded = kernels.decode_rows(wanted, [one.kept for one in ranges])
    return [None if rows is None else one.array(rows) for one, rows in zip(ranges, decoded, strict=True)]


def decode_masked(ranges: Sequence[PageRange], mask: pa.BooleanArray) -> list[pa.Array] | None:
    """Return the values of consecutive page ranges for which a mask is true, an array per page range.

    The mask has no nulls, and begins with their first row. Returns None if the kernel cannot decode one of
    the page ranges: its values have no fixed width of whole bytes, or it is damaged.
    """
    starts = list(accumulate((one.end - one.start for one in ranges), initial=mask.offset))[:-1]
    decoded = kernels.decode_masked([one[:4] for one in ranges], mask.buffers()[1], starts)
    arrays = [one.array(rows) for one, rows in zip(ranges, decoded, strict=True) if rows is not None]
    if len(arrays) < len(ranges):
        return None
    PAGE_READS.add(amount=len(ranges))
    return arrays


@dataclass(frozen=True, slots=True)
class ReadBatches:
    """Rows of several batches, in one array per column.

    Attributes:
        num_bytes: Bytes of all values, counted like `lance_core.scan.read.value_sizes`.
        largest_bits: Bits of the values of the largest batch with more than one row.
    """

    rows: pa.RecordBatch
    num_bytes: int
    largest_bits: int


def read_batches(
    ranges: Sequence[PageRange], cuts: npt.NDArray[np.int64], schema: pa.Schema
) -> ReadBatches | None:
    """Return columns of the same rows, one page range each; None if the kernel cannot decode one of them.

    `cuts` are the rows where batches begin and end, counted from 0, first and last included.
    """
    wanted = [one[:4] for one in ranges]
    PAGE_READS.add(amount=len(wanted))
    found = kernels.decode_batches(wanted, cuts.data)
    if not all(found.is_there):
        return None
    rows = pa.RecordBatch._import_from_c(found.address, schema)
    return ReadBatches(rows, found.num_bytes, found.largest_bits)
