"""Two copies of a dataset, one changed by us and one by the reference, and what they have in common."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

import lance_core
from lance_core.api.dataset import LanceDataset
from support.oracles.comparison import assert_tables_equal

LINEAGE = ["_row_created_at_version", "_row_last_updated_at_version"]


class Twins:
    """Two equal datasets."""

    def __init__(self, folder: Path, data: pa.Table, **options: Any) -> None:
        self.our_path, self.their_path = folder / "ours", folder / "theirs"
        lance.write_dataset(data, str(self.their_path), **options)
        shutil.copytree(self.their_path, self.our_path)

    @property
    def ours(self) -> LanceDataset:
        """The copy that we change, its latest version."""
        return lance_core.dataset(self.our_path)

    @property
    def theirs(self) -> lance.LanceDataset:
        """The copy that the reference changes, its latest version."""
        return lance.dataset(str(self.their_path))

    def check(self) -> None:
        """Both have the same rows, whatever their order, and are read the same by both libraries."""
        ours, theirs = self.ours, self.theirs
        ours_by_them = lance.dataset(str(self.our_path))
        assert ours.version == theirs.version
        stable = ours.has_stable_row_ids
        columns = [*ours.schema.names, "_rowid", *(LINEAGE if stable else [])]
        found = ours.to_table(columns=columns)
        assert_tables_equal(ours_by_them.to_table(columns=columns), found, label="ours, read by both")
        expected = theirs.to_table(columns=columns)
        assert canonical(found, stable=stable) == canonical(expected, stable=stable)
        for dataset in (ours, ours_by_them):
            assert dataset.count_rows() == expected.num_rows
            dataset.validate()


def canonical(table: pa.Table, *, stable: bool) -> tuple[list[str], list[str]]:
    """Return the rows in one order. Ids count where they are decided: inserted rows of a merge have no
    order.
    """
    rows = table.to_pylist()
    ids = [row.pop("_rowid") for row in rows]
    if not stable:
        return sorted(map(repr, rows)), []
    kept = [{**row, "id": number} for row, number in zip(rows, ids, strict=True) if row[LINEAGE[0]] == 1]
    return sorted(map(repr, rows)), [*sorted(map(repr, kept)), *map(str, sorted(ids))]
