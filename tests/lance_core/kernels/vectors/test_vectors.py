"""Kernels that compare vectors, against NumPy in float64."""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt
import pytest

from lance_core.kernels import (
    Comparison,
    CorruptData,
    PieceReader,
    PlainPages,
    distances_in_files,
    nearest_in_file,
    nearest_vectors,
    vector_distances,
)
from support.processes.descriptors import kept_open
from support.runs.each_case import each_case
from support.twins import vectors as twin

DTYPES: dict[str, type[np.generic]] = {
    "float16": np.float16,
    "float32": np.float32,
    "float64": np.float64,
    "int8": np.int8,
    "uint8": np.uint8,
}
CASES = [(element, metric) for element in DTYPES for metric in twin.METRICS] + [("uint8", "hamming")]


def some_vectors(element: str, num_rows: int, dimension: int, seed: int = 0) -> npt.NDArray[np.generic]:
    random = np.random.default_rng(seed)
    if element in ("int8", "uint8"):
        limits = np.iinfo(DTYPES[element])
        return random.integers(limits.min, limits.max, (num_rows, dimension), DTYPES[element], endpoint=True)
    return random.standard_normal((num_rows, dimension)).astype(DTYPES[element])


def comparison(queries: npt.NDArray[np.generic], element: str, metric: str) -> Comparison:
    kind = np.uint8 if metric == "hamming" else np.float64 if element == "float64" else np.float32
    return Comparison(np.ascontiguousarray(queries, kind).data, queries.shape[1], element, metric)


def tolerance(vectors: npt.NDArray[np.generic], query: npt.NDArray[np.generic], metric: str) -> float:
    """Return the float error of a distance: of float32, relative to the sum of the absolute terms."""
    if metric == "hamming":
        return 0
    rows, wanted = np.abs(vectors.astype(np.float64)), np.abs(query.astype(np.float64))
    size = 1.0 if metric == "cosine" else float((rows + wanted).max()) ** 2 * vectors.shape[1]
    return 4e-7 * size + 1e-6


@pytest.mark.parametrize(("element", "metric"), CASES)
@each_case("dimension", [1, 3, 4, 7, 16, 19, 33, 64, 129])
def test_distances_are_those_of_numpy(element: str, metric: str, dimension: int) -> None:
    vectors = some_vectors(element, 61, dimension)
    for num_queries in (1, 2, 5, 8, 17):
        queries = some_vectors(element, num_queries, dimension, seed=1)
        compared = comparison(queries, element, metric)
        found = np.frombuffer(vector_distances(compared, vectors.data), np.float32).reshape(num_queries, -1)
        for query, row in zip(queries, found, strict=True):
            expected = twin.distances(vectors, query, metric)
            np.testing.assert_allclose(row, expected, rtol=2e-6, atol=tolerance(vectors, query, metric))


def test_bfloat16_is_the_upper_half_of_float32() -> None:
    vectors = some_vectors("float32", 40, 24).astype(np.float32)
    bits = (vectors.view(np.uint32) >> 16).astype(np.uint16)
    rounded = (bits.astype(np.uint32) << 16).view(np.float32)
    compared = comparison(rounded[:1], "bfloat16", "l2")
    found = np.frombuffer(vector_distances(compared, bits.data), np.float32)
    np.testing.assert_allclose(found, twin.distances(rounded, rounded[0], "l2"), rtol=1e-6)


def test_every_float16_is_widened_right() -> None:
    values = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    with np.errstate(invalid="ignore"):
        expected = 1 - values.astype(np.float32)
    compared = comparison(np.ones((1, 1), np.float32), "float16", "dot")
    found = np.frombuffer(vector_distances(compared, values.view(np.uint16).data), np.float32)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("num_queries", [1, 3, 20])
@pytest.mark.parametrize("k", [1, 10, 500])
def test_the_nearest_come_first_and_ties_by_their_keys(num_queries: int, k: int) -> None:
    random = np.random.default_rng(3)
    vectors = random.integers(0, 3, (300, 5)).astype(np.float32)  # with many equal distances
    queries = random.integers(0, 3, (num_queries, 5)).astype(np.float32)
    keys = random.permutation(300).astype(np.uint64)
    compared = comparison(queries, "float32", "l2")
    for given in (None, keys):
        rows, distances, counts = nearest_vectors(
            compared, vectors.data, k, keys=None if given is None else given.data
        )
        assert counts == [min(k, 300)] * num_queries
        for number, query in enumerate(queries):
            expected = twin.distances(vectors, query, "l2")
            best = twin.nearest(expected, k, given)
            mine = slice(number * min(k, 300), (number + 1) * min(k, 300))
            np.testing.assert_array_equal(np.frombuffer(rows, np.int64)[mine], best)
            np.testing.assert_array_equal(np.frombuffer(distances, np.float32)[mine], expected[best])


