"""Picking single values: work that asks for many short byte ranges and goes on when they are there.

Most pages need one read once their index is known; where a page has an entry per row in its index, that comes
first. As generators the pages of several columns are read together, round by round.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int64s = npt.NDArray[np.int64]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pieces:
    """Byte ranges of a file; both arrays are int64."""

    offsets: Int64s
    lengths: Int64s


Picking = Generator[Pieces, pa.Buffer, T]
"""Yields the pieces that are needed next, is sent their bytes one after the other, returns the result."""

ReadPieces = Callable[[Int64s, Int64s], pa.Buffer]
"""Reads the ranges at offsets and of lengths; gives their bytes one after the other."""


def pick_together(parts: Sequence[Picking[T]], read: ReadPieces) -> list[T]:
    """Bring all of `parts` what they ask for, one read per round, until they are done."""
    results: dict[int, T] = {}
    asked: list[tuple[int, Picking[T], Pieces]] = []
    for number, part in enumerate(parts):
        try:
            asked.append((number, part, next(part)))
        except StopIteration as done:
            results[number] = done.value
    while asked:
        data = _read(read, [pieces for _, _, pieces in asked])
        again: list[tuple[int, Picking[T], Pieces]] = []
        for (number, part, _), mine in zip(asked, data, strict=True):
            try:
                again.append((number, part, part.send(mine)))
            except StopIteration as done:
                results[number] = done.value
        asked = again
    return [results[number] for number in range(len(parts))]


def _read(read: ReadPieces, asked: Sequence[Pieces]) -> list[pa.Buffer]:
    """The bytes of each of `asked`, from one read."""
    if len(asked) == 1:
        return [read(asked[0].offsets, asked[0].lengths)]
    offsets = np.concatenate([pieces.offsets for pieces in asked])
    lengths = np.concatenate([pieces.lengths for pieces in asked])
    data = read(offsets, lengths)
    parts, start = [], 0
    for pieces in asked:
        size = int(pieces.lengths.sum())
        parts.append(data.slice(start, size))
        start += size
    return parts
