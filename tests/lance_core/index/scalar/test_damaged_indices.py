"""Damaged index files: a search finds rows, or refuses with an error of ours."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import lance
import numpy as np
import pytest

import lance_core
from lance_core.errors import CorruptFileError, LanceError, StorageError
from support.files.damage import MUTATIONS
from support.searches.indexed_columns import COLUMNS, table

SEED = os.environ.get("LANCE_TEST_SEED", "20261124")
FILTERS = {
    "BTREE": ("int64", ["c = 3", "c IN (1, -7)", "c < -12", "c IS NULL", "c != 3"]),
    "BITMAP": ("string", ["c = 'alpha'", "c IN ('b', '')", "c LIKE 'alp%'", "c IS NOT NULL"]),
    "LABEL_LIST": ("labels", ["array_has(c, 'b')", "NOT array_has_any(c, ['alpha', 'b'])"]),
    "NGRAM": ("text", ["contains(c, 'alpha')", "c LIKE '%delta%'"]),
    "ZONEMAP": ("float64", ["c = 1.5", "c > 3.0", "c IS NULL"]),
    "BLOOMFILTER": ("int64", ["c = 3", "c IN (1, -7)", "c IS NULL"]),
}
CANDIDATES = {"NGRAM", "ZONEMAP", "BLOOMFILTER"}
"""Kinds whose rows are checked: damage may hide rows, but never shows a row that does not meet the filter."""


@pytest.fixture(scope="module", params=FILTERS)
def indexed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Return a kind, and a table with such an index that the reference built."""
    kind = request.param
    path = tmp_path_factory.mktemp("damaged") / "t"
    rows = table(COLUMNS[FILTERS[kind][0]], np.random.default_rng(5), 0, 300)
    dataset = lance.write_dataset(rows, str(path), max_rows_per_file=120)
    dataset.create_scalar_index("c", kind)
    return kind, path


@pytest.mark.parametrize(
    "mutants", [25, pytest.param(int(os.environ.get("LANCE_INDEX_MUTANTS", "3400")), marks=pytest.mark.long)]
)
def test_mutants_are_read_or_refused(mutants: int, indexed: tuple[str, Path]) -> None:
    """T22: damaged bytes of an index give an error of ours, or rows; never a crash or a foreign error."""
    kind, path = indexed
    files = sorted(file for file in (path / "_indices").rglob("*") if file.is_file())
    whole = {query: _ids(path, query, use_scalar_index=False) for query in FILTERS[kind][1]}
    refused = 0
    for number in range(mutants):
        source = random.Random(f"{SEED} {kind} {number}")
        file = source.choice(files)
        content = file.read_bytes()
        damaged = bytearray(content)
        source.choice(MUTATIONS)(damaged, source)
        file.write_bytes(damaged)
        try:
            for query, expected in whole.items():
                try:
                    found = _ids(path, query)
                except LanceError as error:
                    refused += 1
                    if isinstance(error, CorruptFileError) and "_indices/" not in str(error):
                        pytest.fail(f"mutant {number}: the error does not name the file: {error}")
                else:
                    if kind in CANDIDATES and query != "c IS NULL":
                        assert set(found) <= set(expected), (number, query)
        finally:
            file.write_bytes(content)
    assert refused
    for query, expected in whole.items():
        assert _ids(path, query) == expected


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    """A table whose index lost its files is not scanned silently; without the index it is read."""
    rows = table(COLUMNS["int64"], np.random.default_rng(5), 0, 50)
    lance.write_dataset(rows, str(tmp_path / "t")).create_scalar_index("c", "BTREE")
    shutil.rmtree(next((tmp_path / "t" / "_indices").iterdir()))
    with pytest.raises(StorageError, match=r"_indices/.*lance"):
        _ids(tmp_path / "t", "c = 3")
    assert _ids(tmp_path / "t", "c < 100", use_scalar_index=False)


def _ids(path: Path, query: str, **options: object) -> list[int]:
    """Return the ids of the rows that meet a filter, read by a session of its own."""
    dataset = lance_core.dataset(path, session=lance_core.Session())
    found: list[int] = dataset.to_table(["id"], filter=query, **options)["id"].to_pylist()
    return found
