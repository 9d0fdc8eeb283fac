"""Targets of the project: the lines of the closing table.

A line is met if its geometric mean reaches the target and no task of it is below 60 % of that mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

SCAN_FIXED = "full scan, ints/floats/timestamps/bools, 2.1 and 2.2"
SCAN_OTHERS = "full scan, strings, nullable columns, nested lists"
SCAN_VECTORS = "768-float vectors, 2.0 / 2.1 / 2.2"
SCAN_FIXED_2_0 = "2.0 fixed-width columns"
SCAN_OTHERS_2_0 = "2.0 strings, nested lists"
SCAN_TABLE = "full scan, whole table"
TAKE_MANY = "take 1000 random rows of 7 columns of 4 M rows"
TAKE_ONE = "take 1 row, p50"
TAKE_COLUMN = "take 1000 random rows of a single column"
TAKE_VECTORS = "take of 1000 vectors"
HEAD = "head(100)"
RANGE = "range filter, 1000 of 4 M rows, sorted column"
RANGE_NARROW = "the same, two columns"
RANGE_UNKNOWN = "the same, our file, nothing known of it"
EQUALITY = "equality filter, unsorted column"
HALF = "filter that half of the rows pass"
COUNT = "count_rows with a filter"
DOGET = "DoGet of the mixed table: plain server's best"
DOGET_VECTORS = "DoGet of vectors: plain server's best"
DOGET_MEMORY = "DoGet of the mixed table: same batches from memory"
DOGET_MEMORY_VECTORS = "DoGet of vectors: same batches from memory"
STREAM = "own client process, all columns: plain server's best"
STREAM_NARROW = "own client process, two columns: plain server's best"
STREAM_VECTORS = "own client process, vectors: plain server's best"
STREAM_MEMORY = "own client process, wide: same batches from memory"
STREAM_MEMORY_NARROW = "own client process, two columns: from memory"
STREAM_RANGE = "own client process, 1000 rows of a range: plain best"
STREAM_FILTERED = "own client process, two columns, a third of the rows"
STREAM_HEAD = "own client process, first 100 rows: plain best"
FIRST_BATCH = "first DoGet batch, sooner than the plain server"
OPEN_WARM = "opening and planning one column, warm"
OPEN_NEW = "opening and planning one column, new process"
ENGINES_ALL = "DuckDB, Polars, all columns: over the plain server"
ENGINES_COLUMNS = "DuckDB, Polars, two columns: the same"
ENGINES_RANGE = "DuckDB, Polars, 1000 rows of a range: the same"
COLUMNS_BY_HAND = "two columns, told the plain server by hand"
RANGE_BY_HAND = "1000 rows of a range, told it by hand"
REMOTE_TAKE_MANY = "remote take of 1000 rows: pylance here, a round trip"
REMOTE_TAKE_ONE = "remote take of 1 row: the same"
REMOTE_LOOKUP_MANY = "1000 rows on an open lookup: the same"
REMOTE_LOOKUP_ONE = "1 row on an open lookup: the same"
SPARK_MEMORY = "Spark, whole table: same batches from memory"
SPARK_PARQUET = "Spark, whole table: Parquet"
SPARK_COLUMNS = "Spark, two columns: Parquet"
SPARK_SELECTIVE = "Spark, 0.1 % of the rows or less: Parquet"

TARGETS: dict[str, float | None] = {
    SCAN_FIXED: 4,
    SCAN_OTHERS: 3,
    SCAN_VECTORS: 2,
    SCAN_FIXED_2_0: 3,
    SCAN_OTHERS_2_0: None,
    SCAN_TABLE: None,
    TAKE_MANY: 8,
    TAKE_ONE: 3,
    TAKE_COLUMN: None,
    TAKE_VECTORS: 8,
    HEAD: 3,
    RANGE: 10,
    RANGE_NARROW: None,
    RANGE_UNKNOWN: None,
    EQUALITY: 5,
    HALF: 2.5,
    COUNT: 5,
    DOGET: 2,
    DOGET_VECTORS: 2,
    DOGET_MEMORY: 0.75,
    DOGET_MEMORY_VECTORS: 0.75,
    STREAM: 2,
    STREAM_NARROW: 1.5,
    STREAM_VECTORS: 2,
    STREAM_MEMORY: 0.75,
    STREAM_MEMORY_NARROW: 0.7,
    STREAM_RANGE: 8,
    STREAM_FILTERED: 1.5,
    STREAM_HEAD: 3,
    FIRST_BATCH: 5,
    OPEN_WARM: 1,
    OPEN_NEW: 1,
    ENGINES_ALL: 1,
    ENGINES_COLUMNS: 1,
    ENGINES_RANGE: 1,
    COLUMNS_BY_HAND: 1,
    RANGE_BY_HAND: 1,
    REMOTE_TAKE_MANY: 1,
    REMOTE_TAKE_ONE: 1,
    REMOTE_LOOKUP_MANY: 1,
    REMOTE_LOOKUP_ONE: 1,
    SPARK_MEMORY: 0.75,
    SPARK_PARQUET: None,
    SPARK_COLUMNS: None,
    SPARK_SELECTIVE: 2,
}
"""Required speed-up of each line; None if the line is only reported."""

LEAST_SHARE = 0.6
"""Least share of the mean of a line that each of its tasks must reach."""


@dataclass(frozen=True)
class Ratio:
    """Speed-up of one task of a line, by wall time and, if both ran in one process, in CPU time."""

    line: str
    task: str
    faster: float
    less_cpu: float | None = None


@dataclass(frozen=True)
class Line:
    """Line of the closing table."""

    name: str
    target: float | None
    faster: float
    less_cpu: float | None
    slowest: Ratio
    num_tasks: int

    @property
    def is_met(self) -> bool:
        """Whether the line reaches its target, by wall time."""
        return self.target is None or (
            self.faster >= self.target and self.slowest.faster >= LEAST_SHARE * self.faster
        )


def lines(ratios: Iterable[Ratio]) -> list[Line]:
    """Return the measured lines, in the order of `TARGETS`."""
    grouped: dict[str, list[Ratio]] = {name: [] for name in TARGETS}
    for ratio in ratios:
        grouped[ratio.line].append(ratio)
    return [_line(name, tasks) for name, tasks in grouped.items() if tasks]


def _line(name: str, tasks: Sequence[Ratio]) -> Line:
    cpu = [task.less_cpu for task in tasks if task.less_cpu is not None]
    return Line(
        name,
        TARGETS[name],
        _geometric_mean([task.faster for task in tasks]),
        _geometric_mean(cpu) if len(cpu) == len(tasks) else None,
        min(tasks, key=lambda task: task.faster),
        len(tasks),
    )


def _geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))
