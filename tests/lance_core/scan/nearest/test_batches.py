"""A search with many queries gives each query the answer that it gets alone, to the last digit."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.index.vector import batch_search
from lance_core.scan.nearest import indexed as indexed_search
from support.searches.nearest import vector_array

DIMENSION, NUM_ROWS, NUM_QUERIES = 24, 1800, 21

INDICES: dict[str, tuple[str, str, dict[str, Any]]] = {
    **{f"flat {metric}": ("IVF_FLAT", metric, {}) for metric in ("l2", "cosine", "dot", "hamming")},
    **{f"scalar {metric}": ("IVF_SQ", metric, {}) for metric in ("l2", "cosine", "dot")},
    **{f"product {metric}": ("IVF_PQ", metric, {"num_sub_vectors": 6}) for metric in ("l2", "cosine", "dot")},
    **{f"rotated {bits} l2": ("IVF_RQ", "l2", {"num_bits": bits}) for bits in (1, 5, 9)},
    **{f"rotated {bits} dot": ("IVF_RQ", "dot", {"num_bits": bits}) for bits in (1, 4)},
    "rotated cosine": ("IVF_RQ", "cosine", {}),
    **{f"graph of {kind}": (f"IVF_HNSW_{kind}", "l2", {}) for kind in ("FLAT", "SQ")},
    "graph of PQ": ("IVF_HNSW_PQ", "cosine", {"num_sub_vectors": 6}),
}

SEARCHES: dict[str, dict[str, Any]] = {
    "usual": {},
    "one partition": {"k": 3, "nprobes": 1},
    "more partitions for many rows": {"k": 300, "minimum_nprobes": 1},
    "few partitions": {"k": 300, "minimum_nprobes": 1, "maximum_nprobes": 2},
    "refined": {"refine_factor": 3},
    "range": {"distance_range": (1.0, 30.0)},
    "filter": {"filter": "id % 3 = 0", "prefilter": True},
    "filter of few rows": {"filter": "id % 90 = 0", "prefilter": True, "k": 40},
    "later filter": {"filter": "id % 3 = 0"},
}


def vectors_for(metric: str, num_rows: int, seed: int) -> np.ndarray:
    chance = np.random.default_rng(seed)
    if metric == "hamming":
        return chance.integers(0, 256, (num_rows, DIMENSION)).astype(np.uint8)
    return chance.standard_normal((num_rows, DIMENSION)).astype(np.float32)


def table_of(vectors: np.ndarray) -> pa.Table:
    return pa.table({"id": np.arange(len(vectors)), "v": vector_array(vectors)})


def found(dataset: lance_core.LanceDataset, queries: np.ndarray, **changes: Any) -> pa.Table:
    scan = {name: changes.pop(name) for name in ("filter", "prefilter") if name in changes}
    nearest = {"column": "v", "q": queries, "k": 10, "nprobes": 3, **changes}
    if "minimum_nprobes" in nearest:
        del nearest["nprobes"]
    return dataset.to_table(columns=["id"], nearest=nearest, fast_search=True, **scan)


def check_batch(dataset: lance_core.LanceDataset, queries: np.ndarray, **changes: Any) -> int:
    """Compare the answer of a batch with those of its queries. Return the number of rows."""
    together = found(dataset, queries, **changes)
    of_query = together["query_index"].to_numpy()
    num_rows = 0
    for number, query in enumerate(queries):
        alone = found(dataset, query, **changes)
        mine = together.filter(pa.array(of_query == number)).select(["id", "_distance"])
        assert mine.combine_chunks() == alone.select(["id", "_distance"]).combine_chunks()
        num_rows += len(alone)
    assert num_rows == len(together)
    return num_rows


@pytest.mark.parametrize("name", INDICES)
def test_a_batch_has_the_answers_of_its_queries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The index has two segments, and a part of the rows is deleted before the last searches."""
    kind, metric, options = INDICES[name]
    monkeypatch.setattr(indexed_search, "_FEW_MATCHES", 30)
    monkeypatch.setattr(indexed_search, "_MOST_GROUPED", 8)
    monkeypatch.setattr(batch_search, "_SCANNED_BYTES", 20_000)
    table = table_of(vectors_for(metric, NUM_ROWS, 1))
    dataset = lance_core.write_dataset(table, str(tmp_path / "t"), max_rows_per_file=NUM_ROWS // 2)
    segments = [
        dataset.create_index_uncommitted(
            "v", kind, metric=metric, num_partitions=6, fragment_ids=[number], **options
        )
        for number in (0, 1)
    ]
    dataset = dataset.commit_existing_index_segments("v_idx", "v", segments)
    queries = vectors_for(metric, NUM_QUERIES, 2)
    if metric != "hamming":
        queries[3] = 0
        queries[7, 2] = np.nan
    for changes in SEARCHES.values():
        check_batch(dataset, queries, **changes)
    assert check_batch(dataset, queries) >= 10 * (NUM_QUERIES - 2)
    for condition in ("id % 10 = 3", "id % 2 = 0"):  # few rows are tested when found, many while searching
        dataset.delete(condition)
        check_batch(dataset, queries, k=25)
        check_batch(dataset, queries, k=25, refine_factor=2)


@pytest.mark.parametrize("stable", [False, True])
def test_rows_that_have_moved_are_looked_for_again(tmp_path: Path, stable: bool) -> None:
    """Queries whose nearest rows are gone ask the index for more, the others do not."""
    vectors = vectors_for("l2", NUM_ROWS, 1)
    dataset = lance_core.write_dataset(table_of(vectors), str(tmp_path / "t"), enable_stable_row_ids=stable)
    dataset.create_index("v", "IVF_FLAT", num_partitions=4)
    queries = vectors_for("l2", NUM_QUERIES, 2)
    gone = np.argsort(((vectors - queries[5]) ** 2).sum(axis=1))[:60]
    dataset.delete(f"id IN ({', '.join(map(str, gone.tolist()))})")
    assert check_batch(dataset, queries, nprobes=4) == 10 * NUM_QUERIES


def test_memory_does_not_grow_with_queries_and_matching_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that meet a filter are compared with some of the queries at a time."""
    monkeypatch.setattr(indexed_search, "_MOST_COMPARED", 1 << 16)
    dataset = lance_core.write_dataset(table_of(vectors_for("l2", NUM_ROWS, 1)), str(tmp_path / "t"))
    dataset.create_index("v", "IVF_FLAT", num_partitions=2)
    queries = vectors_for("l2", 3000, 2)
    changes = {"filter": "id % 2 = 0", "prefilter": True, "k": 3}
    found(dataset, queries[:2], **changes)
    tracemalloc.start()
    together = found(dataset, queries, **changes)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 << 20  # there are 2.7 million distances
    for number in (0, 70, 2999):
        mine = together.filter(pa.array(together["query_index"].to_numpy() == number))
        assert (
            mine.select(["id", "_distance"]).combine_chunks()
            == found(dataset, queries[number], **changes).select(["id", "_distance"]).combine_chunks()
        )


def test_rows_with_several_equal_keys_are_counted_once(tmp_path: Path) -> None:
    """Rows with several vectors are found several times: some queries of a batch need further rounds."""
    chance = np.random.default_rng(5)
    lists = [chance.standard_normal((1 + number % 7, 8)).astype(np.float32) for number in range(300)]
    for number in range(20):  # rows whose vectors all are near to the first queries
        lists[number] = np.full((40, 8), 3, np.float32) + chance.standard_normal((40, 8)) / 50
    kind = pa.list_(pa.list_(pa.float32(), 8))
    table = pa.table({"id": range(300), "v": pa.array([rows.tolist() for rows in lists], kind)})
    dataset = lance_core.write_dataset(table, str(tmp_path / "t"))
    dataset.create_index("v", "IVF_FLAT", metric="cosine", num_partitions=2)
    queries = np.concatenate([np.full((2, 8), 3), chance.standard_normal((3, 8))]).astype(np.float32)
    nearest = {"column": "v", "q": queries, "k": 12, "nprobes": 2, "refine_factor": 4}
    rows = dataset.to_table(columns=["id"], nearest=nearest)["id"].to_pylist()
    exact = dataset.to_table(columns=["id"], nearest={**nearest, "use_index": False, "metric": "cosine"})
    assert len(set(rows)) == 12
    assert rows == exact["id"].to_pylist()
