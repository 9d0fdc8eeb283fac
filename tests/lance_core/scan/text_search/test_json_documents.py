"""Searches for words in JSON documents: rows and scores are those of the reference."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import lance
import lance.query
import pyarrow as pa
import pytest

import lance_core
import lance_core.api.query
from lance_core.errors import InvalidInputError
from support.searches.texts import assert_same_answers, scores_of

QUERIES = [
    "title,str,harry",
    "title,str,running potter",
    "body.deep,number,2.5",
    "body.deep,number,1e+20",
    "body.deep,number,-0.0",
    "n,null,null",
    "n,bool,true;title,str,hobbit",
    "tags.c,str,y",
    ",str,plain",
    "x,str,null",
    "body,str,once upon",
]


def rows(first: int, count: int) -> pa.Table:
    chance = random.Random(first)
    values: dict[str, list[Any]] = {
        "title": ["Harry Potter the running", "café potter hobbit harry", "Runs to the hobbit", "w" * 40],
        "body": ["once upon", "a time", *({"deep": number} for number in (1, 2.5, 1e20, -0.0, 10**18))],
        "n": [1, 2.5, None, True],
        "tags": [[{"c": "x y"}, {"c": "y"}, ["z"]], {"c": "z"}, []],
        "x": [None, False, "null"],
    }

    def document() -> str | None:
        if chance.random() < 0.1:
            return chance.choice([None, '"plain text"', "5", "[]", "null"])
        return json.dumps({key: chance.choice(some) for key, some in values.items() if chance.random() < 0.8})

    documents = pa.array([document() for _ in range(count)], pa.json_())
    return pa.table({"number": range(first, first + count), "j": documents})


@pytest.mark.parametrize("builder", [lance, lance_core], ids=["reference", "ours"])
def test_rows_and_scores(builder: Any, tmp_path: Path) -> None:
    """Indices of both libraries, rows without an index, and a merged index give the reference's answers."""
    uri = str(tmp_path / "table")
    lance.write_dataset(rows(0, 300), uri, max_rows_per_file=120)
    builder.dataset(uri).create_scalar_index("j", "INVERTED", with_position=True)
    for query in QUERIES:
        assert assert_same_answers(uri, lambda module, q=query: module.MatchQuery(q, "j")) > 0, query
    assert assert_same_answers(uri, lambda module: module.PhraseQuery("title,str,harry potter", "j")) > 0
    lance_core.dataset(uri).insert(rows(300, 40))
    for query in QUERIES[:4]:
        assert_same_answers(uri, lambda module, q=query: module.MatchQuery(q, "j"))
    lance_core.dataset(uri).optimize.optimize_indices()
    for query in QUERIES[:4]:
        assert_same_answers(uri, lambda module, q=query: module.MatchQuery(q, "j"))


def test_words_that_are_not_exact_and_wrong_queries(tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(rows(0, 100), tmp_path / "table")
    without = dataset.to_table(full_text_query={"match": {"terms": "title,str,hobbit", "column": "j"}})
    assert without.num_rows > 0
    dataset.create_scalar_index("j", "INVERTED", stem=False)
    exact, similar = (
        dataset.to_table(
            ["number", "_score"],
            full_text_query=lance_core.api.query.MatchQuery(f"title,str,{word}", "j", fuzziness=fuzziness),
        )
        for word, fuzziness in (("hobbit", 0), ("hobit", 1))
    )
    assert scores_of(similar) == scores_of(exact)
    for query in ("hobbit", "title,str", "title,text,hobbit"):
        with pytest.raises(InvalidInputError, match=r"full text query of JSON"):
            dataset.to_table(full_text_query={"match": {"terms": query, "column": "j"}})
