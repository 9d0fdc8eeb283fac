"""`take` of random rows and `head`, against the reference, in one process."""

from __future__ import annotations

from collections.abc import Iterator

import lance
import numpy as np

import lance_core
from benchmarks import targets
from benchmarks.data import SEED, Dataset
from benchmarks.local_scan import OURS, REFERENCE
from benchmarks.measure import Measurement, interleave
from benchmarks.touch import touch_table

COLUMNS = ["id", "small", "value", "maybe", "flag", "category", "text"]
MANY_ROWS = 1000
HEAD_ROWS = 100
# A take of one row is so short that a steady median needs as many runs as other tasks have rows.
RUNS_OF_ONE_ROW = 200


def measure(dataset: Dataset, runs: int) -> Iterator[Measurement]:
    """Measure takes of many rows, of one row, and of many rows of each column. Every run takes other rows,
    unsorted.
    """
    if dataset.columns == ("vector",):
        yield _measure(dataset, ["vector"], MANY_ROWS, targets.TAKE_VECTORS, runs)
        yield _measure(dataset, ["vector"], 1, targets.TAKE_ONE, max(runs, RUNS_OF_ONE_ROW))
        return
    yield _head(dataset, max(runs, RUNS_OF_ONE_ROW // 4))
    yield _measure(dataset, COLUMNS, MANY_ROWS, targets.TAKE_MANY, runs)
    yield _measure(dataset, COLUMNS, 1, targets.TAKE_ONE, max(runs, RUNS_OF_ONE_ROW))
    for column in dataset.columns:
        yield _measure(dataset, [column], MANY_ROWS, targets.TAKE_COLUMN, runs)


def _head(dataset: Dataset, runs: int) -> Measurement:
    ours, reference = lance_core.dataset(str(dataset.path)), lance.dataset(str(dataset.path))
    competitors = {
        OURS: lambda: touch_table(ours.head(HEAD_ROWS)),
        REFERENCE: lambda: touch_table(reference.head(HEAD_ROWS)),
    }
    size = ours.head(HEAD_ROWS).nbytes
    return interleave(f"{dataset.name} head({HEAD_ROWS})", targets.HEAD, size, competitors, runs)


def _measure(dataset: Dataset, columns: list[str], num_rows: int, group: str, runs: int) -> Measurement:
    ours, reference = lance_core.dataset(str(dataset.path)), lance.dataset(str(dataset.path))
    total = ours.count_rows()
    chosen = {name: np.random.default_rng(SEED) for name in (OURS, REFERENCE)}

    def rows(name: str) -> list[int]:
        """Return row offsets: other ones in every run, the same ones for both libraries."""
        return chosen[name].integers(0, total, num_rows).tolist()

    size = ours.take(list(range(num_rows)), columns=columns).nbytes
    what = columns[0] if len(columns) == 1 else f"{len(columns)} columns"
    competitors = {
        OURS: lambda: touch_table(ours.take(rows(OURS), columns=columns)),
        REFERENCE: lambda: touch_table(reference.take(rows(REFERENCE), columns=columns)),
    }
    return interleave(f"{dataset.name} take {num_rows} {what}", group, size, competitors, runs)
