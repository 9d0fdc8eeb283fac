"""Vector indices that are built in steps: code, sort, build. Steps of the reference are mixed with ours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import lance.indices
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.api.file import LanceFileReader, LanceFileWriter
from lance_core.api.indices import IndicesBuilder, IvfModel, PqModel
from lance_core.index.vector.build import spilled

DIMENSION, NUM_ROWS, ROWS_PER_FILE = 32, 3000, 1000
Library = Any
"""`lance` or `lance_core`."""


def vectors(seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((NUM_ROWS, DIMENSION)).astype(np.float32)


def write(path: Path, values: np.ndarray, **options: Any) -> lance_core.LanceDataset:
    column = pa.FixedSizeListArray.from_arrays(values.ravel(), DIMENSION)
    table = pa.table({"id": range(len(values)), "v": column})
    return lance_core.write_dataset(table, str(path), max_rows_per_file=ROWS_PER_FILE, **options)


def builder_of(library: Library, path: Path) -> Any:
    kind = IndicesBuilder if library is lance_core else lance.indices.IndicesBuilder
    return kind(library.dataset(str(path)), "v")


def models_of(builder: IndicesBuilder, metric: str = "l2") -> tuple[IvfModel, PqModel]:
    ivf = builder.train_ivf(8, distance_type=metric)
    return ivf, builder.train_pq(ivf, 8)


def their(ivf: IvfModel, pq: PqModel) -> tuple[Any, Any]:
    return (
        lance.indices.IvfModel(ivf.centroids, ivf.distance_type),
        lance.indices.PqModel(pq.num_subvectors, pq.codebook),
    )


def read(path: Path) -> pa.Table:
    return LanceFileReader(str(path)).read_all().to_table()


def neighbours(dataset: Any, query: np.ndarray) -> list[int]:
    found = dataset.to_table(columns=["id"], nearest={"column": "v", "q": query, "k": 10, "nprobes": 8})
    return found["id"].to_pylist()


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
@pytest.mark.parametrize("has_stable_ids", [False, True], ids=["addresses", "ids"])
def test_an_index_of_three_steps_is_the_index_of_one(
    tmp_path: Path, metric: str, has_stable_ids: bool
) -> None:
    values = vectors()
    dataset = write(tmp_path / "table", values, enable_stable_row_ids=has_stable_ids)
    dataset.delete("id % 9 = 0")
    builder = IndicesBuilder(dataset, "v")
    ivf, pq = models_of(builder, metric)
    names = []
    for number, fragment in enumerate(dataset.get_fragments()):
        builder.transform_vectors(ivf, pq, str(tmp_path / f"coded{number}"), fragments=[fragment])
        names += builder.shuffle_transformed_vectors([f"coded{number}"], str(tmp_path), ivf, f"part{number}")
    assert names == ["part0_0.lance", "part1_0.lance", "part2_0.lance"]
    builder.load_shuffled_vectors(names, str(tmp_path), ivf, pq)
    (index,) = dataset.describe_indices()
    assert (index.name, index.index_type) == ("v_idx", "IVF_PQ")
    assert index.num_rows_indexed == dataset.count_rows()
    stepwise = [neighbours(dataset, query) for query in values[:20]]
    assert "v_idx" in dataset.scanner(nearest={"column": "v", "q": values[0], "k": 1}).explain_plan()
    theirs = lance.dataset(dataset.uri)
    assert len(neighbours(theirs, values[0])) == 10
    dataset.create_index(
        "v", "IVF_PQ", metric=metric, replace=True, ivf_centroids=ivf.centroids, pq_codebook=pq.codebook,
        num_sub_vectors=8,
    )  # fmt: skip
    assert stepwise == [neighbours(dataset, query) for query in values[:20]]


@pytest.mark.parametrize("steps", [(0, 0, 1), (0, 1, 0), (0, 1, 1), (1, 0, 0), (1, 0, 1), (1, 1, 0)])
def test_steps_of_both_libraries_go_together(tmp_path: Path, steps: tuple[int, ...]) -> None:
    """0 is a step of ours, 1 a step of the reference."""
    values = vectors()
    path = tmp_path / "table"
    write(path, values)
    ours = builder_of(lance_core, path)
    theirs = builder_of(lance, path)
    ivf, pq = models_of(ours)
    sides = [(ours, ivf, pq), (theirs, *their(ivf, pq))]
    builder, some_ivf, some_pq = sides[steps[0]]
    builder.transform_vectors(some_ivf, some_pq, str(tmp_path / "coded"), None)
    builder, some_ivf, _ = sides[steps[1]]
    names = builder.shuffle_transformed_vectors(["coded"], str(tmp_path), some_ivf, "sorted")
    builder, some_ivf, some_pq = sides[steps[2]]
    builder.load_shuffled_vectors(names, str(tmp_path), some_ivf, some_pq)
    exact = [set(np.argsort(((values - query) ** 2).sum(axis=1))[:10].tolist()) for query in values[:20]]
    for library in (lance_core, lance):
        dataset = library.dataset(str(path))
        assert dataset.stats.index_stats("v_idx")["num_indexed_rows"] == NUM_ROWS
        found = [set(neighbours(dataset, query)) for query in values[:20]]
        assert np.mean([len(a & b) / 10 for a, b in zip(exact, found, strict=True)]) > 0.3


def test_codes_are_those_of_the_reference(tmp_path: Path) -> None:
    path = tmp_path / "table"
    write(path, vectors())
    ours, theirs = builder_of(lance_core, path), builder_of(lance, path)
    ivf, pq = models_of(ours)
    ours.transform_vectors(ivf, pq, str(tmp_path / "ours"))
    theirs.transform_vectors(*their(ivf, pq), str(tmp_path / "theirs"))
    mine, other = read(tmp_path / "ours").sort_by("_rowid"), read(tmp_path / "theirs").sort_by("_rowid")
    assert mine["_rowid"] == other["_rowid"]
    assert mine["__ivf_part_id"] == other["__ivf_part_id"]
    codes = [np.asarray(table["__pq_code"].combine_chunks().flatten()) for table in (mine, other)]
    assert np.mean(codes[0] == codes[1]) > 0.99  # ties of rounded distances
    names = mine.schema.names
    assert [mine.schema.field(name).type for name in names] == [
        other.schema.field(name).type for name in names
    ]


def test_rows_are_sorted_by_partition_in_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "table"
    write(path, vectors())
    builder = builder_of(lance_core, path)
    ivf, pq = models_of(builder)
    builder.transform_vectors(ivf, pq, str(tmp_path / "coded"))
    monkeypatch.setattr(spilled.SpilledRows.__init__, "__defaults__", (1000,))
    (name,) = builder.shuffle_transformed_vectors(["coded"], str(tmp_path), ivf)
    assert name == "sorted_0.lance"
    before, after = read(tmp_path / "coded"), read(tmp_path / name)
    lists = after["partitions"].to_pylist()
    assert [{row["__ivf_part_id"] for row in rows} for rows in lists] == [{number} for number in range(8)]
    rows = [row for rows in lists for row in rows]
    assert sorted(rows, key=lambda row: row["_rowid"]) == before.sort_by("_rowid").to_pylist()


def test_codes_of_4_bits(tmp_path: Path) -> None:
    values = vectors()
    dataset = write(tmp_path / "table", values)
    builder = IndicesBuilder(dataset, "v")
    ivf = builder.train_ivf(4)
    pq = builder.train_pq(ivf, 16, num_bits=4)
    builder.transform_vectors(ivf, pq, str(tmp_path / "coded"))
    assert read(tmp_path / "coded")["__pq_code"].type == pa.list_(pa.uint8(), 8)
    builder.load_shuffled_vectors(["coded"], str(tmp_path), ivf, pq, index_name="mine")
    assert [index.name for index in dataset.describe_indices()] == ["mine"]
    assert len(neighbours(dataset, values[0])) == 10


def test_null_vectors_have_no_codes(tmp_path: Path) -> None:
    rows = [None if number % 10 else row.tolist() for number, row in enumerate(vectors())]
    table = pa.table({"id": range(NUM_ROWS), "v": pa.array(rows, pa.list_(pa.float32(), DIMENSION))})
    dataset = lance_core.write_dataset(table, str(tmp_path / "table"))
    builder = IndicesBuilder(dataset, "v")
    ivf, pq = models_of(builder)
    builder.transform_vectors(ivf, pq, str(tmp_path / "coded"))
    assert read(tmp_path / "coded")["_rowid"].to_pylist() == list(range(0, NUM_ROWS, 10))


@pytest.fixture
def coded(tmp_path: Path) -> tuple[IndicesBuilder, IvfModel, PqModel]:
    """A builder with a file `coded` in `tmp_path`."""
    builder = IndicesBuilder(write(tmp_path / "table", vectors()), "v")
    ivf, pq = models_of(builder)
    builder.transform_vectors(ivf, pq, str(tmp_path / "coded"))
    return builder, ivf, pq


def test_only_fragments_with_rows_are_covered(tmp_path: Path, coded: Any) -> None:
    builder, ivf, pq = coded
    first, second, _ = builder.dataset.get_fragments()
    builder.transform_vectors(ivf, pq, str(tmp_path / "two"), fragments=[second, first])
    builder.load_shuffled_vectors(["two"], str(tmp_path), ivf, pq)
    (index,) = builder.dataset.describe_indices()
    assert list(index.segments[0].fragment_ids) == [0, 1]
    builder.load_shuffled_vectors(["coded"], str(tmp_path), ivf, pq)
    (index,) = builder.dataset.describe_indices()
    assert [list(segment.fragment_ids) for segment in index.segments] == [[0, 1, 2]]


def test_rows_of_compacted_fragments_are_refused(tmp_path: Path, coded: Any) -> None:
    builder, ivf, pq = coded
    builder.dataset.optimize.compact_files()
    with pytest.raises(lance_core.InvalidInputError, match="fragments of the coded rows"):
        builder.load_shuffled_vectors(["coded"], str(tmp_path), ivf, pq)
    assert not builder.dataset.describe_indices()
    assert not list((tmp_path / "table" / "_indices").glob("*"))


def write_rows(path: Path, **columns: pa.Array) -> None:
    batch = pa.record_batch(columns)
    with LanceFileWriter(str(path), batch.schema) as writer:
        writer.write_batch(batch)


CODES = pa.array([[1] * 8], pa.list_(pa.uint8(), 8))
ROWS: dict[str, dict[str, pa.Array]] = {
    "columns of coded": {"_rowid": pa.array([1], pa.uint64()), "__pq_code": CODES},
    "types of coded": {
        "_rowid": pa.array([1]), "__ivf_part_id": pa.array([0], pa.uint32()), "__pq_code": CODES,
    },
    "types of coded vectors": {
        "_rowid": pa.array([1], pa.uint64()),
        "__ivf_part_id": pa.array([0], pa.uint32()),
        "__pq_code": pa.array([[1] * 4], pa.list_(pa.uint8(), 4)),
    },
    "partition": {
        "_rowid": pa.array([1], pa.uint64()), "__ivf_part_id": pa.array([8], pa.uint32()), "__pq_code": CODES,
    },
    "fragments of the coded rows": {
        "_rowid": pa.array([9 << 32], pa.uint64()),
        "__ivf_part_id": pa.array([0], pa.uint32()),
        "__pq_code": CODES,
    },
}  # fmt: skip


@pytest.mark.parametrize("message", ROWS)
def test_other_rows_are_refused(tmp_path: Path, coded: Any, message: str) -> None:
    builder, ivf, pq = coded
    write_rows(tmp_path / "other", **ROWS[message])
    with pytest.raises(lance_core.InvalidInputError, match=message):
        builder.load_shuffled_vectors(["other"], str(tmp_path), ivf, pq)
    assert not builder.dataset.describe_indices()


def refusals(builder: IndicesBuilder, ivf: IvfModel, pq: PqModel, path: str) -> dict[str, Callable[[], Any]]:
    other = PqModel(4, pq.codebook)
    return {
        "non-empty list": lambda: builder.transform_vectors(ivf, pq, path, fragments=[]),
        "partition_ds_uri": lambda: builder.transform_vectors(ivf, pq, path, partition_ds_uri="x"),
        "list of strings": lambda: builder.shuffle_transformed_vectors("coded", path, ivf),  # type: ignore[arg-type]
        "list of strings, got": lambda: builder.load_shuffled_vectors("coded", path, ivf, pq),  # type: ignore[arg-type]
        "types of coded": lambda: builder.load_shuffled_vectors(["coded"], path, ivf, other),
        "no rows": lambda: builder.load_shuffled_vectors([], path, ivf, pq),
    }


@pytest.mark.parametrize("number", range(6))
def test_wrong_arguments_are_refused(tmp_path: Path, coded: Any, number: int) -> None:
    message, call = list(refusals(*coded, str(tmp_path)).items())[number]
    with pytest.raises(lance_core.LanceError, match=message.removesuffix(", got")):
        call()


def test_a_column_without_product_codes_is_refused(tmp_path: Path, coded: Any) -> None:
    _, ivf, pq = coded
    values = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(640, np.uint8)), 32)
    dataset = lance_core.write_dataset(pa.table({"v": values}), str(tmp_path / "bits"))
    with pytest.raises(lance_core.LanceError, match="no product codes"):
        IndicesBuilder(dataset, "v").transform_vectors(ivf, pq, str(tmp_path / "coded"))
