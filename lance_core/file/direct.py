"""Rows of pages that one call of a kernel reads and decodes, for all columns of a window."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.v2_1.direct import DecodedRows, direct_array


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows `[start, end)` of pages of a column of an open file."""

    pages: kernels.MiniBlocks
    reader: kernels.PieceReader
    keeps_open: object
    """Holds the descriptor of the reader for as long as the piece lives."""
    start: int
    end: int
    leaf_type: pa.DataType
    list_type: pa.DataType | None
    """Type of the lists around the values; None without lists."""

    def array(self, rows: DecodedRows) -> pa.Array:
        """Return the array of this piece from the result of the kernel."""
        return direct_array(rows, self.leaf_type, self.list_type)


def read_pieces(pieces: Sequence[Piece]) -> list[pa.Array | None]:
    """Return the array of each piece; None if the kernel cannot decode it: then the Python
    decoder runs and raises the error.
    """
    wanted = [(piece.pages, piece.reader, piece.start, piece.end) for piece in pieces]
    decoded = kernels.decode_rows(wanted)
    return [None if rows is None else piece.array(rows) for piece, rows in zip(pieces, decoded, strict=True)]


@dataclass(frozen=True, slots=True)
class ReadBatches:
    """Rows of several batches in one piece of memory.

    Attributes:
        num_bytes: Of all values; counted like `lance_core.scan.read.value_sizes`.
        largest_bits: Of the values of the largest batch of more than one row.
    """

    rows: pa.RecordBatch
    num_bytes: int
    largest_bits: int


def read_batches(
    pieces: Sequence[Piece], cuts: npt.NDArray[np.int64], schema: pa.Schema
) -> ReadBatches | None:
    """Columns of the same rows, one piece each, in one step; `None` where something is wrong with any.

    `cuts` are the rows where batches begin and end, from 0 on.
    """
    wanted = [(piece.pages, piece.reader, piece.start, piece.end) for piece in pieces]
    found = kernels.decode_batches(wanted, cuts.data)
    if not all(found.is_there):
        return None
    rows = pa.RecordBatch._import_from_c(found.address, schema)
    return ReadBatches(rows, found.num_bytes, found.largest_bits)
