"""Full text indices of releases before 0.30: searches, against the reference, and what becomes of them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import lance
import lance.query
import numpy as np
import pyarrow as pa
import pytest

import lance_core
import lance_core.api.query
from lance_core.api.file import LanceFileReader
from lance_core.errors import CorruptFileError, LanceError, UnsupportedFeatureError
from lance_core.index.text.old_partition import posting_list
from support.files.damage import MUTATIONS
from support.searches.old_text_indices import OPTIONS, with_old_index, write_file
from support.searches.texts import Make, random_match, random_rows

ROWS = random_rows(random.Random(2), 0, 1400)


@pytest.fixture(scope="module", params=[False, True], ids=["addresses", "row ids"])
def old(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> lance_core.LanceDataset:
    """Return a table with an old index on `text`, with deleted rows and two appended ones."""
    path = tmp_path_factory.mktemp("old") / "t.lance"
    dataset = lance_core.write_dataset(ROWS, path, max_rows_per_file=600, enable_stable_row_ids=request.param)
    dataset = with_old_index(dataset)
    dataset.delete("number % 11 = 3")
    dataset.insert(
        pa.table({"number": [2000, 2001], "text": ["alpha alpha new", "rare1"], "other": ["", ""]})
    )
    return dataset


@pytest.fixture(scope="module")
def anew(old: lance_core.LanceDataset, tmp_path_factory: pytest.TempPathFactory) -> lance_core.LanceDataset:
    """Return the same table with an index of the present layout over the same documents."""
    path = tmp_path_factory.mktemp("anew") / "t.lance"
    stable = old.has_stable_row_ids
    dataset = lance_core.write_dataset(ROWS, path, max_rows_per_file=600, enable_stable_row_ids=stable)
    dataset.create_scalar_index("text", "INVERTED", with_position=True, **OPTIONS)
    dataset.delete("number % 11 = 3")
    dataset.insert(old.to_table(filter="number >= 2000"))
    return dataset


def _phrase(words: str, slop: int = 0) -> Make:
    return lambda module: module.PhraseQuery(words, "text", slop=slop)


QUERIES: list[Make] = [
    *(random_match(random.Random(seed), exact=True) for seed in range(12)),
    *(random_match(random.Random(seed)) for seed in range(20, 28)),
    _phrase("alpha alta"),
    _phrase("alpha al", 2),
    lambda module: module.BoostQuery(
        module.MatchQuery("alpha", "text"), module.MatchQuery("beta", "text"), negative_boost=0.5
    ),
    lambda module: module.BooleanQuery(
        [
            (module.Occur.MUST, module.MatchQuery("alpha", "text")),
            (module.Occur.MUST_NOT, module.MatchQuery("alta", "text")),
        ]
    ),
]


def _rows(table: pa.Table) -> list[tuple[int, float]]:
    return list(zip(table["number"].to_pylist(), table["_score"].to_pylist(), strict=True))


def test_searches_are_those_of_an_index_of_the_present_layout(
    old: lance_core.LanceDataset, anew: lance_core.LanceDataset
) -> None:
    """T22: rows and scores are equal, whole and cut by a limit."""
    for number, make in enumerate(QUERIES):
        for limit in (None, 7):
            query = make(lance_core.api.query)
            found, expected = (
                _rows(dataset.to_table(["number"], full_text_query=query, limit=limit))
                for dataset in (old, anew)
            )
            assert found == expected, number
    plan = old.scanner(full_text_query="alpha").explain_plan()
    assert "TextQuery" in plan


def test_the_reference_finds_the_same(old: lance_core.LanceDataset) -> None:
    theirs = lance.dataset(old.uri)
    num_found = 0
    for number, make in enumerate(QUERIES[:12]):
        mine = _rows(old.to_table(["number"], full_text_query=make(lance_core.api.query), fast_search=True))
        table = theirs.to_table(["number"], full_text_query=make(lance.query), fast_search=True)
        other = dict(_rows(table))
        assert {row: pytest.approx(score, rel=1e-5) for row, score in mine} == other, number
        num_found += len(mine)
    assert num_found > 1000


def test_words_in_filters(old: lance_core.LanceDataset) -> None:
    condition = "contains_tokens(text, 'alpha beta')"
    expected = old.to_table(["number"], filter=condition, use_scalar_index=False)
    assert old.to_table(["number"], filter=condition) == expected
    assert expected.num_rows
    assert "@text_idx, kind=Inverted" in old.scanner(filter=condition).explain_plan()


def test_parts_are_read_ahead(old: lance_core.LanceDataset) -> None:
    stats: list[Any] = []
    dataset = lance_core.dataset(old.uri, session=lance_core.Session())
    dataset.prewarm_index("text_idx")
    query = lance_core.api.query.MatchQuery("alpha beta rare1", "text")
    dataset.to_table(full_text_query=query, fast_search=True, scan_stats_callback=stats.append)
    assert stats[0].parts_loaded == 0
    facts = dataset.stats.index_stats("text_idx")
    ((segment,), rows) = facts["indices"], facts["num_indexed_rows"]
    assert segment["num_docs"] == len([text for text in ROWS["text"].to_pylist() if text])
    assert segment["params"]["base_tokenizer"] == "simple"
    assert rows == old.count_rows() - 2


def test_an_index_is_optimized_to_the_present_layout(tmp_path: Path) -> None:
    dataset = with_old_index(lance_core.write_dataset(ROWS, tmp_path / "t.lance"))
    dataset.insert(pa.table({"number": [2000], "text": ["Brand new words"], "other": [""]}))
    dataset.optimize.optimize_indices()
    (segment,) = dataset.describe_indices()[0].segments
    assert (tmp_path / "t.lance" / "_indices" / segment.uuid / "metadata.lance").exists()
    found = dataset.to_table(full_text_query="BRAND", fast_search=True)
    assert found["number"].to_pylist() == [2000]
    assert lance.dataset(dataset.uri).to_table(full_text_query="new")["number"].to_pylist() == [2000]


def test_a_compaction_leaves_rows_to_be_read(tmp_path: Path) -> None:
    """Addresses in an old index are not translated: it covers the rows of the new fragments no more."""
    dataset = lance_core.write_dataset(ROWS, tmp_path / "t.lance", max_rows_per_file=300)
    dataset = with_old_index(dataset)
    query = lance_core.api.query.MatchQuery("alpha rare1", "text")
    before = sorted(dataset.to_table(["number"], full_text_query=query)["number"].to_pylist())
    dataset.optimize.compact_files()
    found = dataset.to_table(["number"], full_text_query=query)["number"].to_pylist()
    assert sorted(found) == before


def test_phrases_need_positions(tmp_path: Path) -> None:
    dataset = with_old_index(lance_core.write_dataset(ROWS, tmp_path / "t.lance"), with_position=False)
    with pytest.raises(UnsupportedFeatureError, match="position is not found"):
        dataset.to_table(full_text_query=lance_core.api.query.PhraseQuery("alpha alta", "text"))


@pytest.mark.parametrize("tokenizer", [{"base_tokenizer": "", **OPTIONS}, {}], ids=["empty", "missing"])
def test_options_that_are_not_stored_have_defaults(tmp_path: Path, tokenizer: dict[str, Any]) -> None:
    rows = pa.table({"number": [0, 1], "text": ["alpha", "beta"]})
    dataset = with_old_index(lance_core.write_dataset(rows, tmp_path / "t.lance"), tokenizer=tokenizer)
    assert dataset.to_table(full_text_query="ALPHA")["number"].to_pylist() == [0]
    if not tokenizer:  # the release refuses an empty name
        assert lance.dataset(dataset.uri).to_table(full_text_query="ALPHA")["number"].to_pylist() == [0]


def test_other_tokenizers_are_refused(tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(ROWS.slice(0, 5), tmp_path / "t.lance")
    dataset = with_old_index(dataset, tokenizer={"base_tokenizer": "jieba/default"})
    with pytest.raises(UnsupportedFeatureError, match="jieba"):
        dataset.to_table(full_text_query="alpha")


@pytest.mark.parametrize(
    ("file", "change", "words"),
    [
        (
            "invert",
            lambda rows: rows.set_column(0, "_rowid", pa.array([9] * len(rows), pa.uint64())),
            "unknown",
        ),
        (
            "invert",
            lambda rows: rows.set_column(1, "_frequency", pa.array([0.0] * len(rows), pa.float32())),
            "a frequency",
        ),
        ("invert", lambda rows: rows.replace_schema_metadata({"offsets": "[0, 9]"}), "do not ascend"),
        ("invert", lambda rows: rows.replace_schema_metadata({"offsets": '[0, "1"]'}), "no list of numbers"),
        ("invert", lambda rows: rows.replace_schema_metadata({}), "no list of numbers"),
        ("invert", lambda rows: rows.replace_schema_metadata({"offsets": "[0]"}), "number of a term"),
        ("invert", lambda rows: rows.slice(0, 2), "do not ascend"),
        ("docs", lambda rows: pa.concat_tables([rows, rows]), "twice"),
        ("tokens", lambda rows: rows.replace_schema_metadata({"tokenizer": "[]"}), "no object"),
        (
            "tokens",
            lambda rows: rows.replace_schema_metadata({"tokenizer": '{"language": "Elvish"}'}),
            "language",
        ),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, file: str, change: Any, words: str) -> None:
    """T22: an error names the file, and no row is made up."""
    rows = pa.table({"number": [0, 1, 2], "text": ["beta", "alpha beta", "beta gamma"]})
    dataset = with_old_index(lance_core.write_dataset(rows, tmp_path / "t.lance"))
    (path,) = (tmp_path / "t.lance" / "_indices").glob(f"*/{file}.lance")
    stored = LanceFileReader(str(path))
    table = change(stored.read_all().to_table().replace_schema_metadata(stored.metadata().schema.metadata))
    write_file(
        path, pa.RecordBatch.from_arrays([c.combine_chunks() for c in table.columns], schema=table.schema)
    )
    with pytest.raises(CorruptFileError, match=words) as caught:
        dataset.to_table(full_text_query="alpha beta gamma")
    assert f"{path.parent.name}/" in str(caught.value)


def test_damaged_bytes_give_errors_or_rows(tmp_path: Path) -> None:
    """T22: never anything else."""
    dataset = with_old_index(lance_core.write_dataset(ROWS.slice(0, 300), tmp_path / "t.lance"))
    (folder,) = {path.parent for path in (tmp_path / "t.lance" / "_indices").glob("*/docs.lance")}
    refused = 0
    for seed in range(60):
        chance = random.Random(seed)
        file = chance.choice(sorted(folder.iterdir()))
        whole = file.read_bytes()
        data = bytearray(whole)
        chance.choice(MUTATIONS)(data, chance)
        file.write_bytes(data)
        try:
            opened = lance_core.dataset(dataset.uri, session=lance_core.Session(index_cache_size_bytes=0))
            for make in (QUERIES[0], _phrase("alpha alta")):
                opened.to_table(["number"], full_text_query=make(lance_core.api.query), limit=20)
        except LanceError:
            refused += 1
        file.write_bytes(whole)
    assert refused > 20


def test_lists_of_one_block_more_or_less() -> None:
    """Lists are full blocks and a rest: 0, 1, 127, 128, 129 and 300 documents are read as they were."""
    random_numbers = np.random.default_rng(1)
    for count in (0, 1, 127, 128, 129, 256, 300):
        documents = np.sort(random_numbers.choice(1 << 20, count, replace=False)).astype(np.uint32)
        frequencies = random_numbers.integers(1, 1 << 30, count).astype(np.uint32)
        found = posting_list(documents, frequencies, 1 << 20).decode()
        assert np.array_equal(np.frombuffer(memoryview(found[0]), np.uint32), documents)
        assert np.array_equal(np.frombuffer(memoryview(found[1]), np.uint32), frequencies)
