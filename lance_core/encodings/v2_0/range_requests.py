"""Requests of byte ranges in rounds: a generator requests ranges, gets their bytes, and may request more.

A string takes two rounds: its ends tell where its bytes are. As generators, the reads of several columns
share their rounds: the ranges that they request in the same round are read together.
"""

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import TypeVar

import numpy as np
import pyarrow as pa

from lance_core.encodings.picking import Picking

ByteRange = tuple[int, int]
"""Offset in the file and length, in bytes."""

T = TypeVar("T")

Steps = Generator[list[ByteRange], list[pa.Buffer], T]
"""Generator that yields byte ranges, is sent their bytes, and returns the result."""

Fetch = Callable[[Sequence[ByteRange]], list[pa.Buffer]]
"""Reads byte ranges of a file."""


def run(steps: Steps[T], fetch: Fetch) -> T:
    """Run `steps`: read the ranges of each round with `fetch`, and return the result."""
    try:
        wanted = next(steps)
        while True:
            wanted = steps.send(fetch(wanted))
    except StopIteration as done:
        result: T = done.value
        return result


def together(parts: Sequence[Steps[T]]) -> Steps[list[T]]:
    """Run several generators side by side. The ranges of a round are requested together."""
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
    """Return steps that need no bytes, with `value` as their result."""
    return value
    yield []  # makes this function a generator


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
