"""Random texts and full text queries, written for both libraries."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import ModuleType
from typing import Any

import lance
import lance.query
import pyarrow as pa
import pytest

import lance_core
import lance_core.api.query

WORDS = [
    f"{first}{second}" for first in ("al", "be", "ca", "do", "el") for second in ("pha", "ta", "run", "x", "")
]
Make = Callable[[ModuleType], Any]
"""Makes a query from the classes of a module: those of the reference, or ours."""


def random_texts(chance: random.Random, count: int) -> pa.Array:
    """Return texts of frequent and of rare words; some are null or empty."""

    def text() -> str | None:
        if chance.random() < 0.05:
            return chance.choice([None, ""])
        words = [WORDS[int(len(WORDS) * chance.random() ** 2)] for _ in range(chance.randint(1, 9))]
        if chance.random() < 0.05:
            words.append(f"rare{chance.randint(0, 40)}")
        return " ".join(words)

    return pa.array([text() for _ in range(count)], pa.string())


def random_rows(chance: random.Random, first: int, count: int) -> pa.Table:
    """Return rows with two columns of texts, `text` and `other`, and numbers `number`."""
    return pa.table(
        {
            "number": pa.array(range(first, first + count), pa.int64()),
            "text": random_texts(chance, count),
            "other": random_texts(chance, count),
        }
    )


def random_match(chance: random.Random, column: str = "text", *, exact: bool = False) -> Make:
    """Return a query for any or all of some words; without `exact`, some are approximate."""
    terms = " ".join(
        chance.choice([*WORDS, "rare1", "rare2", "nothing"]) for _ in range(chance.choice([1, 1, 2, 3]))
    )
    boost = chance.choice([1.0, 1.0, 2.5])
    needs_all = chance.random() < 0.3
    fuzziness = chance.choice([0, 0, 1, 2]) if not exact else 0
    expansions = chance.choice([50, 3])
    prefix = chance.choice([0, 0, 1])

    def make(module: ModuleType) -> Any:
        operator = module.FullTextOperator.AND if needs_all else module.FullTextOperator.OR
        return module.MatchQuery(
            terms,
            column,
            boost=boost,
            operator=operator,
            fuzziness=fuzziness,
            max_expansions=expansions,
            prefix_length=prefix,
        )

    return make


def random_phrase(chance: random.Random, column: str = "text") -> Make:
    """Return a query for words in order."""
    terms = " ".join(WORDS[int(len(WORDS) * chance.random() ** 3)] for _ in range(chance.randint(1, 3)))
    slop = chance.choice([0, 0, 1, 2])
    return lambda module: module.PhraseQuery(terms, column, slop=slop)


def random_query(chance: random.Random, *, exact: bool = False) -> Make:
    """Return a query of any kind."""
    kind = chance.choice(["match", "match", "phrase", "boolean", "boost", "multi"])
    if kind == "phrase":
        return random_phrase(chance)
    if kind == "boolean":
        parts = [(chance.choice(["MUST", "SHOULD", "SHOULD"]), random_match(chance, exact=exact))]
        parts += [
            (chance.choice(["MUST", "SHOULD", "MUST_NOT"]), random_match(chance, exact=exact))
            for _ in range(chance.randint(1, 2))
        ]
        return lambda module: module.BooleanQuery(
            [(module.Occur[occur], make(module)) for occur, make in parts]
        )
    if kind == "boost":
        positive, negative = random_match(chance, exact=exact), random_match(chance, exact=exact)
        return lambda module: module.BoostQuery(positive(module), negative(module), negative_boost=0.3)
    if kind == "multi":
        terms = chance.choice(WORDS)
        return lambda module: module.MultiMatchQuery(terms, ["text", "other"], boosts=[1.0, 2.0])
    return random_match(chance, exact=exact)


def scores_of(rows: pa.Table) -> dict[int, float]:
    """Return the score of each row by its number."""
    return dict(zip(rows["number"].to_pylist(), rows["_score"].to_pylist(), strict=True))


def assert_same_answers(uri: str, make: Make, **arguments: Any) -> int:
    """Compare the rows and the scores that both libraries find. Return the number of rows."""
    columns = ["number", "_score"]
    expected = scores_of(lance.dataset(uri).to_table(columns, full_text_query=make(lance.query), **arguments))
    table = lance_core.dataset(uri).to_table(columns, full_text_query=make(lance_core.api.query), **arguments)
    scores = table["_score"].to_pylist()
    assert scores == sorted(scores, reverse=True)
    assert scores_of(table) == pytest.approx(expected, rel=1e-5, abs=1e-6), make(lance_core.api.query)
    return table.num_rows
