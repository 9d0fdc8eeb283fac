"""Search with an index of the reference, joined with the rows that the index does not cover."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.api.dataset.scanner_builder import ScannerBuilder
from lance_core.errors import InvalidInputError, LanceError
from lance_core.index.vector import batch_search, opened
from lance_core.scan.nearest import indexed as indexed_search
from support.searches.nearest import expected_ids, lattice, vector_table

DIMENSION = 8
QUERY = lattice(1, DIMENSION, seed=9)[0] + 0.25


def random_table(num_rows: int, first: int = 0) -> pa.Table:
    vectors = np.random.default_rng(first).standard_normal((num_rows, DIMENSION)).astype(np.float32)
    table = vector_table(vectors)
    return table.set_column(0, "id", pa.array(range(first, first + num_rows)))


def indexed(path: Path, kind: str, metric: str = "l2", **arguments: Any) -> lance_core.LanceDataset:
    """Return a table of two fragments with an index, and a third fragment without it."""
    dataset = lance.write_dataset(random_table(600), path, max_rows_per_file=300, **arguments)
    options = {"num_sub_vectors": 4} if "PQ" in kind else {}
    dataset.create_index("v", index_type=kind, metric=metric, num_partitions=4, **options)
    dataset.insert(random_table(100, 600))
    return lance_core.dataset(path)


def search(dataset: Any, **changes: Any) -> pa.Table:
    scan = {name: changes.pop(name) for name in ("filter", "prefilter", "fast_search") if name in changes}
    nearest = {"column": "v", "q": QUERY, "k": 10, "nprobes": 4, **changes}
    found: pa.Table = dataset.to_table(columns=["id"], nearest=nearest, **scan)
    return found


@pytest.fixture(scope="module")
def flat(tmp_path_factory: pytest.TempPathFactory) -> lance_core.LanceDataset:
    return indexed(tmp_path_factory.mktemp("flat") / "t.lance", "IVF_FLAT")


@pytest.fixture(scope="module")
def coded(tmp_path_factory: pytest.TempPathFactory) -> lance_core.LanceDataset:
    return indexed(tmp_path_factory.mktemp("coded") / "t.lance", "IVF_PQ", "cosine")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"k": 300},
        {"filter": "group = 3", "prefilter": True},
        {"filter": "id < 20", "prefilter": True, "k": 50},
        {"filter": "group = 3"},
        {"filter": "id < 0", "prefilter": True},
        {"filter": "id < 0", "prefilter": True, "refine_factor": 2},
        {"refine_factor": 2},
    ],
    ids=str,
)
def test_an_exact_index_gives_exact_rows(flat: lance_core.LanceDataset, changes: dict[str, Any]) -> None:
    found = search(flat, **changes)
    exact = search(flat, use_index=False, **changes)
    assert found["id"].to_pylist() == exact["id"].to_pylist()
    np.testing.assert_allclose(found["_distance"], exact["_distance"], rtol=1e-5)


def test_fast_search_leaves_out_rows_without_an_index(flat: lance_core.LanceDataset) -> None:
    found = search(flat, fast_search=True, k=40)
    covered = flat.to_table().slice(0, 600)
    assert found["id"].to_pylist() == expected_ids(covered, QUERY, "l2", 40)
    nothing = search(flat, fast_search=True, metric="cosine")
    assert nothing.num_rows == 0


def test_an_exact_index_gives_the_distances_of_an_exact_search(flat: lance_core.LanceDataset) -> None:
    found, exact = search(flat, fast_search=True, k=40), search(flat, use_index=False, k=60)
    by_id = dict(zip(exact["id"].to_pylist(), exact["_distance"].to_pylist(), strict=True))
    assert found["_distance"].to_pylist() == [by_id[number] for number in found["id"].to_pylist()]


def test_the_limit_is_the_number_of_nearest_rows_if_none_is_given(flat: lance_core.LanceDataset) -> None:
    nearest = {"column": "v", "q": QUERY, "nprobes": 4}
    expected = search(flat, k=25)["id"].to_pylist()
    assert flat.to_table(columns=["id"], nearest=nearest, limit=25)["id"].to_pylist() == expected
    later = flat.to_table(columns=["id"], nearest=nearest, limit=12, offset=13)
    assert later["id"].to_pylist() == expected[13:]
    assert flat.to_table(columns=["id"], nearest=nearest)["id"].to_pylist() == expected[:10]
    assert flat.to_table(columns=["id"], nearest=nearest, limit=0).num_rows == 0


def test_another_metric_than_that_of_the_index_is_exact(flat: lance_core.LanceDataset) -> None:
    found = search(flat, metric="dot")
    assert found["id"].to_pylist() == expected_ids(flat.to_table(), QUERY, "dot", 10)


def test_the_metric_of_the_index_is_the_default(coded: lance_core.LanceDataset) -> None:
    """Distances of codes are on the scale of exact ones; the reference doubles them."""
    found = search(coded, k=700, refine_factor=1)
    exact = search(coded, k=700, metric="cosine", use_index=False)
    assert set(found["id"].to_pylist()) == set(exact["id"].to_pylist())
    np.testing.assert_allclose(found["_distance"], exact["_distance"], rtol=1e-4)
    estimated = search(coded, fast_search=True, k=600)
    by_id = dict(zip(exact["id"].to_pylist(), exact["_distance"].to_pylist(), strict=True))
    errors = [
        distance - by_id[number]
        for number, distance in zip(
            estimated["id"].to_pylist(), estimated["_distance"].to_pylist(), strict=True
        )
    ]
    assert abs(np.mean(errors)) < 0.1


@pytest.mark.parametrize("kind", ["IVF_PQ", "IVF_SQ", "IVF_RQ"])
@pytest.mark.parametrize("changes", [{}, {"filter": "group < 5", "prefilter": True}], ids=str)
def test_rows_are_the_same_however_many_partitions_are_scanned_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, changes: dict[str, Any]
) -> None:
    monkeypatch.setattr(indexed_search, "_FEW_MATCHES", 10)
    path = str(tmp_path / "t.lance")
    dataset = lance_core.write_dataset(random_table(3000), path)
    dataset.create_index("v", kind, num_partitions=9, **({"num_sub_vectors": 4} if kind == "IVF_PQ" else {}))
    expected = search(lance_core.dataset(path), nprobes=7, k=40, **changes)
    for num_bytes, num_partitions, cache_bytes in ((0, 64, None), (5000, 2, 0), (16 << 20, 3, 40_000)):
        monkeypatch.setattr(batch_search, "_SCANNED_BYTES", num_bytes)
        monkeypatch.setattr(opened, "_MOST_PARTITIONS", num_partitions)
        session = lance_core.Session(index_cache_size_bytes=cache_bytes)
        assert search(lance_core.dataset(path, session=session), nprobes=7, k=40, **changes) == expected


def test_bounds_apply_to_exact_distances(coded: lance_core.LanceDataset) -> None:
    """The reference applies them to estimates, and loses rows."""
    exact = search(coded, k=700, metric="cosine", use_index=False)
    lower, upper = exact["_distance"][50].as_py(), exact["_distance"][400].as_py()
    for fast in (True, False):
        bounded = search(coded, k=700, distance_range=(lower, upper), fast_search=fast)
        expected = exact.slice(50, 350)["id"].to_pylist()
        if fast:
            expected = [number for number in expected if number < 600]
        assert set(expected) - set(bounded["id"].to_pylist()) <= {exact["id"][50].as_py()}
        assert len(bounded) <= len(expected) + 1


@pytest.mark.parametrize(
    "kind", ["IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_RQ", "IVF_HNSW_FLAT", "IVF_HNSW_PQ", "IVF_HNSW_SQ"]
)
def test_rows_below_the_lower_bound_use_up_no_places(tmp_path: Path, kind: str) -> None:
    """The bounds leave as many rows as without an index, however many are nearer."""
    dataset = indexed(tmp_path / "t.lance", kind)
    exact = search(dataset, k=700, use_index=False)
    lower = exact["_distance"][300].as_py()
    queries = np.stack([QUERY, QUERY, QUERY + 40])
    for upper in (None, exact["_distance"][330].as_py()):
        for changes in ({}, {"refine_factor": 2}, {"filter": "id >= 0", "prefilter": True}):
            bounds = {"distance_range": (lower, upper), "fast_search": True, **changes}
            found = search(dataset, k=10, **bounds)
            assert len(found) == 10
            distances = found["_distance"].to_pylist()
            assert lower <= distances[0]
            assert distances == sorted(distances)
            several = search(dataset, k=10, q=queries, **bounds)
            places = several["query_index"].to_pylist()
            assert places.count(0) == places.count(1) == 10
            assert several["id"].to_pylist()[:10] == found["id"].to_pylist()
            assert places.count(2) == (10 if upper is None else 0)


def test_rows_are_within_narrow_bounds(coded: lance_core.LanceDataset) -> None:
    """The bounds are narrower than the errors of the estimates."""
    exact = search(coded, k=700, metric="cosine", use_index=False)
    lower, upper = exact["_distance"][300].as_py(), exact["_distance"][305].as_py()
    expected = [number for number in exact["id"].to_pylist()[300:305] if number < 600]
    found = search(coded, k=10, distance_range=(lower, upper), fast_search=True)
    assert set(expected) - set(found["id"].to_pylist()) <= {exact["id"][300].as_py()}


def test_a_search_with_a_lower_bound_gathers_rows_up_to_a_limit(
    coded: lance_core.LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the limit, estimates tell which rows are above the bound."""
    exact = search(coded, k=700, metric="cosine", use_index=False)
    lower = exact["_distance"][300].as_py()
    monkeypatch.setattr(indexed_search, "_MOST_GATHERED", 50)
    found = search(coded, k=20, distance_range=(lower, None), fast_search=True)
    assert 0 < len(found) < 20
    assert min(found["_distance"].to_pylist()) >= lower


