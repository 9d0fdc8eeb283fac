"""Series: one kind of dataset in growing sizes, and the times of the same tasks at each size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Point:
    """Times of one task at one size.

    Attributes:
        size: Value on the axis of the series.
        task: Name of the task.
        ours, peer: Median seconds.
    """

    size: int
    task: str
    ours: float
    peer: float

    @property
    def ratio(self) -> float:
        """Time of the peer as a multiple of ours."""
        return self.peer / self.ours


@dataclass(frozen=True)
class Series:
    """One kind of dataset or load in growing sizes.

    Attributes:
        name: Name on the command line, and of the plot.
        axis: What grows.
        peer: Name of what is compared.
        sizes: Values on the axis.
        times: What the times are.
        measure: Function that yields the points of one size. Its arguments are the folder of the data, the
            size, and the number of runs.
    """

    name: str
    axis: str
    peer: str
    sizes: Sequence[int]
    times: str
    measure: Callable[[Path, int, int], Iterator[Point]]
