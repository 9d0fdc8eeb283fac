"""Columns of fragments that scans open: once for scans that are repeated, and anew for other ones."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.scan.files.opened import OpenFile
from lance_core.scan.read import fragments
from lance_core.scan.run import small_fragments


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the columns that scans opened."""
    names = []
    open_column = fragments.open_column

    def noted(column, *others):
        names.append(column.output.name)
        return open_column(column, *others)

    monkeypatch.setattr(fragments, "open_column", noted)
    return names


@pytest.mark.parametrize("version", ["2.0", "2.2"])
@pytest.mark.parametrize("verify", [False, True])
def test_repeated_scans_open_columns_once(
    version: str, verify: bool, tmp_path: Path, opened: list[str]
) -> None:
    """Columns that filters do not need are opened in the fragment with matching rows."""
    table = pa.table({"a": range(100), "b": [{"x": n} for n in range(100)], "c": ["t"] * 100})
    write = lance_core.write_dataset if verify else lance.write_dataset
    write(table, tmp_path / "d", data_storage_version=version, max_rows_per_file=50)
    session = lance_core.Session(verify_checksums=verify)
    for count in range(1, 4):
        dataset = lance_core.dataset(tmp_path / "d", session=session)
        assert dataset.to_table().equals(table)
        assert dataset.to_table(["c"], f"a >= {100 - count}")["c"].to_pylist() == ["t"] * count
    assert sorted(opened) == sorted(["a", "b", "c"] * 2 + ["a"] * 2 + ["c"])


def test_other_columns_are_opened_anew(tmp_path: Path, opened: list[str]) -> None:
    """Row ids, columns without a file, and columns that another version calls otherwise."""
    table = pa.table({"a": range(10)})
    dataset = lance_core.write_dataset(table, tmp_path / "d")
    for _ in range(2):
        assert dataset.to_table(with_row_id=True)["_rowid"].to_pylist() == list(range(10))
        assert dataset.to_table(["a"])["a"].to_pylist() == list(range(10))
    dataset.alter_columns({"path": "a", "name": "b"})
    dataset.add_columns(pa.schema([("n", pa.int32())]))
    for _ in range(2):
        assert dataset.to_table(["b"])["b"].to_pylist() == list(range(10))
        assert dataset.to_table()["n"].to_pylist() == [None] * 10
    assert dataset.checkout_version(1).to_table().equals(table)
    # Once per file and projection. In each scan: those with row ids beside them.
    assert opened == ["a", "a", "a", "b", "b", "n", "a"]


def test_few_projections_of_a_file_are_kept(tmp_path: Path) -> None:
    """T33: the memory of an open file does not grow with the number of projections."""
    names = [f"c{number}" for number in range(50)]
    lance_core.write_dataset(pa.table({name: [1, 2] for name in names}), tmp_path / "d")
    session = lance_core.Session()
    dataset = lance_core.dataset(tmp_path / "d", session=session)
    dataset.to_table()
    sizes = []
    for count in range(1, 40):
        dataset.to_table(names[:count])
        sizes.append(session.files.use().bytes)
    assert sizes[0] > sizes[-1] - 4 * 50 * 256


def test_files_that_the_cache_dropped_are_freed_at_once(tmp_path: Path) -> None:
    """T33: nothing waits for the collector of garbage, which may not run for long."""
    path = tmp_path / "d"
    lance_core.write_dataset(pa.table({"a": range(200), "b": range(200)}), path, max_rows_per_file=5)
    session = lance_core.Session(metadata_cache_size_bytes=1 << 16)
    made: list[weakref.ref[OpenFile]] = []
    with pytest.MonkeyPatch.context() as patch:
        make = OpenFile.__init__

        def noted(opened: OpenFile, *arguments: Any) -> None:
            make(opened, *arguments)
            made.append(weakref.ref(opened))

        patch.setattr(OpenFile, "__init__", noted)
        patch.setattr(small_fragments, "has_small", lambda *_: False)
        gc.collect()
        gc.disable()
        try:
            dataset = lance_core.dataset(path, session=session)
            assert dataset.to_table(filter="a >= 0").num_rows == 200
            assert dataset.to_table(with_row_id=True).num_rows == 200
        finally:
            gc.enable()
    assert len(made) > 40
    assert sum(file() is not None for file in made) < 12
