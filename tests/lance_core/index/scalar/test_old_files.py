"""Files of B-trees of releases before 0.21, which have other names of columns."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

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
