"""Rows of pages that one call of a kernel reads and decodes, for all columns of a window."""

from collections.abc import Sequence
from dataclasses import dataclass

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
    """Of the lists around the values, where they stand in lists."""

    def array(self, rows: DecodedRows) -> pa.Array:
        """What the kernel gave for this piece."""
        return direct_array(rows, self.leaf_type, self.list_type)


def read_pieces(pieces: Sequence[Piece]) -> list[pa.Array | None]:
    """The array of each piece; `None` where something is wrong, which reading it the long way will tell."""
    wanted = [(piece.pages, piece.reader, piece.start, piece.end) for piece in pieces]
    decoded = kernels.decode_rows(wanted)
    return [None if rows is None else piece.array(rows) for piece, rows in zip(pieces, decoded, strict=True)]
