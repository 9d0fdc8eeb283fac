"""Search of the nearest rows without an index, against NumPy and the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance.arrow import BFloat16Type

import lance_core
from lance_core.errors import InvalidInputError
from lance_core.process.readers import Reader
from lance_core.scan.nearest import exact
from support.runs.each_case import each_case
from support.searches.nearest import expected_ids, lattice, vector_array, vector_table

VERSIONS = ("0.1", "2.0", "2.1", "2.2")


def write(path: Path, table: pa.Table, **arguments: Any) -> lance_core.LanceDataset:
    return lance_core.write_dataset(table, path, **arguments)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    vectors = lattice(1000, 6)
    nulls = np.zeros(1000, bool)
    nulls[[3, 500, 999]] = True
    return vector_table(vectors, nulls)


@pytest.fixture(scope="module")
def path(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a table of four fragments, with deleted rows."""
    path = tmp_path_factory.mktemp("nearest") / "t.lance"
    lance.write_dataset(table, path, max_rows_per_file=300)
    dataset = lance_core.dataset(path)
    dataset.delete("id % 10 = 4 OR id BETWEEN 310 AND 320")
    return path


@pytest.fixture(scope="module")
def rows(path: Path) -> pa.Table:
    return lance_core.dataset(path).to_table()


QUERY = [1.0, 0.0, -1.0, 2.0, 0.0, 1.0]


