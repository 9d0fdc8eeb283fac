"""Layout of the lower bits of RaBitQ codes: blocks of 64 elements, padded with zeros.

    bits  bytes   content
    1     8       bit i = element i
    2     16      byte b: elements b, b + 16, b + 32, b + 48, lowest bits first
    3     24      as 2 bits; then the top bits
    4     32      byte 8j + b, b < 8: element 16j + b in the low half, 16j + 8 + b in the high half
    5     40      byte 16j + b, b < 16: element 32j + b in the low half, 32j + 16 + b in the high half;
                  then the top bits
    6     48      byte 16k + b, k < 3: element 16k + b in the low 6 bits; in the high 2 bits the bits 2k
                  and 2k + 1 of element 48 + b
    7     56      as 6 bits; then the top bits
    8     64      byte i = element i

The top bits take 8 bytes: bit `2k + b // 8` of byte `b % 8` is the top bit of element `16k + b`.

Source: docs/format.md, "Index files".
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from lance_core.index.vector.layouts import Codes

BLOCK = 64


def bytes_per_row(dimension: int, num_bits: int) -> int:
    """Return the bytes of the elements of a row."""
    return -(-dimension // BLOCK) * BLOCK * num_bits // 8


def unblocked(codes: Codes, dimension: int, num_bits: int) -> Codes:
    """Return the elements of rows, one byte each: `(rows, dimension)`."""
    bits = np.unpackbits(codes.reshape(len(codes), -1, 8 * num_bits), axis=-1, bitorder="little")
    elements = np.packbits(bits[..., _places(num_bits)], axis=-1, bitorder="little")
    return np.ascontiguousarray(elements.reshape(len(codes), -1)[:, :dimension])


def blocked(elements: Codes, num_bits: int) -> Codes:
    """Return the bytes of rows of elements, which have one byte each."""
    num_rows, dimension = elements.shape
    num_blocks = -(-dimension // BLOCK)
    padded = np.zeros((num_rows, num_blocks * BLOCK), np.uint8)
    padded[:, :dimension] = elements
    bits = np.unpackbits(
        padded.reshape(num_rows, num_blocks, BLOCK, 1), axis=-1, count=num_bits, bitorder="little"
    )
    stored = np.empty((*bits.shape[:2], BLOCK * num_bits), np.uint8)
    stored[..., _places(num_bits)] = bits
    return np.packbits(stored, axis=-1, bitorder="little").reshape(
        num_rows, bytes_per_row(dimension, num_bits)
    )


@cache
def _places(num_bits: int) -> npt.NDArray[np.intp]:
    """Return where a block has each bit of each element: `(BLOCK, num_bits)` numbers of bits."""
    i, bit = np.indices((BLOCK, num_bits))
    if num_bits in (3, 5, 7):
        low = _pairs_of_halves() if num_bits == 5 else _places(num_bits - 1)
        b = i[:, 0] % 16
        top = 8 * (8 * (num_bits - 1) + b % 8) + 2 * (i[:, 0] // 16) + b // 8
        return np.column_stack((low, top))
    if num_bits == 2:
        return 8 * (i % 16) + 2 * (i // 16) + bit
    if num_bits == 4:
        return 8 * (8 * (i // 16) + i % 8) + 4 * (i // 8 % 2) + bit
    if num_bits == 6:
        return np.where(i < 48, 8 * i + bit, 8 * (16 * (bit // 2) + i % 16) + 6 + bit % 2)
    return num_bits * i + bit


def _pairs_of_halves() -> npt.NDArray[np.intp]:
    """Return where the lower 4 of 5 bits are."""
    i, bit = np.indices((BLOCK, 4))
    return 8 * (16 * (i // 32) + i % 16) + 4 * (i // 16 % 2) + bit
