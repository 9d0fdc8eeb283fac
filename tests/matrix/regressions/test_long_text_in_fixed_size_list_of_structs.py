"""Full-zip pages below fixed_size_list<struct>: the index has an entry per slot, not per row."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import lance_core
from support.oracles.comparison import assert_tables_equal
from support.tables.reference import read_reference, write_reference


def test_rows_inside_a_page_of_long_texts(tmp_path: Path) -> None:
    text = pa.array([f"{number} " * 200 for number in range(60)])
    structs = pa.StructArray.from_arrays([text], fields=[pa.field("f", pa.string(), False)])
    table = pa.table({"c": pa.FixedSizeListArray.from_arrays(structs, 3)})
    write_reference(table, tmp_path / "d.lance", "2.2")
    expected = read_reference(tmp_path / "d.lance")
    dataset = lance_core.dataset(str(tmp_path / "d.lance"))
    for offset in range(20):
        found = dataset.to_table(offset=offset, limit=2)
        assert_tables_equal(expected.slice(offset, 2), found, label=f"offset {offset}")
