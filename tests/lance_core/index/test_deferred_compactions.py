"""Tables whose compaction left the addresses in index files as they were (a fragment reuse index)."""

from __future__ import annotations

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core

ROWS = 400
DIMENSION = 8


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table with indices of several kinds, compacted by the reference, which translates addresses later."""
    path = str(tmp_path_factory.mktemp("deferred") / "t.lance")
    rng = np.random.default_rng(5)
    vectors = rng.random(ROWS * DIMENSION, dtype=np.float32)
    table = pa.table(
        {
            "n": rng.permutation(ROWS),
            "kind": pa.array([f"k{i % 7}" for i in range(ROWS)]),
            "text": pa.array([f"word{i % 11} common" for i in range(ROWS)]),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors), DIMENSION),
        }
    )
    dataset = lance.write_dataset(table, path, max_rows_per_file=50)
    dataset.create_scalar_index("n", "BTREE")
    dataset.create_scalar_index("kind", "BITMAP")
    dataset.create_scalar_index("text", "INVERTED")
    dataset.create_index("vector", "IVF_FLAT", num_partitions=2, metric="l2")
    dataset.delete("n % 5 = 0")
    dataset.optimize.compact_files(target_rows_per_fragment=200, defer_index_remap=True)
    names = {index.name for index in lance_core.dataset(path).describe_indices()}
    assert "__lance_frag_reuse" in names
    return path


@pytest.mark.parametrize("condition", ["n = 33", "n IN (1, 2, 301)", "n < 40", "kind = 'k3'", "n != 7"])
def test_filters_find_all_rows(path: str, condition: str) -> None:
    """T24: addresses of rows before the compaction are not used for the rows after it."""
    dataset = lance_core.dataset(path)
    expected = dataset.to_table(filter=condition, use_scalar_index=False)
    assert expected.num_rows
    assert dataset.to_table(filter=condition) == expected
    assert dataset.count_rows(condition) == expected.num_rows


def test_searches_find_all_rows(path: str) -> None:
    """T24: searches of vectors and of texts use no old addresses either."""
    dataset = lance_core.dataset(path)
    query = np.full(DIMENSION, 0.5, np.float32)
    nearest = {"column": "vector", "q": query, "k": 20}
    expected = dataset.to_table(nearest={**nearest, "use_index": False}, columns=["n"])
    assert dataset.to_table(nearest={**nearest, "nprobes": 2}, columns=["n"]) == expected
    found = dataset.to_table(full_text_query="word3", columns=["n"])
    matching = dataset.to_table(filter="text LIKE 'word3 %'", columns=["n"], use_scalar_index=False)
    assert sorted(found["n"].to_pylist()) == sorted(matching["n"].to_pylist())
