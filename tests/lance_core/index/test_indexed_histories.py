"""Tables with all kinds of indices, built and changed by both libraries; both query the indices."""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from support.runs.products import thinned
from support.searches.indexed import (
    VECTOR_KINDS,
    build_scalar_indices,
    build_vector_index,
    check_filters,
    check_text,
    check_vectors,
    indexed_rows,
)

SEED = int(os.environ.get("LANCE_TEST_SEED", "20261123"))


MODES = [
    ("2.0", False),
    ("2.1", True),
    ("2.2", False),
    ("0.1", False),
    ("2.0", True),
    ("2.1", False),
    ("2.2", True),
]
"""File versions, and whether row ids are stable; files of 0.1 have row addresses only."""


def _write(path: Path, version: str, is_stable: bool, builder: ModuleType, vectors: str) -> None:
    """Write a table with four covered fragments, one uncovered fragment and deleted rows.

    Args:
        path: Path of the table.
        version: File version.
        is_stable: Whether row ids are stable.
        builder: Library that builds the indices.
        vectors: Kind of the index on the vectors.
    """
    dataset = lance.write_dataset(
        indexed_rows(0, 600, nulls=version != "0.1"),
        str(path),
        max_rows_per_file=150,
        enable_stable_row_ids=is_stable,
        data_storage_version=version,
    )
    build_scalar_indices(builder.dataset(str(path)))
    build_vector_index(builder.dataset(str(path)), vectors, num_partitions=2)
    dataset = lance.dataset(str(path))
    dataset.insert(_rows(dataset, 600, 60))
    dataset.delete("id % 10 = 3")


@pytest.fixture(scope="module")
def indexed_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bool], Path]:
    @cache
    def write(is_stable: bool) -> Path:
        path = tmp_path_factory.mktemp("indexed") / "t"
        _write(path, "2.1", is_stable, lance, "IVF_PQ")
        return path

    return write


@pytest.fixture
def indexed(request: pytest.FixtureRequest, indexed_once: Callable[[bool], Path]) -> Path:
    """Return a table whose indices the reference built; the parameter says whether row ids are stable."""
    return indexed_once(request.param)


def _rows(dataset: Any, first: int, num_rows: int, seed: int = 1) -> pa.Table:
    """Return rows that the files of a table can store."""
    return indexed_rows(first, num_rows, seed, nulls=dataset.data_storage_version != "0.1")


def _merge(dataset: Any) -> None:
    rows = _rows(dataset, 595, 70, seed=5)
    dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)


CHANGES: dict[str, Callable[[Any], object]] = {
    "append": lambda dataset: dataset.insert(indexed_rows(2000, 20)),
    "delete": lambda dataset: dataset.delete("id % 9 = 1"),
    "delete a fragment": lambda dataset: dataset.delete("id >= 150 AND id < 300"),
    "update another column": lambda dataset: dataset.update(
        {"other": "other + 1"}, "id % 5 = 2 AND id < 500"
    ),
    "update rows that are not covered": lambda dataset: dataset.update({"other": "5"}, "id > 590"),
    "update an indexed column": lambda dataset: dataset.update({"number": "number + 1"}, "id % 5 = 2"),
    "update a text": lambda dataset: dataset.update({"text": "'omega'", "word": "'beta'"}, "id % 6 = 2"),
    "merge_insert": _merge,
    "compact": lambda dataset: dataset.optimize.compact_files(target_rows_per_fragment=400),
    "drop a column": lambda dataset: dataset.drop_columns(["word"]),
    "rename a column": lambda dataset: dataset.alter_columns({"path": "word", "name": "noun"}),
}


def _coverage(path: Path) -> dict[str, set[int]]:
    """Return the fragments of the newest version that each index covers."""
    dataset = lance_core.dataset(path)
    present = {fragment.fragment_id for fragment in dataset.get_fragments()}
    return {
        index.name: {number for segment in index.segments for number in segment.fragment_ids} & present
        for index in dataset.describe_indices()
    }


