"""`to_table` with a filter, against the reference, in one process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

import lance_core
from benchmarks import targets
from benchmarks.data import Dataset, write_if_missing
from benchmarks.local_scan import OURS, REFERENCE
from benchmarks.measure import Measurement, interleave
from benchmarks.touch import touch_table
from lance_core.scan.arguments import scan_options
from lance_core.scan.files.cache import FileCache
from lance_core.scan.plan.scan_plan import plan_scan
from lance_core.scan.run.execute import scan_table

RANGE_ROWS = 1000
EQUALITY = "small = 77"
HALF = "value > 0"
"""Condition that about half of the rows meet, without any order."""


def measure(dataset: Dataset, runs: int) -> Iterator[Measurement]:
    """Measure filters on a table of every common kind of column; yield nothing for other tables.

    The filter for a range of a sorted column runs on a file of the reference, whose statistics an earlier
    scan gathered, and on one of our files, which has its own statistics. Both run with and without statistics
    from earlier scans.
    """
    if "small" not in dataset.columns:
        return
    ours = lance_core.dataset(str(dataset.path))
    first = ours.count_rows() * 5 // 8
    a_range = {"filter": f"id >= {first} and id < {first + RANGE_ROWS}"}
    name = f"{dataset.name} range"
    yield _compared(dataset.path, name, targets.RANGE, a_range, runs)
    narrow = a_range | {"columns": ["value", "text"]}
    yield _compared(dataset.path, f"{name}, 2 columns", targets.RANGE_NARROW, narrow, runs)
    if dataset.version != "2.0":
        written = _written_by_us(dataset)
        yield _compared(written, f"{name}, our file", targets.RANGE, a_range, runs)
        yield _compared(
            written, f"{name}, our file, unknown", targets.RANGE_UNKNOWN, a_range, runs, cold=True
        )
    for name, arguments in (
        ("=", {"filter": EQUALITY}),
        ("=, 1 column", {"filter": EQUALITY, "columns": ["value"]}),
        ("= text, 2 columns", {"filter": "category = 'category 07'", "columns": ["id", "value"]}),
    ):
        yield _compared(dataset.path, f"{dataset.name} {name}", targets.EQUALITY, arguments, runs)
    yield _compared(dataset.path, f"{dataset.name} half", targets.HALF, {"filter": HALF}, runs)
    for condition in (HALF, EQUALITY):
        yield _counted(dataset, condition, runs)


def _counted(dataset: Dataset, condition: str, runs: int) -> Measurement:
    ours, reference = lance_core.dataset(str(dataset.path)), lance.dataset(str(dataset.path))
    if ours.count_rows(condition) != reference.count_rows(condition):
        raise AssertionError(f"count {condition}: the results differ")
    competitors = {
        OURS: lambda: ours.count_rows(condition),
        REFERENCE: lambda: reference.count_rows(condition),
    }
    return interleave(f"{dataset.name} count, {condition}", targets.COUNT, 0, competitors, runs)


def _compared(
    path: Path, task: str, group: str, arguments: Mapping[str, Any], runs: int, *, cold: bool = False
) -> Measurement:
    ours, reference = lance_core.dataset(str(path)), lance.dataset(str(path))

    def scan() -> pa.Table:
        if not cold:
            return ours.to_table(**arguments)
        options = scan_options(ours.snapshot.manifest.schema, **arguments)
        return scan_table(ours.snapshot, plan_scan(ours.snapshot, options), FileCache())

    found = scan()
    if not found.equals(reference.to_table(**arguments)):
        raise AssertionError(f"{task}: the results differ")
    competitors = {
        OURS: lambda: touch_table(scan()),
        REFERENCE: lambda: touch_table(reference.to_table(**arguments)),
    }
    return interleave(task, group, found.nbytes, competitors, runs)


def _written_by_us(dataset: Dataset) -> Path:
    """Return a copy of the dataset in files that we wrote; write the copy if it does not exist."""
    path = dataset.path.with_name(f"ours-{dataset.path.name}")
    write_if_missing(path, _copy, dataset)
    return path


def _copy(path: Path, dataset: Dataset) -> None:
    rows = lance_core.dataset(str(dataset.path)).scanner().to_reader()
    lance_core.write_dataset(rows, str(path), data_storage_version=dataset.version)
