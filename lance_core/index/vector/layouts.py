"""Layouts of the codes of a partition that are not row after row.

Product codes are often stored byte by byte, and RaBitQ codes in blocks of 32 rows. Kernels that scan codes
read blocks of 64 rows, each byte by byte.

Source: docs/format.md, "Index files".
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.uint8]
"""Code bytes, one row per indexed row."""

_SCANNED_ROWS = 64
"""Rows of a block as kernels scan them."""
_BLOCK_ROWS = 32
"""Rows of a RaBitQ block in a file."""
_ROW_ORDER = np.array([0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15])
"""Order of the rows of half a RaBitQ block in its bytes."""


def transposed(codes: Codes) -> Codes:
    """Return the codes of a partition byte by byte: all first bytes, then all second bytes, ..."""
    return np.ascontiguousarray(codes.T).reshape(codes.shape)


def transposed_back(codes: Codes) -> Codes:
    """Return the codes that `transposed` made, row by row again."""
    return np.ascontiguousarray(codes.reshape(codes.shape[1], codes.shape[0]).T)


def scanned(columns: Codes) -> Codes:
    """Return the codes of a partition in blocks of 64 rows, the last one of fewer: [block][byte][row].

    `columns` has the codes byte by byte: [byte][row]. The result has as many bytes, in one row per row of
    the partition.
    """
    width, num_rows = columns.shape
    whole = num_rows // _SCANNED_ROWS * _SCANNED_ROWS
    turned = np.empty((num_rows, width), np.uint8)
    blocks, rest = turned[:whole].reshape(-1, width, _SCANNED_ROWS), turned[whole:].reshape(width, -1)
    blocks[:] = columns[:, :whole].reshape(width, -1, _SCANNED_ROWS).transpose(1, 0, 2)
    rest[:] = columns[:, whole:]
    return turned


def packed(codes: Codes) -> Codes:
    """Return the RaBitQ codes of a partition in blocks of 32 rows.

    A block has 32 bytes per code byte: byte `j` holds the low halves of row `_ROW_ORDER[j]` and of the row 16
    behind it, byte `j + 16` the high halves. The rows after the last whole block are transposed.
    """
    num_rows, width = codes.shape
    whole = num_rows // _BLOCK_ROWS * _BLOCK_ROWS
    blocks = codes[:whole].reshape(-1, 2, 16, width)[:, :, _ROW_ORDER]
    low = (blocks[:, 0] & 15) | (blocks[:, 1] << 4)
    high = (blocks[:, 0] >> 4) | (blocks[:, 1] & 0xF0)
    turned = np.concatenate((low, high), axis=1).transpose(0, 2, 1)
    return np.concatenate((turned.ravel(), transposed(codes[whole:]).ravel())).reshape(codes.shape)


def unpacked(codes: Codes) -> Codes:
    """Return the codes that `packed` made, row by row again."""
    num_rows, width = codes.shape
    whole = num_rows // _BLOCK_ROWS * _BLOCK_ROWS
    low, high = np.split(codes[:whole].reshape(-1, width, _BLOCK_ROWS).transpose(0, 2, 1), 2, axis=1)
    halves = np.empty((whole // _BLOCK_ROWS, 2, 16, width), np.uint8)
    halves[:, 0, _ROW_ORDER] = (low & 15) | (high << 4)
    halves[:, 1, _ROW_ORDER] = (low >> 4) | (high & 0xF0)
    return np.concatenate((halves.reshape(whole, width), transposed_back(codes[whole:])))
