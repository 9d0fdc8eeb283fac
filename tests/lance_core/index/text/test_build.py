"""Full text indices that this package builds: both libraries find the same rows with the same scores."""

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
from lance_core.api.file import LanceFileReader
from lance_core.changes.indexing.create import create_index
from lance_core.changes.indexing.optimize import optimize_indices
from lance_core.changes.indexing.segment import IndexRequest
from lance_core.errors import ColumnTypeError, InvalidInputError, UnsupportedFeatureError
from support.searches.texts import assert_same_answers, random_query, random_rows, scores_of

OPTIONS = {"with_position": True, "stem": False, "remove_stop_words": False}


def build(uri: str, column: str = "text", kind: str = "INVERTED", **options: Any) -> None:
    create_index(lance_core.dataset(uri).snapshot, IndexRequest(column, kind, parameters=options))


def make_table(path: Path, seed: int, *, rows: int = 500, stable: bool = False) -> str:
    chance = random.Random(seed)
    return lance.write_dataset(
        random_rows(chance, 0, rows), path, max_rows_per_file=rows // 2 + 1, enable_stable_row_ids=stable
    ).uri


@pytest.mark.parametrize(
    "options",
    [
        OPTIONS,
        {**OPTIONS, "with_position": False},
        {**OPTIONS, "format_version": 1},
        {**OPTIONS, "with_position": False, "format_version": "v1"},
        {"with_position": True},
        {"base_tokenizer": "ngram"},
        {**OPTIONS, "base_tokenizer": "whitespace", "language": "German", "lower_case": False},
    ],
    ids=str,
)
def test_the_reference_searches_our_index(tmp_path: Path, options: dict[str, Any]) -> None:
    """Both libraries search our index, and it gives the scores of the index that the reference builds."""
    uri = make_table(tmp_path / "table", 1, rows=1500)
    for column in ("text", "other"):
        build(uri, column, **options)
    kinds = {index.name: index.index_type for index in lance.dataset(uri).describe_indices()}
    assert kinds == {"text_idx": "Inverted", "other_idx": "Inverted"}
    chance = random.Random(2)
    for _ in range(12):
        make = random_query(chance, exact="base_tokenizer" in options)
        if "PhraseQuery" in repr(make(lance.query)) and not options.get("with_position"):
            continue
        assert_same_answers(uri, make)
    ours = scores_of(lance.dataset(uri).to_table(["number", "_score"], full_text_query="alpha alta rare1"))
    for column in ("text", "other"):
        lance.dataset(uri).create_scalar_index(column, "INVERTED", **options)
    theirs = scores_of(lance.dataset(uri).to_table(["number", "_score"], full_text_query="alpha alta rare1"))
    assert ours == pytest.approx(theirs, rel=1e-5)


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
@pytest.mark.parametrize("version", [1, 2])
def test_our_index_after_changes(tmp_path: Path, stable: bool, version: int) -> None:
    """Changes and optimizations of either library keep the index right."""
    uri = make_table(tmp_path / "table", 3, stable=stable)
    for column in ("text", "other"):
        build(uri, column, **OPTIONS, format_version=version)
    chance = random.Random(4)
    for step in range(6):
        ours = lance_core.dataset(uri)
        if step == 0:
            ours.insert(random_rows(chance, 500, 60))
        elif step == 1:
            optimize_indices(ours.snapshot)
        elif step == 2:
            lance.dataset(uri).update({"text": "'alpha rare2 changed'"}, where="number % 9 = 2")
        elif step == 3:
            lance.dataset(uri).optimize.optimize_indices()
        elif step == 4:
            lance.dataset(uri).delete("number % 5 = 1")
        else:
            ours.optimize.compact_files(target_rows_per_fragment=2000)
        for _ in range(5):
            assert_same_answers(uri, random_query(chance, exact=True))


