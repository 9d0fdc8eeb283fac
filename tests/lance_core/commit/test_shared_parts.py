"""Parts that a commit takes over from the version that the caller opened, instead of parsing it again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa

import lance_core


def make(path: Path) -> lance_core.LanceDataset:
    dataset = lance_core.write_dataset(pa.table({"id": range(20), "kind": [1, 2] * 10}), path)
    dataset.create_scalar_index("id", "BTREE")
    return dataset


def test_versions_with_equal_columns_share_them(tmp_path: Path) -> None:
    dataset = make(tmp_path / "t")
    before = dataset.snapshot.manifest
    assert before.stored_index_segments
    assert before.schema.fields
    dataset.delete("id = 1")
    dataset.update({"kind": "3"}, where="id = 2")
    after = dataset.snapshot.manifest
    assert after.version == before.version + 2
    assert after.schema is before.schema
    assert after.stored_index_segments is before.stored_index_segments


def test_the_columns_of_another_writer_are_seen(tmp_path: Path) -> None:
    dataset = make(tmp_path / "t")
    assert dataset.schema.names == ["id", "kind"]
    lance_core.dataset(tmp_path / "t").add_columns({"more": "id + 1"})
    dataset.delete("id = 1")
    assert dataset.schema.names == ["id", "kind", "more"]
    assert dataset.to_table(filter="id < 3")["more"].to_pylist() == [1, 3]


def test_the_indices_of_another_writer_are_seen(tmp_path: Path) -> None:
    dataset = make(tmp_path / "t")
    assert len(dataset.snapshot.manifest.stored_index_segments) == 1
    lance_core.dataset(tmp_path / "t").create_scalar_index("kind", "BITMAP")
    dataset.delete("id = 1")
    assert len(dataset.snapshot.manifest.stored_index_segments) == 2


def test_a_table_made_again_is_not_the_opened_one(tmp_path: Path) -> None:
    """T14: the version of the same number of a new table is another one."""
    old = make(tmp_path / "t").snapshot.manifest
    assert old.stored_index_segments
    assert old.schema.fields
    shutil.rmtree(tmp_path / "t")
    new = make(tmp_path / "t").snapshot.manifest
    assert new.version == old.version
    assert new.sharing(old) is new
    assert new.schema is old.schema
    assert new.stored_index_segments != old.stored_index_segments
    again = lance_core.dataset(tmp_path / "t").snapshot.manifest
    assert again.sharing(new) is new
