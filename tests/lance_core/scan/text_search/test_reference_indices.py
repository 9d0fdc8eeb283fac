"""Searches with full text indices of the reference: rows and scores are those of the reference."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import lance
import lance.query
import pyarrow as pa
import pytest

import lance_core
import lance_core.api.query
from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.scan.plan.bind import bind_filter
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.text_query import bind_text_query
from lance_core.scan.scanner import LanceScanner
from support.searches.texts import assert_same_answers, random_match, random_query, random_rows, scores_of

OPTIONS: dict[str, Any] = {"with_position": True, "stem": False, "remove_stop_words": False}
VERSIONS = ["2.0", "2.1", "2.2"]


def make_table(
    path: Path, seed: int, *, rows: int = 400, version: str = "2.2", stable: bool = False, **options: Any
) -> lance.LanceDataset:
    chance = random.Random(seed)
    dataset = lance.write_dataset(
        random_rows(chance, 0, rows),
        path,
        max_rows_per_file=rows // 3 + 1,
        data_storage_version=version,
        enable_stable_row_ids=stable,
    )
    for column in ("text", "other"):
        dataset.create_scalar_index(column, "INVERTED", **{**OPTIONS, **options})
    return lance.dataset(path)


@pytest.mark.parametrize("seed", range(3))
def test_queries_of_all_kinds(tmp_path: Path, seed: int) -> None:
    uri = make_table(tmp_path / "table", seed, version=VERSIONS[seed]).uri
    chance = random.Random(seed)
    assert sum(assert_same_answers(uri, random_query(chance)) > 0 for _ in range(30)) > 10


@pytest.mark.parametrize("terms", ["über", "éa", "日本語"])
def test_the_prefix_of_inexact_words_has_characters(tmp_path: Path, terms: str) -> None:
    words = ["über", "äber", "übel", "üxer", "uber", "éa", "èa", "éb", "日本語", "日本", "日x語", "本語"]
    dataset = lance.write_dataset(pa.table({"number": range(len(words)), "text": words}), tmp_path / "table")
    dataset.create_scalar_index("text", "INVERTED", **OPTIONS, ascii_folding=False)
    found = [
        assert_same_answers(
            dataset.uri,
            lambda module, n=length: module.MatchQuery(terms, "text", fuzziness=1, prefix_length=n),
        )
        for length in range(len(terms) + 2)
    ]
    assert found[0] > found[-1] == 1


@pytest.mark.parametrize(
    "options",
    [
        {"format_version": 1},
        {"format_version": 1, "with_position": False},
        {"format_version": 3, "block_size": 256},
        {"with_position": False},
        {"base_tokenizer": "ngram", "with_position": False},
        {"stem": True, "remove_stop_words": True},
    ],
    ids=str,
)
def test_files_of_all_formats(tmp_path: Path, options: dict[str, Any]) -> None:
    """Two thousand rows: posting lists have several blocks."""
    uri = make_table(tmp_path / "table", 5, rows=2000, **options).uri
    chance = random.Random(6)
    for _ in range(12):
        assert_same_answers(uri, random_match(chance, exact=options.get("base_tokenizer") == "ngram"))
    if {**OPTIONS, **options}["with_position"]:
        for terms, slop in (("alpha alpha", 0), ("alpha alta", 2), ("alpha rare1", 0)):
            assert_same_answers(uri, lambda module, t=terms, s=slop: module.PhraseQuery(t, "text", slop=s))


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
def test_answers_after_changes(tmp_path: Path, stable: bool) -> None:
    """Rows that changes of either library add, delete or move are found once, with the reference's scores."""
    dataset = make_table(tmp_path / "table", 7, stable=stable)
    uri, chance, first = dataset.uri, random.Random(8), 400
    for step in range(6):
        ours = lance_core.dataset(uri)
        if step == 0:
            lance.write_dataset(random_rows(chance, first, 50), uri, mode="append")
        elif step == 1:
            ours.delete(f"number % 7 = {step}")
        elif step == 2:
            ours.update({"text": "'alpha rare1 changed'"}, where="number % 11 = 3")
        elif step == 3:
            lance.dataset(uri).optimize.optimize_indices()
        elif step == 4:
            ours.insert(random_rows(chance, first + 50, 30))
        else:
            ours.optimize.compact_files(target_rows_per_fragment=1000)
        for _ in range(6):
            assert_same_answers(uri, random_query(chance, exact=True))