def test_partitions_when_memory_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that reaches its limit of memory writes a partition, and goes on with the next one."""
    uri = make_table(tmp_path / "table", 5, rows=3000)
    monkeypatch.setattr("lance_core.changes.indexing.column._LEAST_AHEAD_BYTES", 40_000)
    monkeypatch.setattr("lance_core.index.text.build._MIB", 60_000)
    for column in ("text", "other"):
        build(uri, column, **OPTIONS, memory_limit=1)
    (directory, _) = sorted((Path(uri) / "_indices").iterdir())
    assert len(list(directory.glob("part_*_docs.lance"))) > 2
    chance = random.Random(6)
    for _ in range(10):
        assert_same_answers(uri, random_query(chance))


def test_empty_tables_and_columns_without_texts(tmp_path: Path) -> None:
    nothing = pa.table({"number": pa.array([], pa.int64()), "text": pa.array([], pa.string())})
    uri = lance.write_dataset(nothing, tmp_path / "empty").uri
    build(uri)
    assert lance_core.dataset(uri).to_table(full_text_query="alpha").num_rows == 0
    assert lance.dataset(uri).to_table(full_text_query="alpha").num_rows == 0
    nulls = pa.table({"number": range(3), "text": pa.array([None, "", None], pa.string())})
    uri = lance.write_dataset(nulls, tmp_path / "nulls").uri
    build(uri, kind="fts")
    assert_same_answers(uri, lambda module: module.MatchQuery("alpha", "text"))
    lance.write_dataset(random_rows(random.Random(1), 3, 30).drop_columns(["other"]), uri, mode="append")
    assert_same_answers(uri, lambda module: module.MatchQuery("alpha", "text"))


def test_an_optimization_keeps_the_format(tmp_path: Path) -> None:
    """Old releases go on to read an index of format 1."""
    uri = make_table(tmp_path / "table", 8, rows=300)
    build(uri, **OPTIONS, format_version=1)
    dataset = lance_core.dataset(uri)
    dataset.insert(random_rows(random.Random(1), 300, 20))
    dataset.optimize.optimize_indices()
    (index,) = lance.dataset(uri).describe_indices()
    assert [segment.index_version for segment in index.segments] == [1]
    assert index.num_rows_indexed == 320
    files = (Path(uri) / "_indices" / index.segments[0].uuid).glob("part_*_invert.lance")
    assert [LanceFileReader(str(file)).metadata().schema.names[-1] for file in files] == ["_position"]


@pytest.mark.parametrize("version", [1, 2])
def test_lists_and_long_texts(tmp_path: Path, version: int) -> None:
    """A term that occurs hundreds of times in a document has packed positions."""
    long = " ".join(np.random.default_rng(1).choice(["red", "fox", "hen"], 700))
    table = pa.table({"number": range(4), "text": [[long, "red fox"], None, ["fox", None, "hen red"], []]})
    uri = lance.write_dataset(table, tmp_path / "table").uri
    build(uri, **OPTIONS, format_version=version)
    for phrase in ("red fox", "fox hen red", "hen hen hen", "red red fox fox"):
        assert_same_answers(uri, lambda module, p=phrase: module.PhraseQuery(p, "text"))
        assert_same_answers(uri, lambda module, p=phrase: module.MatchQuery(p, "text"))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"block_size": 256}, UnsupportedFeatureError, "block size"),
        ({"format_version": 3}, InvalidInputError, "format version"),
        ({"document_granularity": "list_element"}, UnsupportedFeatureError, "document_granularity"),
        ({"memory_limit": 0}, InvalidInputError, "memory_limit"),
        ({"base_tokenizer": "icu"}, UnsupportedFeatureError, "icu"),
        ({"colour": "red"}, InvalidInputError, "colour"),
    ],
)
def test_options_that_are_refused(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    uri = make_table(tmp_path / "table", 7, rows=3)
    with pytest.raises(error, match=message):
        build(uri, **options)
    assert not (Path(uri) / "_indices").exists() or not list((Path(uri) / "_indices").iterdir())
    with pytest.raises(ColumnTypeError, match="number"):
        build(uri, "number")
