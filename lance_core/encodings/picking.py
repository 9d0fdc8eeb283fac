"""Picking single values: work that asks for many short byte ranges and goes on when they are there.

Most pages need one read once their index is known; where a page has an entry per row in its index, that comes
first. As generators the pages of several columns are read together, round by round.
"""

from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.kernels import Block

Int64s = npt.NDArray[np.int64]

T = TypeVar("T")


Pieces = tuple[Block | memoryview, Block | memoryview]
"""Offsets and lengths (int64) of byte ranges of a file."""

Picking = Generator[Sequence[Pieces], list[pa.Buffer], T]
"""Yields the pieces that are needed next, is sent the bytes of each, returns the result."""

ReadPieces = Callable[[Sequence[Pieces]], list[pa.Buffer]]
"""Reads pieces; gives the bytes of each, those of its ranges one after the other."""


def together(parts: Sequence[Picking[T]]) -> Picking[list[T]]:
    """All of `parts` side by side: what they need in one round is read at once."""
    if len(parts) == 1:
        return [(yield from parts[0])]
    results: dict[int, T] = {}
    asked: list[tuple[int, Picking[T], Sequence[Pieces]]] = []
    for number, part in enumerate(parts):
        try:
            asked.append((number, part, next(part)))
        except StopIteration as done:
            results[number] = done.value
    while asked:
        data = yield [piece for _, _, pieces in asked for piece in pieces]
        again: list[tuple[int, Picking[T], Sequence[Pieces]]] = []
        end = 0
        for number, part, pieces in asked:
            begin, end = end, end + len(pieces)
            try:
                again.append((number, part, part.send(data[begin:end])))
            except StopIteration as done:
                results[number] = done.value
        asked = again
    return [results[number] for number in range(len(parts))]


def pick(picking: Picking[T], read: ReadPieces) -> T:
    """Bring `picking` what it asks for, one read per round, until it is done."""
    try:
        wanted = next(picking)
        while True:
            wanted = picking.send(read(wanted))
    except StopIteration as done:
        result: T = done.value
        return result
