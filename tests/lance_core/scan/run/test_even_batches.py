"""Batches of exactly so many rows, compared with the reference."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core

ARGUMENTS = [
    {"batch_size": 7},
    {"batch_size": 45},
    {"batch_size": 1000},
    {},
    {"batch_size": 8, "filter": "id % 2 = 0"},
    {"batch_size": 8, "limit": 20, "offset": 3},
    {"batch_size": 8, "order_by": ["text"]},
    {"batch_size": 9, "columns": []},
    {"batch_size": 9, "columns": [], "with_row_id": True, "filter": "id > 50"},
]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Four fragments of 30 rows, and dictionaries that differ."""
    path = str(tmp_path_factory.mktemp("even") / "rows.lance")
    for start in range(0, 120, 30):
        numbers = range(start, start + 30)
        kinds = pa.array([f"kind {n // 4}" for n in numbers]).dictionary_encode()
        table = pa.table({"id": numbers, "text": [str(n) for n in numbers], "kind": kinds})
        lance.write_dataset(table, path, mode="append" if start else "create")
    return path


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=repr)
def test_all_batches_but_the_last_have_the_wanted_rows(path: str, arguments: dict) -> None:
    theirs, ours = (
        list(library.dataset(path).to_batches(strict_batch_size=True, **arguments))
        for library in (lance, lance_core)
    )
    assert [batch.num_rows for batch in ours] == [batch.num_rows for batch in theirs]
    for expected, found in zip(theirs, ours, strict=True):
        found.validate(full=True)
        assert found.to_pylist() == expected.to_pylist()


def test_windows_are_joined_across_fragments(tmp_path: Path) -> None:
    """A batch may have the rows of many fragments, and of wide rows that come one by one."""
    table = pa.table({"id": range(200), "wide": [bytes(20_000)] * 200})
    dataset = lance_core.write_dataset(table, tmp_path / "d", max_rows_per_file=3)
    batches = list(dataset.to_batches(batch_size=64, strict_batch_size=True))
    assert [batch.num_rows for batch in batches] == [64, 64, 64, 8]
    assert pa.Table.from_batches(batches).equals(table)


def test_a_limit_of_bytes_is_refused_beside(path: str) -> None:
    for library in (lance, lance_core):
        with pytest.raises(ValueError, match="cannot be combined with batch_size_bytes"):
            list(library.dataset(path).to_batches(strict_batch_size=True, batch_size=8, batch_size_bytes=100))
