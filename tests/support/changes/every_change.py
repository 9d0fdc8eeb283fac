"""One of every kind of change of a dataset."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

import lance_core
from lance_core.api.dataset import LanceDataset
from lance_core.api.dataset.operations import LanceOperation
from lance_core.api.fragment.metadata import DataFile
from lance_core.api.writing.fragments import write_fragments
from lance_core.changes import compaction
from lance_core.changes.columns.replaced_columns import ReplacedColumnsWriter
from lance_core.changes.compaction.options import CompactionOptions
from lance_core.changes.settings import restore_version, update_settings
from lance_core.storage import Storage
from lance_core.table.snapshot import open_snapshot

ID = "7f3e1d52-4f0a-4c8e-9b57-2f54a6f1c001"
"""Id of the transaction of every change."""

Change = Callable[[LanceDataset], object]


def make_table(path: Path, *, stable_row_ids: bool = True) -> LanceDataset:
    """Version 1: three fragments of ten rows, with the columns id, text and number."""
    table = pa.table(
        {"id": range(30), "text": [f"row {number}" for number in range(30)], "number": [1.5] * 30}
    )
    return lance_core.write_dataset(
        table, path, max_rows_per_file=10, enable_stable_row_ids=stable_row_ids, sync=False
    )


def open_on(storage: Storage) -> LanceDataset:
    """Return the newest version in a storage that may fail."""
    return LanceDataset(storage.uri, snapshot=open_snapshot(storage))


def _more(first: int = 100) -> pa.Table:
    return pa.table({"id": range(first, first + 5), "text": ["new"] * 5, "number": [2.5] * 5})


def _merge_insert(dataset: LanceDataset) -> None:
    builder = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    builder.execute(_more(27), transaction_id=ID)


def _merge(dataset: LanceDataset) -> None:
    dataset.merge(pa.table({"id": range(0, 30, 2), "joined": range(15)}), "id", transaction_id=ID)


def _cast(dataset: LanceDataset) -> None:
    dataset.alter_columns({"path": "number", "data_type": pa.float32()}, transaction_id=ID)


def _compact(dataset: LanceDataset) -> None:
    compaction.compact(dataset.snapshot, CompactionOptions(num_threads=1), transaction_id=ID)


def _by_hand(dataset: LanceDataset) -> None:
    transaction = write_fragments(_more(), dataset, return_transaction=True, transaction_id=ID)
    assert not isinstance(transaction, list)
    LanceDataset.commit(dataset, transaction)


def _replace(dataset: LanceDataset) -> None:
    fragment, _ = dataset.get_fragments()[1].update_columns(
        pa.table({"id": range(10, 20), "text": ["other"] * 10}), "id"
    )
    operation = LanceOperation.Update(
        updated_fragments=[fragment], fields_modified=[1], update_mode="rewrite_columns"
    )
    LanceDataset.commit(dataset, lance_core.Transaction(dataset.version, operation, ID))


def _replace_data(dataset: LanceDataset) -> None:
    values = pa.table({"id": range(10, 20), "text": ["replaced"] * 10, "number": [3.5] * 10})
    writer = ReplacedColumnsWriter(dataset.snapshot, 1, values.schema)
    for batch in values.to_batches():
        writer.write(batch)
    group = LanceOperation.DataReplacementGroup(1, DataFile.from_message(writer.finish().file))
    operation = LanceOperation.DataReplacement([group])
    LanceDataset.commit(dataset, lance_core.Transaction(dataset.version, operation, ID))


CHANGES: dict[str, Change] = {
    "append": lambda dataset: lance_core.write_dataset(_more(), dataset, mode="append", transaction_id=ID),
    "overwrite": lambda dataset: lance_core.write_dataset(
        _more(), dataset, mode="overwrite", transaction_id=ID
    ),
    "by hand": _by_hand,
    "delete": lambda dataset: dataset.delete("id % 7 = 3 OR id < 10", transaction_id=ID),
    "update": lambda dataset: dataset.update({"text": "'changed'"}, "id % 9 = 4", transaction_id=ID),
    "update columns": _replace,
    "replace data": _replace_data,
    "merge_insert": _merge_insert,
    "add_columns": lambda dataset: dataset.add_columns({"more": "id * 2"}, transaction_id=ID),
    "add nulls": lambda dataset: dataset.add_columns(pa.schema([("null", pa.int8())]), transaction_id=ID),
    "merge": _merge,
    "drop": lambda dataset: dataset.drop_columns(["text"], transaction_id=ID),
    "rename": lambda dataset: dataset.alter_columns({"path": "id", "name": "key"}, transaction_id=ID),
    "cast": _cast,
    "compact": _compact,
    "settings": lambda dataset: update_settings(dataset.snapshot, config={"key": "value"}, transaction_id=ID),
    "restore": lambda dataset: restore_version(dataset.checkout_version(1).snapshot, transaction_id=ID),
}


def make_change(storage: Storage, kind: str) -> None:
    """Make a change of the newest version in a storage."""
    CHANGES[kind](open_on(storage))