def test_few_matches_have_finite_distances(coded: lance_core.LanceDataset) -> None:
    """The reference returns some of them with an infinite distance."""
    found = search(coded, filter="id IN (3, 500, 650)", prefilter=True, nprobes=None, k=10)
    assert sorted(found["id"].to_pylist()) == [3, 500, 650]
    assert np.isfinite(found["_distance"]).all()


@pytest.mark.parametrize("stable", [False, True])
def test_changed_rows_are_found_once_and_deleted_rows_never(tmp_path: Path, stable: bool) -> None:
    path = tmp_path / "t.lance"
    dataset = indexed(path, "IVF_FLAT", enable_stable_row_ids=stable)
    dataset.delete("id % 3 = 0")
    dataset.update({"group": "50"}, where="id % 3 = 1 AND id < 200")
    changed = random_table(30, 1000).set_column(0, "id", pa.array([5 + 6 * i for i in range(30)]))
    dataset.merge_insert("id").when_matched_update_all().execute(changed)
    rows = dataset.to_table()
    for k in (10, 200):
        for changes in ({}, {"filter": "group < 60 AND id > 4", "prefilter": True}):
            found = search(dataset, k=k, **changes)
            exact = search(dataset, k=k, use_index=False, **changes)
            assert found["id"].to_pylist() == exact["id"].to_pylist()
    assert search(dataset, k=10)["id"].to_pylist() == expected_ids(rows, QUERY, "l2", 10)
    assert len(search(dataset, k=1000)) == len(rows)


