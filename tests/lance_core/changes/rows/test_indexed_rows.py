"""Changes whose rows an index finds: which columns they open, and rows that no index covers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.api.dataset import LanceDataset
from lance_core.scan import scanner
from lance_core.scan.files.cache import FileCache
from lance_core.scan.files.opened import OpenFile
from lance_core.scan.session import session_of
from lance_core.storage import Storage
from lance_core.table.fragment import DataFile

ROWS = 4000
Change = Callable[[LanceDataset | lance.LanceDataset], object]


def rows_from(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "kind": [number % 10 for number in numbers],
            "text": [f"text {number} " * 5 for number in numbers],
            "list": [[number] * (number % 3) for number in numbers],
        }
    )


def make(path: Path, *, stable: bool = False) -> LanceDataset:
    """Return a table with an index on `id`, and with fragments that the index does not cover."""
    dataset = lance_core.write_dataset(
        rows_from(0, ROWS), path, max_rows_per_file=ROWS // 2, enable_stable_row_ids=stable
    )
    dataset.create_scalar_index("id", "BTREE")
    dataset.delete("id = 7")
    for number in range(8):
        dataset = lance_core.write_dataset(rows_from(ROWS + 10 * number, 10), dataset, mode="append")
    return dataset


def _merge(dataset: LanceDataset | lance.LanceDataset, source: pa.Table, condition: str | None) -> object:
    return dataset.merge_insert("id").when_matched_update_all(condition).execute(source)


SOME = pa.table({"id": [7, 5, 3999, ROWS + 3, ROWS + 75, 1 << 40], "kind": [91, 92, 93, 94, 95, 96]})
CHANGES: dict[str, Change] = {
    "update": lambda dataset: dataset.update(
        {"kind": "kind + 100", "text": "'new'"}, where=f"id IN (5, 7, 1999, 2000, {ROWS + 3}, {ROWS + 71})"
    ),
    "update of a range": lambda dataset: dataset.update({"kind": "id"}, where="id >= 3990"),
    "update by two columns": lambda dataset: dataset.update({"kind": "5"}, where="id < 20 AND kind = 3"),
    "update of no row": lambda dataset: dataset.update({"kind": "5"}, where="id = 7"),
    "merge": lambda dataset: _merge(dataset, SOME, None),
    "merge with a condition": lambda dataset: _merge(dataset, SOME, "target.kind < source.kind - 90"),
    "merge of whole rows": lambda dataset: _merge(dataset, rows_from(3995, 10), None),
}


@pytest.mark.parametrize("few", [1 << 12, 3], ids=["few", "many"])
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "ids"])
@pytest.mark.parametrize("name", CHANGES)
def test_rows_are_those_of_the_reference(
    name: str, stable: bool, few: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that an index finds are taken if they are few, and rows beside the index are found, too."""
    monkeypatch.setattr(scanner, "_FEW_ROWS", few)
    ours = make(tmp_path / "ours", stable=stable)
    make(tmp_path / "theirs", stable=stable)
    theirs = lance.dataset(str(tmp_path / "theirs"))
    CHANGES[name](ours)
    CHANGES[name](theirs)
    expected = theirs.to_table().sort_by("id")
    assert ours.to_table().sort_by("id").equals(expected)
    assert lance.dataset(str(tmp_path / "ours")).to_table().sort_by("id").equals(expected)


def test_an_update_opens_other_columns_where_it_changes_rows(tmp_path: Path) -> None:
    """Nothing but the column of the filter is opened in fragments that the index does not cover."""
    make(tmp_path / "t")
    dataset = lance_core.dataset(tmp_path / "t", session=lance_core.Session())
    dataset.update({"kind": "5"}, where="id = 11")
    kept = session_of(dataset.snapshot).files._files.values()
    files = [file for file in kept if isinstance(file, OpenFile)]
    opened = [{field.name for field, _ in file._columns._readers} for file in files]
    assert [names for names in opened if names - {"id"}] == [{"id", "text", "list"}]


def test_files_beside_the_index_are_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Later versions of the table find them open, and open no column of those that cannot have the row."""
    make(tmp_path / "t")
    dataset = lance_core.dataset(tmp_path / "t", session=lance_core.Session())
    for number in range(3):
        dataset.update({"kind": "5"}, where=f"id = {number}")
    dataset.delete("id = 100")
    opened: list[str] = []
    opening = FileCache._open

    def open_noted(cache: FileCache, storage: Storage, file: DataFile, size: int | None) -> OpenFile:
        opened.append(file.path)
        return opening(cache, storage, file, size)

    monkeypatch.setattr(FileCache, "_open", open_noted)
    assert dataset.delete("id = 101") == {"num_deleted_rows": 1}
    assert dataset.to_table(filter="id = 103").num_rows == 1
    assert not opened
    new = {file.path for fragment in dataset.snapshot.manifest.fragments[-3:] for file in fragment.files}
    files = session_of(dataset.snapshot).files._files.values()
    columns = [
        {field.name for field, _ in file._columns._readers}
        for file in files
        if isinstance(file, OpenFile) and file.file.name in new
    ]
    assert columns == [set()] * 3
