"""`to_table` of this project against `to_table` of the reference, in one process."""

from __future__ import annotations

from collections.abc import Iterator

import lance

import lance_core
from benchmarks import targets
from benchmarks.data import Dataset
from benchmarks.measure import Measurement, interleave
from benchmarks.touch import touch_table

OURS = "ours"
REFERENCE = "pylance"

_FIXED = ("id", "hash", "small", "value", "ratio", "time", "flag")


def measure(dataset: Dataset, runs: int) -> Iterator[Measurement]:
    """Yield the measurement of the whole table, then of each column."""
    if dataset.columns == ("vector",):
        yield _measure(dataset, None, targets.SCAN_VECTORS, runs)
        return
    yield _measure(dataset, None, targets.SCAN_TABLE, runs)
    for column in dataset.columns:
        yield _measure(dataset, [column], _line(column, dataset.version), runs)


def _line(column: str, version: str) -> str:
    if version == "2.0":
        return targets.SCAN_FIXED_2_0 if column in (*_FIXED, "maybe") else targets.SCAN_OTHERS_2_0
    return targets.SCAN_FIXED if column in _FIXED else targets.SCAN_OTHERS


def _measure(dataset: Dataset, columns: list[str] | None, group: str, runs: int) -> Measurement:
    ours, reference = lance_core.dataset(str(dataset.path)), lance.dataset(str(dataset.path))
    size = ours.to_table(columns=columns).nbytes
    task = f"{dataset.name} {columns[0] if columns else '*'}"
    competitors = {
        OURS: lambda: touch_table(ours.to_table(columns=columns)),
        REFERENCE: lambda: touch_table(reference.to_table(columns=columns)),
    }
    return interleave(task, group, size, competitors, runs)
