"""Scans that return deleted rows, compared with the reference."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.dataset import ColumnOrdering as TheirOrdering

import lance_core
from lance_core import ColumnOrdering
from support.oracles.comparison import assert_tables_equal
from support.runs.each_case import each_case

LINEAGE = ["_row_created_at_version", "_row_last_updated_at_version"]


@pytest.fixture(scope="module", params=[False, True], ids=["addresses", "stable ids"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Four fragments; the first is deleted as a whole, the second in part, two keep all rows."""
    path = str(tmp_path_factory.mktemp("deleted") / "rows.lance")
    numbers = range(100)
    table = pa.table({"a": numbers, "b": [f"row {n}" for n in numbers], "s": [{"x": n} for n in numbers]})
    dataset = lance.write_dataset(
        table, path, max_rows_per_file=25, enable_stable_row_ids=request.param, data_storage_version="2.1"
    )
    dataset.delete("a < 30 or a = 33")
    return path


@each_case(
    "arguments",
    [
        {"with_row_id": True},
        {"columns": ["a", "_rowid"]},
        {"columns": ["a"], "with_row_id": True, "with_row_address": True},
        {"columns": ["a", "_rowoffset"], "with_row_id": True},
        {"columns": ["s.x", *LINEAGE], "with_row_id": True},
        {"columns": {"z": "a + 1", "r": "_rowid"}, "with_row_id": True},
        {"columns": ["a"], "with_row_id": True, "filter": "a < 36"},
        {"columns": ["a"], "with_row_id": True, "filter": "_rowid is null"},
        {"columns": ["a"], "with_row_id": True, "filter": "_rowid is not null and a % 2 = 0"},
        {"columns": ["a"], "with_row_id": True, "filter": "_rowaddr is null or a > 90"},
        {"columns": ["a"], "with_row_id": True, "limit": 6, "offset": 3},
        {"columns": ["a"], "with_row_id": True, "limit": 3, "offset": 3, "filter": "a > 26"},
        {"columns": [], "with_row_id": True},
        {"with_row_id": True, "include_deleted_rows": False},
    ],
)
def test_deleted_rows_are_returned_with_null_ids(path: str, arguments: dict) -> None:
    arguments = {"include_deleted_rows": True, **arguments}
    theirs, ours = (library.dataset(path).scanner(**arguments) for library in (lance, lance_core))
    expected = theirs.to_table()
    assert_tables_equal(expected, ours.to_table())
    assert_tables_equal(expected, pa.Table.from_batches(ours.to_batches(), ours.projected_schema))
    assert ours.count_rows() == expected.num_rows


@pytest.mark.parametrize("limit", [None, 4])
def test_deleted_rows_are_sorted_like_others(path: str, limit: int | None) -> None:
    arguments = {"columns": ["a"], "with_row_id": True, "include_deleted_rows": True, "limit": limit}
    expected = lance.dataset(path).to_table(order_by=[TheirOrdering("a", False)], **arguments)
    found = lance_core.dataset(path).to_table(order_by=[ColumnOrdering("a", False)], **arguments)
    assert_tables_equal(expected, found)


def test_a_fragment_returns_its_deleted_rows(path: str) -> None:
    arguments = {"columns": ["a"], "with_row_id": True, "include_deleted_rows": True}
    theirs, ours = (library.dataset(path).get_fragments()[0] for library in (lance, lance_core))
    assert_tables_equal(theirs.to_table(**arguments), ours.to_table(**arguments))


def test_deleted_rows_need_row_ids(path: str) -> None:
    for library in (lance, lance_core):
        with pytest.raises(ValueError, match="with_row_id is false"):
            library.dataset(path).scanner(include_deleted_rows=True).to_table()


def test_both_kinds_of_scans_share_statistics(path: str) -> None:
    """A filter gathers statistics of the physical rows, whichever of them are live."""
    dataset = lance_core.dataset(path, session=lance_core.Session())
    counts = [
        dataset.scanner(filter="a <= 27", with_row_id=True, include_deleted_rows=include).count_rows()
        for include in (False, True, False, True)
    ]
    assert counts == [0, 3, 0, 3]


def test_blobs_of_deleted_rows_are_bytes_in_frames(tmp_path: Path) -> None:
    """A blob that is read on demand needs the address of its row."""
    field = pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    table = pa.table([pa.array([b"a", b"b"], pa.large_binary())], schema=pa.schema([field]))
    dataset = lance_core.write_dataset(table, tmp_path / "d", data_storage_version="2.1")
    dataset.delete("_rowid = 0")
    scan = dataset.scanner(with_row_id=True, include_deleted_rows=True)
    assert scan.to_pandas(blob_mode="bytes")["blob"].tolist() == [b"a", b"b"]
    with pytest.raises(lance_core.UnsupportedFeatureError, match="blob_mode"):
        scan.to_pandas()
