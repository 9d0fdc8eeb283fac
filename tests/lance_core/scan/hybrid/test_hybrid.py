"""Search by vectors and texts at once, against rankings that plain Python computes and joins."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import InvalidInputError
from support.searches.nearest import lattice, vector_array
from support.searches.texts import random_rows

QUERY = [1.0, 0.0, -1.0, 2.0, 0.0, 1.0]
WORDS = "alpha beta rare1"


def rows_of(num_rows: int) -> pa.Table:
    rows = random_rows(random.Random(7), 0, num_rows)
    return rows.append_column("v", vector_array(lattice(num_rows, 6)))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> lance_core.LanceDataset:
    """Return a table of four fragments without an index, with deleted rows."""
    path = tmp_path_factory.mktemp("hybrid") / "t.lance"
    lance_core.write_dataset(rows_of(600), path, max_rows_per_file=170)
    dataset = lance_core.dataset(path)
    dataset.delete("number % 10 = 4 OR number BETWEEN 310 AND 320")
    return dataset


def bm25(texts: Sequence[str | None], words: Sequence[str]) -> list[float]:
    """Return the score of each text; 0 for texts without any of the words."""
    terms = [Counter((text or "").split()) for text in texts]
    lengths = [sum(counts.values()) for counts in terms]
    num_documents = sum(length > 0 for length in lengths)
    average = sum(lengths) / num_documents
    scores = [0.0] * len(texts)
    for word in words:
        found = sum(word in counts for counts in terms)
        weight = math.log((num_documents - found + 0.5) / (found + 0.5) + 1)
        for row, counts in enumerate(terms):
            count = counts[word]
            scores[row] += weight * 2.2 * count / (count + 1.2 * (0.25 + 0.75 * lengths[row] / average))
    return [round(score, 6) for score in scores]


def expected(
    rows: pa.Table,
    k: int,
    depth: int,
    *,
    method: str = "rrf",
    weights: tuple[float, float] = (1, 1),
    rank_constant: float = 60,
) -> list[tuple[int, float]]:
    """Return the numbers of the best rows with their relevance."""
    vectors = np.array(rows["v"].to_pylist())
    distances = ((vectors - np.array(QUERY)) ** 2).sum(axis=1)
    near = sorted(range(len(distances)), key=lambda row: (distances[row], row))[:depth]
    scores = bm25(rows["text"].to_pylist(), WORDS.split())
    good = [row for row in range(len(scores)) if scores[row]]
    good = sorted(good, key=lambda row: (-scores[row], row))[:depth]
    relevance: Counter[int] = Counter()
    if method == "rrf":
        for weight, ranking in zip(weights, (near, good), strict=True):
            for rank, row in enumerate(ranking):
                relevance[row] += weight / (rank_constant + 1 + rank)
    else:
        for row in near:
            nearest, farthest = distances[near[0]], distances[near[-1]]
            relevance[row] += weights[0] / sum(weights) * (farthest - distances[row]) / (farthest - nearest)
        for row in good:
            best, worst = scores[good[0]], scores[good[-1]]
            relevance[row] += weights[1] / sum(weights) * (scores[row] - worst) / (best - worst)
    order = sorted(relevance, key=lambda row: (-round(relevance[row], 6), row))[:k]
    return [(rows["number"][row].as_py(), relevance[row]) for row in order]


def search(dataset: lance_core.LanceDataset, k: int, **arguments: Any) -> pa.Table:
    nearest = {"column": "v", "q": QUERY, "k": k}
    text = {"query": WORDS, "columns": ["text"]}
    return dataset.to_table(nearest=nearest, full_text_query=text, **arguments)


@pytest.mark.parametrize(
    "hybrid",
    [
        {},
        {"depth": 40},
        {"depth": 40, "weights": [0.25, 1]},
        {"depth": 25, "weights": (1, 0)},
        {"rank_constant": 0, "depth": 1000},
        {"method": "weighted", "depth": 40},
        {"method": "weighted", "depth": 40, "weights": [0.7, 0.3]},
    ],
    ids=str,
)
def test_rows_are_those_of_both_rankings(plain: lance_core.LanceDataset, hybrid: dict[str, Any]) -> None:
    rows = plain.to_table()
    for k in (1, 12):
        found = search(plain, k, hybrid=hybrid, columns=["number"])
        assert found.column_names == ["number", "_distance", "_score", "_relevance_score"]
        wanted = expected(rows, k, **{"depth": k, **hybrid})
        assert found["number"].to_pylist() == [number for number, _ in wanted]
        assert found["_relevance_score"].to_pylist() == pytest.approx(
            [worth for _, worth in wanted], abs=2e-5
        )


def test_a_row_lacks_the_value_of_a_ranking_that_it_is_not_in(plain: lance_core.LanceDataset) -> None:
    found = search(plain, 30, hybrid={}, columns=["number"]).to_pylist()
    near = plain.to_table(["number"], nearest={"column": "v", "q": QUERY, "k": 30})
    good = plain.to_table(["number"], full_text_query={"query": WORDS, "columns": ["text"]}, limit=30)
    distances = dict(zip(near["number"].to_pylist(), near["_distance"].to_pylist(), strict=True))
    scores = dict(zip(good["number"].to_pylist(), good["_score"].to_pylist(), strict=True))
    assert [row["_distance"] for row in found] == [distances.get(row["number"]) for row in found]
    assert [row["_score"] for row in found] == [scores.get(row["number"]) for row in found]
    assert {None, *distances.values()} >= {row["_distance"] for row in found} > {None}


def test_filters(plain: lance_core.LanceDataset) -> None:
    """A prefilter leaves the rows that both searches see; a later filter applies to the k rows."""
    some = plain.to_table(filter="number % 3 = 1")
    found = search(plain, 9, hybrid={"depth": 30}, filter="number % 3 = 1", prefilter=True)
    assert found["number"].to_pylist() == [number for number, _ in expected(some, 9, 30)]
    everything = search(plain, 40, hybrid={})
    later = search(
        plain, 40, hybrid={}, filter="number % 3 = 1 AND _relevance_score > 0.015 AND _score IS NULL"
    )
    kept = [
        row
        for row in everything.to_pylist()
        if row["number"] % 3 == 1 and row["_relevance_score"] > 0.015 and row["_score"] is None
    ]
    assert later.to_pylist() == kept
    assert 0 < len(kept) < 40


def test_columns_limits_and_orders(plain: lance_core.LanceDataset) -> None:
    everything = search(plain, 20, hybrid={}, with_row_id=True)
    assert everything.column_names == [
        *("number", "text", "other", "v"),
        *("_distance", "_score", "_relevance_score", "_rowid"),
    ]
    assert search(plain, 20, hybrid={}, with_row_id=True, limit=5, offset=3) == everything.slice(3, 5)
    named = search(
        plain, 20, hybrid={}, columns=["_relevance_score", "number"], disable_scoring_autoprojection=True
    )
    assert named == everything.select(["_relevance_score", "number"])
    computed = search(plain, 20, hybrid={}, columns={"twice": "2 * _relevance_score"})
    assert computed["twice"].to_pylist() == [2 * each for each in everything["_relevance_score"].to_pylist()]
    ordered = search(plain, 20, hybrid={}, columns=["number"], order_by=["number"])
    assert ordered["number"].to_pylist() == sorted(everything["number"].to_pylist())


@pytest.mark.parametrize("stable", [False, True])
def test_indices_find_the_rows(tmp_path: Path, stable: bool) -> None:
    """Both rankings come from indices, and from rows that were appended and updated since."""
    dataset = lance_core.write_dataset(
        rows_of(400), tmp_path / "t.lance", max_rows_per_file=150, enable_stable_row_ids=stable
    )
    dataset.create_scalar_index("text", "INVERTED", stem=False, remove_stop_words=False)
    dataset.create_index("v", "IVF_FLAT", num_partitions=4)
    dataset.insert(rows_of(460).slice(400))
    dataset.delete("number % 9 = 2")
    dataset.update({"other": "'new'"}, where="number % 7 = 1")
    nearest = {"column": "v", "q": QUERY, "k": 25, "nprobes": 4}
    for arguments in ({}, {"filter": "number > 50", "prefilter": True}, {"fast_search": True}):
        rowed: dict[str, Any] = {"columns": ["number"], "with_row_address": True, **arguments}
        near = dataset.to_table(nearest=nearest, **rowed).to_pylist()
        good = dataset.to_table(full_text_query=WORDS, limit=25, **rowed).to_pylist()
        worth: Counter[tuple[int, int]] = Counter()
        for ranking in (near, good):
            for rank, row in enumerate(ranking):
                worth[row["_rowaddr"], row["number"]] += 1 / (61 + rank)  # type: ignore[assignment]
        order = sorted(worth, key=lambda row: (-worth[row], row))[:25]
        found = dataset.to_table(nearest=nearest, full_text_query=WORDS, hybrid={}, **rowed)
        assert found["number"].to_pylist() == [number for _, number in order]


@pytest.mark.parametrize(
    ("hybrid", "words"),
    [
        ({"method": "sum"}, "unknown method"),
        ({"depth": 4}, "depth must be at least k"),
        ({"weights": [1]}, "two numbers"),
        ({"weights": [0, 0]}, "greater than 0"),
        ({"weights": [-1, 2]}, "weights must be 0 or greater"),
        ({"rank_constant": math.nan}, "rank_constant must be 0 or greater"),
    ],
    ids=str,
)
def test_wrong_arguments_are_named(
    plain: lance_core.LanceDataset, hybrid: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidInputError, match=words):
        search(plain, 5, hybrid=hybrid)


def test_both_searches_are_needed(plain: lance_core.LanceDataset) -> None:
    nearest = {"column": "v", "q": QUERY, "k": 3}
    with pytest.raises(InvalidInputError, match="need hybrid"):
        plain.to_table(nearest=nearest, full_text_query="alpha")
    for one in ({"nearest": nearest}, {"full_text_query": "alpha"}):
        with pytest.raises(InvalidInputError, match="give both"):
            plain.to_table(hybrid={}, **one)
    with pytest.raises(InvalidInputError, match="one query vector"):
        plain.to_table(nearest={**nearest, "q": [QUERY, QUERY]}, full_text_query="alpha", hybrid={})
    with pytest.raises(InvalidInputError, match="ef must be at least depth"):
        plain.to_table(nearest={**nearest, "ef": 5}, full_text_query="alpha", hybrid={"depth": 6})
    with pytest.raises(TypeError, match="unexpected argument 'deep'"):
        search(plain, 5, hybrid={"deep": 1})
    with pytest.raises(TypeError, match="depth must be an integer"):
        search(plain, 5, hybrid={"depth": "a"})
