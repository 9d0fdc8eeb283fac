"""Changes of tables of many fragments: what each of them costs does not depend on how many there are."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_core
from lance_core.api.dataset import LanceDataset
from lance_core.pool import _pools

OURS = str(Path(lance_core.__file__).parent)
FEW = 32
NOISE = 24
"""Lines per fragment: some is done once per batch or thread. One line for each pair of fragments adds 96."""


def _doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"doubled": pc.multiply(batch["value"], 2)})


def _column(dataset: LanceDataset, name: str) -> pa.Table:
    count = dataset.count_rows()
    return pa.table({"id": range(count), name: range(count)})


CHANGES: dict[str, Callable[[LanceDataset], object]] = {
    "add columns by SQL": lambda dataset: dataset.add_columns({"doubled": "value * 2"}),
    "add columns by a function": lambda dataset: dataset.add_columns(_doubled, read_columns=["value"]),
    "add columns of a stream": lambda dataset: dataset.add_columns(
        _column(dataset, "new").drop_columns(["id"]).to_reader()
    ),
    "add columns of nulls": lambda dataset: dataset.add_columns(pa.schema([("new", pa.int32())])),
    "cast": lambda dataset: dataset.alter_columns({"path": "value", "data_type": pa.int32()}),
    "join": lambda dataset: dataset.merge(_column(dataset, "new"), "id"),
    "update": lambda dataset: dataset.update({"value": "value + 1"}, "id % 2 = 0"),
    "delete": lambda dataset: dataset.delete("id % 2 = 1"),
    "upsert": lambda dataset: (
        dataset.merge_insert("id").when_matched_update_all().execute(_column(dataset, "value"))
    ),
    "compact": lambda dataset: dataset.optimize.compact_files(),
}
DEFAULT = ("add columns by SQL", "join", "update", "upsert", "compact")


def lines_run(call: Callable[[], object]) -> int:
    """Lines of `lance_core` that are run, comprehensions once per item."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace if frame.f_code.co_filename.startswith(OURS) else None

    _pools.clear()  # threads that run already are not traced
    others = sys.gettrace(), threading.gettrace()
    threading.settrace(trace)
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(others[0])
        threading.settrace(others[1])  # type: ignore[arg-type]
    return count


@pytest.mark.parametrize(
    "name", [name if name in DEFAULT else pytest.param(name, marks=pytest.mark.long) for name in CHANGES]
)
def test_a_fragment_costs_the_same_among_many(name: str, tmp_path: Path) -> None:
    """Adding columns looked at all fragments once for each of them, and took time with their square."""

    def cost(fragments: int) -> int:
        path = tmp_path / str(fragments)
        rows = {"id": range(2 * fragments), "value": range(2 * fragments)}
        lance.write_dataset(pa.table(rows), path, max_rows_per_file=2, max_rows_per_group=2)
        dataset = lance_core.dataset(path)
        assert len(dataset.get_fragments()) == fragments
        return lines_run(lambda: CHANGES[name](dataset))

    cost(3)  # what is loaded and kept by the first change
    costs = [cost(fragments) for fragments in (FEW, 2 * FEW, 4 * FEW)]
    few, many = (costs[1] - costs[0]) / FEW, (costs[2] - costs[1]) / (2 * FEW)
    print(f"{name}: {few:.0f} lines per fragment, {many:.0f} of {4 * FEW}")
    assert few > 10
    assert many < few + NOISE
