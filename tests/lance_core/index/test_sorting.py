"""Sorting of rows by value, compared with Python: in memory, and merged from runs of any number and size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lance_core.index.build import ROW_KEY, VALUE
from lance_core.index.sorting import RowSorter, TemporaryRuns

NUM_ROWS = 60_000
CHANCE = np.random.default_rng(4)
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "numbers": (pa.int64(), CHANCE.integers(-1000, 1000, NUM_ROWS).tolist()),
    "texts": (pa.string(), [f"{number:x}" for number in CHANCE.integers(0, 1 << 40, NUM_ROWS)]),
    "ascending": (pa.int32(), list(range(NUM_ROWS))),
}


@pytest.mark.parametrize("expected_rows", [0, NUM_ROWS, 1 << 40], ids=["no estimate", "estimate", "too high"])
@pytest.mark.parametrize("kind", VALUES)
def test_rows_are_in_the_order_of_their_values(
    kind: str, expected_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sort alike whatever number of rows was expected: it decides on the runs only."""
    value_type, values = VALUES[kind]
    runs = 0
    write = TemporaryRuns.write

    def counted(*arguments: Any) -> None:
        nonlocal runs
        runs += 1
        write(*arguments)

    monkeypatch.setattr(TemporaryRuns, "write", counted)
    column = pa.array([None if row % 50 == 0 else value for row, value in enumerate(values)], value_type)
    batch = pa.record_batch([column, pa.array(np.arange(NUM_ROWS, dtype=np.uint64))], names=[VALUE, ROW_KEY])
    schema = pa.schema([pa.field("values", value_type), pa.field("ids", pa.uint64(), nullable=False)])
    with RowSorter(value_type, expected_rows, least_run_bytes=100_000) as sorter:
        for start in range(0, NUM_ROWS, 7_000):
            sorter.add(batch.slice(start, 7_000))
        found = pa.Table.from_batches(sorter.finish().batches(schema), schema)
    assert runs == 0 if expected_rows > NUM_ROWS else runs > 1
    rows = found["ids"].to_pylist()
    assert sorted(rows) == list(range(NUM_ROWS))
    assert found["values"].to_pylist() == column.take(pa.array(rows)).to_pylist()
    kept = [value for value in found["values"].to_pylist() if value is not None]
    assert found["values"].to_pylist()[: found.num_rows - len(kept)] == [None] * (NUM_ROWS // 50)
    assert kept == sorted(kept)


def test_runs_grow_with_the_square_root_of_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sorting a run and merging all runs take about the same memory."""
    sizes: list[int] = []

    def measured(runs: TemporaryRuns, schema: pa.Schema, chunks: Any) -> None:
        sizes.append(sum(len(keys) for keys, _ in chunks))

    monkeypatch.setattr(TemporaryRuns, "write", measured)
    batch = pa.record_batch(
        [pa.array(np.zeros(10_000, np.int64)), pa.array(np.zeros(10_000, np.uint64))], names=[VALUE, ROW_KEY]
    )
    lengths = []
    for num_rows in (10_000_000, 40_000_000):
        sizes.clear()
        with RowSorter(pa.int64(), num_rows) as sorter:
            while not sizes:
                sorter.add(batch)
        lengths += sizes
    assert lengths[1] == pytest.approx(2 * lengths[0], rel=0.05)
    assert 10_000_000 / lengths[0] < 100
