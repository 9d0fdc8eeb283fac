"""Page ranges: rows of pages that one call of a kernel reads and decodes, for all columns of a window."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core import kernels
from lance_core.counters import PAGE_READS
from lance_core.encodings.v2_1.direct import DecodedRows, direct_array


@dataclass(frozen=True, slots=True)
class PageRange:
    """Rows `[start, end)` of pages of one column of an open file, which a kernel decodes to one array."""

    pages: kernels.MiniBlocks | kernels.FlatPage
    reader: kernels.PieceReader
    start: int
    end: int
    leaf_type: pa.DataType
    list_type: pa.DataType | None
    """Type of the lists around the values; None without lists."""

    def array(self, rows: DecodedRows) -> pa.Array:
        """Return the array of these rows from the result of the kernel."""
        return direct_array(rows, self.leaf_type, self.list_type)


@dataclass(frozen=True, slots=True)
class PlainValues:
    """Values of one width in a local file, one after the other, without nulls."""

    reader: kernels.PieceReader
    offset: int
    width: int
    """Bytes of a value."""
    num_values: int


def decode_page_ranges(ranges: Sequence[PageRange]) -> list[pa.Array | None]:
    """Return the array of each page range; None if the kernel cannot decode it.

    Then the Python decoder has to run: it raises the error that names file, column and page.
    """
    wanted = [(one.pages, one.reader, one.start, one.end) for one in ranges]
    PAGE_READS.add(amount=len(wanted))
    decoded = kernels.decode_rows(wanted)
    return [None if rows is None else one.array(rows) for one, rows in zip(ranges, decoded, strict=True)]


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
    wanted = [(one.pages, one.reader, one.start, one.end) for one in ranges]
    PAGE_READS.add(amount=len(wanted))
    found = kernels.decode_batches(wanted, cuts.data)
    if not all(found.is_there):
        return None
    rows = pa.RecordBatch._import_from_c(found.address, schema)
    return ReadBatches(rows, found.num_bytes, found.largest_bits)
