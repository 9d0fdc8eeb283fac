"""Vector indices that are built here: the reference reads the same out of them, and finds as much."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.index.segment_files import SegmentFiles
from lance_core.index.vector.build.parameters import vector_parameters
from lance_core.index.vector.segment_search import SegmentQuery
from lance_core.proto import index_pb2
from lance_core.storage import storage_for
from support.runs.products import thinned
from support.searches.vector_indices import (
    KINDS,
    clustered,
    exact_distances,
    nearest_rows,
    uniform,
    vector_segments,
    vector_table,
)

DIMENSION, PARTITIONS = 32, 4
Array = npt.NDArray[Any]


def build(path: Path, vectors: Array, kind: str, **options: Any) -> lance_core.LanceDataset:
    """Write vectors and build an index on them."""
    dataset = lance_core.write_dataset(vector_table(vectors), str(path))
    return dataset.create_index("vector", kind, **{"num_partitions": PARTITIONS, **KINDS[kind], **options})


def reference_search(path: Path, query: Array, k: int, kind: str, **options: Any) -> pa.Table:
    """Return the row keys and distances that the reference finds in all partitions."""
    nearest = {"column": "vector", "q": query, "k": k, "nprobes": PARTITIONS, **options}
    if "HNSW" in kind:
        nearest["ef"] = 200
    if "RQ" in kind:
        nearest["approx_mode"] = "accurate"
    columns = ["_rowid", "_distance"]
    return lance.dataset(str(path)).to_table(columns=columns, nearest=nearest, with_row_id=True)


@pytest.mark.parametrize(("kind", "metric"), thinned(KINDS, ["l2", "cosine", "dot"]))
def test_the_reference_finds_the_same_in_it(tmp_path: Path, kind: str, metric: str) -> None:
    vectors = clustered(1500, DIMENSION)
    path = tmp_path / "table"
    build(path, vectors, kind, metric=metric)
    assert [index.index_type for index in lance.dataset(str(path)).describe_indices()] == [kind]
    (segment,) = vector_segments(path)
    factor = 2 if metric == "cosine" and not segment.is_exact else 1
    for query in vectors[:3] + np.float32(0.1):
        found = segment.nearest(SegmentQuery(query[np.newaxis], 30, PARTITIONS, PARTITIONS, candidates=200))
        expected = reference_search(path, query, 30, kind)
        tolerance = 1e-2 if "RQ" in kind else 1e-4
        np.testing.assert_allclose(
            found.distances * factor, expected["_distance"].to_numpy(), rtol=tolerance, atol=tolerance
        )
        estimates = exact_distances(query, vectors[found.keys.astype(int)], metric)
        assert np.corrcoef(estimates, found.distances)[0, 1] > 0.5


@pytest.mark.parametrize(("kind", "make"), thinned(KINDS, [clustered, uniform]))
def test_recall_is_that_of_an_index_of_the_reference(tmp_path: Path, kind: str, make: Any) -> None:
    """All partitions are searched, because how many neighbours one has depends on its chance size. That the
    partitions are as good shows the sum of the distances to their centroids.
    """
    vectors = make(4000, DIMENSION)
    queries = make(4100, DIMENSION)[4000:]
    recalls, losses = [], []
    for path in (tmp_path / "ours", tmp_path / "theirs"):
        if path.name == "ours":
            build(path, vectors, kind)
        else:
            dataset = lance.write_dataset(vector_table(vectors), str(path))
            dataset.create_index("vector", kind, num_partitions=PARTITIONS, **KINDS[kind])
        (segment,) = vector_segments(path)
        hits = 0
        for query in queries:
            nearest = set(nearest_rows(query, vectors, "l2", 10).tolist())
            found = segment.nearest(
                SegmentQuery(query[np.newaxis], 10, PARTITIONS, PARTITIONS, candidates=30)
            )
            hits += len(nearest & set(found.keys.tolist()))
        recalls.append(hits / (10 * len(queries)))
        statistics = lance.dataset(str(path)).stats.index_stats("vector_idx")
        losses.append(statistics["indices"][0]["loss"])
    assert recalls[0] >= recalls[1] - 0.03, recalls
    assert losses[0] <= 1.1 * losses[1], losses


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "HNSW" in kind])
@pytest.mark.parametrize("is_equal", [True, False])
def test_graphs_lead_to_all_equal_codes(tmp_path: Path, kind: str, is_equal: bool) -> None:
    """Both libraries reach each of many rows with one vector, or with one code because of an outlier."""
    if is_equal:
        vectors = uniform(4, DIMENSION)[np.random.default_rng(1).integers(0, 4, 600)]
    else:
        vectors = clustered(600, DIMENSION)
        vectors[5, 2] = 1e5
    path = tmp_path / "table"
    dataset = build(path, vectors, kind, num_partitions=1)
    wanted = {"column": "vector", "q": vectors[0], "k": 600, "ef": 600}
    assert set(dataset.to_table(["id"], nearest=wanted)["id"].to_pylist()) == set(range(600))
    assert lance.dataset(str(path)).to_table(["id", "_distance"], nearest=wanted).num_rows == 600


@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ", "IVF_SQ"])
def test_rows_without_usable_vectors_are_left_out(tmp_path: Path, kind: str) -> None:
    vectors = clustered(600, DIMENSION)
    vectors[5] = np.nan
    vectors[6, 3] = np.inf
    table = vector_table(vectors)
    column = table["vector"].combine_chunks()
    flags = np.ones(600, bool)
    flags[[7, 599]] = False
    column = pa.FixedSizeListArray.from_arrays(column.values, DIMENSION, mask=pa.array(~flags))
    path = tmp_path / "table"
    dataset = lance_core.write_dataset(table.set_column(1, "vector", column), str(path))
    dataset.create_index("vector", kind, num_partitions=2, **KINDS[kind])
    (segment,) = vector_segments(path)
    found = segment.nearest(SegmentQuery(vectors[0][np.newaxis], 600, 2, 2))
    assert set(range(600)) - set(found.keys.tolist()) == {5, 6, 7, 599}
    assert len(reference_search(path, vectors[0], 600, kind)) >= 596


@pytest.mark.parametrize("element", ["float16", "float64", "uint8"])
def test_types_of_elements(tmp_path: Path, element: str) -> None:
    if element == "uint8":
        vectors = np.random.default_rng(1).integers(0, 256, (700, 16)).astype(np.uint8)
        metric, kinds = "hamming", ["IVF_FLAT", "IVF_HNSW_FLAT"]
    else:
        vectors, metric = clustered(700, 16).astype(element), "l2"
        kinds = ["IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_RQ", "IVF_HNSW_SQ"]
    for kind in kinds:
        path = tmp_path / kind
        build(path, vectors, kind, metric=metric, **({"num_sub_vectors": 4} if "PQ" in kind else {}))
        (segment,) = vector_segments(path)
        query = vectors[11] if metric == "hamming" else vectors[11].astype(np.float32)
        found = segment.nearest(SegmentQuery(query[np.newaxis], 10, PARTITIONS, PARTITIONS, candidates=100))
        expected = reference_search(path, vectors[11], 10, kind, metric=metric)
        tolerance = 1e-2 if "RQ" in kind else 1e-3
        np.testing.assert_allclose(
            found.distances, expected["_distance"].to_numpy(), rtol=tolerance, atol=tolerance
        )
        if segment.is_exact:
            exact = np.sort(exact_distances(query, vectors, metric))[:10]
            np.testing.assert_allclose(found.distances, exact, rtol=1e-3, atol=1e-3)


def test_given_centroids_and_codebook_are_stored(tmp_path: Path) -> None:
    vectors = clustered(800, DIMENSION)
    centroids, codebook = vectors[:3].copy(), clustered(256, DIMENSION, seed=9).reshape(8, 256, 4)
    path = tmp_path / "table"
    build(path, vectors, "IVF_PQ", num_partitions=None, ivf_centroids=centroids, pq_codebook=codebook)
    statistics = lance.dataset(str(path)).stats.index_stats("vector_idx")
    np.testing.assert_array_equal(np.array(statistics["indices"][0]["centroids"], np.float32), centroids)
    (segment,) = vector_segments(path)
    np.testing.assert_array_equal(segment._model.codes.codebook, codebook)
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(codebook)
    lance_core.dataset(path).create_index(
        "vector", "IVF_PQ", replace=True, **KINDS["IVF_PQ"], ivf_centroids=centroids, pq_codebook=tensors
    )
    (segment,) = vector_segments(path)
    np.testing.assert_array_equal(segment._model.codes.codebook, codebook)


@pytest.mark.parametrize(("num_rows", "kind"), [(200, "IVF_PQ"), (0, "IVF_FLAT")])
def test_too_few_rows_make_an_index_without_data(tmp_path: Path, num_rows: int, kind: str) -> None:
    """The reference searches all rows then, and builds the index when there are enough rows."""
    path = tmp_path / "table"
    vectors = clustered(600, DIMENSION)
    dataset = build(path, vectors[:num_rows], kind)
    (index,) = dataset.describe_indices()
    assert not index.num_rows_indexed
    assert len(reference_search(path, vectors[0], 5, kind)) == min(num_rows, 5)
    dataset.insert(vector_table(vectors, num_rows))
    dataset.optimize.optimize_indices()
    (index,) = dataset.describe_indices()
    assert index.num_rows_indexed == 600 + num_rows
    assert len(reference_search(path, vectors[0], 5, kind)) == 5


@pytest.mark.parametrize("merged", [None, 0])
@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ"])
def test_new_rows_without_vectors_make_no_segment(tmp_path: Path, kind: str, merged: int | None) -> None:
    """The reference would not open the index: it looks for the files of every segment."""
    path = tmp_path / "table"
    vectors = clustered(600, DIMENSION)
    dataset = build(path, vectors, kind)
    rows = vector_table(vectors[:2], 600)
    nulls = pa.nulls(2, rows.schema.field("vector").type)
    dataset.insert(rows.set_column(rows.schema.names.index("vector"), "vector", nulls))
    for _ in range(2):
        dataset.optimize.optimize_indices(num_indices_to_merge=merged)
        assert len(dataset.describe_indices()[0].segments) == 1
        assert len(reference_search(path, vectors[0], 5, kind)) == 5
    dataset.insert(vector_table(vectors[:3], 602))
    dataset.optimize.optimize_indices(num_indices_to_merge=merged)
    assert dataset.index_statistics("vector_idx")["num_unindexed_rows"] == 0
    assert len(reference_search(path, vectors[0], 5, kind)) == 5


def test_wrong_options_are_named(tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(vector_table(clustered(300, 12)), str(tmp_path / "table"))
    for options, name in (
        ({"num_sub_vectors": 5}, "num_sub_vectors"),
        ({"num_bits": 6}, "num_bits"),
        ({"num_partitions": 0}, "num_partitions"),
        ({"metric": "manhattan"}, "metric"),
        ({"ivf_centroids": np.zeros((2, 11), np.float32)}, "ivf_centroids"),
        ({"pq_codebook": np.zeros(7, np.float32)}, "pq_codebook"),
        ({"colour": "red"}, "colour"),
    ):
        with pytest.raises(InvalidInputError, match=name):
            dataset.create_index("vector", "IVF_PQ", **options)
    with pytest.raises(InvalidInputError, match="divisible by 8"):
        dataset.create_index("vector", "IVF_RQ")
    with pytest.raises(UnsupportedFeatureError, match="hamming"):
        dataset.create_index("vector", "IVF_FLAT", metric="hamming")
    assert not dataset.has_index


@pytest.mark.parametrize(("kind", "stable"), thinned(["IVF_FLAT", "IVF_PQ", "IVF_HNSW_SQ"], [False, True]))
def test_both_libraries_go_on_with_it(tmp_path: Path, kind: str, stable: bool) -> None:
    """T43: appends, deletions, compactions and optimizations of either library in turn lose no row."""
    vectors = clustered(2400, DIMENSION)
    path = tmp_path / "table"
    dataset = lance_core.write_dataset(
        vector_table(vectors[:1200]), str(path), enable_stable_row_ids=stable, max_rows_per_file=600
    )
    dataset.create_index("vector", kind, num_partitions=2, **KINDS[kind])

    def check() -> None:
        reference = lance.dataset(str(path))
        live = reference.to_table()["id"].to_numpy()
        stored = vectors[live]
        for query in vectors[:3] + np.float32(0.05):
            exact = live[nearest_rows(query, stored, "l2", 10)]
            nearest = {"column": "vector", "q": query, "k": 10, "nprobes": 2, "refine_factor": 20}
            found = reference.to_table(columns=["id", "_distance"], nearest=nearest)["id"].to_pylist()
            assert len(set(found) & set(exact.tolist())) >= 9

    check()
    lance.dataset(str(path)).insert(vector_table(vectors[1200:1800], 1200))
    lance_core.dataset(str(path)).optimize.optimize_indices()
    check()
    lance_core.dataset(str(path)).delete("id % 7 = 3")
    check()
    lance_core.dataset(str(path)).optimize.compact_files()
    check()
    lance_core.dataset(str(path)).insert(vector_table(vectors[1800:], 1800))
    lance.dataset(str(path)).optimize.optimize_indices(num_indices_to_merge=1)
    check()
    lance.dataset(str(path)).delete("id % 5 = 3")
    lance_core.dataset(str(path)).optimize.optimize_indices(retrain=True)
    (index,) = lance_core.dataset(str(path)).describe_indices()
    assert len(index.segments) == 1
    check()


def test_segments_that_were_built_apart(tmp_path: Path) -> None:
    """Segments with one model are merged by either library."""
    vectors = clustered(2000, DIMENSION)
    path = tmp_path / "table"
    dataset = lance_core.write_dataset(vector_table(vectors), str(path), max_rows_per_file=1000)
    model = {"ivf_centroids": vectors[:3].copy(), "pq_codebook": clustered(256, DIMENSION).reshape(8, 256, 4)}
    segments = [
        dataset.create_index_uncommitted("vector", "IVF_PQ", fragment_ids=[n], num_sub_vectors=8, **model)
        for n in (0, 1)
    ]
    dataset = dataset.commit_existing_index_segments("vector_idx", "vector", segments)
    assert [len(index.segments) for index in dataset.describe_indices()] == [2]
    apart = reference_search(path, vectors[3], 20, "IVF_PQ")
    merged = dataset.merge_existing_index_segments(segments)
    dataset = dataset.commit_existing_index_segments("vector_idx", "vector", [merged])
    assert [len(index.segments) for index in dataset.describe_indices()] == [1]
    assert reference_search(path, vectors[3], 20, "IVF_PQ") == apart


def test_a_segment_built_apart_of_rows_without_vectors_is_left_out(tmp_path: Path) -> None:
    vectors = clustered(600, DIMENSION)
    path = tmp_path / "table"
    dataset = lance_core.write_dataset(vector_table(vectors), str(path))
    rows = vector_table(vectors[:2], 600)
    nulls = pa.nulls(2, rows.schema.field("vector").type)
    dataset.insert(rows.set_column(rows.schema.names.index("vector"), "vector", nulls))
    segments = [
        dataset.create_index_uncommitted(
            "vector", "IVF_FLAT", fragment_ids=[n], ivf_centroids=vectors[:2].copy()
        )
        for n in (0, 1)
    ]
    dataset = dataset.commit_existing_index_segments("vector_idx", "vector", segments)
    assert [len(index.segments) for index in dataset.describe_indices()] == [1]
    assert len(reference_search(path, vectors[0], 5, "IVF_FLAT")) == 5


@pytest.mark.parametrize(("kind", "metric"), thinned(KINDS, ["l2", "cosine"]))
def test_statistics_are_those_of_the_reference(tmp_path: Path, kind: str, metric: str) -> None:
    path = tmp_path / "table"
    dataset = build(path, clustered(900, DIMENSION), kind, metric=metric)
    (found,) = dataset.index_statistics("vector_idx")["segments"]
    (expected,) = lance.dataset(str(path)).stats.index_stats("vector_idx")["segments"]
    bounds = [facts["sub_index"].pop("bounds", {}) for facts in (found, expected)]
    assert bounds[0] == pytest.approx(bounds[1])  # the reference loses the last digit
    assert found == expected


def test_a_model_that_was_trained_apart(tmp_path: Path) -> None:
    """Several machines build segments with one model, which `IndicesBuilder` trains."""
    vectors = clustered(1200, DIMENSION)
    path = tmp_path / "table"
    dataset = lance_core.write_dataset(vector_table(vectors), str(path), max_rows_per_file=600)
    builder = lance_core.api.indices.IndicesBuilder(dataset, "vector")
    model = builder.prepare_global_ivf_pq(5, 8, distance_type="cosine")
    assert (len(model["ivf_centroids"]), len(model["pq_codebook"])) == (5, 256)
    segments = [
        dataset.create_index_uncommitted(
            "vector", "IVF_PQ", metric="cosine", num_sub_vectors=8, fragment_ids=[number], **model
        )
        for number in (0, 1)
    ]
    dataset = dataset.commit_existing_index_segments("vector_idx", "vector", segments)
    assert dataset.centroids(column="vector") == model["ivf_centroids"]
    assert dataset.get_ivf_model("vector_idx").distance_type == "cosine"
    assert len(reference_search(path, vectors[3], 20, "IVF_PQ")) == 20


@pytest.mark.parametrize(("kind", "num_vectors"), [("IVF_FLAT", 1), ("IVF_PQ", 256)])
def test_few_vectors_among_many_nulls_are_found(tmp_path: Path, kind: str, num_vectors: int) -> None:
    """The first sample of 512 rows finds too few vectors to train with."""
    rows: list[Array | None] = [None] * 40 * num_vectors
    rows.extend(clustered(num_vectors, DIMENSION))
    rows.extend([None] * 5000)
    vectors = pa.array(rows, pa.list_(pa.float32(), DIMENSION))
    dataset = lance_core.write_dataset(pa.table({"vector": vectors}), tmp_path / "table")
    dataset = dataset.create_index("vector", kind, num_partitions=1, sample_rate=2)
    assert dataset.index_statistics("vector_idx")["num_indexed_rows"] == len(rows)
    query = rows[40 * num_vectors]
    assert query is not None
    found = reference_search(tmp_path / "table", query, 2 * num_vectors, kind)
    assert len(found) == num_vectors


def stages(build_with: Any) -> list[str]:
    """Return the stages that a build reports, in the order in which they begin."""
    events: list[Any] = []
    build_with(events.append)
    return [event.stage for event in events if event.event == "start"]


def test_training_is_the_first_stage(tmp_path: Path) -> None:
    """Observers of the reference see `train_ivf` first. The stage `sample` reports the rows that are read
    before the first round of k-means.
    """
    path = tmp_path / "table"
    dataset = lance_core.write_dataset(vector_table(clustered(1000, DIMENSION)), str(path))
    options: dict[str, Any] = {"num_partitions": 2, "num_sub_vectors": 8}

    def build_with(library: Any, **more: Any) -> list[str]:
        opened = library.dataset(str(path))
        return stages(
            lambda observe: opened.create_index(
                "vector", "IVF_PQ", replace=True, progress_callback=observe, **options, **more
            )
        )

    found = build_with(lance_core)
    assert found == ["train_ivf", "sample", "train_quantizer", "shuffle", "merge_partitions"]
    assert [name for name in found if name != "sample"] == build_with(lance)
    given = build_with(lance_core, ivf_centroids=clustered(2, DIMENSION))
    assert given == ["sample", "train_quantizer", "shuffle", "merge_partitions"]

    def fail(event: Any) -> None:
        raise RuntimeError(event.stage)

    version = dataset.latest_version
    with pytest.raises(RuntimeError, match="train_ivf"):
        dataset.create_index("vector", "IVF_PQ", replace=True, progress_callback=fail, **options)
    assert dataset.latest_version == version


@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ", "IVF_HNSW_PQ"])
def test_parameters_of_the_training_are_in_the_manifest(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "table"
    dataset = build(path, clustered(900, DIMENSION), kind, max_iters=7, sample_rate=11)
    hints = dataset.describe_indices()[0].details["runtime_hints"]
    lance.dataset(str(path)).create_index(
        "vector", kind, replace=True, max_iters=7, sample_rate=11, num_partitions=PARTITIONS, **KINDS[kind]
    )
    theirs = lance_core.dataset(path).describe_indices()[0].details["runtime_hints"]
    wanted = {name: text for name, text in theirs.items() if name.endswith(("max_iters", "sample_rate"))}
    assert hints == wanted
    assert len(hints) == (4 if "PQ" in kind else 2)


@pytest.mark.parametrize("library", [lance, lance_core])
def test_a_later_training_has_the_parameters_of_the_first(tmp_path: Path, library: Any) -> None:
    path = tmp_path / "table"
    lance_core.write_dataset(vector_table(clustered(900, DIMENSION)), str(path))
    library.dataset(str(path)).create_index(
        "vector", "IVF_FLAT", num_partitions=2, max_iters=7, sample_rate=11
    )
    dataset = lance_core.dataset(path)
    dataset.insert(vector_table(clustered(900, DIMENSION), 900))
    dataset.optimize.optimize_indices(retrain=True)
    hints = dataset.describe_indices()[0].details["runtime_hints"]
    assert (hints["lance.ivf.max_iters"], hints["lance.ivf.sample_rate"]) == ("7", "11")


@pytest.mark.parametrize("text", ["", "0", "-1", "many", "٣", "99999999", "1.5"])
def test_other_texts_of_parameters_count_as_not_given(text: str) -> None:
    details = index_pb2.VectorIndexDetails(runtime_hints={"lance.ivf.max_iters": text})
    files = SegmentFiles(storage_for("memory://"), "_indices/x", {}, details.SerializeToString())
    assert "max_iters" not in vector_parameters(files)


def test_an_accelerator_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    dataset = build(tmp_path / "table", clustered(300, DIMENSION), "IVF_HNSW_SQ", accelerator="cuda")
    assert dataset.has_index
    assert "falling back to CPU" in caplog.text
