"""Tables with every kind of index that the reference builds, and questions that its indices answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

WORDS = np.array(["alpha", "beta", "gamma", "delta", "omega", "kappa"])
DIMENSIONS = 16

SCALAR_KINDS = {
    "number": "BTREE",
    "word": "BITMAP",
    "labels": "LABEL_LIST",
    "gram": "NGRAM",
    "text": "INVERTED",
    "zone": "ZONEMAP",
    "bloom": "BLOOMFILTER",
}
"""The column of each kind."""
FORGETFUL = {"zone", "bloom"}
"""Columns whose indices forget fragments that are compacted, in the reference as well."""
VECTOR_KINDS = {
    "IVF_FLAT": {},
    "IVF_SQ": {},
    "IVF_PQ": {"num_sub_vectors": 4},
    "IVF_RQ": {},
    "IVF_HNSW_FLAT": {},
    "IVF_HNSW_SQ": {},
    "IVF_HNSW_PQ": {"num_sub_vectors": 4},
}
"""Options of each kind."""
FILTERS = {
    "number": ["number = 3", "number > 90", "number IS NULL", "number != 5", "number IN (1, 7, 55)"],
    "word": ["word = 'alpha'", "word IN ('beta', 'omega')", "word != 'gamma'"],
    "labels": ["array_has(labels, 'beta')", "array_has_any(labels, ['alpha', 'kappa'])", "labels IS NULL"],
    "gram": ["contains(gram, 'pha1')", "gram LIKE '%ega%'"],
    "zone": ["zone < 100", "zone = 333"],
    "bloom": ["bloom = 77", "bloom IN (5, 500)"],
}


def indexed_rows(first: int, num_rows: int, seed: int = 1, *, nulls: bool = True) -> pa.Table:
    """Return rows with the ids from `first` on, and a column for each kind of index.

    Files of version 0.1 cannot store nulls.
    """
    chance = np.random.default_rng([seed, first])
    vectors = chance.standard_normal(num_rows * DIMENSIONS).astype(np.float32)
    ids = pa.array(range(first, first + num_rows), pa.int64())
    words = [" ".join(chance.choice(WORDS, count)) for count in chance.integers(1, 9, num_rows)]
    labels = [
        None if chance.random() < 0.05 and nulls else chance.choice(WORDS, chance.integers(0, 4)).tolist()
        for _ in range(num_rows)
    ]
    numbers = chance.integers(0, 100, num_rows)
    return pa.table(
        {
            "id": ids,
            "number": pa.array(numbers, pa.int64(), mask=(numbers % 11 == 0) & nulls),
            "word": pa.array(chance.choice(WORDS, num_rows)),
            "labels": pa.array(labels, pa.list_(pa.string())),
            "gram": pa.array([f"{word}{count}" for word, count in zip(words, numbers, strict=True)]),
            "text": pa.array(words),
            "zone": ids,
            "bloom": ids,
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors), DIMENSIONS),
            "other": pa.array([0] * num_rows, pa.int64()),
        }
    )


def build_scalar_indices(dataset: Any, columns: list[str] | None = None) -> None:
    """Build the index of each column, or of some."""
    for column in SCALAR_KINDS if columns is None else columns:
        dataset.create_scalar_index(column, SCALAR_KINDS[column])


def build_vector_index(dataset: Any, kind: str, num_partitions: int = 3) -> None:
    """Build an index on the vectors."""
    dataset.create_index("vector", kind, num_partitions=num_partitions, **VECTOR_KINDS[kind])


def check_filters(dataset: Any, what: object = "") -> None:
    """A library finds the same rows with its scalar indices as without them."""
    for filters in FILTERS.values():
        for query in filters:
            found, scanned = (
                sorted(dataset.to_table(["id"], filter=query, use_scalar_index=use)["id"].to_pylist())
                for use in (True, False)
            )
            assert found == scanned, (what, query)


def check_text(dataset: Any, what: object = "") -> None:
    """A library finds the rows whose text has a word, each once."""
    rows = dataset.to_table(["id", "text"]).to_pylist()
    for word in ("alpha", "omega"):
        found = dataset.to_table(["id", "_score"], full_text_query=word)["id"].to_pylist()
        expected = [row["id"] for row in rows if word in row["text"].split()]
        assert sorted(found) == sorted(expected), (what, word)


def nearest(dataset: Any, seed: int = 0, **options: object) -> pa.Table:
    """Return the ten nearest rows of a random vector, with `id` and `_distance`."""
    query = np.random.default_rng(seed).standard_normal(DIMENSIONS).astype(np.float32)
    wanted = {"column": "vector", "q": query, "k": 10, "nprobes": 100, **options}
    return dataset.to_table(["id", "_distance"], nearest=wanted)


def check_vectors(dataset: Any, what: object = "") -> None:
    """A library finds the nearest rows by index, when it compares with the values of all candidates."""
    for seed in range(4):
        found = nearest(dataset, seed, refine_factor=400)["id"].to_pylist()
        assert found == nearest(dataset, seed, use_index=False)["id"].to_pylist(), (what, seed)


def statistics(path: Path, name: str) -> dict[str, object]:
    """Return the coverage of an index as the reference counts it."""
    found = lance.dataset(str(path)).stats.index_stats(name)
    return {
        key: found[key] for key in found if key.startswith("num_") and key != "num_indexed_rows_per_delta"
    }
