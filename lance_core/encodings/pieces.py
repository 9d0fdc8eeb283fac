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

Picking = Generator[Pieces, pa.Buffer, T]
"""Yields the pieces that are needed next, is sent their bytes one after the other, returns the result."""

ReadPieces = Callable[[Sequence[Pieces]], list[pa.Buffer]]
"""Reads pieces; gives the bytes of each, those of its ranges one after the other."""


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
        data = read([pieces for _, _, pieces in asked])
        again: list[tuple[int, Picking[T], Pieces]] = []
        for (number, part, _), mine in zip(asked, data, strict=True):
            try:
                again.append((number, part, part.send(mine)))
            except StopIteration as done:
                results[number] = done.value
        asked = again
    return [results[number] for number in range(len(parts))]
