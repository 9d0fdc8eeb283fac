"""Structs with lists in small pages, whose nulls the reference miscounts in its own files too; we read
them.
"""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from support.arrays import Spec
from support.cases import Case, Column
from support.checks import check_local, expected_table, write_case
from support.comparison import assert_tables_equal
from support.null_structs import miscount, miscounts_its_own
from support.reference import FILE_VERSIONS, write_reference_pages

TYPE = pa.struct([pa.field("l", pa.list_(pa.int32()))])


@pytest.mark.parametrize("version", FILE_VERSIONS)
def test_null_lists_beside_null_structs_in_pages_of_one_row(version: str, tmp_path: Path) -> None:
    source = pa.table({"s": pa.array([{"l": None}, {"l": [1]}, None], TYPE)})
    ours, theirs = tmp_path / "ours.lance", tmp_path / "theirs.lance"
    lance_core.write_dataset(source, ours, data_storage_version=version, max_page_bytes=1)
    write_reference_pages([source.slice(row, 1).to_batches()[0] for row in range(3)], theirs, version)
    for path in (ours, theirs):
        with pytest.raises(pa.ArrowInvalid, match="expected 3 got 2") as failure:
            lance.dataset(str(path)).to_table()
        assert_tables_equal(source, lance_core.dataset(path).to_table())
        assert miscounts_its_own(failure.value, source, path, version, tmp_path / "again.lance")


@pytest.mark.parametrize(
    ("message", "rows"),
    [
        ("Incorrect number of nulls for StructArray, expected 4 got 2", [None, {"l": None}]),
        ("Incorrect number of nulls for StructArray, expected 2 got 1", [None, {"l": [1]}]),
        ("Incorrect length", [None, {"l": None}]),
    ],
    ids=["other numbers", "rows that it reads", "another failure"],
)
def test_other_failures_are_not_taken_for_it(message: str, rows: list[object], tmp_path: Path) -> None:
    source = pa.table({"s": pa.array(rows, TYPE)})
    ours = tmp_path / "ours.lance"
    lance_core.write_dataset(source, ours, data_storage_version="2.1", max_page_bytes=1)
    assert not miscounts_its_own(ValueError(message), source, ours, "2.1", tmp_path / "again.lance")


def test_children_of_structs_that_the_reference_reads_only_together(tmp_path: Path) -> None:
    below = pa.struct(
        [
            pa.field("f0", pa.null()),
            pa.field("f1", pa.list_(pa.null()), nullable=False),
            pa.field("f2", pa.null()),
        ]
    )
    single = pa.struct([pa.field("f0", pa.null())])
    columns = (
        Column(pa.field("c0", single, nullable=False), Spec("random", "none")),
        Column(pa.field("c1", pa.null()), Spec("random", "none")),
        Column(pa.field("c2", below), Spec("random", "half")),
    )
    case = Case("generated-78", columns, 1, 2, ("2.2",))
    path = tmp_path / "generated.lance"
    expected = expected_table(case, path, write_case(case, "2.2", path))
    with pytest.raises(pa.ArrowInvalid) as failure:
        lance.dataset(str(path)).to_table(columns=["c0.f0", "c2.f1", "c2.f2"])
    assert miscount(failure.value).endswith("expected 13 got 15")
    check_local(case, path, expected, of_reference=True)