def _check(path: Path, what: object) -> None:
    assert lance.dataset(str(path)).validate() is None
    for library in (lance, lance_core):
        dataset = library.dataset(str(path))
        asked = (library.__name__, what)
        if "word" in dataset.schema.names:
            check_filters(dataset, asked)
        check_text(dataset, asked)
        check_vectors(dataset, asked)


@pytest.mark.parametrize(("indexed", "change"), thinned([False, True], CHANGES), indirect=["indexed"])
def test_coverage_is_that_of_the_reference(indexed: Path, change: str, tmp_path: Path) -> None:
    """A change by either library leaves equal fragments covered by each index."""
    for library in (lance, lance_core):
        path = tmp_path / library.__name__
        shutil.copytree(indexed, path)
        CHANGES[change](library.dataset(str(path)))
    assert _coverage(tmp_path / "lance_core") == _coverage(tmp_path / "lance")
    _check(tmp_path / "lance_core", change)


STEPS: dict[str, Callable[[Any, random.Random], object]] = {
    "append": lambda dataset, chance: dataset.insert(_rows(dataset, chance.randrange(10_000, 90_000), 30)),
    "delete": lambda dataset, chance: dataset.delete(f"id % 9 = {chance.randrange(9)}"),
    "update other": lambda dataset, chance: dataset.update(
        {"other": "other + 1"}, f"id % 5 = {chance.randrange(5)}"
    ),
    "update number": lambda dataset, chance: dataset.update(
        {"number": "number + 1"}, f"id % 5 = {chance.randrange(5)}"
    ),
    "update text": lambda dataset, chance: dataset.update(
        {"text": "'omega'"}, f"id % 7 = {chance.randrange(7)}"
    ),
    "compact": lambda dataset, chance: dataset.optimize.compact_files(
        target_rows_per_fragment=chance.choice([200, 400, 5000])
    ),
    "merge": lambda dataset, chance: _merge(dataset),
}


_BUILT = [(*mode, builder) for builder in (lance, lance_core) for mode in MODES]
HISTORIES = [
    (*built, list(VECTOR_KINDS)[(number + rotation) % len(VECTOR_KINDS)])
    for rotation in range(3)
    for number, built in enumerate(_BUILT)
]
"""File version, row ids, builder, and kind of the index on vectors."""
IN_DEFAULT = (0, 8)
"""Numbers of the histories of the default run."""


@pytest.mark.parametrize(
    "run", [pytest.param(n, marks=[] if n in IN_DEFAULT else pytest.mark.long) for n in range(len(HISTORIES))]
)
def test_histories_of_both_libraries(run: int, tmp_path: Path) -> None:
    """T43: indices of either library stay right through changes of both, and both read the same with them."""
    version, is_stable, builder, kind = HISTORIES[run]
    chance = random.Random(SEED + run)
    path = tmp_path / "t"
    _write(path, version, is_stable, builder, kind)
    done = [f"{version} stable={is_stable} {kind} by {builder.__name__}"]
    for _ in range(5):
        library = chance.choice([lance_core, lance_core, lance])
        step = "optimize" if chance.random() < 0.25 else chance.choice(list(STEPS))
        done.append(f"{step} by {library.__name__}")
        if step == "optimize":
            dataset = library.dataset(str(path))
            # With stable row ids the reference 14.0.2 finds old values through a segment beside another one
            # that covers the new place of the row, also where it made all changes itself.
            fewest = 1 if dataset.has_stable_row_ids else 0
            dataset.optimize.optimize_indices(num_indices_to_merge=chance.randint(fewest, 2))
        else:
            STEPS[step](library.dataset(str(path)), chance)
        if step == "append" and chance.random() < 0.5:
            lance_core.dataset(path).optimize.compact_files()
            done.append("compact")
        _check(path, (SEED + run, done))
    print(f"seed {SEED + run}: {done}", file=sys.stderr)
