"""Rows of fragments that statistics leave."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.expressions.parsing.sql import parse_filter
from lance_core.scan.files.cache import FileCache
from lance_core.scan.plan.pruning import Pruner


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
def test_many_fragments_at_once(version: str, tmp_path: Path) -> None:
    """Each is decided about as it would be alone, whatever is known of the others."""
    rng = np.random.default_rng(6)
    path = str(tmp_path / "d")
    for number in range(14):
        num_rows = int(rng.integers(1, 3000))
        share = 0.5 if number % 3 == 0 and version != "0.1" else 0.0  # 0.1 files keep no nulls
        values = rng.integers(100 * number, 100 * number + 300, num_rows)
        table = pa.table(
            {
                "a": pa.array(values, mask=rng.random(num_rows) < share),
                "b": pa.array(rng.normal(size=num_rows)),
                "c": pa.array([f"{value:05}" for value in values]),
            }
        )
        writer = lance_core if number % 2 else lance
        writer.write_dataset(
            table,
            path,
            mode="append" if number else "create",
            max_rows_per_file=1000,
            data_storage_version=version,
        )
    if version != "0.1":
        lance.dataset(path).add_columns(pa.schema([pa.field("d", pa.int64())]))
    dataset, files = lance_core.dataset(path), FileCache()
    fragments = dataset.snapshot.manifest.fragments
    pieces = [fragments[:1], fragments[1:2], fragments[3:9], fragments[2:], fragments]

    def check(conditions: list[str]) -> None:
        for condition in conditions:
            expression = parse_filter(condition, dataset.schema)
            pruner = Pruner(dataset.snapshot, expression, files)
            alone = {fragment.id: pruner.keep(fragment) for fragment in fragments}
            for some in pieces:
                assert pruner.keep_all(some) == [alone[fragment.id] for fragment in some]

    conditions = ["a < 500", "a = 700 or c < '00250'", "a is null", "b > 3 and a > 600", "not (a >= 300)"]
    conditions += ["d is null", "d = 1 or a < 300"] * (version != "0.1")
    check(conditions)
    for fragment in dataset.get_fragments()[::3]:  # of these more is known afterwards
        fragment.to_table(filter="a < 500 and b > 3")
    options = {"filter": "a < 500 and b > 3"}
    assert dataset.to_table(**options) == lance.dataset(path).to_table(**options)
    check(conditions)
