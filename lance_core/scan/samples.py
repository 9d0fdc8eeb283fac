"""Row offsets and other items chosen at random, and batches in another order or of another size."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.errors import InvalidInputError

T = TypeVar("T")

_SHUFFLED_BATCHES = 256
"""Batches in memory from which the next one of a filtered, random order is chosen."""


def spread_runs(num_rows: int, n: int, num_runs: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return `n` row offsets in ascending order: one run of neighbours from each of `num_runs` parts.

    The chosen rows and the rows that are left out are both divided evenly among the parts.
    """
    chosen, left_out = _even_parts(n, num_runs), _even_parts(num_rows - n, num_runs)
    ends = np.cumsum(chosen + left_out)
    starts = ends - chosen - left_out + rng.integers(0, left_out, endpoint=True)
    before = np.cumsum(chosen) - chosen
    return np.repeat(starts - before, chosen) + np.arange(n)


def _even_parts(total: int, num_parts: int) -> npt.NDArray[np.int64]:
    parts = np.full(num_parts, total // num_parts, dtype=np.int64)
    parts[: total % num_parts] += 1
    return parts


def regrouped(batches: Iterable[pa.RecordBatch], num_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `batches` in batches of `num_rows`. The last batch may have fewer rows."""
    waiting: list[pa.RecordBatch] = []
    num_waiting = 0
    for batch in batches:
        waiting.append(batch)
        num_waiting += batch.num_rows
        if num_waiting >= num_rows:
            joined = pa.concat_batches(waiting)
            full = num_waiting - num_waiting % num_rows
            for start in range(0, full, num_rows):
                yield joined.slice(start, num_rows)
            waiting, num_waiting = [joined.slice(full)], num_waiting - full
    if num_waiting:
        yield pa.concat_batches(waiting)


def shuffled(batches: Iterable[pa.RecordBatch], rng: random.Random) -> Iterator[pa.RecordBatch]:
    """Yield the batches in an order that is random among neighbours."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        if len(held) < _SHUFFLED_BATCHES:
            held.append(batch)
            continue
        slot = rng.randrange(len(held))
        chosen, held[slot] = held[slot], batch
        yield chosen
    rng.shuffle(held)
    yield from held


@dataclass(order=True)
class PrioritizedItem(Generic[T]):
    """An item of a heap. Only priorities are compared."""

    priority: int
    item: T = field(compare=False)


def reservoir_sampling(stream: Iterable[T], k: int) -> list[T]:
    """Return `k` items chosen at random in one pass, or all items if there are no more.

    No more than `k` items are in memory at once. Their order has no meaning. `random.seed` makes the choice
    repeatable.

    Raises:
        InvalidInputError: `k` is below 1.
    """
    if k < 1:
        raise InvalidInputError("k", expected="1 or more", found=k)
    chosen: list[T] = []
    for number, item in enumerate(stream):
        if number < k:
            chosen.append(item)
        elif (slot := random.randrange(number + 1)) < k:
            chosen[slot] = item
    return chosen