def both(path: Path, **arguments: Any) -> tuple[pa.Table, pa.Table]:
    """Return the result of this package and of the reference."""
    return lance_core.dataset(path).to_table(**arguments), lance.dataset(path).to_table(**arguments)


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
def test_results_are_those_of_numpy(path: Path, rows: pa.Table, metric: str) -> None:
    dataset = lance_core.dataset(path)
    for k in (1, 10, 2000):
        found = dataset.to_table(nearest={"column": "v", "q": QUERY, "k": k, "metric": metric})
        if metric == "cosine":  # sums of squares and roots are not exact
            assert set(found["id"].to_pylist()[: k // 2]) <= set(
                expected_ids(rows, np.array(QUERY), metric, k)
            )
        else:
            assert found["id"].to_pylist() == expected_ids(rows, np.array(QUERY), metric, k)
        assert found.column_names == ["id", "group", "v", "_distance"]
        assert found.schema.field("_distance").type == pa.float32()


CASES: list[dict[str, Any]] = [
    {},
    {"columns": ["id"]},
    {"columns": ["id"], "with_row_id": True},
    {"columns": ["_distance", "id"], "with_row_address": True},
    {"columns": ["id"], "limit": 3},
    {"columns": ["id"], "limit": 3, "offset": 2},
    {"columns": ["id"], "limit": 30},
    {"columns": ["id"], "filter": "group = 3", "prefilter": True},
    {"columns": ["id"], "filter": "group = 3"},
    {"columns": ["id"], "filter": "id > 100", "prefilter": True, "limit": 4, "offset": 1},
    {"columns": ["id"], "filter": "_distance < 9"},
    {"columns": ["id"], "filter": "id = 2000", "prefilter": True},
    {"columns": {"double": "id * 2", "d": "_distance"}},
    {"columns": ["id"], "filter": "v IS NOT NULL AND id < 700", "prefilter": True},
]


@each_case("arguments", CASES)
@each_case("metric", ["l2", "dot"])
def test_results_are_those_of_the_reference(path: Path, arguments: dict[str, Any], metric: str) -> None:
    nearest = {"column": "v", "q": QUERY, "k": 12, "metric": metric}
    ours, theirs = both(path, nearest=nearest, **arguments)
    assert ours.schema == theirs.schema
    assert ours.to_pylist() == theirs.to_pylist()


@pytest.mark.parametrize(
    "bounds", [(4.0, 9.0), (None, 5.0), (7.0, None), (0.0, 0.0), (5.0, 4.0), (None, None)]
)
def test_distance_ranges_are_half_open(path: Path, rows: pa.Table, bounds: tuple[Any, Any]) -> None:
    nearest = {"column": "v", "q": QUERY, "k": 50, "distance_range": bounds}
    ours, theirs = both(path, columns=["id"], nearest=nearest)
    assert ours.to_pylist() == theirs.to_pylist()
    lower, upper = bounds
    expected = expected_ids(rows, np.array(QUERY), "l2", 50, lower=lower, upper=upper)
    assert ours["id"].to_pylist() == expected


def test_fragments_restrict_the_search(path: Path, rows: pa.Table) -> None:
    """The reference refuses such searches."""
    dataset = lance_core.dataset(path)
    fragments = [each for each in dataset.get_fragments() if each.fragment_id in (1, 3)]
    nearest = {"column": "v", "q": QUERY, "k": 25}
    found = dataset.scanner(columns=["id"], nearest=nearest, fragments=fragments).to_table()
    some = rows.filter(pc.is_in(pc.divide(rows["id"], 300), pa.array([1, 3])))
    assert found["id"].to_pylist() == expected_ids(some, np.array(QUERY), "l2", 25)
    assert fragments[0].to_table(columns=["id"], nearest=nearest).num_rows == 25


def test_many_queries_have_one_result(path: Path) -> None:
    queries = lattice(20, 6, seed=4)
    nearest = {"column": "v", "q": queries, "k": 4}
    for arguments in ({}, {"filter": "group < 4", "prefilter": True}, {"with_row_id": True}):
        ours, theirs = both(path, columns=["id"], nearest=nearest, **arguments)
        assert ours.schema == theirs.schema
        assert ours.to_pylist() == theirs.to_pylist()
    assert ours.column_names[0] == "query_index"


@pytest.mark.parametrize("filter_", [None, "group = 3"])
@pytest.mark.parametrize("metric", ["l2", "dot"])
def test_more_queries_than_are_compared_at_once(
    path: Path, monkeypatch: pytest.MonkeyPatch, metric: str, filter_: str | None
) -> None:
    queries = lattice(23, 6, seed=4)
    nearest = {"column": "v", "q": queries, "k": 8, "metric": metric}
    dataset = lance_core.dataset(path)
    expected = dataset.to_table(nearest=nearest, filter=filter_, prefilter=True)
    assert expected["query_index"].to_pylist() == np.repeat(np.arange(23), 8).tolist()
    monkeypatch.setattr(exact, "_MOST_QUERIES", 9)
    assert dataset.to_table(nearest=nearest, filter=filter_, prefilter=True) == expected


def test_a_search_of_many_queries_ends_when_its_caller_leaves(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller is looked for between the queries that are compared with one range of rows."""
    monkeypatch.setattr(exact, "_MOST_QUERIES", 1)
    looks: list[int] = []

    def check() -> None:
        looks.append(1)
        if len(looks) == 30:
            raise InterruptedError

    nearest = {"column": "v", "q": lattice(40, 6, seed=4), "k": 1}
    with Reader(check, 1 << 20).waiting(), pytest.raises(InterruptedError):
        lance_core.dataset(path).to_table(nearest=nearest)
    assert len(looks) == 30


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("writer", [lance, lance_core])
def test_every_file_version(tmp_path: Path, table: pa.Table, version: str, writer: Any) -> None:
    """T25: vectors in the file, and those that are decoded, give the same rows."""
    if version == "0.1":
        table = table.set_column(2, "v", vector_array(lattice(1000, 6)))
    for dimension in (6, 160):
        column = vector_array(lattice(1000, dimension, seed=2))
        some = table.set_column(2, "v", column)
        writer.write_dataset(some, tmp_path / f"{dimension}.lance", data_storage_version=version)
        query = lattice(1, dimension, seed=3)[0]
        dataset = lance_core.dataset(tmp_path / f"{dimension}.lance")
        for _ in range(3):  # from the second search on, local files are mapped
            found = dataset.to_table(columns=["id"], nearest={"column": "v", "q": query, "k": 20})
            assert found["id"].to_pylist() == expected_ids(some, query, "l2", 20)


def test_ties_are_broken_by_stable_row_ids(tmp_path: Path) -> None:
    table = vector_table(np.zeros((60, 4), np.float32))
    dataset = write(tmp_path / "t.lance", table, max_rows_per_file=20, enable_stable_row_ids=True)
    dataset.update({"group": "100"}, where="id < 10")  # their rows move to the end, and keep their ids
    nearest = {"column": "v", "q": [0.0] * 4, "k": 15}
    for arguments in ({}, {"filter": "id >= 5", "prefilter": True}):
        ours, theirs = both(
            tmp_path / "t.lance", columns=["id"], nearest=nearest, with_row_id=True, **arguments
        )
        assert ours["_rowid"].to_pylist() == sorted(ours["_rowid"].to_pylist())
        assert ours.to_pylist() == theirs.to_pylist()


def test_vectors_that_are_not_finite(tmp_path: Path) -> None:
    vectors = np.array([[1, 1], [np.nan, 0], [np.inf, 0], [-np.inf, 1], [0, 0], [2, 2]], np.float32)
    table = vector_table(vectors, np.array([False] * 5 + [True]))
    write(tmp_path / "t.lance", table)
    for metric in ("l2", "dot", "cosine"):
        nearest = {"column": "v", "q": [1.0, 0.5], "k": 10, "metric": metric}
        ours, theirs = both(tmp_path / "t.lance", columns=["id"], nearest=nearest)
        assert ours["id"].to_pylist() == theirs["id"].to_pylist()
        np.testing.assert_allclose(ours["_distance"], theirs["_distance"], rtol=1e-5)
    for q in ([np.nan, 1.0], [0.0, 0.0]):
        nearest = {"column": "v", "q": q, "k": 10, "metric": "cosine"}
        assert lance_core.dataset(tmp_path / "t.lance").to_table(nearest=nearest).num_rows == 0


@pytest.mark.parametrize("kind", ["float16", "float64", "uint8", "int8"])
def test_other_types_of_elements(tmp_path: Path, kind: str) -> None:
    vectors = (lattice(400, 9) + 2 * (kind == "uint8")).astype(kind)
    table = vector_table(vectors)
    dataset = write(tmp_path / "t.lance", table)
    query = vectors[7]
    metrics = ["l2", "dot"] + ["hamming"] * (kind == "uint8")
    for metric in metrics:
        found = dataset.to_table(
            columns=["id"], nearest={"column": "v", "q": query, "k": 30, "metric": metric}
        )
        assert found["id"].to_pylist() == expected_ids(table, query, metric, 30)
    default = "hamming" if kind == "uint8" else "l2"
    found = dataset.to_table(columns=["id"], nearest={"column": "v", "q": query, "k": 30})
    assert found["id"].to_pylist() == expected_ids(table, query, default, 30)
    if kind != "int8":  # which the reference cannot search
        theirs = lance.dataset(tmp_path / "t.lance").to_table(
            columns=["id"], nearest={"column": "v", "q": pa.array(query), "k": 30}
        )
        assert found.to_pylist() == theirs.to_pylist()


def test_float64_queries_are_not_rounded(tmp_path: Path) -> None:
    """The reference rounds them to float32, so that a vector is not at distance 0 of itself."""
    vectors = np.random.default_rng(0).standard_normal((50, 4))
    dataset = write(tmp_path / "t.lance", vector_table(vectors))
    found = dataset.to_table(nearest={"column": "v", "q": vectors[9], "k": 1})
    assert (found["id"][0].as_py(), found["_distance"][0].as_py()) == (9, 0.0)


def test_bfloat16_vectors(tmp_path: Path) -> None:
    halves = (lattice(100, 4).reshape(-1).view(np.uint32) >> 16).astype("<u2")
    values = pa.FixedSizeBinaryArray.from_buffers(pa.binary(2), 400, [None, pa.py_buffer(halves)])
    column = pa.FixedSizeListArray.from_arrays(pa.ExtensionArray.from_storage(BFloat16Type(), values), 4)
    dataset = write(tmp_path / "t.lance", pa.table({"id": range(100), "v": column}))
    found = dataset.to_table(columns=["id"], nearest={"column": "v", "q": [1, 0, 2, -1], "k": 20})
    table = vector_table(lattice(100, 4))
    assert found["id"].to_pylist() == expected_ids(table, np.array([1, 0, 2, -1]), "l2", 20)


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
def test_rows_with_several_vectors(tmp_path: Path, metric: str) -> None:
    random = np.random.default_rng(5)
    lists: list[Any] = [
        random.standard_normal((count, 3)).astype(np.float32).tolist() for count in random.integers(0, 4, 200)
    ]
    lists[10] = None
    table = pa.table({"id": range(200), "v": pa.array(lists, pa.list_(pa.list_(pa.float32(), 3)))})
    write(tmp_path / "t.lance", table, max_rows_per_file=70)
    for q in (random.standard_normal(3), random.standard_normal((4, 3))):
        nearest = {"column": "v", "q": q.astype(np.float32), "k": 20, "metric": metric}
        ours, theirs = both(tmp_path / "t.lance", columns=["id"], nearest=nearest)
        assert ours["id"].to_pylist() == theirs["id"].to_pylist()
        np.testing.assert_allclose(ours["_distance"], theirs["_distance"], rtol=1e-5, atol=1e-6)
        assert "query_index" not in ours.column_names


def test_nested_columns(tmp_path: Path) -> None:
    column = vector_array(lattice(50, 3))
    table = pa.table({"id": range(50), "s": pa.StructArray.from_arrays([column], ["v"])})
    write(tmp_path / "t.lance", table)
    nearest = {"column": "s.v", "q": [1.0, 0.0, 2.0], "k": 7}
    ours, theirs = both(tmp_path / "t.lance", columns=["id"], nearest=nearest)
    assert ours.to_pylist() == theirs.to_pylist()


def test_order_and_batches_of_the_result(path: Path) -> None:
    dataset = lance_core.dataset(path)
    nearest = {"column": "v", "q": QUERY, "k": 40}
    expected = dataset.to_table(columns=["id", "group"], nearest=nearest)
    scanner = dataset.scanner(columns=["id", "group"], nearest=nearest, batch_size=16)
    assert [batch.num_rows for batch in scanner.to_batches()] == [16, 16, 8]
    assert pa.Table.from_batches(scanner.to_batches()) == expected
    assert scanner.count_rows() == 40
    assert scanner.head(3) == expected.slice(0, 3)
    ordered = dataset.to_table(columns=["id"], nearest=nearest, order_by=["group", "id"], limit=5)
    pairs = sorted(zip(expected["group"].to_pylist(), expected["id"].to_pylist(), strict=True))
    assert ordered["id"].to_pylist() == [number for _, number in pairs[:5]]
    hidden = dataset.to_table(columns=["id"], nearest=nearest, disable_scoring_autoprojection=True)
    assert hidden.column_names == ["id"]
    renamed = dataset.to_table(columns={"_distance": "id"}, nearest=nearest)
    assert renamed == hidden.rename_columns(["_distance"])


@each_case(
    ("changes", "words"),
    [
        ({"column": "nothing"}, "there is no column 'nothing'"),
        ({"column": "group"}, "must be a vector"),
        ({"q": [1.0, 2.0]}, "Query vector size 2 does not match index column size 6"),
        ({"q": [0.0] * 12}, "Query vector size 12 does not match"),
        ({"q": ["a"] * 6}, "q must be a vector of numbers"),
        ({"q": [QUERY, [1.0]]}, "All query vectors must have the same length"),
        ({"q": [np.zeros(6), np.zeros(7)]}, "All query vectors must have the same length"),
        ({"q": []}, "q must be a vector or a list of vectors"),
        ({"k": 0}, "Nearest-K must be > 0 but got 0"),
        ({"metric": "l3"}, "unknown metric 'l3'"),
        ({"metric": "hamming"}, "compares the bits of uint8 vectors"),
        ({"nprobes": 0}, "nprobes must be >= 1"),
        ({"minimum_nprobes": 5, "maximum_nprobes": 2}, "minimum_nprobes must be <= maximum_nprobes"),
        ({"refine_factor": 0}, "refine_factor must be >= 1"),
        ({"ef": 3}, "ef must be at least k"),
        ({"search_effort": 2}, "search_effort must be from 0 to 1"),
        ({"approx_mode": "rough"}, "approx_mode must be one of"),
        ({"distance_range": (1,)}, "distance_range must be a tuple"),
    ],
)
def test_wrong_arguments_are_refused_by_name(path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        lance_core.dataset(path).scanner(nearest={"column": "v", "q": QUERY, **changes})


def test_unknown_and_missing_arguments_are_refused(path: Path) -> None:
    dataset = lance_core.dataset(path)
    with pytest.raises(TypeError, match="unexpected argument 'probes'"):
        dataset.scanner(nearest={"column": "v", "q": QUERY, "probes": 3})
    with pytest.raises(TypeError, match="'q' is missing"):
        dataset.scanner(nearest={"column": "v"})
    with pytest.raises(InvalidInputError, match="include_deleted_rows"):
        dataset.scanner(nearest={"column": "v", "q": QUERY}, include_deleted_rows=True, with_row_id=True)


def test_a_column_named_like_a_score_is_refused(tmp_path: Path) -> None:
    table = vector_table(lattice(10, 3)).append_column("_distance", pa.array(range(10)))
    dataset = write(tmp_path / "t.lance", table)
    with pytest.raises(InvalidInputError, match="_distance"):
        dataset.scanner(nearest={"column": "v", "q": [0, 0, 0]})
