"""Partitions of a vector index as users read them: the rows of the reference, with the codes of each row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pytest
from lance.dataset import VectorIndexReader as ReferenceReader

import lance_core
from lance_core.api.dataset import VectorIndexReader
from lance_core.errors import InvalidInputError
from support.searches.vector_indices import KINDS, clustered, vector_table

DIMENSION, PARTITIONS = 32, 3


def build(path: Path, kind: str, **options: Any) -> lance_core.LanceDataset:
    """Return a dataset with an index of two segments, built by the reference."""
    dataset = lance.write_dataset(vector_table(clustered(900, DIMENSION)), str(path))
    dataset.create_index("vector", kind, num_partitions=PARTITIONS, **{**KINDS[kind], **options})
    dataset.insert(vector_table(clustered(300, DIMENSION), 900))
    dataset.optimize.optimize_indices(num_indices_to_merge=0)
    dataset.delete("id < 50")
    return lance_core.dataset(path)


def rows(reader: Any, *, with_vector: bool) -> list[Any]:
    """Return the rows of each partition."""
    return [
        reader.read_partition(number, with_vector=with_vector).to_pylist()
        for number in range(reader.num_partitions())
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_of_the_reference(tmp_path: Path, kind: str) -> None:
    reader = VectorIndexReader(build(tmp_path / "table", kind), "vector_idx")
    theirs = ReferenceReader(lance.dataset(str(tmp_path / "table")), "vector_idx")
    assert reader.num_partitions() == theirs.num_partitions() == PARTITIONS
    for with_vector in (False, True):
        found, expected = (rows(each, with_vector=with_vector) for each in (reader, theirs))
        assert sum(map(len, found)) == 1200  # deleted rows included
        for row in (row for part in (*found, *expected) for row in part):
            # The reference returns these codes as searches read them, so that the bytes of rows mix.
            row.pop("__pq_code", None)
            row.pop("_rabit_codes", None)
        assert found == expected


@pytest.mark.parametrize("kind", ["IVF_PQ", "IVF_RQ"])
def test_the_codes_of_a_row_are_together_in_every_layout(tmp_path: Path, kind: str) -> None:
    """The reference writes product codes byte by byte, and RaBitQ codes in blocks of 32 rows."""
    model = {"ivf_centroids": clustered(PARTITIONS, DIMENSION), **KINDS[kind]}
    if kind == "IVF_PQ":
        model["pq_codebook"] = clustered(256, DIMENSION).reshape(8, 256, 4)
    path = tmp_path / "table"
    build(path, kind, **model)
    stored = lance_core.dataset(path).index_statistics("vector_idx")["segments"][0]["sub_index"]
    assert stored["transposed" if kind == "IVF_PQ" else "packed"]
    found = rows(VectorIndexReader(lance_core.dataset(path), "vector_idx"), with_vector=True)
    if kind == "IVF_RQ":
        model["rabitq_model"] = json.dumps(stored)
    lance_core.dataset(path).create_index("vector", kind, replace=True, skip_transpose=True, **model)
    expected = rows(VectorIndexReader(lance_core.dataset(path), "vector_idx"), with_vector=True)
    column = "__pq_code" if kind == "IVF_PQ" else "_rabit_codes"
    codes = [{row["_rowid"]: row[column] for part in parts for row in part} for parts in (found, expected)]
    assert len(codes[1]) == 1150
    assert all(codes[0][key] == code for key, code in codes[1].items())


def test_rows_that_moved_have_their_present_addresses(tmp_path: Path) -> None:
    dataset = build(tmp_path / "table", "IVF_FLAT")
    dataset.optimize.compact_files(defer_index_remap=True)
    reader = VectorIndexReader(dataset, "vector_idx")
    keys = np.concatenate(
        [reader.read_partition(number)["_rowid"].to_numpy() for number in range(PARTITIONS)]
    )
    live = dataset.to_table(columns=[], with_row_id=True)["_rowid"].to_numpy()
    assert set(live.tolist()) <= set(keys.tolist())


def test_other_indices_and_partitions_are_refused(tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(vector_table(clustered(300, DIMENSION)), tmp_path / "table")
    dataset.create_scalar_index("id", "BTREE")
    with pytest.raises(InvalidInputError, match="id_idx is not vector index"):
        VectorIndexReader(dataset, "id_idx")
    with pytest.raises(KeyError, match="this version has: id_idx"):
        VectorIndexReader(dataset, "vector_idx")
    dataset.create_index("vector", "IVF_FLAT", num_partitions=2)
    reader = VectorIndexReader(dataset, "vector_idx")
    for number in (-1, 2):
        with pytest.raises(IndexError, match="out of range"):
            reader.read_partition(number)


def test_an_index_without_data_has_no_partitions(tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(vector_table(clustered(10, DIMENSION)), tmp_path / "table")
    dataset.create_index("vector", "IVF_PQ", num_sub_vectors=8)
    assert VectorIndexReader(dataset, "vector_idx").num_partitions() == 0