def test_many_queries_with_an_index(flat: lance_core.LanceDataset) -> None:
    queries = np.random.default_rng(1).standard_normal((7, DIMENSION)).astype(np.float32)
    found = search(flat, q=queries, k=5)
    exact = search(flat, q=queries, k=5, use_index=False)
    assert found["id"].to_pylist() == exact["id"].to_pylist()
    assert found["query_index"].to_pylist() == [number for number in range(7) for _ in range(5)]


@pytest.mark.parametrize("kind", ["IVF_PQ", "IVF_SQ", "IVF_HNSW_SQ"])
def test_rows_are_those_of_the_reference(tmp_path: Path, kind: str) -> None:
    ours = indexed(tmp_path / "t.lance", kind)
    theirs = lance.dataset(tmp_path / "t.lance")
    found, expected = (search(each, k=10, refine_factor=5) for each in (ours, theirs))
    common = set(found["id"].to_pylist()) & set(expected["id"].to_pylist())
    assert len(common) >= 9


def test_rows_with_several_vectors_and_an_index(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    lists = [random.standard_normal((1 + i % 3, DIMENSION)).astype(np.float32).tolist() for i in range(400)]
    kind = pa.list_(pa.list_(pa.float32(), DIMENSION))
    table = pa.table({"id": range(400), "v": pa.array(lists, kind)})
    dataset = lance.write_dataset(table, tmp_path / "t.lance")
    dataset.create_index("v", index_type="IVF_FLAT", metric="cosine", num_partitions=2)
    q = random.standard_normal((2, DIMENSION)).astype(np.float32)
    ours = lance_core.dataset(tmp_path / "t.lance")
    found = search(ours, q=q, k=5, nprobes=2, refine_factor=20)
    exact = search(ours, q=q, k=5, use_index=False, metric="cosine")
    assert found["id"].to_pylist() == exact["id"].to_pylist()
    np.testing.assert_allclose(found["_distance"], exact["_distance"], rtol=1e-5)


WIDE = 64


def wide(path: Path, *, with_nulls: bool) -> lance_core.LanceDataset:
    """Return rows of vectors in pages that kernels compare in the file, if there are no nulls."""
    vectors = np.random.default_rng(2).standard_normal((900, WIDE)).astype(np.float32)
    is_null = np.arange(900) % 50 == 7 if with_nulls else np.zeros(900, bool)
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), WIDE, mask=pa.array(is_null))
    table = pa.table({"id": range(900), "v": column})
    dataset = lance_core.write_dataset(table, str(path), max_rows_per_file=300)
    return dataset.create_index("v", "IVF_PQ", num_partitions=3, num_sub_vectors=8)


