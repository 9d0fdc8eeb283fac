"""Reading in rounds: work that asks for bytes, goes on when they are there, and may ask again.

A string is two reads: its ends tell where its bytes are. Written as a generator such work stays in one
piece, and what several columns ask for in the same round is read together.
"""

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import TypeVar

import numpy as np
import pyarrow as pa

from lance_core.encodings.pieces import Picking

ByteRange = tuple[int, int]
"""Offset in the file and length, in bytes."""

T = TypeVar("T")

Steps = Generator[list[ByteRange], list[pa.Buffer], T]
"""Yields the ranges that are needed next, is sent their bytes, returns what was made of them."""

Fetch = Callable[[Sequence[ByteRange]], list[pa.Buffer]]
"""Reads byte ranges of a file."""


def run(steps: Steps[T], fetch: Fetch) -> T:
    """Bring `steps` what they ask for until they are done."""
    try:
        wanted = next(steps)
        while True:
            wanted = steps.send(fetch(wanted))
    except StopIteration as done:
        result: T = done.value
        return result


def together(parts: Sequence[Steps[T]]) -> Steps[list[T]]:
    """All of `parts` side by side: the ranges of one round are asked for at once."""
    results: dict[int, T] = {}
    asked: dict[int, list[ByteRange]] = {}

    def resume(part: int, step: Callable[[], list[ByteRange]]) -> None:
        try:
            asked[part] = step()
        except StopIteration as done:
            results[part] = done.value

    for part, steps in enumerate(parts):
        resume(part, steps.__next__)
    while asked:
        round_ = list(asked.items())
        asked.clear()
        buffers = iter((yield [wanted for _, ranges in round_ for wanted in ranges]))
        for part, ranges in round_:
            mine = [next(buffers) for _ in ranges]
            resume(part, partial(parts[part].send, mine))
    return [results[part] for part in range(len(parts))]


def nothing(value: T) -> Steps[T]:
    """Steps that need no bytes."""
    return value
    yield []  # what makes this a generator


def as_picking(steps: Steps[T]) -> Picking[T]:
    """Convert steps, which request ranges as pairs, into a picking, which requests arrays of offsets and
    lengths.
    """
    try:
        wanted = next(steps)
        while True:
            ranges = np.array(wanted, np.int64).reshape(-1, 2)
            offsets, lengths = (np.ascontiguousarray(column) for column in ranges.T)
            (data,) = yield [(offsets.data, lengths.data)]
            ends = np.cumsum(lengths).tolist()
            parts = [data.slice(end - length, length) for end, (_, length) in zip(ends, wanted, strict=True)]
            wanted = steps.send(parts)
    except StopIteration as done:
        result: T = done.value
        return result
