"""`to_table` of this project against `to_table` of the reference, in one process."""

from __future__ import annotations

from collections.abc import Iterator

import lance

import lance_core
from benchmarks.data import CLASSES, Dataset
from benchmarks.measure import Measurement, interleave
from benchmarks.touch import touch_table

OURS = "ours"
REFERENCE = "pylance"


def measure(dataset: Dataset, runs: int) -> Iterator[Measurement]:
    """The whole table, then each column by itself."""
    yield _measure(dataset, None, "whole table", runs)
    if len(dataset.columns) > 1:
        for column in dataset.columns:
            yield _measure(dataset, [column], CLASSES[column], runs)


def _measure(dataset: Dataset, columns: list[str] | None, group: str, runs: int) -> Measurement:
    ours, reference = lance_core.dataset(str(dataset.path)), lance.dataset(str(dataset.path))
    size = ours.to_table(columns=columns).nbytes
    task = f"{dataset.name} {columns[0] if columns else '*'}"
    competitors = {
        OURS: lambda: touch_table(ours.to_table(columns=columns)),
        REFERENCE: lambda: touch_table(reference.to_table(columns=columns)),
    }
    return interleave(task, group, size, competitors, runs)
