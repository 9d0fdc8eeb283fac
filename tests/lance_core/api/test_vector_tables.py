"""Tables of vectors: equal to those of the reference. Indices of vectors: validated by searches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance.vector
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.api.vector import validate_vector_index, vec_to_table
from lance_core.errors import InvalidInputError, MissingNameError

VECTORS = [
    [[1, 2], [3.5, 4]],
    np.arange(6, dtype="float64").reshape(2, 3),
    {"a": [1, 2], "b": (3, 4)},
    {7: np.ones(4), 8: np.zeros(4)},
    [np.float32([0.1, -0.0, np.nan])],
]


@pytest.mark.parametrize("vectors", VECTORS, ids=range(len(VECTORS)))
def test_tables_are_those_of_the_reference(vectors: Any) -> None:
    ours, theirs = vec_to_table(vectors), lance.vector.vec_to_table(vectors)
    assert ours.schema == theirs.schema
    assert str(ours.to_pylist()) == str(theirs.to_pylist())


def test_names_of_the_columns() -> None:
    assert vec_to_table([[1.0]], "v").column_names == ["v"]
    assert vec_to_table([[1.0]], ["v"]).column_names == ["v"]
    assert vec_to_table({"a": [1.0]}, ["k", "v"]).column_names == ["k", "v"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"data": []}, "there are no vectors"),
        ({"data": {}}, "there are no vectors"),
        ({"data": [[1, 2], [3]]}, "expected 2 numbers, found 1"),
        ({"data": [[1, 2]], "ndim": 3}, "expected 3 numbers, found 2"),
        ({"data": [[1, 2, 3]], "ndim": 2, "check_ndim": False}, "expected 1 of 2 numbers"),
        ({"data": [["x"]]}, "expected numbers"),
        ({"data": [[1]], "names": ["id", "vector"]}, "expected 1 names"),
        ({"data": {"a": [1]}, "names": "vector"}, "expected 2 names"),
    ],
)
def test_what_is_no_table_of_vectors(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidInputError, match=text):
        vec_to_table(**arguments)


@pytest.mark.parametrize("data", [5, "text", None])
def test_other_types_are_refused(data: Any) -> None:
    with pytest.raises(TypeError, match="expected a dict, a list or an array of vectors"):
        vec_to_table(data)


def test_names_that_the_module_lacks_say_what_to_use() -> None:
    import lance_core.api.vector as module

    with pytest.raises(MissingNameError, match="vector lacks 'compute_partitions' of pylance"):
        _ = module.compute_partitions


def test_an_index_is_validated_by_its_own_vectors(tmp_path: Path) -> None:
    """A vector finds itself, unless the index leaves out what it is asked for."""
    numbers = np.random.default_rng(5).random((600, 8), np.float32)
    numbers[7, 3] = np.nan
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(numbers.ravel()), 8)
    dataset = lance_core.write_dataset(pa.table({"v": vectors}), tmp_path / "d")
    dataset = dataset.create_index("v", "IVF_PQ", num_partitions=2, num_sub_vectors=4)
    validate_vector_index(dataset, "v", sample_size=40)
    with pytest.raises(InvalidInputError, match=r"the index on 'v' finds \d+ of 599 vectors"):
        validate_vector_index(dataset, "v", pass_threshold=1.01)
