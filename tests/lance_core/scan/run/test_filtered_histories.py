"""Filters on tables with a past (deletions, stable row ids, columns added and changed) and on odd columns."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import LanceError
from lance_core.scan.run.filtering import filtered_scan
from support.oracles.comparison import assert_tables_equal

CONDITIONS = [
    "id between 1400 and 1600",
    "name = 'name 7' or name is null",
    "point.y.z >= '45' and id > 100",
    "point is null",
    "kind = 'kind 3' and id < 2500",
    "kind in ('kind 1', 'nothing') and name like 'name 2%'",
    "array_length(tags) = 2",
    "array_has(tags, 't1') and not (id < 4000)",
    "_rowid > 1600 and _rowaddr < 4294967400",
    "id < 0",
    "true",
]


@pytest.fixture(autouse=True)
def _ask_statistics(monkeypatch):
    """Small tables are pruned, too, as larger ones are."""
    monkeypatch.setattr(filtered_scan, "_FEW_ROWS", 0)


@pytest.fixture(params=["plain", "deleted", "stable", "evolved"])
def reference(request, storage_version):
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize(("limit", "offset"), [(None, None), (7, 3)], ids=str)
def test_rows_are_those_of_the_reference(reference, condition, limit, offset):
    ours = lance_core.dataset(reference.uri)
    expected = reference.to_table(filter=condition, limit=limit, offset=offset, with_row_id=True)
    arguments = {"filter": condition, "limit": limit, "offset": offset, "with_row_id": True}
    assert_tables_equal(expected, ours.to_table(**arguments))
    found = pa.Table.from_batches(ours.to_batches(**arguments), expected.schema)
    assert_tables_equal(expected, found)
    assert ours.scanner(**arguments).count_rows() == expected.num_rows


@pytest.mark.parametrize(("limit", "offset"), [(0, 0), (10, 10**6), (None, 2000)], ids=str)
def test_limits_that_leave_little(deleted, limit, offset):
    ours = lance_core.dataset(deleted.uri)
    arguments = {"filter": "id < 2100", "limit": limit, "offset": offset}
    assert_tables_equal(deleted.to_table(**arguments), ours.to_table(**arguments))
    assert list(ours.to_batches(**arguments)) == []
    assert ours.scanner(**arguments).count_rows() == 0


@pytest.mark.parametrize("condition", ["double = 20", "later is null and double > 9000", "double is null"])
def test_columns_that_were_added_are_filtered(evolved, condition):
    ours = lance_core.dataset(evolved.uri)
    assert_tables_equal(evolved.to_table(filter=condition), ours.to_table(filter=condition))


def test_rows_are_found_by_stable_ids(stable):
    ours = lance_core.dataset(stable.uri)
    condition = "_rowid in (250, 300, 4999)"
    expected = stable.to_table(filter=condition, with_row_id=True)
    assert expected.num_rows > 0
    assert_tables_equal(expected, ours.to_table(filter=condition, with_row_id=True))


def test_a_table_without_rows_is_filtered(tmp_path):
    lance.write_dataset(pa.table({"a": pa.array([], pa.int64())}), tmp_path / "d")
    ours = lance_core.dataset(tmp_path / "d")
    assert ours.to_table(filter="a > 1").num_rows == 0
    assert ours.count_rows("a > 1") == 0
    assert list(ours.to_batches(filter="a > 1")) == []
    assert ours.scanner(filter="a > 1").explain(analyze=True).rows_returned == 0


def test_blobs_of_rows_that_passed_are_read(tmp_path):
    schema = pa.schema(
        [("id", pa.int64()), pa.field("data", pa.large_binary(), metadata={"lance-encoding:blob": "true"})]
    )
    data = pa.table({"id": range(50), "data": [bytes([k]) * k for k in range(50)]}, schema=schema)
    reference = lance.write_dataset(data, tmp_path / "d", data_storage_version="2.1")
    ours = lance_core.dataset(tmp_path / "d")
    for handling in ("blobs_descriptions", "all_binary"):
        arguments = {"filter": "id in (3, 40)", "blob_handling": handling}
        assert_tables_equal(reference.to_table(**arguments), ours.to_table(**arguments))


def test_what_cannot_be_compared_is_refused(deleted):
    ours = lance_core.dataset(deleted.uri)
    for condition in ("vector = 3", "tags > 'a'", "point = 1"):
        with pytest.raises(LanceError):
            ours.to_table(filter=condition)
