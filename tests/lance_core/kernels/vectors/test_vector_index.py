"""Kernels of vector indices against the same in NumPy."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from numpy.random import Generator

from lance_core import kernels
from lance_core.index.vector.layouts import scanned
from lance_core.kernels import (
    BestRows,
    Comparison,
    CorruptData,
    Graph,
    QueriedRows,
    StoredVectors,
    scan_compared,
    scan_lookups,
    scan_product_codes,
    sorted_rows,
)
from tests.support.twins import vectors as twins

Array = npt.NDArray[Any]


@pytest.fixture
def chance() -> Generator:
    """Numbers that are the same for a test whichever tests run before it."""
    return np.random.default_rng(5)


def kept(best: BestRows) -> tuple[list[int], Array]:
    """Return the keys and the distances of the best rows."""
    keys, distances, counts = sorted_rows([best])
    assert counts == [len(best)]
    return np.frombuffer(keys, np.uint64).tolist(), np.frombuffer(distances, np.float32)


FIRST = np.zeros(1, np.uint32)
"""The numbers of the queries if there is one."""


def offer(best: BestRows, keys: Array, distances: Array) -> None:
    """Offer rows with given distances: the products of vectors of one element with 1."""
    same = Comparison(np.ones(1, np.float32).data, 1, "float32", "product", one_by_one=True)
    scan_compared([best], [QueriedRows(keys, distances, FIRST)], same)


def compared(query: Array, element: str, metric: str) -> Comparison:
    """Return the comparison of one query."""
    return Comparison(query.data, len(query), element, metric, one_by_one=True)


def nearest(keys: Array, distances: Array, k: int, allowed: Array | None = None) -> tuple[list[int], Array]:
    """Return what `BestRows` should keep."""
    usable = np.ones(len(keys), bool) if allowed is None else allowed
    order = [i for i in np.lexsort((keys, distances)) if usable[i] and not np.isnan(distances[i])][:k]
    return keys[order].tolist(), distances[order].astype(np.float32)


def check(
    best: BestRows, keys: Array, distances: Array, k: int, allowed: Array | None = None, error: float = 1e-4
) -> None:
    """Compare the best rows with those by distances in NumPy."""
    found, at = kept(best)
    expected, expected_at = nearest(keys, distances, k, allowed)
    np.testing.assert_allclose(at, expected_at, rtol=1e-5, atol=error)
    assert len(set(found) & set(expected)) >= len(expected) - 1


def test_best_rows_keep_the_smallest_keys_of_equal_distances() -> None:
    keys = np.arange(50, dtype=np.uint64)[::-1].copy()
    best = BestRows(5)
    offer(best, keys, np.zeros(50, np.float32))
    assert kept(best)[0] == [0, 1, 2, 3, 4]


def test_best_rows_leave_out_nan_and_what_is_outside_the_bounds() -> None:
    keys = np.arange(6, dtype=np.uint64)
    distances = np.array([np.nan, 1, 2, 3, -np.inf, np.inf], np.float32)
    best = BestRows(9)
    offer(best, keys, distances)
    assert kept(best)[0] == [4, 1, 2, 3, 5]
    best = BestRows(9, 1.0, 3.0)
    offer(best, keys, distances)
    assert kept(best)[0] == [1, 2]


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("num_rows", [1, 31, 700])
@pytest.mark.parametrize("num_sub_vectors", [2, 6, 7])
def test_lookups_are_sums_of_table_entries(
    chance: Generator, bits: int, num_rows: int, num_sub_vectors: int
) -> None:
    if bits == 4 and num_sub_vectors % 2:
        return
    numbers = chance.integers(0, 1 << bits, (num_rows, num_sub_vectors))
    rows = (numbers if bits == 8 else numbers[:, ::2] | numbers[:, 1::2] << 4).astype(np.uint8)
    table = chance.standard_normal((num_sub_vectors, 1 << bits)).astype(np.float32)
    sums = table[np.arange(num_sub_vectors), numbers].sum(axis=1)
    keys = chance.permutation(num_rows).astype(np.uint64)
    allowed = chance.random(num_rows) < 0.8
    best = BestRows(20)
    columns = scanned(rows.T)
    rows_of = partial(QueriedRows, keys, columns, FIRST)
    scan_lookups([best], [rows_of(allowed)], table, num_sub_vectors, bits, 2.0, 1.0)
    check(best, keys, sums * 2 + 1, 20, allowed)
    scales, offsets = chance.random(num_rows).astype(np.float32), chance.random(num_rows).astype(np.float32)
    best = BestRows(20)
    numbers = [np.array([number], np.float32) for number in (0.5, 1.0, 0.25)]
    with_scales = rows_of(None, 0, scales, offsets, *numbers)
    scan_lookups([best], [with_scales], table, num_sub_vectors, bits, 1.0, 3.0)
    check(best, keys, (sums + 0.5) * scales + offsets * 0.25 + 4, 20)
    vectors = StoredVectors.product_codes(rows, table, num_sub_vectors, bits, 2.0, 1.0)
    best = BestRows(20)
    best.scan_plain(keys, allowed, vectors)
    check(best, keys, sums * 2 + 1, 20, allowed)


@pytest.mark.parametrize("num_rows", [63, 64, 200])
@pytest.mark.parametrize("bytes_per_row", [1, 16, 97])
def test_half_bytes_are_looked_up_in_the_same_order_in_every_block(
    chance: Generator, bytes_per_row: int, num_rows: int
) -> None:
    codes = chance.integers(0, 256, (bytes_per_row, num_rows)).astype(np.uint8)
    table = (10.0 ** chance.uniform(-3, 3, (bytes_per_row, 2, 16))).astype(np.float32)
    sums = np.zeros(num_rows, np.float32)
    for (low, high), column in zip(table, codes, strict=True):
        sums += low[column & 15] + high[column >> 4]
    keys = np.arange(num_rows, dtype=np.uint64)
    best = BestRows(num_rows)
    scan_lookups([best], [QueriedRows(keys, scanned(codes), FIRST)], table, 2 * bytes_per_row, 4)
    found, distances = kept(best)
    assert sorted(found) == keys.tolist()
    np.testing.assert_array_equal(distances, sums[found])


TABLES = {
    "squares": lambda chance, size: chance.standard_normal(size) ** 2,
    "both signs": lambda chance, size: chance.standard_normal(size),
    "equal": lambda _, size: np.full(size, 0.25),
    "few values": lambda chance, size: chance.integers(0, 3, size),
    "far apart": lambda chance, size: 10.0 ** chance.uniform(-20, 20, size),
    "tiny": lambda chance, size: chance.standard_normal(size) * 1e-36,
    "huge": lambda chance, size: np.where(np.arange(256) == 0, -3.4e38, chance.uniform(3e38, 3.4e38, size)),
    "infinite": lambda chance, size: np.where(chance.random(size) < 0.01, np.inf, chance.random(size)),
    "without numbers": lambda chance, size: np.where(
        chance.random(size) < 0.01, np.nan, -chance.random(size)
    ),
}


@pytest.mark.parametrize("num_sub_vectors", [1, 16, 97, 700])
@pytest.mark.parametrize("name", TABLES)
def test_lower_bounds_of_lookups_leave_out_no_row(chance: Generator, name: str, num_sub_vectors: int) -> None:
    """Partitions are searched one after the other; the result is that of sums in the order of the kernel."""
    best = BestRows(30)
    all_keys, all_distances = [], []
    for partition, num_rows in enumerate((20, 1300, 2075, 300, 300)):
        codes = chance.integers(0, 256, (num_sub_vectors, num_rows)).astype(np.uint8)
        table = TABLES[name](chance, (num_sub_vectors, 256)).astype(np.float32)
        table += np.float32(100 if partition == 3 else 0)  # most of these rows are too far
        entries = np.take_along_axis(table, codes.astype(np.intp), axis=1)
        pairs = entries[: num_sub_vectors // 2 * 2].reshape(-1, 2, num_rows)
        with np.errstate(invalid="ignore", over="ignore"):
            sums = np.zeros(num_rows, np.float32)
            for first, second in pairs:
                sums += first + second
            if num_sub_vectors % 2:
                sums += entries[-1]
        keys = (chance.permutation(num_rows) + 10_000 * partition).astype(np.uint64)
        allowed = chance.random(num_rows) < 0.7 if partition == 2 else np.ones(num_rows, bool)
        rows = QueriedRows(keys, scanned(codes), FIRST, allowed)
        scan_lookups([best], [rows], table, num_sub_vectors, 8, 0.5, 1.0)
        all_keys.append(keys[allowed])
        all_distances.append(sums[allowed] * np.float32(0.5) + np.float32(1))
    found, distances = kept(best)
    expected, _ = nearest(np.concatenate(all_keys), np.concatenate(all_distances), 30)
    assert found == expected
    np.testing.assert_array_equal(distances, np.sort(distances))


@pytest.mark.parametrize("has_centroids", [True, False])
@pytest.mark.parametrize("bits", [4, 8])
def test_product_codes_of_several_partitions_are_searched_in_one_call(
    chance: Generator, bits: int, has_centroids: bool
) -> None:
    num_sub_vectors, size, sizes = 6, 3, (0, 40, 1, 900, 70)
    codebook = chance.standard_normal((num_sub_vectors, 1 << bits, size)).astype(np.float32)
    columns = np.ascontiguousarray(codebook.transpose(0, 2, 1))
    query = chance.standard_normal(num_sub_vectors * size).astype(np.float32)
    centroids = chance.standard_normal((8, len(query))).astype(np.float32)
    partitions, keys, estimates, flags = [], [], [], []
    numbers_of_partitions = (3, 0, 7, 5, 2)
    for place, (number, num_rows) in enumerate(zip(numbers_of_partitions, sizes, strict=True)):
        codes = chance.integers(0, 1 << bits, (num_rows, num_sub_vectors))
        stored = (codes if bits == 8 else codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8)
        some_keys = (chance.permutation(num_rows) + 10_000 * place).astype(np.uint64)
        allowed = chance.random(num_rows) < 0.6 if place == 3 else None
        partitions.append(QueriedRows(some_keys, scanned(stored.T), FIRST, allowed, number))
        keys.append(some_keys)
        flags.append(np.ones(num_rows, bool) if allowed is None else allowed)
        centroid = centroids[number] if has_centroids else None
        estimates.append(twins.product_estimates(codes, codebook, query, centroid))
    best = BestRows(25)
    of_partitions = centroids if has_centroids else None
    scan_product_codes([best], partitions, query, columns, num_sub_vectors, bits, 0.5, 1.0, of_partitions)
    check(best, np.concatenate(keys), np.concatenate(estimates) / 2 + 1, 25, np.concatenate(flags))
    one_by_one = BestRows(25)
    for rows, number in zip(partitions, numbers_of_partitions, strict=True):
        wanted = query - centroids[number] if has_centroids else query
        table = kernels.lookup_table("l2" if has_centroids else "dot", wanted, columns, num_sub_vectors)
        scan_lookups([one_by_one], [rows], table, num_sub_vectors, bits, 0.5, 1.0)
    assert kept(best)[0] == kept(one_by_one)[0]
    np.testing.assert_array_equal(kept(best)[1], kept(one_by_one)[1])


def test_product_codes_of_other_sizes_are_refused() -> None:
    keys, codes = np.arange(4, dtype=np.uint64), np.zeros((2, 4), np.uint8)
    query, codebook = np.zeros(6, np.float32), np.zeros((2, 3, 256), np.float32)
    centroids = np.zeros((2, 6), np.float32)
    best = BestRows(3)
    rows = QueriedRows(keys, codes, FIRST, None, 1)
    right = ([best], [rows], query, codebook, 2, 8, 1.0, 0.0, centroids)
    scan_product_codes(*right)
    assert kept(best)[0] == [0, 1, 2]
    for place, wrong in (
        (0, []),
        (0, [None]),
        (1, [rows, QueriedRows(keys, codes, FIRST, None, 2)]),
        (1, [QueriedRows(keys, codes[:1], FIRST, None, 1)]),
        (1, [QueriedRows(keys[:3], codes, FIRST, None, 1)]),
        (1, [QueriedRows(keys, codes, FIRST + np.uint32(1), None, 1)]),
        (1, [None]),
        (2, query[:5]),
        (2, query[:4]),
        (2, query[:0]),
        (3, codebook[:1]),
        (4, 0),
        (4, 4),
        (5, 5),
        (5, 4),
        (8, centroids.ravel()[:11]),
        (8, centroids[:1]),
    ):
        arguments = [*right]
        arguments[place] = wrong
        with pytest.raises(CorruptData):
            scan_product_codes(*arguments)
    assert kept(best)[0] == [0, 1, 2]


def test_best_rows_know_whether_a_key_is_twice_among_them() -> None:
    keys, distances = np.array([7, 3, 9, 3], np.uint64), np.array([1, 2, 3, 4], np.float32)
    best = BestRows(3)
    assert best.are_distinct
    offer(best, keys, distances)
    assert best.are_distinct  # the second row with the key 3 is too far
    best = BestRows(4)
    offer(best, keys, distances)
    assert not best.are_distinct


def test_key_sets_know_their_keys(chance: Generator) -> None:
    dense = np.arange(500, 5000, 3, dtype=np.uint64)
    sparse = np.sort(chance.integers(0, 1 << 32, 300).astype(np.uint64))
    groups = (dense, sparse + (np.uint64(3) << np.uint64(32)), dense + (np.uint64(9) << np.uint64(32)))
    known = np.concatenate(groups)
    asked = np.concatenate([known, known + np.uint64(1), known - np.uint64(400), known << np.uint64(1)])
    asked = chance.permutation(np.append(asked, np.array([0, (1 << 64) - 1], np.uint64)))
    flags = np.frombuffer(kernels.KeySet(known).flags(asked), np.bool_)
    np.testing.assert_array_equal(flags, np.isin(asked, known))
    assert not np.frombuffer(kernels.KeySet(known[:0]).flags(asked), np.bool_).any()
    with pytest.raises(CorruptData, match="ascending"):
        kernels.KeySet(known[::-1].copy())


@pytest.mark.parametrize("dimension", [1, 15, 16, 33, 128])
def test_codes_of_one_byte_per_dimension(chance: Generator, dimension: int) -> None:
    codes = chance.integers(0, 256, (600, dimension)).astype(np.uint8)
    keys = chance.permutation(600).astype(np.uint64)
    query = chance.standard_normal(dimension).astype(np.float32)
    best = BestRows(10)
    rows = QueriedRows(keys, codes, FIRST)
    scan_compared([best], [rows], compared(query, "uint8", "product"), -1.0, 1.0)
    products = 1 - codes.astype(np.float64) @ query
    error = 1e-5 * dimension  # terms of up to 800 cancel each other out, and a float has seven digits of them
    check(best, keys, products, 10, error=error)
    best = BestRows(10)
    best.scan_plain(keys, None, StoredVectors.scalar_products(codes, query, -1.0, 1.0))
    check(best, keys, products, 10, error=error)
    distances = ((codes.astype(np.float64) - codes[7]) ** 2).sum(axis=1) * 0.5
    best = BestRows(10)
    scan_compared([best], [rows], compared(codes[7].astype(np.float32), "uint8", "l2"), 0.5)
    check(best, keys, distances, 10)
    best = BestRows(10)
    best.scan_plain(keys, None, StoredVectors.scalar_codes(codes, codes[7].copy(), 0.5))
    check(best, keys, distances, 10)


@pytest.mark.parametrize("dimension", [1, 17, 96])
def test_plain_vectors(chance: Generator, dimension: int) -> None:
    vectors = chance.standard_normal((300, dimension)).astype(np.float32)
    bits = chance.integers(0, 256, (300, dimension)).astype(np.uint8)
    query = vectors[3] + np.float32(0.1)
    keys = np.arange(300, dtype=np.uint64)
    for metric, stored, asked, distances in (
        ("l2", vectors, query, ((vectors - query) ** 2).sum(axis=1)),
        ("dot", vectors, query, 1 - vectors @ query),
        ("hamming", bits, bits[0], np.bitwise_count(bits ^ bits[0]).sum(axis=1)),
    ):
        best = BestRows(10)
        best.scan_plain(keys, None, StoredVectors.plain(metric, stored, asked.copy()))
        check(best, keys, distances, 10)
        best = BestRows(10)
        comparison = compared(asked.copy(), str(stored.dtype), metric)
        scan_compared([best], [QueriedRows(keys, stored, FIRST)], comparison)
        check(best, keys, distances, 10)


@pytest.mark.parametrize("dimension", [1, 7, 16, 60, 101, 300])
@pytest.mark.parametrize(
    ("element", "metric"),
    [(each, "l2") for each in ("float32", "float64", "float16", "uint8", "uint16", "int8")]
    + [(each, "product") for each in ("float32", "float64", "uint8", "uint16")]
    + [("float32", "dot"), ("float32", "cosine"), ("float64", "cosine"), ("uint8", "cosine")]
    + [("uint8", "hamming")],
)
def test_many_queries_find_the_rows_that_each_finds_alone(
    chance: Generator, element: str, metric: str, dimension: int
) -> None:
    """Keys and distances are the same, to the last digit, however many queries are compared."""
    stored = (chance.standard_normal((131, dimension)) * 20 + 100).astype(element)
    kind = "uint8" if metric == "hamming" else "float64" if element == "float64" else "float32"
    queries = (chance.standard_normal((70, dimension)) * 100).astype(kind)
    keys, flags = chance.permutation(131).astype(np.uint64), chance.random(131) < 0.7
    alone = []
    for query in queries:
        best = BestRows(131)
        scan_compared([best], [QueriedRows(keys, stored, FIRST, flags)], compared(query, element, metric))
        alone.append(kept(best))
    expected = {
        "l2": lambda query: ((stored.astype(float) - query.astype(float)) ** 2).sum(axis=1),
        "product": lambda query: stored.astype(float) @ query.astype(float),
        "dot": lambda query: 1 - stored.astype(float) @ query.astype(float),
    }.get(metric, lambda query: twins.distances(stored, query, metric))
    for query, (found, distances) in zip(queries, alone, strict=True):
        by_key = dict(zip(keys.tolist(), expected(query).tolist(), strict=True))
        assert len(found) == flags.sum()
        size = 1.0 if metric == "cosine" else 1e5 * dimension
        if element in ("uint8", "uint16"):
            size *= 1000
        np.testing.assert_allclose(distances, [by_key[key] for key in found], rtol=1e-5, atol=2e-6 * size)
    together = Comparison(queries.data, dimension, element, metric, one_by_one=True)
    for some in (np.arange(70), np.arange(64), np.array([3, 69]), np.array([5, 4, 3, 68, 20, 0, 1])):
        best_of = [BestRows(131) for _ in queries]
        scan_compared(best_of, [QueriedRows(keys, stored, some.astype(np.uint32), flags)], together)
        for number in some.tolist():
            assert kept(best_of[number])[0] == alone[number][0]
            np.testing.assert_array_equal(kept(best_of[number])[1], alone[number][1])
        assert sum(map(len, best_of)) == len(some) * flags.sum()


@pytest.mark.parametrize("metric", ["l2", "dot"])
@pytest.mark.parametrize("num_codewords", [1, 16, 37, 256])
def test_lookup_tables(chance: Generator, metric: str, num_codewords: int) -> None:
    codebook = chance.standard_normal((3, num_codewords, 5)).astype(np.float32)
    query = chance.standard_normal(15).astype(np.float32)
    parts = query.reshape(3, 1, 5)
    expected = ((parts - codebook) ** 2 if metric == "l2" else -parts * codebook).sum(axis=2)
    table = kernels.lookup_table(metric, query, np.ascontiguousarray(codebook.transpose(0, 2, 1)), 3)
    np.testing.assert_allclose(
        np.frombuffer(table, np.float32).reshape(3, num_codewords), expected, rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("metric", ["l2", "dot"])
@pytest.mark.parametrize(("num_vectors", "count"), [(1, 1), (9, 16), (100, 17), (333, 300)])
def test_nearest_centroids(chance: Generator, metric: str, num_vectors: int, count: int) -> None:
    whole = chance.standard_normal((num_vectors, 13)).astype(np.float32) + 100
    vectors = whole[:, 2:11].astype(np.float64)
    centroids = chance.standard_normal((count, 9)).astype(np.float32) + 100
    if metric == "l2":
        distances = ((vectors[:, None] - centroids) ** 2).sum(axis=2)
    else:
        distances = 1 - vectors @ centroids.T
    numbers, found = kernels.nearest_centroids(metric, whole, 13, 2, 9, centroids)
    clusters = np.frombuffer(numbers, np.uint32)
    chosen = distances[np.arange(num_vectors), clusters]
    np.testing.assert_allclose(chosen, distances.min(axis=1), rtol=1e-4)
    np.testing.assert_allclose(np.frombuffer(found, np.float32), chosen, rtol=1e-4)
    sums, sizes = kernels.sum_clusters(whole, 13, 2, 9, clusters, count)
    expected = np.zeros((count, 9))
    np.add.at(expected, clusters, vectors)
    np.testing.assert_allclose(np.frombuffer(sums, np.float64).reshape(count, 9), expected)
    assert np.frombuffer(sizes, np.int64).tolist() == np.bincount(clusters, minlength=count).tolist()


@pytest.mark.parametrize("bits", range(1, 9))
def test_codes_of_sizes_point_in_the_direction_of_the_vector(bits: int) -> None:
    """The cosines are those that the reference reaches; see docs/format.md."""
    vectors = np.random.default_rng(0).standard_normal((50, 72)).astype(np.float32)
    sizes = np.frombuffer(kernels.code_sizes(vectors, 72, bits), np.uint8).reshape(50, 72)
    coded = sizes - (2.0**bits - 0.5) + (vectors >= 0) * 2.0**bits
    cosines = (coded * vectors).sum(axis=1) / np.linalg.norm(coded, axis=1) / np.linalg.norm(vectors, axis=1)
    assert cosines.mean() > [0.94, 0.982, 0.9945, 0.9985, 0.9996, 0.9999, 0.99997, 0.99999][bits - 1]


def test_graphs_find_the_nearest_rows(chance: Generator) -> None:
    vectors = chance.standard_normal((2000, 12)).astype(np.float32)
    keys = chance.permutation(2000).astype(np.uint64)
    graph = Graph.build(StoredVectors.plain("l2", vectors, vectors[0]), 12, 60, 7)
    copy = Graph(2000, graph.entry, graph.levels())
    found = 0
    for query in chance.standard_normal((20, 12)).astype(np.float32):
        compared = StoredVectors.plain("l2", vectors, query)
        distances = ((vectors - query) ** 2).sum(axis=1)
        best = BestRows(10)
        best.search_graph(keys, None, compared, copy, 60)
        found += len(set(kept(best)[0]) & set(nearest(keys, distances, 10)[0]))
        some = chance.random(2000) < 0.3
        best = BestRows(10)
        best.search_graph(keys, some, compared, graph, 60)
        assert set(kept(best)[0]) <= set(keys[some].tolist())
        few = chance.random(2000) < 0.02
        best = BestRows(10)
        best.search_graph(keys, few, compared, graph, 60)
        check(best, keys, distances, 10, few)
    assert found >= 196


def test_graphs_of_equal_vectors_and_of_one() -> None:
    same = np.ones((300, 4), np.float32)
    keys = np.arange(300, dtype=np.uint64)
    for count in (1, 300):
        compared = StoredVectors.plain("l2", same[:count], same[0])
        best = BestRows(5)
        best.search_graph(keys[:count], None, compared, Graph.build(compared, 4, 10, 3), 20)
        assert len(best) == min(5, count)


@pytest.mark.parametrize(
    "levels",
    [
        [],
        [([0, 1], [0, 1], [1])],
        [([0, 1], [0, 1, 2], [1, 2])],
        [([0, 1], [0, 2, 1], [1])],
        [([0, 1], [0, 1, 1], [1]), ([5], [0, 0], [])],
        [([0, 1], [0, 1, 1], [1]), ([1, 0], [0, 0, 0], [])],
        [([1, 0], [0, 1, 1], [1])],
    ],
)
def test_damaged_graphs_are_refused(levels: list[tuple[list[int], list[int], list[int]]]) -> None:
    """T5: numbers of nodes and neighbours are checked before a walk uses them."""
    with pytest.raises(CorruptData):
        Graph(2, 0, [tuple(np.array(part, np.uint32) for part in level) for level in levels])
    with pytest.raises(CorruptData):
        Graph(2, 2, [(np.arange(2, dtype=np.uint32), np.zeros(3, np.uint32), np.zeros(0, np.uint32))])


def test_sizes_that_do_not_fit_are_refused() -> None:
    keys, codes = np.arange(4, dtype=np.uint64), np.zeros((4, 8), np.uint8)
    best, table = [BestRows(3)], np.zeros((8, 256), np.float32)
    rows = QueriedRows(keys, codes, FIRST)
    with pytest.raises(CorruptData):
        scan_lookups(best, [QueriedRows(keys, codes[:3], FIRST)], table, 8, 8)
    with pytest.raises(CorruptData):
        scan_lookups(best, [rows], table[:7], 8, 8)
    with pytest.raises(CorruptData):
        scan_lookups(best, [QueriedRows(keys, codes, FIRST + np.uint32(1))], np.stack([table] * 2), 8, 8)
    query, flags = np.zeros(8, np.float32), np.ones(3, bool)
    with pytest.raises(CorruptData):
        scan_compared(best, [rows], compared(np.zeros(9, np.float32), "uint8", "product"))
    with pytest.raises(CorruptData):
        scan_compared(best, [rows], compared(query, "float32", "l2"))
    with pytest.raises(CorruptData, match="one by one"):
        scan_compared(best, [rows], Comparison(np.zeros(64, np.float32).data, 8, "uint8", "l2"))
    with pytest.raises(CorruptData, match="9999 numbers of 1 queries"):  # more than there is room for
        scan_compared(
            best, [QueriedRows(keys, codes, np.zeros(9999, np.uint32))], compared(query, "uint8", "l2")
        )
    with pytest.raises(CorruptData, match="best"):
        sorted_rows([best[0], None])
    for wrong in (
        {"allowed": flags},
        {"row_scales": query[:4]},
        {"row_scales": query[:3], "row_offsets": query[:3]},
        {"shifts": query[:2]},
        {"offsets": query[:0]},
        {"shares": query[:2]},
    ):
        with pytest.raises(CorruptData):
            QueriedRows(keys, codes, FIRST, **wrong)
    with pytest.raises(CorruptData):
        kernels.sum_clusters(np.zeros((2, 4), np.float32), 4, 0, 4, np.array([0, 3], np.uint32), 3)
    with pytest.raises(CorruptData):
        kernels.nearest_centroids("l2", np.zeros(9, np.float32), 4, 0, 4, np.zeros(4, np.float32))