def test_nulls_nan_and_rows_that_were_not_chosen_are_left_out() -> None:
    vectors = np.arange(20, dtype=np.float32).reshape(10, 2)
    vectors[3, 0] = np.nan
    vectors[9] = np.inf
    validity = np.packbits([1, 1, 1, *[1, 1, 0, 1, 1, 1, 1, 1, 1, 1]], bitorder="little")
    compared = comparison(np.zeros((1, 2)), "float32", "l2")
    rows, distances, _ = nearest_vectors(compared, vectors.data, 20, validity.data, 3)
    assert np.frombuffer(rows, np.int64).tolist() == [0, 1, 4, 5, 6, 7, 8, 9]
    assert np.frombuffer(distances, np.float32)[-1] == np.inf
    chosen = np.array([2, 3, 5, 9], np.int64)
    rows, _, _ = nearest_vectors(compared, vectors.data, 20, validity.data, 3, chosen.data)
    assert np.frombuffer(rows, np.int64).tolist() == [5, 9]
    rows, _, counts = nearest_vectors(compared, vectors.data, 20, rows=np.array([], np.int64).data)
    assert (len(rows), counts) == (0, [0])


def test_bounds_of_distances_are_half_open() -> None:
    vectors = np.arange(10, dtype=np.float32).reshape(10, 1)
    compared = comparison(np.zeros((1, 1)), "float32", "l2")

    def found(lower: float | None, upper: float | None) -> list[int]:
        rows, _, _ = nearest_vectors(compared, vectors.data, 20, lower=lower, upper=upper)
        return np.frombuffer(rows, np.int64).tolist()

    assert found(4, 25) == [2, 3, 4]
    assert found(None, 4) == [0, 1]
    assert found(64, None) == [8, 9]
    assert found(None, float("-inf")) == found(float("nan"), None) == found(None, float("nan")) == []
    assert found(float("-inf"), float("inf")) == list(range(10))


def test_vectors_of_a_file_are_compared_in_its_map(tmp_path: object) -> None:
    """T25: a file that became shorter gives no distances of zeros."""
    path = f"{tmp_path}/vectors"
    vectors = some_vectors("float32", 5000, 32).astype(np.float32)
    with open(path, "wb") as file:
        file.write(b"head" + vectors.tobytes() + b"tail")
    descriptor = os.open(path, os.O_RDONLY)
    try:
        reader = PieceReader(kept_open(descriptor), os.path.getsize(path), 0, 0)
        compared = comparison(vectors[:2], "float32", "l2")
        found = nearest_in_file(compared, reader, 4, 128, 5000, 7)
        assert found is not None
        expected = nearest_vectors(compared, vectors.data, 7)
        for mine, other in zip(found[:2], expected[:2], strict=True):
            assert bytes(mine) == bytes(other)
        chosen = np.array([5, 4999], np.int64)
        found = nearest_in_file(compared, reader, 4, 128, 5000, 7, rows=chosen.data)
        assert found is not None
        assert found[2] == [2, 2]
        starts, offsets = np.array([0, 5000], np.int64).data, np.array([4], np.int64).data
        pages = PlainPages(starts, offsets, 128, reader)
        places = np.array([1, 0], np.int64).data
        picked = distances_in_files(compared, [(pages, chosen.data, places)], 2)
        assert picked is not None
        every = np.frombuffer(vector_distances(compared, vectors.data), np.float32).reshape(-1, 5000)
        assert np.array_equal(np.frombuffer(picked, np.float32).reshape(-1, 2), every[:, [4999, 5]])
        with pytest.raises(CorruptData):
            distances_in_files(compared, [(pages, np.array([5000], np.int64).data, places)], 2)
        os.truncate(path, 4096)
        assert nearest_in_file(compared, reader, 4, 128, 5000, 7) is None
        assert distances_in_files(compared, [(pages, chosen.data, places)], 2) is None
    finally:
        os.close(descriptor)


def test_wrong_sizes_are_refused() -> None:
    """T23: every length is checked before memory is touched."""
    compared = comparison(np.zeros((1, 4)), "float32", "l2")
    for arguments in (
        {"vectors": bytes(15)},
        {"vectors": bytes(64), "validity": bytes(1), "first_bit": 5},
        {"vectors": bytes(64), "rows": np.array([4], np.int64).data},
        {"vectors": bytes(64), "rows": np.array([-1], np.int64).data},
        {"vectors": bytes(64), "keys": np.array([1, 2, 3], np.uint64).data},
    ):
        with pytest.raises(CorruptData):
            nearest_vectors(compared, k=3, **arguments)  # type: ignore[arg-type]
    for queries, dimension in ((b"", 4), (bytes(15), 4), (bytes(16), 0), (bytes(16), 1 << 25)):
        with pytest.raises(CorruptData):
            Comparison(queries, dimension, "float32", "l2")
    with pytest.raises(CorruptData):
        Comparison(bytes(16), 4, "float32", "hamming")
    with pytest.raises(ValueError, match="metric"):
        Comparison(bytes(16), 4, "float32", "l3")
    with pytest.raises(ValueError, match="elements"):
        Comparison(bytes(16), 4, "text", "l2")
