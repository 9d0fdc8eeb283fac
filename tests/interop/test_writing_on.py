"""Datasets of older releases of the reference, written on by us."""

from __future__ import annotations

import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core

FIXTURES = Path(__file__).parent / "fixtures"
DATASETS = sorted(FIXTURES.glob("*/*.lance"))


def _name(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


def _reads(path: Path) -> bool:
    """Return whether the reference's current release reads a table: not a dictionary column that 0.7.5
    merged.
    """
    try:
        lance.dataset(str(path)).to_table()
    except pa.ArrowInvalid as error:
        if "binary row range" not in str(error):
            raise
        return False
    return True


@pytest.mark.parametrize("path", DATASETS, ids=_name)
def test_appended_rows_follow_the_old_ones(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(path, copy)
    dataset = lance_core.dataset(copy)
    before = dataset.to_table()
    readers = [lance_core, lance] if _reads(copy) else [lance_core]

    dataset.insert(before.slice(0, 3))

    expected = before.to_pylist() + before.slice(0, 3).to_pylist()
    assert dataset.count_rows() == len(expected)
    for opened in (dataset, *(library.dataset(str(copy)) for library in readers)):
        assert opened.to_table().to_pylist() == expected
    assert lance.dataset(str(copy)).validate() is None
    assert len(lance.dataset(str(copy)).versions()) == len(dataset.versions())


@pytest.mark.parametrize("path", DATASETS, ids=_name)
def test_old_datasets_are_overwritten(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(path, copy)
    old = lance_core.dataset(copy)
    before = old.to_table()

    lance_core.write_dataset({"a": ["x"]}, copy, mode="overwrite", data_storage_version="stable")

    assert lance.dataset(str(copy)).to_table().to_pydict() == {"a": ["x"]}
    assert lance_core.dataset(copy, version=old.version).to_table().equals(before)
