"""Functions that worker processes run in tests of pickles: a spawned process can import them."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

import lance_core


@contextmanager
def spawned(num_workers: int = 2) -> Iterator[ProcessPoolExecutor]:
    """Worker processes that begin anew, as those of PyTorch's loader on most systems."""
    with ProcessPoolExecutor(num_workers, multiprocessing.get_context("spawn")) as pool:
        yield pool


def rows_of(given: Any) -> list[dict[str, Any]]:
    """Return the rows of whatever can be read: a dataset, a fragment or a scanner."""
    return list(given.to_table().to_pylist())


def first_rows(given: Any) -> list[dict[str, Any]]:
    """Return the first two rows of a dataset by position."""
    return list(given.take([0, 1]).to_pylist())


def load(dataset: Any, worker: int, num_workers: int, epochs: int = 2) -> list[list[int]]:
    """Return the ids of a worker's share of the batches, by epoch: what a loader of PyTorch does in each
    process.
    """
    return [
        [
            number
            for place, batch in enumerate(dataset.to_batches(columns=["id"], batch_size=100))
            if place % num_workers == worker
            for number in batch["id"].to_pylist()
        ]
        for _ in range(epochs)
    ]


def execute(task: Any, dataset: lance_core.LanceDataset) -> Any:
    """Return the result of one task of a compaction."""
    return task.execute(dataset)


def read_endpoint(client: Any, endpoint: Any) -> pa.Table:
    """Return the rows of one endpoint of a remote plan."""
    return pa.Table.from_batches(client.read_endpoint(endpoint))


def fails(error: Exception) -> None:
    """Raise in a worker what its caller is to see."""
    raise error


def side_by_side(pool: ProcessPoolExecutor, run: Callable[..., Any], *arguments: Sequence[Any]) -> list[Any]:
    """Return the results of a function for several arguments, each from a worker."""
    return list(pool.map(run, *arguments))