def test_prefilters_postfilters_limits_and_fast_search(tmp_path: Path) -> None:
    dataset = make_table(tmp_path / "table", 9)
    uri = lance.write_dataset(random_rows(random.Random(1), 400, 60), dataset.uri, mode="append").uri
    chance = random.Random(10)
    for _ in range(8):
        make = random_match(chance, exact=True)
        assert_same_answers(uri, make, filter="number % 3 = 0", prefilter=True)
        assert_same_answers(uri, make, filter="number % 3 = 0")
        assert_same_answers(uri, make, fast_search=True)
        query = make(lance_core.api.query)
        ours, theirs = lance_core.dataset(uri), lance.dataset(uri)
        for limit, offset in ((3, None), (5, 4), (None, 7)):
            arguments = {"columns": ["_score"], "limit": limit, "offset": offset}
            found = ours.to_table(full_text_query=query, **arguments)["_score"].to_pylist()
            wanted = theirs.to_table(full_text_query=make(lance.query), **arguments)["_score"].to_pylist()
            assert found == pytest.approx(wanted, rel=1e-5)
        assert ours.to_table(full_text_query=query, limit=0).num_rows == 0


def test_rows_without_an_index(tmp_path: Path) -> None:
    """Texts are divided at characters that are no letters, and nothing else is done to the words."""
    texts = ["Cafe cafe CAFÉ", "The running Runs", "foo_bar it's 3.14", None, "", "a" * 50]
    table = pa.table({"number": range(6), "text": texts, "other": texts})
    uri = lance.write_dataset(table, tmp_path / "table").uri
    for terms in ("Cafe", "cafe", "the", "The running", "foo", "3.14", "a" * 50, "run"):
        assert_same_answers(uri, lambda module, t=terms: module.MatchQuery(t, "text"))
    assert_same_answers(uri, lambda module: module.PhraseQuery("it's 3", "text"))
    with pytest.raises(InvalidInputError, match="name a column"):
        lance_core.dataset(uri).to_table(full_text_query="cafe")


def test_lists_of_texts(tmp_path: Path) -> None:
    lists = [["foo the bar", "baz"], ["baz", None, "foo"], [], None, ["bar"]]
    uri = lance.write_dataset(pa.table({"number": range(5), "text": lists}), tmp_path / "table").uri
    lance.dataset(uri).create_scalar_index("text", "INVERTED", with_position=True, stem=False)
    for terms in ("bar baz", "foo the bar", "foo bar", "baz foo"):
        assert_same_answers(uri, lambda module, t=terms: module.PhraseQuery(t, "text"))
        assert_same_answers(uri, lambda module, t=terms: module.MatchQuery(t, "text"))


def test_forms_of_a_query(tmp_path: Path) -> None:
    uri = make_table(tmp_path / "table", 11).uri
    ours, theirs = lance_core.dataset(uri), lance.dataset(uri)
    columns = ["number", "_score"]
    phrase = {"query": '"alpha alpha"', "columns": ["text"]}
    for query in ("alpha alta", phrase, {"query": "alpha", "columns": ["text"]}, {"query": "alpha"}):
        found = ours.to_table(columns, full_text_query=query)
        assert scores_of(found) == pytest.approx(scores_of(theirs.to_table(columns, full_text_query=query)))
    same = [
        "alpha",
        lance_core.api.query.MatchQuery("alpha", "text"),
        {"match": {"terms": "alpha", "column": "text"}},
        {"query": {"match": {"terms": "alpha"}}, "columns": ["text"]},
    ]
    tables = [ours.to_table(columns, full_text_query=query, limit=5) for query in same[1:]]
    assert all(table == tables[0] for table in tables)
    assert (lance_core.api.query.MatchQuery("a", "t") & lance_core.api.query.MatchQuery("b", "t")).inner.must
    for wrong in ({"match": {}}, {"nonsense": {}}, {"match": {"terms": "a", "slop": 1}}, {"boolean": {}}):
        with pytest.raises(InvalidInputError):
            ours.to_table(full_text_query=wrong)
    with pytest.raises(InvalidInputError, match="several columns"):
        ours.to_table(full_text_query='"alpha alpha"')
    with pytest.raises(TypeError):
        ours.to_table(full_text_query=5)


