"""Datasets of older releases of the reference, written on by us."""

from __future__ import annotations

import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import UnsupportedFeatureError

FIXTURES = Path(__file__).parent / "fixtures"
DATASETS = sorted(FIXTURES.glob("*/*.lance"))


def _name(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


@pytest.mark.parametrize("path", DATASETS, ids=_name)
def test_appended_rows_follow_the_old_ones(path: Path, tmp_path: Path) -> None:
    """Dictionary columns of 0.1 tables have their values in every manifest: those are refused."""
    copy = tmp_path / "copy"
    shutil.copytree(path, copy)
    dataset = lance_core.dataset(copy)
    before = dataset.to_table()
    has_dictionary = any(pa.types.is_dictionary(field.type) for field in before.schema)
    if dataset.data_storage_version == "0.1" and has_dictionary:
        with pytest.raises(UnsupportedFeatureError, match=r"0\.1 file.*dict:string"):
            dataset.insert(before.slice(0, 3))
        return

    dataset.insert(before.slice(0, 3))

    expected = before.to_pylist() + before.slice(0, 3).to_pylist()
    assert dataset.count_rows() == len(expected)
    for opened in (dataset, lance_core.dataset(copy), lance.dataset(str(copy))):
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
