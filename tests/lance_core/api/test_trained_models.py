"""Files of trained parts of vector indices, which both libraries read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lance
import lance.indices
import numpy as np
import pyarrow as pa
import pytest
from lance.lance import indices as reference_indices

import lance_core
from lance_core.api.indices import IndicesBuilder, IvfModel, PqModel, build_rq_model
from lance_core.errors import ColumnTypeError, CorruptFileError, InvalidInputError, StorageError


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


@pytest.mark.parametrize("builder", [lance, lance_core])
@pytest.mark.parametrize("make", [build_rq_model, reference_indices.build_rq_model])
def test_segments_with_one_rotation_become_one_segment(tmp_path: Path, builder: Any, make: Any) -> None:
    vectors = np.random.default_rng(3).standard_normal((512, 32)).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 32)
    path = tmp_path / "d"
    lance_core.write_dataset(pa.table({"id": range(512), "v": column}), path, max_rows_per_file=256)
    model = make(dimension=32, num_bits=1)
    centroids = pa.FixedSizeListArray.from_arrays(pa.array(vectors[:2].ravel()), 32)
    options = {"num_partitions": 2, "num_bits": 1, "ivf_centroids": centroids, "rabitq_model": model}
    dataset = builder.dataset(str(path))
    segments = [
        dataset.create_index_uncommitted("v", "IVF_RQ", fragment_ids=[number], **options) for number in (0, 1)
    ]
    merged = dataset.merge_existing_index_segments(segments)
    dataset.commit_existing_index_segments("v_idx", "v", [merged])
    ours = lance_core.dataset(path)
    stored = ours.index_statistics("v_idx")["segments"][0]["sub_index"]
    assert stored["fast_rotation_signs"] == json.loads(model)["fast_rotation_signs"]
    for library in (lance, lance_core):
        nearest = {"column": "v", "q": vectors[7], "k": 5, "nprobes": 2, "refine_factor": 20}
        assert library.dataset(str(path)).to_table(nearest=nearest)["id"][0].as_py() == 7


def test_rotations_differ_and_are_described_as_in_the_reference() -> None:
    ours, again = (json.loads(build_rq_model(40, 4)) for _ in range(2))
    theirs = json.loads(reference_indices.build_rq_model(40, 4))
    assert ours["fast_rotation_signs"] != again["fast_rotation_signs"]
    signs = [each.pop("fast_rotation_signs") for each in (ours, theirs)]
    assert ours == theirs
    assert len(signs[0]) == len(signs[1])


@pytest.mark.parametrize("arguments", [(12,), (0,), (8, 0), (8, 10), (8, 1, "int8")])
def test_rotations_that_do_not_exist_are_refused(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidInputError):
        build_rq_model(*arguments)
