"""Filters on words and patterns of texts that full text and n-gram indices answer with candidates."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core

WORDS = ["alpha", "Beta", "the", "running", "runs", "café", "x1", "délta", "a" * 45, "it's"]
FILTERS = [
    "contains_tokens(t, 'alpha17')",
    "contains_tokens(t, 'Beta17 running')",
    "contains_tokens(t, 'beta17')",
    "contains_tokens(t, 'the runs3, (alpha3)')",
    "contains_tokens(t, 'café café3')",
    "contains_tokens(t, 'it s it''s')",
    f"contains_tokens(t, '{'a' * 45}')",
    "contains_tokens(t, 'missing')",
    "NOT contains_tokens(t, 'alpha17')",
    "contains_tokens(t, 'alpha17') AND id % 2 = 0 OR contains_tokens(t, 'runs17')",
    "regexp_match(t, 'lpha1[0-9]$')",
    "regexp_like(t, 'runs?1+7 ')",
    "regexp_like(t, '(alpha|Beta)17')",
    "NOT regexp_like(t, 'alpha17')",
    "regexp_like(t, 'ALPHA17', 'i')",
    "(regexp_match(t, 'alpha17')) IS NULL",
]


def texts(first: int, count: int) -> pa.Table:
    chance = random.Random(first)

    def text() -> str | None:
        if chance.random() < 0.05:
            return None
        words = [chance.choice(WORDS) + chance.choice(["", str(chance.randint(0, 30))]) for _ in range(4)]
        return chance.choice([" ", ", "]).join(words)

    return pa.table({"id": range(first, first + count), "t": pa.array([text() for _ in range(count)])})


@pytest.mark.parametrize(
    ("kind", "options", "stable", "num_used"),
    [
        ("INVERTED", {}, False, 5),
        ("INVERTED", {"stem": False, "remove_stop_words": False, "lower_case": False}, True, 7),
        ("INVERTED", {"base_tokenizer": "whitespace"}, False, 0),
        ("NGRAM", {}, True, 9),
    ],
    ids=str,
)
def test_rows_are_those_of_a_scan(
    kind: str, options: dict[str, Any], stable: bool, num_used: int, tmp_path: Path
) -> None:
    """Words that an index leaves out or changes, letters with accents, and new rows lose no row."""
    uri = str(tmp_path / "table")
    builder = lance if stable else lance_core
    lance.write_dataset(texts(0, 600), uri, max_rows_per_file=250, enable_stable_row_ids=stable)
    builder.dataset(uri).create_scalar_index("t", kind, **options)
    for step in range(2):
        dataset, found = lance_core.dataset(uri), 0
        for query in FILTERS:
            wanted = dataset.to_table(["id"], filter=query, use_scalar_index=False)
            assert dataset.to_table(["id"], filter=query) == wanted, (step, query)
            found += bool(dataset.scanner(filter=query).explain().indices)
        assert found >= num_used
        dataset.insert(texts(600, 50))
        dataset.update({"t": "'alpha17 runs17'"}, where="id % 50 = 3")
        dataset.delete("id % 9 = 4")