def test_columns_of_the_result(tmp_path: Path) -> None:
    ours = lance_core.dataset(make_table(tmp_path / "table", 12).uri)
    found = ours.to_table(full_text_query="alpha", limit=2, with_row_id=True, with_row_address=True)
    assert found.schema.names == ["number", "text", "other", "_score", "_rowid", "_rowaddr"]
    assert ours.to_table([], full_text_query="alpha", limit=2).schema.names == ["_score"]
    plain = ours.to_table(["number"], full_text_query="alpha", disable_scoring_autoprojection=True)
    assert plain.schema.names == ["number"]
    assert ours.scanner(full_text_query="alpha").count_rows() == plain.num_rows
    twice = ours.to_table({"twice": "_score * 2"}, full_text_query="alpha", limit=1)
    assert twice["twice"].to_pylist() == [2 * twice["_score"][0].as_py()]
    named = {"_score": "_score * 2"}  # the reference, too, appends no second column of this name
    doubled = ours.to_table(named, full_text_query="alpha", limit=1)
    assert doubled == twice.select(["twice"]).rename_columns(["_score"])


def test_what_cannot_be_searched_is_refused(tmp_path: Path) -> None:
    uri = make_table(tmp_path / "table", 13, with_position=False).uri
    ours = lance_core.dataset(uri)
    for phrase in ("alpha alpha", "nowhere at all", "the"):
        for condition in (None, "number < 0"):
            for dataset, query in ((ours, lance_core.api.query), (lance.dataset(uri), lance.query)):
                with pytest.raises((UnsupportedFeatureError, ValueError), match="position"):
                    dataset.to_table(
                        full_text_query=query.PhraseQuery(phrase, "text"), filter=condition, prefilter=True
                    )
    for column, message in (("nonsense", "nonsense"), ("number", "number")):
        with pytest.raises(InvalidInputError, match=message):
            ours.to_table(full_text_query=lance_core.api.query.MatchQuery("alpha", column))


def test_deferred_compactions(tmp_path: Path) -> None:
    """A compaction that leaves the addresses in the index as they were loses no rows."""
    uri = make_table(tmp_path / "table", 14).uri
    lance.dataset(uri).delete("number % 4 = 1")
    query = lance_core.api.query.MatchQuery("alpha rare1", "text")
    expected = set(scores_of(lance_core.dataset(uri).to_table(full_text_query=query)))
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=1000, defer_index_remap=True)
    assert set(scores_of(lance_core.dataset(uri).to_table(full_text_query=query))) == expected


def test_guards_hide_texts(tmp_path: Path) -> None:
    """Scores tell nothing about rows that a grant hides."""
    dataset = lance_core.dataset(make_table(tmp_path / "table", 15).uri)
    schema = dataset.snapshot.manifest.schema
    query = bind_text_query(schema, {"match": {"terms": "alpha rare1", "column": "text"}})
    condition = bind_filter(schema, "number < 50", None)
    options = ScanOptions(filter=condition, guards=1, text_query=query)
    found = LanceScanner(dataset.snapshot, options).to_table()
    visible = lance_core.write_dataset(dataset.to_table(filter="number < 50"), tmp_path / "visible")
    visible.create_scalar_index("text", "INVERTED", stem=False, remove_stop_words=False)
    alone = visible.to_table(full_text_query={"query": "alpha rare1", "columns": ["text"]})
    assert scores_of(found) == pytest.approx(scores_of(alone), rel=1e-5)


def test_the_best_rows_are_the_first_of_all_rows(tmp_path: Path) -> None:
    """With a limit, blocks of posting lists are skipped. No row is lost by that."""
    chance = random.Random(17)
    rows = random_rows(chance, 0, 9000)
    dataset = lance_core.write_dataset(rows, tmp_path / "table")
    dataset.create_scalar_index("text", "INVERTED", stem=False, remove_stop_words=False)
    words = [*{word for text in rows["text"].to_pylist() if text for word in text.split()}]
    for number in range(40):
        terms = " ".join(chance.choices([*words, "alpha", "al", "rare7"], k=1 + number % 5))
        operator = chance.choice(["OR", "OR", "AND"])
        query = {"match": {"terms": terms, "column": "text", "operator": operator}}
        options: dict[str, Any] = {"columns": ["number", "_score"], "full_text_query": query}
        if number % 4 == 0:
            options |= {"filter": f"number % 7 = {number % 3}", "prefilter": True}
        wanted = dataset.to_table(**options)
        limit = chance.choice([1, 5, 20])
        found, scores = dataset.to_table(**options, limit=limit), scores_of(wanted)
        # Sums of scores in another order differ in the last digit.
        best = pytest.approx(wanted["_score"].to_pylist()[:limit], rel=1e-6)
        assert found["_score"].to_pylist() == best, (terms, operator)
        assert scores_of(found) == pytest.approx({key: scores[key] for key in scores_of(found)}, rel=1e-6)
