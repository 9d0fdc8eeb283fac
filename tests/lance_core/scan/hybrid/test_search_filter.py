"""One search as the filter of another, against plain Python and against the reference."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.dataset import VectorSearchQuery as ReferenceVectorQuery
from lance.query import MatchQuery as ReferenceMatch
from lance.query import PhraseQuery as ReferencePhrase

import lance_core
from lance_core.api.dataset import VectorSearchQuery
from lance_core.api.query import BooleanQuery, FullTextOperator, MatchQuery, Occur, PhraseQuery
from lance_core.errors import InvalidInputError
from support.searches.nearest import lattice, vector_array
from support.searches.texts import random_rows

QUERY = [1.0, 0.0, -1.0, 2.0, 0.0, 1.0]
NEAREST = {"column": "v", "q": QUERY, "k": 25}
ALPHA = MatchQuery("alpha", "text")
VECTORS = VectorSearchQuery("v", QUERY)


def rows_of(num_rows: int) -> pa.Table:
    rows = random_rows(random.Random(7), 0, num_rows)
    return rows.append_column("v", vector_array(lattice(num_rows, 6)))


def _dataset(path: Path, *, stable: bool = False, indexed: bool = False) -> lance_core.LanceDataset:
    """Return a table of several fragments with deleted rows; two fragments have no index."""
    dataset = lance_core.write_dataset(
        rows_of(500), path, max_rows_per_file=170, enable_stable_row_ids=stable
    )
    if indexed:
        options = {"stem": False, "remove_stop_words": False, "with_position": True}
        dataset.create_scalar_index("text", "INVERTED", **options)
        dataset.create_index("v", "IVF_FLAT", num_partitions=2)
    dataset.insert(rows_of(600).slice(500))
    dataset.delete("number % 10 = 4 OR number BETWEEN 310 AND 320")
    if stable:
        dataset.update({"other": "'new'"}, where="number % 7 = 1")
    return dataset


@pytest.fixture(
    scope="module",
    params=[(stable, indexed) for stable in (False, True) for indexed in (False, True)],
    ids=["plain", "indexed", "stable", "stable-indexed"],
)
def dataset(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> lance_core.LanceDataset:
    stable, indexed = request.param
    return _dataset(tmp_path_factory.mktemp("filters") / "t.lance", stable=stable, indexed=indexed)


def _near(rows: pa.Table, k: int | None = None) -> list[int]:
    """Return the numbers of the nearest rows, of equal ones those with the least row ids."""
    distances = ((np.array(rows["v"].to_pylist()) - np.array(QUERY)) ** 2).sum(axis=1)
    order = np.lexsort((rows["_rowid"].to_numpy(), distances))[:k]
    return [rows["number"][int(place)].as_py() for place in order]


def _with_word(rows: pa.Table, *words: str) -> set[int]:
    return {row["number"] for row in rows.to_pylist() if set(words) & set((row["text"] or "").split())}


def test_a_text_query_leaves_the_rows_that_are_compared(dataset: lance_core.LanceDataset) -> None:
    rows = dataset.to_table(with_row_id=True)
    near = _near(rows)
    matching = _with_word(rows, "alpha")
    found = dataset.to_table(["number"], filter=ALPHA, nearest=NEAREST, prefilter=True)
    assert found.column_names == ["number", "_distance"]
    assert found["number"].to_pylist() == [number for number in near if number in matching][:25]
    both = {"expr_filter": "number % 3 = 1", "search_filter": ALPHA}
    page = dataset.to_table(["number"], filter=both, nearest=NEAREST, prefilter=True, limit=5, offset=2)
    assert page["number"].to_pylist() == [n for n in near if n in matching and n % 3 == 1][2:7]


def test_a_text_query_applies_to_the_rows_that_were_found(dataset: lance_core.LanceDataset) -> None:
    rows = dataset.to_table(with_row_id=True)
    near = _near(rows, 25)
    arguments: dict[str, Any] = {"nearest": NEAREST | {"nprobes": 2}, "columns": ["number"]}
    found = dataset.to_table(filter=ALPHA, **arguments)
    kept = [number for number in near if number in _with_word(rows, "alpha")]
    assert found["number"].to_pylist() == kept
    assert 0 < len(kept) < 25
    both = {"expr_filter": "_distance < 8", "search_filter": MatchQuery("alpha beta", "text")}
    later = dataset.to_table(filter=both, **arguments)
    everything = dataset.to_table(**arguments).to_pylist()
    words = _with_word(rows, "alpha", "beta")
    assert later.to_pylist() == [row for row in everything if row["_distance"] < 8 and row["number"] in words]
    with pytest.raises(InvalidInputError, match="only a match query can be a filter"):
        dataset.to_table(filter=BooleanQuery([(Occur.MUST, ALPHA)]), **arguments)


def test_every_text_query_can_apply_before(dataset: lance_core.LanceDataset) -> None:
    rows = dataset.to_table(with_row_id=True)
    without = BooleanQuery([(Occur.MUST, ALPHA), (Occur.MUST_NOT, MatchQuery("beta", "text"))])
    found = dataset.to_table(["number"], filter=without, nearest=NEAREST, prefilter=True)
    wanted = _with_word(rows, "alpha") - _with_word(rows, "beta")
    assert found["number"].to_pylist() == [number for number in _near(rows) if number in wanted][:25]
    needs_all = MatchQuery("alpha beta", "text", operator=FullTextOperator.AND)
    found = dataset.to_table(["number"], filter=needs_all, nearest=NEAREST, prefilter=True)
    wanted = _with_word(rows, "alpha") & _with_word(rows, "beta")
    assert found["number"].to_pylist() == [number for number in _near(rows) if number in wanted][:25]


@pytest.mark.parametrize("words", ["alpha", "alpha beta", "rare1 gamma"])
def test_a_vector_query_filters_a_text_search(dataset: lance_core.LanceDataset, words: str) -> None:
    """Before the search it leaves its k rows; after it, the k nearest of the rows with the words."""
    rows = dataset.to_table(with_row_id=True)
    vectors = VectorSearchQuery("v", QUERY, 25, nprobes=2)
    texts = MatchQuery(words, "text")
    matching = _with_word(rows, *words.split())
    found = dataset.to_table(["number"], filter=vectors, full_text_query=texts, prefilter=True)
    assert found.column_names == ["number", "_score"]
    assert set(found["number"].to_pylist()) == matching & set(_near(rows, 25))
    scores = found["_score"].to_pylist()
    assert scores == sorted(scores, reverse=True)
    later = dataset.to_table(["number"], filter=vectors, full_text_query=texts)
    nearest = [number for number in _near(rows) if number in matching][:25]
    everything = dataset.to_table(["number"], full_text_query=texts).to_pylist()
    assert later.to_pylist() == [row for row in everything if row["number"] in nearest]
    both = {"expr_filter": "number % 2 = 0 AND _score > 0.1", "search_filter": vectors}
    even = dataset.to_table(["number"], filter=both, full_text_query=texts)
    assert even.to_pylist() == [
        row for row in later.to_pylist() if not row["number"] % 2 and row["_score"] > 0.1
    ]


def test_scores_of_an_index_do_not_depend_on_the_filter(tmp_path: Path) -> None:
    dataset = _dataset(tmp_path / "t.lance", indexed=True)
    everything = dataset.to_table(["number"], full_text_query=ALPHA, fast_search=True).to_pylist()
    found = dataset.to_table(
        ["number"],
        filter=VectorSearchQuery("v", QUERY, 25, nprobes=2),
        full_text_query=ALPHA,
        prefilter=True,
        fast_search=True,
    ).to_pylist()
    assert found
    assert [row for row in everything if row in found] == found


def test_only_the_most_relevant_texts_are_filtered(dataset: lance_core.LanceDataset) -> None:
    """A limit counts the rows of the text search, as with other filters."""
    first = dataset.to_table(["number"], full_text_query=ALPHA, limit=30)
    vectors = VectorSearchQuery("v", QUERY, 5)
    found = dataset.to_table(["number"], full_text_query=ALPHA, filter=vectors, limit=30)
    rows = dataset.to_table(with_row_id=True)
    numbers = first["number"].to_pylist()
    near = [number for number in _near(rows) if number in numbers][:5]
    assert found.to_pylist() == [row for row in first.to_pylist() if row["number"] in near]


def test_a_filtered_dataset_and_its_counts(dataset: lance_core.LanceDataset) -> None:
    some = dataset.filter("number < 300")
    found = some.scanner(["number"], ALPHA, nearest=NEAREST, prefilter=True).to_table()
    both = {"expr_filter": "number < 300", "search_filter": ALPHA}
    assert found == dataset.to_table(["number"], filter=both, nearest=NEAREST, prefilter=True)
    assert dataset.count_rows(both, nearest=NEAREST) == (
        dataset.to_table(["number"], filter=both, nearest=NEAREST).num_rows
    )


def test_the_metric_is_that_of_the_index(tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(rows_of(300), tmp_path / "t.lance")
    dataset.create_index("v", "IVF_FLAT", metric="cosine", num_partitions=2)
    cosine = {**NEAREST, "metric": "cosine"}
    arguments: dict[str, Any] = {"columns": ["number"], "filter": ALPHA, "prefilter": True}
    assert dataset.to_table(nearest=NEAREST, **arguments) == dataset.to_table(nearest=cosine, **arguments)


@pytest.mark.parametrize("prefilter", [False, True])
def test_both_searches_may_be_given_with_the_name_of_the_filter(
    dataset: lance_core.LanceDataset, prefilter: bool
) -> None:
    """The name says the same as a search in `filter`, also beside a condition."""
    both: dict[str, Any] = {"nearest": NEAREST, "full_text_query": ALPHA, "prefilter": prefilter}
    condition = "number % 3 < 2"
    found = dataset.to_table(["number"], condition, search_filter="text", **both)
    filters: Any = {"expr_filter": condition, "search_filter": ALPHA}
    assert found.num_rows
    assert found == dataset.to_table(["number"], filters, nearest=NEAREST, prefilter=prefilter)
    found = dataset.to_table(["number"], condition, search_filter="vector", **both)
    filters = {"expr_filter": condition, "search_filter": VectorSearchQuery(**NEAREST)}
    assert found.num_rows
    assert found == dataset.to_table(["number"], filters, full_text_query=ALPHA, prefilter=prefilter)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"search_filter": "text", "nearest": NEAREST}, "give both"),
        ({"search_filter": "words", "nearest": NEAREST, "full_text_query": "alpha"}, "vector or text"),
        (
            {"search_filter": "text", "nearest": NEAREST, "filter": ALPHA},
            "a search as filter, or search_filter",
        ),
        ({"filter": ALPHA}, "give both"),
        ({"filter": VECTORS}, "give both"),
        ({"filter": ALPHA, "full_text_query": "alpha"}, "cannot be the filter of full_text_query"),
        ({"filter": VECTORS, "nearest": NEAREST}, "cannot be the filter of nearest"),
        ({"filter": MatchQuery("a", "gone"), "nearest": NEAREST}, "there is no column 'gone'"),
        ({"filter": {"search_filter": ALPHA, "x": 1}, "nearest": NEAREST}, "expr_filter and search_filter"),
        ({"filter": ALPHA, "nearest": NEAREST, "hybrid": {}}, "need hybrid"),
        (
            {"filter": "number > 3", "nearest": NEAREST, "full_text_query": "alpha"},
            "Or one of them is a filter",
        ),
        (
            {
                "filter": ALPHA,
                "nearest": NEAREST,
                "prefilter": True,
                "index_segments": ["0" * 32],
            },
            "no index is searched",
        ),
        (
            {"filter": VECTORS, "full_text_query": "alpha", "index_segments": ["0" * 32]},
            "give nearest",
        ),
        (
            {
                "filter": {"expr_filter": "_distance < 2", "search_filter": ALPHA},
                "nearest": NEAREST,
                "prefilter": True,
            },
            "there is no column '_distance'",
        ),
    ],
)
def test_wrong_filters_are_named(tmp_path: Path, arguments: dict[str, Any], words: str) -> None:
    dataset = lance_core.write_dataset(rows_of(50), tmp_path / "t.lance")
    with pytest.raises(InvalidInputError, match=words):
        dataset.to_table(**arguments)


def test_a_filter_that_is_no_search_is_refused(tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(rows_of(50), tmp_path / "t.lance")
    with pytest.raises(TypeError, match="search_filter must be a full text query"):
        dataset.to_table(filter={"search_filter": "alpha"}, nearest=NEAREST)


def test_plans_name_the_filter(dataset: lance_core.LanceDataset) -> None:
    before = dataset.scanner(filter=ALPHA, nearest=NEAREST, prefilter=True).explain_plan()
    assert "SearchFilter: search=text, applied=before the search" in before
    assert "KNNVectorDistance" in before
    assert "ANNSubIndex" not in before
    later = dataset.scanner(filter=VECTORS, full_text_query=ALPHA).explain_plan()
    assert "SearchFilter: search=vector, applied=after the search" in later
    assert "SearchFilter" not in dataset.scanner(nearest=NEAREST).explain_plan()


def test_rows_are_those_of_the_reference(tmp_path: Path) -> None:
    """The reference returns the same rows; it orders those of a text search in another way."""
    path = tmp_path / "t.lance"
    ours = lance_core.write_dataset(rows_of(400), path, max_rows_per_file=150)
    options: dict[str, Any] = {"stem": False, "remove_stop_words": False, "with_position": True}
    ours.create_scalar_index("text", "INVERTED", **options)
    theirs = lance.dataset(path)
    nearest = NEAREST | {"q": np.array(QUERY, np.float32), "metric": "l2"}
    their_alpha = ReferenceMatch("alpha", "text")
    for prefilter in (False, True):
        for mine, other in (
            (ALPHA, their_alpha),
            (
                {"expr_filter": "number % 3 = 1", "search_filter": ALPHA},
                {"expr_filter": "number % 3 = 1", "search_filter": their_alpha},
            ),
            (PhraseQuery("alpha beta", "text"), ReferencePhrase("alpha beta", "text")),
        ):
            if isinstance(mine, PhraseQuery) and not prefilter:
                continue
            found = ours.to_table(["number"], filter=mine, nearest=nearest, prefilter=prefilter)
            assert found == theirs.scanner(
                ["number"], filter=other, nearest=nearest, prefilter=prefilter
            ).to_table(), (prefilter, mine)  # fmt: skip
        found = ours.to_table(
            ["number"], filter=VectorSearchQuery("v", QUERY, 25), full_text_query=ALPHA, prefilter=prefilter
        )
        vectors = ReferenceVectorQuery("v", np.array(QUERY, np.float32), 25)
        scanner = theirs.scanner(["number"], filter=vectors, full_text_query=their_alpha, prefilter=prefilter)
        assert sorted(found["number"].to_pylist()) == sorted(scanner.to_table()["number"].to_pylist())