def wide_search(dataset: lance_core.LanceDataset, queries: Any, **changes: Any) -> tuple[list[int], Any]:
    nearest = {"column": "v", "q": queries, "k": 12, "nprobes": 3, "metric": "l2", **changes}
    found = dataset.to_table(columns=["id"], nearest=nearest)
    return found["id"].to_pylist(), found["_distance"].to_numpy()


@pytest.mark.parametrize("with_nulls", [False, True])
def test_exact_distances_of_candidates(tmp_path: Path, with_nulls: bool) -> None:
    """The first search takes the vectors; later ones compare them in the mapped files."""
    dataset = wide(tmp_path / "t.lance", with_nulls=with_nulls)
    queries = np.random.default_rng(3).standard_normal((5, WIDE)).astype(np.float32)
    for _ in range(3):
        for asked in (queries[0], queries):
            ids, distances = wide_search(dataset, asked, refine_factor=75)
            expected, exact = wide_search(dataset, asked, use_index=False)
            assert ids == expected
            np.testing.assert_allclose(distances, exact, rtol=1e-5)


def test_a_file_that_is_cut_while_it_is_searched(tmp_path: Path) -> None:
    """T25: vectors of a mapped file that lost its end are an error."""
    dataset = wide(tmp_path / "t.lance", with_nulls=False)
    query = np.zeros(WIDE, np.float32)
    for _ in range(3):
        wide_search(dataset, query, refine_factor=75)
    for file in (tmp_path / "t.lance" / "data").iterdir():
        os.truncate(file, 4096)
    with pytest.raises(LanceError):
        wide_search(dataset, query, refine_factor=75)


def test_a_filter_that_an_index_answers(tmp_path: Path) -> None:
    """The rows come from the index, less those that were deleted; the third fragment is read."""
    path = tmp_path / "t.lance"
    table = random_table(9000)
    dataset = lance_core.write_dataset(table, str(path), max_rows_per_file=4500)
    dataset.create_index("v", "IVF_FLAT", num_partitions=4)
    dataset.create_scalar_index("id", "BTREE")
    dataset.delete("id % 3 = 0")
    dataset.insert(random_table(500, 9000))
    for condition in ("id BETWEEN 100 AND 8000", "id > 8995", "id BETWEEN 100 AND 8000 AND group != 2"):
        scan = {"filter": condition, "prefilter": True, "k": 30}
        found, exact = search(dataset, **scan), search(dataset, use_index=False, **scan)
        assert found["id"].to_pylist() == exact["id"].to_pylist()
        assert found.num_rows == 30


