"""Bit packing as docs/format.md describes it, one value at a time."""

from __future__ import annotations

from collections.abc import Sequence

GROUP = 1024
ORDER = (0, 4, 2, 6, 1, 5, 3, 7)


def pack_group(values: Sequence[int], word_bits: int, width: int) -> bytes:
    """Up to 1024 values as `width` words for each of the 1024 / word_bits lanes."""
    lanes = GROUP // word_bits
    padded = [*values, *[0] * (GROUP - len(values))]
    words = [0] * (lanes * width)
    for lane in range(lanes):
        string = 0
        for row in range(word_bits):
            string |= padded[16 * ORDER[row // 8] + 128 * (row % 8) + lane] << (row * width)
        for k in range(width):
            words[k * lanes + lane] = (string >> (k * word_bits)) & ((1 << word_bits) - 1)
    return _words(words, word_bits)


def unpack_group(packed: bytes, word_bits: int, width: int) -> list[int]:
    """Return the 1024 values of a group, by the formula that finds the words of one value."""
    size = word_bits // 8
    word = [int.from_bytes(packed[i : i + size], "little") for i in range(0, len(packed), size)]
    lanes = GROUP // word_bits
    values = []
    for i in range(GROUP):
        lane = i & 127 & (lanes - 1)
        row = 8 * ORDER[((i & 127) >> 4) & ~(lanes // 16 - 1)] + (i >> 7)
        k, shift = divmod(row * width, word_bits)
        value = word[k * lanes + lane] >> shift if width else 0
        if shift + width > word_bits:
            value |= word[(k + 1) * lanes + lane] << (word_bits - shift)
        values.append(value & ((1 << width) - 1))
    return values


def pack_inline(values: Sequence[int], word_bits: int, width: int | None = None) -> bytes:
    """Return a chunk that carries its width: that of its largest value unless one is given."""
    if width is None:
        width = max(values, default=0).bit_length()
    return _words([width], word_bits) + pack_group(values, word_bits, width)


def pack_out_of_line(values: Sequence[int], word_bits: int, width: int, *, raw_tail: bool) -> bytes:
    """Full groups, then the rest as raw words or as one padded group."""
    full = len(values) // GROUP * GROUP
    groups = [pack_group(values[i : i + GROUP], word_bits, width) for i in range(0, full, GROUP)]
    tail = values[full:]
    if raw_tail or not tail:
        groups.append(_words(tail, word_bits))
    else:
        groups.append(pack_group(tail, word_bits, width))
    return b"".join(groups)


def _words(values: Sequence[int], word_bits: int) -> bytes:
    return b"".join(value.to_bytes(word_bits // 8, "little") for value in values)
