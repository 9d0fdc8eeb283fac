"""Sorting of rows by value, compared with Python: in memory, and merged from runs of any number and size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lance_core.index.build import ROW_KEY, VALUE
from lance_core.index.sorting import RowSorter, TemporaryRuns
from lance_core.index.value_order import value_order

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


@pytest.mark.parametrize("key_type", [pa.binary(), pa.large_binary()], ids=str)
@pytest.mark.parametrize("shared", [b"", b"key0", b"a beginning of many bytes"], ids=len)
def test_strings_with_a_shared_beginning(shared: bytes, key_type: pa.DataType) -> None:
    """Strings that differ late, only in zeros at their ends, or not at all; equal ones keep their order."""
    ends = [bytes(end) for end in CHANCE.choice([0, 1, 255], (2_000, 3)).astype(np.uint8)]
    ends += [b"\0" * count for count in CHANCE.integers(0, 12, 200)]
    ends += [f"{number:09}".encode() for number in CHANCE.integers(0, 5_000, 8_000)]
    strings = [shared + end for end in CHANCE.permutation(np.array(ends, object))]
    rows = CHANCE.integers(0, 1 << 63, len(strings)).astype(np.uint64)
    order = value_order(key_type)
    column = pa.array([b"before", *strings], key_type).slice(1)
    starts = range(0, len(strings), 3_000)
    chunks = [(column.slice(start, 3_000), rows[start : start + 3_000]) for start in starts]
    keys, found = order.sort(chunks)
    expected = sorted(range(len(strings)), key=strings.__getitem__)
    assert keys.to_pylist() == [strings[place] for place in expected]
    assert found.tolist() == rows[expected].tolist()


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
