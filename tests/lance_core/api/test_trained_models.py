"""Files of trained parts of vector indices, which both libraries read."""

from __future__ import annotations

from pathlib import Path

import lance
import lance.indices
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.api.indices import IndicesBuilder, IvfModel, PqModel
from lance_core.errors import ColumnTypeError, CorruptFileError, StorageError


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_both_libraries_read_the_files(dtype: str, tmp_path: Path) -> None:
    values = np.random.default_rng(1).random(64).astype(dtype)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(values), 8)
    ivf, pq = str(tmp_path / "ivf"), str(tmp_path / "pq")
    IvfModel(vectors, "cosine").save(ivf)
    PqModel(2, vectors, 4).save(pq)
    for read in (IvfModel.load(ivf), lance.indices.IvfModel.load(ivf)):
        assert (read.centroids, read.distance_type) == (vectors, "cosine")
    for codes in (PqModel.load(pq), lance.indices.PqModel.load(pq)):
        assert (codes.codebook, codes.num_subvectors, codes.num_bits) == (vectors, 2, 4)
    lance.indices.IvfModel(vectors, "dot").save(str(tmp_path / "theirs"))
    assert IvfModel.load(str(tmp_path / "theirs")) == IvfModel(vectors, "dot")


def test_the_dimension_is_that_of_one_vector(tmp_path: Path) -> None:
    vector = pa.list_(pa.float32(), 3)
    schema = pa.schema({"one": vector, "many": pa.list_(vector), "none": pa.list_(pa.float32())})
    dataset = lance_core.write_dataset(schema.empty_table(), tmp_path / "table")
    theirs = lance.dataset(str(tmp_path / "table"))
    for column in ("one", "many"):
        expected = lance.indices.IndicesBuilder(theirs, column).dimension
        assert IndicesBuilder(dataset, column).dimension == expected == 3
    with pytest.raises(ColumnTypeError, match="column none"):
        _ = IndicesBuilder(dataset, "none").dimension


def test_other_files(tmp_path: Path) -> None:
    """T22: a file without the column is named in the error."""
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([1.0, 2.0]), 2)
    PqModel(1, vectors).save(str(tmp_path / "pq"))
    with pytest.raises(CorruptFileError, match=r"centroids.*pq"):
        IvfModel.load(str(tmp_path / "pq"))
    with pytest.raises(StorageError):
        PqModel.load(str(tmp_path / "missing"))
