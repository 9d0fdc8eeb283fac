"""Sets of row keys in index files, and the same sets after rows were moved.

Two containers hold Roaring bitmaps by the upper 32 bits of the keys:

    tree map     u32 n, then n times (u32 upper half, u32 size, 32-bit Roaring bitmap of that size)
    64-bit map   u64 n, then n times (u32 upper half, 32-bit Roaring bitmap): Roaring's own 64-bit format

In a tree map the size 0 stands for all 2^32 keys. No known writer writes that, and it is not supported here.
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
"""Keys that are translated together, unless one fragment has more."""

Bitmaps = dict[int, pyroaring.BitMap]
"""The lower halves of keys by their upper half."""


class Container(Protocol):
    """One of the two containers."""

    def read(self, data: bytes) -> Bitmaps:
        """Return a set. Raises `ValueError` or `struct.error` where the bytes contradict the format."""

    def write(self, bitmaps: Bitmaps) -> bytes:
        """Return the container of a set."""


class TreeMap:
    """The container of bitmap, label list and R-tree indices, and of null rows."""

    def read(self, data: bytes) -> Bitmaps:
        """See `Container.read`. A set that is not listed key by key is an `UnsupportedFeatureError`."""
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
        """See `Container.write`."""
        written = [_COUNT.pack(len(bitmaps))]
        for upper, bitmap in sorted(bitmaps.items()):
            data = bytes(bitmap.serialize())
            written += (_ENTRY.pack(upper, len(data)), data)
        return b"".join(written)


class Map64:
    """The container of n-gram indices."""

    def read(self, data: bytes) -> Bitmaps:
        """See `Container.read`."""
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
        """See `Container.write`."""
        keys = pyroaring.BitMap64()
        for upper, bitmap in bitmaps.items():
            keys |= pyroaring.BitMap64(_keys(upper, bitmap))
        return bytes(keys.serialize())


def move_sets(sets: Sequence[bytes], container: Container, rows: MovedRows, file: str) -> list[bytes | None]:
    """Return the sets with the keys that rows have now, None where no row is left.

    The keys of many sets are translated together. At most a few million keys, or those of one fragment, are
    in memory beside the compressed sets.

    Raises:
        CorruptFileError: a set in `file` does not decode.
        UnsupportedFeatureError: a set that is not listed key by key.
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
    """Return one set with the keys that rows have now, as `move_sets` does."""
    return move_sets([data], container, rows, file)[0] or container.write({})


def move_column(sets: pa.Array, container: Container, rows: MovedRows, file: str) -> pa.Array:
    """Return a column of sets with the keys that rows have now; null where no row is left."""
    return pa.array(move_sets(sets.to_pylist(), container, rows, file), sets.type)


def _runs(sets: Iterable[Bitmaps]) -> Iterator[list[tuple[int, int, pyroaring.BitMap]]]:
    """Number of the set, upper half and lower halves, in lists of bounded size."""
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
    """Yield the keys, whose upper halves may come in any order and more than once."""
    if not len(keys):
        return
    uppers = keys >> _OFFSET_BITS
    starts = np.concatenate(([0], np.flatnonzero(uppers[1:] != uppers[:-1]) + 1)).astype(np.int64)
    for upper, part in zip(uppers[starts].tolist(), np.split(keys, starts[1:]), strict=True):
        yield upper, pyroaring.BitMap(part.astype(np.uint32))
