"""Transactions of versions, read back."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.api.dataset import LANCE_COMMIT_MESSAGE_KEY
from lance_core.errors import UnsupportedFeatureError, VersionNotFoundError
from lance_core.table.transaction import read_transaction


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A version by every kind of operation."""
    place = str(tmp_path / "t.lance")
    table = pa.table({"x": pa.array(range(20), pa.int64()), "y": ["a"] * 20})
    lance.write_dataset(table, place, max_rows_per_file=5, commit_message="first")
    dataset = lance.dataset(place)
    dataset.insert(table)
    dataset.create_scalar_index("x", "BTREE")
    dataset.delete("x IN (3, 4)")
    dataset.update({"y": "'b'"}, where="x = 7")
    dataset.merge_insert("x").when_matched_update_all().when_not_matched_insert_all().execute(table[:1])
    dataset.add_columns({"z": "x + 1"})
    dataset.drop_columns(["z"])
    dataset.update_config({"a": "1", "b": "2"})
    dataset.update_field_metadata({"x": {"k": "v"}})
    dataset.update_metadata({"k": None}, replace=True)
    dataset.optimize.compact_files()
    lance.dataset(place, 2).restore()
    return place


def test_operations_are_those_that_were_committed(path: str) -> None:
    dataset = lance_core.dataset(path)
    kinds = set()
    for entry in dataset.versions():
        version = entry["version"]
        transaction = dataset.read_transaction(version)
        assert transaction is not None
        kinds.add(type(transaction.operation).__name__)
        snapshot = dataset.checkout_version(version).snapshot
        committed = read_transaction(snapshot.storage, snapshot.manifest)
        if type(transaction.operation) is lance_core.LanceOperation.BaseOperation:
            assert committed.WhichOneof("operation") == transaction.operation.kind == "reserve_fragments"
            with pytest.raises(UnsupportedFeatureError, match="reserve_fragments"):
                transaction.to_message()
            continue
        message = transaction.to_message()
        for each in (message, committed):  # what callers do not see
            each.overwrite.ClearField("config_upsert_values")
            for name in ("config_updates", "table_metadata_updates", "schema_metadata_updates"):
                getattr(each.update_config, name).update_entries.sort(key=lambda entry: entry.key)
            for index in [*each.create_index.new_indices, *each.rewrite.rewritten_indices]:
                for name in ("files", "new_index_files"):
                    if name in index.DESCRIPTOR.fields_by_name:
                        index.ClearField(name)
        assert getattr(message, committed.WhichOneof("operation")) == getattr(
            committed, committed.WhichOneof("operation")
        )
        assert transaction.uuid == committed.uuid
        assert transaction.read_version == committed.read_version
    assert kinds >= {"Append", "Overwrite", "CreateIndex", "Delete", "Update", "Merge", "Project"}
    assert kinds >= {"UpdateConfig", "Rewrite", "Restore", "BaseOperation"}
    first = dataset.read_transaction(1)
    assert first is not None
    assert first.transaction_properties == {"__lance_commit_message": "first"}


def test_the_newest_come_first(path: str) -> None:
    dataset = lance_core.dataset(path)
    everything = dataset.get_transactions(100)
    assert len(everything) == dataset.version
    one_by_one = [dataset.read_transaction(number) for number in range(dataset.version, 0, -1)]
    assert [each and each.uuid for each in everything] == [each and each.uuid for each in one_by_one]
    assert len(dataset.get_transactions()) == 10
    assert len(dataset.get_transactions(0)) == len(lance.dataset(path).get_transactions(0)) == 1
    older = dataset.checkout_version(3)
    theirs = lance.dataset(path, 3).get_transactions(2)
    assert [each and each.uuid for each in older.get_transactions(2)] == [each.uuid for each in theirs]
    with pytest.raises(VersionNotFoundError):
        dataset.read_transaction(99)


def test_counts_of_a_change_are_no_property_for_callers(tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(
        pa.table({"x": [1]}), tmp_path / "t", commit_message="why", transaction_properties={"job": "7"}
    )
    dataset.truncate_table()
    assert dataset.schema == pa.schema({"x": pa.int64()})
    assert (dataset.count_rows(), dataset.get_fragments()) == (0, [])
    found = [each.transaction_properties for each in dataset.get_transactions() if each is not None]
    assert found == [{}, {"job": "7", LANCE_COMMIT_MESSAGE_KEY: "why"}]


def test_ours_are_read_by_the_reference(tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    dataset = lance_core.write_dataset(pa.table({"x": [1]}), path)
    dataset.update_config({"a": "1"})
    dataset.checkout_version(1).restore()
    theirs = lance.dataset(path).get_transactions()
    ours = lance_core.dataset(path).get_transactions()
    assert [each.uuid for each in theirs] == [each.uuid for each in ours if each is not None]
    assert [type(each.operation).__name__ for each in theirs] == ["Restore", "UpdateConfig", "Overwrite"]