@pytest.fixture
def divided(tmp_path: Path) -> lance_core.LanceDataset:
    """Return a table of four fragments. An index has a segment for each of the first two."""
    dataset = lance_core.write_dataset(random_table(400), tmp_path / "t", max_rows_per_file=100)
    segments = [
        dataset.create_index_uncommitted("v", "IVF_FLAT", num_partitions=2, fragment_ids=[number])
        for number in (0, 1)
    ]
    dataset.create_scalar_index("id", "BTREE")
    return dataset.commit_existing_index_segments("v_idx", "v", segments)


def _uuids(dataset: Any, name: str = "v_idx") -> list[str]:
    (index,) = (index for index in dataset.describe_indices() if index.name == name)
    return [segment.uuid for segment in index.segments]


def _ids(dataset: Any, segments: Any, **arguments: Any) -> list[int]:
    nearest = {"column": "v", "q": QUERY, "k": 400, "nprobes": 2, **arguments.pop("nearest", {})}
    scan = dataset.scanner(columns=["id"], nearest=nearest, index_segments=segments, **arguments)
    return sorted(scan.to_table()["id"].to_pylist())


def test_named_segments_find_the_rows_that_they_cover(divided: lance_core.LanceDataset) -> None:
    theirs = lance.dataset(divided.uri)
    uuids = _uuids(divided)
    (segment,) = (
        s
        for index in divided.describe_indices()
        if index.name == "v_idx"
        for s in index.segments
        if s.uuid == uuids[0]
    )
    (number,) = segment.fragment_ids
    covered = list(range(100 * number, 100 * number + 100))
    for dataset in (divided, theirs):
        assert _ids(dataset, [uuids[0]]) == covered
        assert _ids(dataset, [uuid.UUID(uuids[0])], filter="id % 2 = 0", prefilter=True) == covered[::2]
        assert _ids(dataset, uuids) == list(range(200))
        assert _ids(dataset, [uuids[0]], nearest={"use_index": False}) == list(range(400))
    # Rows of given fragments that the segment does not cover are compared one by one.
    for library in (lance_core, lance):
        dataset = library.dataset(divided.uri)
        fragments = [dataset.get_fragment(number), dataset.get_fragment(3)]
        everything = {"filter": "id >= 0", "prefilter": True}  # without it, the reference takes no fragments
        assert _ids(dataset, [uuids[0]], fragments=fragments, **everything) == covered + list(range(300, 400))
    scan = divided.scanner(nearest={"column": "v", "q": QUERY}, index_segments=uuids[:1])
    plan = scan.explain_plan()
    assert "fragments=1" in plan
    assert "KNNVectorDistance" not in plan


def test_a_builder_sets_segments(divided: lance_core.LanceDataset) -> None:
    builder = ScannerBuilder(divided).nearest("v", QUERY, k=400, nprobes=2)
    assert builder.with_index_segments(_uuids(divided)).to_scanner().to_table().num_rows == 200


def test_segments_that_fit_no_search_are_refused(divided: lance_core.LanceDataset) -> None:
    theirs = lance.dataset(divided.uri)
    other = divided.create_index("v", "IVF_FLAT", "other", num_partitions=2)
    of_ids = _uuids(divided, "id_idx")
    for segments, words in (
        ([uuid.uuid4()], "with_index_segments referenced unknown index segments"),
        (of_ids, "vector index on column 'v'"),
        ([*_uuids(divided), *_uuids(other, "other")], "one index"),
        ([], "at least one"),
        (["x"], "uuids"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            _ids(divided, segments)
    for dataset in (divided, theirs):
        for segments in ([uuid.uuid4()], []):
            with pytest.raises(ValueError, match="segment"):
                _ids(dataset, segments)
        with pytest.raises(ValueError, match="metric"):
            _ids(dataset, _uuids(divided), nearest={"metric": "dot"})
        with pytest.raises(ValueError, match="search"):
            dataset.scanner(index_segments=_uuids(divided)).to_table()
        with pytest.raises(TypeError):
            _ids(dataset, [7])
    with pytest.raises(TypeError, match="list of uuids"):
        _ids(divided, str(uuid.uuid4()))
