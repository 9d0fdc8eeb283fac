"""Sets of row keys in index files, translated after rows moved."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyroaring

from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.index.moving.moved_rows import Moves
from lance_core.index.row_sets import ALL, Bitmaps, Container, by_upper_half, keys_of

_MOST_KEYS = 4 << 20
"""Number of keys that are translated together, unless a single fragment has more."""


def move_sets(sets: Sequence[bytes], container: Container, rows: Moves, file: str) -> list[bytes | None]:
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
            keys = [keys_of(upper, bitmap) for _, upper, bitmap in run]
            ends = np.cumsum([len(each) for each in keys])
            translated, kept = rows.translate(np.concatenate(keys))
            for (number, _, _), part, flags in zip(
                run, np.split(translated, ends[:-1]), np.split(kept, ends[:-1]), strict=True
            ):
                for upper, bitmap in by_upper_half(part[flags]):
                    moved[number][upper] = moved[number].get(upper, pyroaring.BitMap()) | bitmap
    except (struct.error, ValueError, IndexError) as error:
        if isinstance(error, CorruptFileError):
            raise
        raise CorruptFileError("a set of rows does not decode", file=file, found=error) from None
    return [container.write(bitmaps) if bitmaps else None for bitmaps in moved]


def move_set(data: bytes, container: Container, rows: Moves, file: str) -> bytes:
    """Return one set with the new keys of its rows, as `move_sets` does."""
    return move_sets([data], container, rows, file)[0] or container.write({})


def move_column(sets: pa.Array, container: Container, rows: Moves, file: str) -> pa.Array:
    """Return a column of sets with the new keys of their rows; null for a set without remaining rows."""
    return pa.array(move_sets(sets.to_pylist(), container, rows, file), sets.type)


def _runs(sets: Iterable[Bitmaps]) -> Iterator[list[tuple[int, int, pyroaring.BitMap]]]:
    """Yield lists of bounded size; each item is the number of a set, an upper half and its lower halves."""
    run: list[tuple[int, int, pyroaring.BitMap]] = []
    num_keys = 0
    for number, bitmaps in enumerate(sets):
        for upper, bitmap in bitmaps.items():
            if bitmap is ALL:
                raise UnsupportedFeatureError("a set of all rows of a fragment", found=upper)
            if run and num_keys + len(bitmap) > _MOST_KEYS:
                yield run
                run, num_keys = [], 0
            run.append((number, upper, bitmap))
            num_keys += len(bitmap)
    if run:
        yield run
