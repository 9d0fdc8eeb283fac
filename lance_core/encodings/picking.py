"""Picking single values: a generator yields the short byte ranges that it needs, and is sent their bytes.

Most pages need one read once their index is known. If the index of a page has an entry per row, that entry
is read first. The generators of several columns run side by side, so that a round is one read for all.
"""

from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.kernels import Block

Int64s = npt.NDArray[np.int64]

T = TypeVar("T")


ByteRanges = tuple[Block | memoryview, Block | memoryview]
"""Offsets and lengths (int64) of byte ranges of a file."""

Picking = Generator[Sequence[ByteRanges], list[pa.Buffer], T]
"""Yields the byte ranges that it needs next, is sent their bytes, returns the result."""

ReadJoined = Callable[[Sequence[ByteRanges]], list[pa.Buffer]]
"""Returns for each entry the bytes of its ranges, joined."""


def together(parts: Sequence[Picking[T]]) -> Picking[list[T]]:
    """Run all of `parts` side by side: one read for the byte ranges of all of them in each round."""
    if len(parts) == 1:
        return [(yield from parts[0])]
    results: dict[int, T] = {}
    asked: list[tuple[int, Picking[T], Sequence[ByteRanges]]] = []
    for number, part in enumerate(parts):
        try:
            asked.append((number, part, next(part)))
        except StopIteration as done:
            results[number] = done.value
    while asked:
        data = yield [one for _, _, ranges in asked for one in ranges]
        again: list[tuple[int, Picking[T], Sequence[ByteRanges]]] = []
        end = 0
        for number, part, ranges in asked:
            begin, end = end, end + len(ranges)
            try:
                again.append((number, part, part.send(data[begin:end])))
            except StopIteration as done:
                results[number] = done.value
        asked = again
    return [results[number] for number in range(len(parts))]


def pick(picking: Picking[T], read: ReadJoined) -> T:
    """Bring `picking` what it asks for, one read per round, until it is done."""
    try:
        wanted = next(picking)
        while True:
            wanted = picking.send(read(wanted))
    except StopIteration as done:
        result: T = done.value
        return result
