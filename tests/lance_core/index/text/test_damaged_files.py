"""Damaged files of full text indices give an error that names the file, or rows; never anything else."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

import lance_core
from lance_core.api.query import MatchQuery, PhraseQuery
from lance_core.changes.indexing.create import create_index
from lance_core.changes.indexing.segment import IndexRequest
from lance_core.errors import CorruptFileError, LanceError
from support.files.damage import MUTATIONS
from support.searches.texts import random_rows

QUERIES = (
    MatchQuery("alpha alta rare1", "text"),
    MatchQuery("alpha", "text"),
    MatchQuery("alphb", "text", fuzziness=1),
    PhraseQuery("alpha alta", "text", slop=1),
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("damage") / "table"
    dataset = lance_core.write_dataset(random_rows(random.Random(1), 0, 1500), path)
    options = {"with_position": True, "stem": False, "remove_stop_words": False}
    create_index(dataset.snapshot, IndexRequest("text", "INVERTED", parameters=options))
    return path


def search(path: Path) -> None:
    """Run all queries with a session of their own, so that every file is read again."""
    dataset = lance_core.dataset(path, session=lance_core.Session(index_cache_size_bytes=0))
    for query in QUERIES:
        dataset.to_table(["number", "_score"], full_text_query=query, limit=20)


def try_mutants(table: Path, path: Path, seeds: range) -> int:
    """Search with one damaged file after the other. Return the number of errors."""
    shutil.copytree(table, path)
    (directory,) = (path / "_indices").iterdir()
    refused = 0
    for seed in seeds:
        chance = random.Random(f"text {seed}")
        file = chance.choice(sorted(directory.iterdir()))
        whole = file.read_bytes()
        data = bytearray(whole)
        chance.choice(MUTATIONS)(data, chance)
        file.write_bytes(data)
        try:
            search(path)
        except LanceError as error:
            refused += 1
            if isinstance(error, CorruptFileError):
                assert "_indices" in str(error)  # noqa: PT017
        file.write_bytes(whole)
    return refused


def test_a_few_mutants(table: Path, tmp_path: Path) -> None:
    """T22, T24: sizes, counts and pointers in the files of an index may lie."""
    assert try_mutants(table, tmp_path / "copy", range(40)) > 10


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(10))
def test_many_mutants(table: Path, tmp_path: Path, part: int) -> None:
    """T22, T24: sizes, counts and pointers in the files of an index may lie, in many ways."""
    try_mutants(table, tmp_path / "copy", range(1000 * part, 1000 * (part + 1)))


def test_a_missing_file_is_named(table: Path, tmp_path: Path) -> None:
    shutil.copytree(table, tmp_path / "copy")
    (directory,) = (tmp_path / "copy" / "_indices").iterdir()
    (directory / "part_0_docs.lance").unlink()
    with pytest.raises(LanceError, match="part_0_docs"):
        search(tmp_path / "copy")
