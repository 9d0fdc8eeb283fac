"""The byte forms of values: variable chunks and blocks, runs, split bytes, zipped entries, chunk headers."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import accumulate, groupby

Entry = tuple[int, int, bytes | None]
"""Repetition level, definition level, and the value of a visible entry."""


def integers(values: Sequence[int], bits: int) -> bytes:
    """Unsigned little-endian words."""
    return b"".join(value.to_bytes(bits // 8, "little") for value in values)


def variable_chunk(values: Sequence[bytes], offset_bits: int, gap: int = 0) -> bytes:
    """Offsets from the start of the buffer, a gap, the bytes, and padding to the width of an offset."""
    width = offset_bits // 8
    first = (len(values) + 1) * width + gap
    offsets = accumulate((len(value) for value in values), initial=first)
    chunk = integers(list(offsets), offset_bits) + b"?" * gap + b"".join(values)
    return chunk + b"H" * (-len(chunk) % width)


def variable_block(values: Sequence[bytes], offset_bits: int, gap: int = 0) -> bytes:
    """Width of the offsets, start of the bytes, offsets from 0, the bytes."""
    start = (len(values) + 3) * offset_bits // 8 + gap
    offsets = accumulate((len(value) for value in values), initial=0)
    return integers([offset_bits, start, *offsets], offset_bits) + b"?" * gap + b"".join(values)


def arrow_offsets(values: Sequence[bytes], offset_bits: int) -> bytes:
    """Offsets of an Arrow array."""
    return integers(list(accumulate((len(value) for value in values), initial=0)), offset_bits)


def runs(values: Sequence[int], bits: int) -> tuple[bytes, bytes]:
    """Run values and run lengths of at most 255."""
    heads, lengths = [], []
    for value, group in groupby(values):
        left = len(list(group))
        while left:
            heads.append(value)
            lengths.append(min(left, 255))
            left -= lengths[-1]
    return integers(heads, bits), bytes(lengths)


def run_block(values: Sequence[int], bits: int) -> bytes:
    """Size of the run values, run values, run lengths."""
    heads, lengths = runs(values, bits)
    return struct.pack("<Q", len(heads)) + heads + lengths


def split_bytes(values: Sequence[bytes]) -> bytes:
    """Byte 0 of all values, then byte 1 of all, and so on."""
    return b"".join(bytes(column) for column in zip(*values, strict=True))


def zip_entries(entries: Sequence[Entry], bits_rep: int, bits_def: int, length_bits: int = 0) -> bytes:
    """Full-zip entries: control word, length where the width is variable, value.

    With lengths only entries at definition level 0 carry a value; without, every one that has one.
    """
    total = bits_rep + bits_def
    width = 0 if total == 0 else 1 if total <= 8 else 2 if total <= 16 else 4
    out = bytearray()
    for rep, def_, value in entries:
        out += ((rep << bits_def) | def_).to_bytes(width, "little")
        if length_bits and def_ == 0:
            assert value is not None
            out += len(value).to_bytes(length_bits // 8, "little") + value
        elif not length_bits and value is not None:
            out += value
    return bytes(out)


def chunk(
    buffers: Sequence[bytes],
    *,
    num_levels: int = 0,
    rep: bytes | None = None,
    def_: bytes | None = None,
    large: bool = False,
    pad: bytes = b"\xfe",
) -> bytes:
    """Return a mini-block chunk: header, levels, value buffers, each piece padded to 8 bytes."""
    levels = [piece for piece in (rep, def_) if piece is not None]
    header = integers([num_levels, *map(len, levels)], 16)
    header += integers(list(map(len, buffers)), 32 if large else 16)
    return b"".join(piece + pad * (-len(piece) % 8) for piece in (header, *levels, *buffers))
