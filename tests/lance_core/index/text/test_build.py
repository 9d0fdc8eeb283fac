"""Full text indices that this package builds: the reference finds the same rows as with its own indices."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import lance
import lance.query
import pytest

import lance_core
from lance_core.changes.indexing.create import create_index
from lance_core.changes.indexing.segment import IndexRequest
from support.texts import random_query, random_rows, scores_of

OPTIONS = {"with_position": True, "stem": False, "remove_stop_words": False}


@pytest.mark.parametrize(
    "options",
    [OPTIONS, {"with_position": True}, {"base_tokenizer": "ngram"}],
    ids=["plain", "stems", "ngrams"],
)
def test_the_reference_searches_our_index(tmp_path: Path, options: dict[str, Any]) -> None:
    tables = [
        lance.write_dataset(random_rows(random.Random(1), 0, 1500), tmp_path / name, max_rows_per_file=800)
        for name in ("ours", "theirs")
    ]
    for column in ("text", "other"):
        request = IndexRequest(column, "INVERTED", parameters=options)
        create_index(lance_core.dataset(tables[0].uri).snapshot, request)
        tables[1].create_scalar_index(column, "INVERTED", **options)
    chance = random.Random(2)
    for _ in range(10):
        query = random_query(chance, exact="base_tokenizer" in options)(lance.query)
        if options.get("with_position") or not isinstance(query, lance.query.PhraseQuery):
            ours, theirs = (
                scores_of(lance.dataset(each.uri).to_table(["number", "_score"], full_text_query=query))
                for each in tables
            )
            assert ours == pytest.approx(theirs, rel=1e-5, abs=1e-6)
