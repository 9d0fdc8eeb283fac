"""Sets of row keys in index files.

Two containers hold Roaring bitmaps by the upper 32 bits of the keys:

    tree map     u32 n, then n times (u32 upper half, u32 size, 32-bit Roaring bitmap of that size)
    64-bit map   u64 n, then n times (u32 upper half, 32-bit Roaring bitmap): Roaring's own 64-bit format

In a tree map, size 0 means all 2^32 keys with the upper half. No known writer uses it, and it is only read.

Source: Lance index format; docs/format.md, "Index files".
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyroaring

from lance_core.number_sets import bitmap_of

_COUNT = struct.Struct("<I")
_LONG_COUNT = struct.Struct("<Q")
_ENTRY = struct.Struct("<II")
_OFFSET_BITS = np.uint64(32)
_MOST_KEYS = 4 << 20
"""Number of keys that become an array together, unless one upper half has more."""

_FEW_VALUES = 64

Keys = npt.NDArray[np.uint64]

Bitmaps = dict[int, pyroaring.BitMap]
"""Lower halves of keys by their upper half."""


class Container(Protocol):
    """Container of a set of row keys.

    Attributes:
        is_tree_map: Whether it is a tree map; otherwise it is a 64-bit map.
    """

    is_tree_map: bool

    def read(self, data: bytes) -> Bitmaps:
        """Return the set in `data`. Raise `ValueError` or `struct.error` if the bytes
        contradict the format.
        """

    def write(self, bitmaps: Bitmaps) -> bytes:
        """Return the serialized set."""


ALL = pyroaring.BitMap(range(1 << 32))
"""All lower halves."""


class TreeMap:
    """Container of bitmap, label list and R-tree indices, and of null rows."""

    is_tree_map = True

    def read(self, data: bytes) -> Bitmaps:
        """Return the set, see `Container.read`. An entry of size 0 becomes `ALL`."""
        (count,) = _COUNT.unpack_from(data)
        place, bitmaps = _COUNT.size, {}
        for _ in range(count):
            upper, size = _ENTRY.unpack_from(data, place)
            place += _ENTRY.size
            if not size:
                bitmaps[upper] = ALL
                continue
            if place + size > len(data):
                raise ValueError(f"{size} bytes at {place} of {len(data)}")
            bitmaps[upper] = pyroaring.BitMap.deserialize(data[place : place + size])
            place += size
        return bitmaps

    def write(self, bitmaps: Bitmaps) -> bytes:
        """Return the serialized set."""
        written = [_COUNT.pack(len(bitmaps))]
        for upper, bitmap in sorted(bitmaps.items()):
            data = bytes(bitmap.serialize())
            written += (_ENTRY.pack(upper, len(data)), data)
        return b"".join(written)


class Map64:
    """Container of n-gram indices."""

    is_tree_map = False

    def read(self, data: bytes) -> Bitmaps:
        """Return the set, see `Container.read`."""
        keys = pyroaring.BitMap64.deserialize(data)
        if len(keys) <= _MOST_KEYS:
            return dict(by_upper_half(np.asarray(keys.to_array(), np.uint64)))
        bitmaps: Bitmaps = {}
        while keys:
            start = keys.min() >> 32 << 32
            part = keys & pyroaring.BitMap64(range(start, start + (1 << 32)))
            bitmaps.update(by_upper_half(np.asarray(part.to_array(), np.uint64)))
            keys.remove_range(start, start + (1 << 32))
        return bitmaps

    def write(self, bitmaps: Bitmaps) -> bytes:
        """Return the serialized set."""
        written = [_LONG_COUNT.pack(len(bitmaps))]
        for upper, bitmap in sorted(bitmaps.items()):
            written += (_COUNT.pack(upper), bytes(bitmap.serialize()))
        return b"".join(written)


class RowSet:
    """Set of row keys that is gathered from many arrays. It is compressed all the time."""

    def __init__(self) -> None:
        self._bitmaps: Bitmaps = {}

    def __bool__(self) -> bool:
        return bool(self._bitmaps)

    def add(self, keys: Keys) -> None:
        """Add keys in any order."""
        self.update(by_upper_half(keys))

    def update(self, bitmaps: Iterable[tuple[int, pyroaring.BitMap]]) -> None:
        """Add the keys of bitmaps of lower halves, each with its upper half."""
        for upper, bitmap in bitmaps:
            if upper in self._bitmaps:
                self._bitmaps[upper] |= bitmap
            else:
                self._bitmaps[upper] = bitmap

    def to_bytes(self, container: Container) -> bytes:
        """Return the serialized set."""
        return container.write(self._bitmaps)


def num_bytes(bitmap: pyroaring.BitMap) -> int:
    """Return the bytes of a bitmap in memory, at most; those of a large bitmap exactly."""
    if len(bitmap) < _FEW_VALUES:  # a value takes two bytes at most
        return 2 * len(bitmap)
    found = bitmap.get_statistics()
    return (
        found["n_bytes_array_containers"]
        + found["n_bytes_run_containers"]
        + found["n_bytes_bitset_containers"]
    )


def keys_of(upper: int, bitmap: pyroaring.BitMap) -> Keys:
    """Return the keys with an upper half, ascending."""
    lower = np.asarray(bitmap.to_array(), np.uint32).astype(np.uint64)
    return (np.uint64(upper) << _OFFSET_BITS) | lower


def by_upper_half(keys: Keys) -> Iterator[tuple[int, pyroaring.BitMap]]:
    """Yield the keys by upper half. An upper half may come in any order and more than once."""
    if not len(keys):
        return
    uppers = keys >> _OFFSET_BITS
    starts = np.concatenate(([0], np.flatnonzero(uppers[1:] != uppers[:-1]) + 1)).astype(np.int64)
    for upper, part in zip(uppers[starts].tolist(), np.split(keys, starts[1:]), strict=True):
        yield upper, bitmap_of(part)
