"""Files of B-trees of releases before 0.21, which have other names of columns."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.api.file import LanceFileReader, LanceFileWriter


def test_b_trees_of_old_releases_answer_filters(tmp_path: Path) -> None:
    """T22: a filter is answered by the index, with the rows of a scan without it."""
    path = tmp_path / "d"
    table = pa.table({"a": [3, 1, None, 2]})
    lance_core.write_dataset(table, path).create_scalar_index("a", "BTREE")
    ours = lance_core.dataset(path)
    (made,) = ours.read_transaction(ours.version).operation.new_indices
    old = replace(made, uuid=str(uuid4()), files=None)
    folder = path / "_indices" / old.uuid
    shutil.copytree(path / "_indices" / made.uuid, folder)
    pages = LanceFileReader(str(folder / "page_data.lance")).read_all().to_table()
    (folder / "page_data.lance").unlink()
    with LanceFileWriter(str(folder / "page_data.lance"), version="2.0") as writer:
        writer.write_batch(pages.rename_columns(["values", "row_ids"]))
    operation = lance_core.LanceOperation.CreateIndex(new_indices=[old], removed_indices=[made])
    ours = lance_core.LanceDataset.commit(str(path), operation, read_version=ours.version)
    for condition, rows in (("a >= 2", [3, 2]), ("a IS NULL", [None]), ("a = 1", [1]), ("a IN (9)", [])):
        assert ours.to_table(filter=condition)["a"].to_pylist() == rows
        assert "@a_idx, kind=BTree" in ours.scanner(filter=condition).explain_plan()


@pytest.mark.parametrize("with_files", [True, False], ids=["files are listed", "not listed"])
def test_indices_of_which_the_manifest_does_not_say_the_kind(with_files: bool, tmp_path: Path) -> None:
    """Releases before 0.19 wrote no details: the names of the files tell the kind."""
    path = tmp_path / "d"
    table = pa.table({"a": [3, 1, 2], "b": ["x", "y", "x"], "c": [["p"], ["q"], []], "d": ["abc", "bcd", ""]})
    ours = lance_core.write_dataset(table, path)
    kinds = {"a": "BTREE", "b": "BITMAP", "c": "LABEL_LIST", "d": "NGRAM"}
    for column, kind in kinds.items():
        ours.create_scalar_index(column, kind)
    removed = [
        index
        for version in range(2, ours.version + 1)
        for index in ours.read_transaction(version).operation.new_indices
    ]
    old = []
    for made in removed:
        uuid = str(uuid4())
        shutil.copytree(path / "_indices" / made.uuid, path / "_indices" / uuid)
        files = made.files if with_files else None
        old.append(replace(made, uuid=uuid, files=files, index_details=None, created_at=None))
    old.append(replace(old[0], uuid=str(uuid4()), name="unknown"))
    old[-1].files = None
    operation = lance_core.LanceOperation.CreateIndex(new_indices=old, removed_indices=removed)
    ours = lance_core.LanceDataset.commit(str(path), operation, read_version=ours.version)
    found = {index.name: index.index_type for index in ours.describe_indices()}
    assert found == {
        "a_idx": "BTree",
        "b_idx": "Bitmap",
        "c_idx": "LabelList",
        "d_idx": "NGram",
        "unknown": "Unknown",
    }
    for name, condition, rows in (
        ("a_idx", "a >= 2", [3, 2]),
        ("b_idx", "b = 'x'", [3, 2]),
        ("c_idx", "array_has(c, 'q')", [1]),
        ("d_idx", "contains(d, 'bcd')", [1]),
    ):
        assert ours.to_table(filter=condition)["a"].to_pylist() == rows
        assert f"@{name}," in ours.scanner(filter=condition).explain_plan()
    assert ours.index_statistics("b_idx")["segments"] == [{"num_bitmaps": 2}]
    ours.insert(table)
    ours.optimize.optimize_indices()
    assert {index.index_type for index in lance.dataset(str(path)).describe_indices()} == set(found.values())
    assert ours.count_rows("b = 'x'") == lance.dataset(str(path)).count_rows("b = 'x'") == 4
