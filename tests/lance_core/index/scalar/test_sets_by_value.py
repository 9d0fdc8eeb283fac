"""Sets of row keys by value, compared with Python sets: gathered in memory, and merged from runs."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lance_core import kernels
from lance_core.index.build import ROW_KEY, VALUE
from lance_core.index.row_sets import Container, Map64, TreeMap, keys_of
from lance_core.index.sets_by_value import SetsByValue
from support.runs.each_case import each_case

TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "integers": (pa.int32(), [-7, 0, 1, 5, 2**31 - 1]),
    "texts": (pa.string(), ["", "a", "aa", "b", "ä"]),
    "large texts": (pa.large_string(), ["", "x" * 40, "x" * 41]),
}
KEYS: dict[str, Any] = {
    "ascending": np.arange(20_000) + (5 << 32) - 9_000,
    "shuffled": np.random.default_rng(1).permutation(20_000) * 7,
    "repeated": np.repeat(np.arange(5_000), 4),
    "dense": np.arange(70_000),
}


@each_case("container", [TreeMap(), Map64()])
@each_case("most_bytes", [1, 1 << 30])
@each_case("order", KEYS)
@each_case("kind", TYPES)
def test_sets_are_those_of_python(kind: str, order: str, most_bytes: int, container: Container) -> None:
    """T23: arrays and bitsets, keys in any order and repeated, upper halves, nulls, sliced batches."""
    value_type, values = TYPES[kind]
    keys = KEYS[order].astype(np.uint64)
    chosen = np.random.default_rng(2).integers(0, len(values) + 1, len(keys))
    column = pa.array([*values, None], value_type).take(pa.array(chosen))
    batch = pa.RecordBatch.from_arrays([column, pa.array(keys)], names=[VALUE, ROW_KEY])
    schema = pa.schema([pa.field("keys", value_type), pa.field("sets", pa.binary())])
    with SetsByValue(value_type, container, most_bytes=most_bytes) as sets:
        for start in range(0, len(keys), 9_999):
            sets.add(batch.slice(start, 9_999))
        found = pa.Table.from_batches(sets.batches(schema), schema)
    assert found["keys"].to_pylist() == [None, *sorted(values, key=_sort_key)]
    for value, data in zip(found["keys"].to_pylist(), found["sets"].to_pylist(), strict=True):
        number = len(values) if value is None else values.index(value)
        rows = [keys_of(upper, bitmap) for upper, bitmap in sorted(container.read(data).items())]
        assert np.concatenate(rows).tolist() == sorted(set(keys[chosen == number].tolist()))


def _sort_key(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def test_many_values_are_gathered_in_several_chunks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Runs are removed, and each value has one set although its rows are in many runs."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    values = np.random.default_rng(3).integers(0, 60_000, 200_000)
    batch = pa.RecordBatch.from_arrays(
        [pa.array(values), pa.array(np.arange(200_000, dtype=np.uint64))], names=[VALUE, ROW_KEY]
    )
    schema = pa.schema([pa.field("keys", pa.int64()), pa.field("sets", pa.binary())])
    with SetsByValue(pa.int64(), TreeMap(), most_bytes=1 << 20) as sets:
        for start in range(0, 200_000, 50_000):
            sets.add(batch.slice(start, 50_000))
        assert len(os.listdir(tmp_path)) == 1
        found = pa.Table.from_batches(sets.batches(schema), schema)
    assert os.listdir(tmp_path) == []
    expected, counts = np.unique(values, return_counts=True)
    assert found["keys"].to_pylist() == expected.tolist()
    sizes = [sum(map(len, TreeMap().read(data).values())) for data in found["sets"].to_pylist()]
    assert sizes == counts.tolist()


def test_a_finished_collector_refuses_rows() -> None:
    """T22: neither rows after the end nor values of another number than row keys are accepted."""
    collector = kernels.SetCollector(0)
    with pytest.raises(kernels.CorruptData, match="8 bytes of values and 16 bytes of row keys"):
        collector.add(None, bytes(8), bytes(16))
    collector.add(None, bytes(8), bytes(8))
    collector.finish()
    with pytest.raises(kernels.CorruptData, match="finished"):
        collector.add(None, bytes(8), bytes(8))
    assert collector.num_values == 1
    with pytest.raises(kernels.CorruptData, match="sets from 2 of 1"):
        collector.sets(2, 1, True)
