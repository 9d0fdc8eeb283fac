"""Series of local datasets, which the reference writes, against the reference in the same process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import numpy as np
import pyarrow as pa

import lance_core
from benchmarks.data import SEED, write_if_missing
from benchmarks.local_scan import OURS, REFERENCE
from benchmarks.measure import interleave
from benchmarks.opening import write_columns, write_fragments, write_versions
from benchmarks.series.measured import Point, Series
from benchmarks.touch import touch_table

_TAKEN_ROWS = 1000
RANGE_ROWS = 1000
_BATCH_ROWS = 1_000_000
_ROWS_OF_COLUMNS = 10_000
_ROWS_OF_DELETIONS = 1_000_000

Task = Callable[[ModuleType, Path], Callable[[], object]]
"""Function that returns what one library does, over and over, with the dataset at a path."""


def _scan(library: ModuleType, path: Path) -> Callable[[], object]:
    dataset = library.dataset(str(path))
    return lambda: touch_table(dataset.to_table())


def _range(library: ModuleType, path: Path) -> Callable[[], object]:
    dataset = library.dataset(str(path))
    rows = dataset.count_rows()
    condition = range_condition(rows)
    return lambda: touch_table(dataset.to_table(filter=condition))


def _filter(library: ModuleType, path: Path) -> Callable[[], object]:
    dataset = library.dataset(str(path))
    return lambda: touch_table(dataset.to_table(filter="id >= 5"))


def _count(library: ModuleType, path: Path) -> Callable[[], object]:
    dataset = library.dataset(str(path))
    return lambda: dataset.count_rows(filter="value > 0")


def _take(library: ModuleType, path: Path) -> Callable[[], object]:
    dataset = library.dataset(str(path))
    rows = dataset.count_rows()
    rng = np.random.default_rng(SEED)
    return lambda: touch_table(dataset.take(rng.integers(0, rows, _TAKEN_ROWS).tolist()))


def _open_and_scan(library: ModuleType, path: Path, **options: Any) -> Callable[[], object]:
    return lambda: touch_table(library.dataset(str(path)).to_table(**options))


def _open_and_read_first(library: ModuleType, path: Path) -> Callable[[], object]:
    return lambda: next(iter(library.dataset(str(path)).to_batches(columns=["id"])))


def _open_and_count(library: ModuleType, path: Path) -> Callable[[], object]:
    return lambda: library.dataset(str(path)).count_rows()


def _open_latest(library: ModuleType, path: Path) -> Callable[[], object]:
    return lambda: library.dataset(str(path)).version


def _open_middle(library: ModuleType, path: Path) -> Callable[[], object]:
    middle = (library.dataset(str(path)).version + 1) // 2
    return lambda: library.dataset(str(path), version=middle).count_rows()


def _list_versions(library: ModuleType, path: Path) -> Callable[[], object]:
    dataset = library.dataset(str(path))
    return lambda: len(dataset.versions())


def range_condition(rows: int) -> str:
    """Return the condition that `RANGE_ROWS` rows behind the middle of a table of `write_rows` meet."""
    first = rows * 5 // 8
    return f"id >= {first} AND id < {first + RANGE_ROWS}"


def write_rows(path: Path, rows: int) -> None:
    """Write ascending ids, normally distributed doubles, and integers below 1000."""
    schema = pa.schema({"id": pa.int64(), "value": pa.float64(), "small": pa.int32()})

    def batches() -> Iterator[pa.RecordBatch]:
        for first in range(0, rows, _BATCH_ROWS):
            num_rows = min(_BATCH_ROWS, rows - first)
            rng = np.random.default_rng((SEED, first))
            ids = np.arange(first, first + num_rows)
            small = rng.integers(0, 1000, num_rows).astype(np.int32)
            yield pa.record_batch([ids, rng.normal(size=num_rows), small], schema=schema)

    lance.write_dataset(pa.RecordBatchReader.from_batches(schema, batches()), str(path))


def _write_wide(path: Path, columns: int) -> None:
    write_columns(path, columns, _ROWS_OF_COLUMNS)


def _write_deletions(path: Path, percent: int) -> None:
    """Write rows, and delete the same share of every ten rows."""
    write_rows(path, _ROWS_OF_DELETIONS)
    if percent:
        lance.dataset(str(path)).delete(f"id % 10 < {percent // 10}")


def _measure(
    name: str,
    write: Callable[[Path, int], None],
    tasks: Sequence[tuple[str, Task]],
    folder: Path,
    size: int,
    runs: int,
) -> Iterator[Point]:
    """Measure the tasks on the dataset of one size, which is written if it is missing."""
    path = folder / f"{name}-{size}.lance"
    write_if_missing(path, write, size)
    for task, make in tasks:
        competitors = {OURS: make(lance_core, path), REFERENCE: make(lance, path)}
        taken = interleave(task, name, 0, competitors, runs)
        yield Point(size, task, taken.seconds[OURS], taken.seconds[REFERENCE])


def _series(
    name: str,
    axis: str,
    sizes: Sequence[int],
    write: Callable[[Path, int], None],
    tasks: Sequence[tuple[str, Task]],
) -> Series:
    return Series(name, axis, "pylance", sizes, "time of one call", partial(_measure, name, write, tasks))


_ROW_TASKS: Sequence[tuple[str, Task]] = (
    ("scan", _scan),
    (f"range of {RANGE_ROWS} rows", _range),
    ("count of half", _count),
    (f"take {_TAKEN_ROWS} rows", _take),
)

SERIES = (
    _series("rows", "rows", (10**4, 10**5, 10**6, 10**7, 10**8), write_rows, _ROW_TASKS),
    _series(
        "columns",
        "columns",
        (1, 10, 100, 1000, 5000),
        _write_wide,
        (
            ("open, read one column", partial(_open_and_scan, columns=["column_0000"])),
            ("open, scan all", _open_and_scan),
            ("scan", _scan),
        ),
    ),
    _series(
        "fragments",
        "fragments of 10 rows",
        (1, 10, 100, 1000, 10_000, 20_000),
        write_fragments,
        (
            ("open, first batch", _open_and_read_first),
            ("open, count rows", _open_and_count),
            ("scan", _scan),
            ("filter", _filter),
        ),
    ),
    _series(
        "versions",
        "versions",
        (1, 10, 100, 1000, 10_000),
        write_versions,
        (("open the latest", _open_latest), ("open the middle", _open_middle), ("list", _list_versions)),
    ),
    _series("deletions", "deleted rows in %", (0, 10, 50, 90), _write_deletions, _ROW_TASKS),
)
