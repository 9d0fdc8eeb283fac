"""Masks of candidates that indices find for filters, and their size in the cache."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa

import lance_core
from lance_core.index.cache import IndexCache
from lance_core.scan.plan.bind import bind_filter
from lance_core.scan.plan.indices import ask_indices
from lance_core.storage.local import LocalStorage
from lance_core.table.snapshot import open_snapshot


def test_the_cache_counts_all_that_it_keeps_of_an_answer(tmp_path: Path) -> None:
    """T33: parts of a filter may find many rows although the whole filter finds few, or have long lists."""
    source = np.random.default_rng(1)
    rows = {name: source.integers(0, 100_000, 200_000) for name in ("a", "b")}
    dataset = lance_core.write_dataset(pa.table(rows), tmp_path / "t")
    for name in rows:
        dataset.create_scalar_index(name, "BTREE")
    bounds = "a >= {0} AND a < {0} + 4000 AND b >= {0} AND b < {0} + 4000"
    snapshot = open_snapshot(LocalStorage(str(tmp_path / "t")))
    for text in (
        " OR ".join(f"({bounds.format(low)})" for low in range(0, 80_000, 10_000)),
        f"a IN ({','.join(map(str, range(0, 50_000, 25)))})",
    ):
        condition = bind_filter(snapshot.manifest.schema, text)
        found = ask_indices(snapshot, condition, IndexCache(), lambda keys: keys)
        assert found is not None
        assert len(found.answers) >= 1
        assert len(pickle.dumps(found)) <= found.nbytes
