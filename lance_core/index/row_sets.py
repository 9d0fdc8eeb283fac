"""Sets of row keys in index files, and their translation after rows moved.

Two containers hold Roaring bitmaps by the upper 32 bits of the keys:

    tree map     u32 n, then n times (u32 upper half, u32 size, 32-bit Roaring bitmap of that size)
    64-bit map   u64 n, then n times (u32 upper half, 32-bit Roaring bitmap): Roaring's own 64-bit format

In a tree map, size 0 means all 2^32 keys. No known writer uses it, and it is not supported here.

Source: Lance index format; docs/format.md, "Index files".
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyroaring

from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.index.moved_rows import Addresses, MovedRows

_COUNT = struct.Struct("<I")
_ENTRY = struct.Struct("<II")
_OFFSET_BITS = np.uint64(32)
_MOST_KEYS = 4 << 20
"""Number of keys that are translated together, unless a single fragment has more."""

Bitmaps = dict[int, pyroaring.BitMap]
"""Lower halves of keys by their upper half."""


class Container(Protocol):
    """Container of a set of row keys."""

    def read(self, data: bytes) -> Bitmaps:
        """Return the set in `data`. Raise `ValueError` or `struct.error` if the bytes
        contradict the format.
        """

    def write(self, bitmaps: Bitmaps) -> bytes:
        """Return the serialized set."""


class TreeMap:
    """Container of bitmap, label list and R-tree indices, and of null rows."""

    def read(self, data: bytes) -> Bitmaps:
        """Return the set, see `Container.read`. Raise `UnsupportedFeatureError` if an entry has size 0."""
        (count,) = _COUNT.unpack_from(data)
        place, bitmaps = _COUNT.size, {}
        for _ in range(count):
            upper, size = _ENTRY.unpack_from(data, place)
            place += _ENTRY.size
            if not size:
                raise UnsupportedFeatureError("a set of all rows of a fragment", found=upper)
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

    def read(self, data: bytes) -> Bitmaps:
        """Return the set, see `Container.read`."""
        keys = pyroaring.BitMap64.deserialize(data)
        if len(keys) <= _MOST_KEYS:
            return dict(_by_upper_half(np.asarray(keys.to_array(), np.uint64)))
        bitmaps: Bitmaps = {}
        while keys:
            start = keys.min() >> 32 << 32
            part = keys & pyroaring.BitMap64(range(start, start + (1 << 32)))
            bitmaps.update(_by_upper_half(np.asarray(part.to_array(), np.uint64)))
            keys.remove_range(start, start + (1 << 32))
        return bitmaps

    def write(self, bitmaps: Bitmaps) -> bytes:
        """Return the serialized set."""
        keys = pyroaring.BitMap64()
        for upper, bitmap in bitmaps.items():
            keys |= pyroaring.BitMap64(_keys(upper, bitmap))
        return bytes(keys.serialize())


def move_sets(sets: Sequence[bytes], container: Container, rows: MovedRows, file: str) -> list[bytes | None]:
    """Return the sets with the new keys of their rows; None for a set without remaining rows.

    The keys of many sets are translated together. At most a few million keys, or the keys of one fragment,
    are in memory beside the compressed sets.

    Raises:
        CorruptFileError: a set in `file` does not decode.
        UnsupportedFeatureError: a tree map has an entry of size 0.
    """
    moved: list[Bitmaps] = [{} for _ in sets]
    try:
        for run in _runs(container.read(data) for data in sets):
            keys = [_keys(upper, bitmap) for _, upper, bitmap in run]
            ends = np.cumsum([len(each) for each in keys])
            translated, kept = rows.translate(np.concatenate(keys))
            for (number, _, _), part, flags in zip(
                run, np.split(translated, ends[:-1]), np.split(kept, ends[:-1]), strict=True
            ):
                for upper, bitmap in _by_upper_half(part[flags]):
                    moved[number][upper] = moved[number].get(upper, pyroaring.BitMap()) | bitmap
    except (struct.error, ValueError, IndexError) as error:
        if isinstance(error, CorruptFileError):
            raise
        raise CorruptFileError("a set of rows does not decode", file=file, found=error) from None
    return [container.write(bitmaps) if bitmaps else None for bitmaps in moved]


def move_set(data: bytes, container: Container, rows: MovedRows, file: str) -> bytes:
    """Return one set with the new keys of its rows, as `move_sets` does."""
    return move_sets([data], container, rows, file)[0] or container.write({})


def move_column(sets: pa.Array, container: Container, rows: MovedRows, file: str) -> pa.Array:
    """Return a column of sets with the new keys of their rows; null for a set without remaining rows."""
    return pa.array(move_sets(sets.to_pylist(), container, rows, file), sets.type)


def _runs(sets: Iterable[Bitmaps]) -> Iterator[list[tuple[int, int, pyroaring.BitMap]]]:
    """Yield lists of bounded size; each item is the number of a set, an upper half and its lower halves."""
    run: list[tuple[int, int, pyroaring.BitMap]] = []
    num_keys = 0
    for number, bitmaps in enumerate(sets):
        for upper, bitmap in bitmaps.items():
            if run and num_keys + len(bitmap) > _MOST_KEYS:
                yield run
                run, num_keys = [], 0
            run.append((number, upper, bitmap))
            num_keys += len(bitmap)
    if run:
        yield run


def _keys(upper: int, bitmap: pyroaring.BitMap) -> Addresses:
    lower = np.asarray(bitmap.to_array(), np.uint32).astype(np.uint64)
    return (np.uint64(upper) << _OFFSET_BITS) | lower


def _by_upper_half(keys: Addresses) -> Iterator[tuple[int, pyroaring.BitMap]]:
    """Yield the keys by upper half. An upper half may come in any order and more than once."""
    if not len(keys):
        return
    uppers = keys >> _OFFSET_BITS
    starts = np.concatenate(([0], np.flatnonzero(uppers[1:] != uppers[:-1]) + 1)).astype(np.int64)
    for upper, part in zip(uppers[starts].tolist(), np.split(keys, starts[1:]), strict=True):
        yield upper, pyroaring.BitMap(part.astype(np.uint32))
