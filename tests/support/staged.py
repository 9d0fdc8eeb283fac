"""Staged writes of one small dataset, and services that share its folder."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import lance
import pyarrow as pa

from flight_server.mutations import NoRows
from flight_server.names import DatasetReference
from flight_server.service import Service
from flight_server.settings import Settings
from flight_server.write_command import CommitCommand, WriteCommand
from lance_core.mutations.compaction import CompactionOptions, CompactionTask
from lance_core.mutations.merge_insert import MergePlan
from lance_core.storage import LocalStorage
from lance_core.table.snapshot import open_snapshot
from support.faults import FaultStorage

T = DatasetReference("t")
UPSERT = MergePlan(("n",), when_matched="update_all", when_not_matched="insert_all")
INSERT = MergePlan(("n",), when_matched="do_nothing", when_not_matched="insert_all")
REPLACE = MergePlan(
    ("n",), when_matched="delete", when_not_matched="insert_all", when_not_matched_by_source="delete"
)
STAGE = {
    "append": WriteCommand(T, stage=True),
    "overwrite": WriteCommand(T, mode="overwrite", stage=True),
    "upsert": WriteCommand(T, mode="merge_insert", merge=UPSERT, stage=True),
    "insert": WriteCommand(T, mode="merge_insert", merge=INSERT, stage=True),
    "replace": WriteCommand(T, mode="merge_insert", merge=REPLACE, stage=True),
    "add_columns": WriteCommand(T, mode="add_columns", fragment_id=0, stage=True),
}
"""What is staged; a compaction is another one, see `stage_all`."""
KINDS = (*STAGE, "rewrite")
ROWS = {
    "append": [pa.table({"n": [2, 3]}), pa.table({"n": [4]})],
    "overwrite": [pa.table({"n": [2, 3]}), pa.table({"n": [4]})],
    "upsert": [pa.table({"n": [1, 2]}), pa.table({"n": [3, 4]})],
    "insert": [pa.table({"n": [1, 2]}), pa.table({"n": [3, 4]})],
    "replace": [pa.table({"n": [1, 2]}), pa.table({"n": [3, 4]})],
    "add_columns": [pa.table({"m": [5, 6]})],
}
BEFORE = [{"n": 0}, {"n": 1}]
AFTER = {
    "append": [{"n": n} for n in range(5)],
    "overwrite": [{"n": n} for n in range(2, 5)],
    "upsert": [{"n": n} for n in range(5)],
    "insert": [{"n": n} for n in range(5)],
    "replace": [{"n": n} for n in range(2, 5)],
    "add_columns": [{"n": 0, "m": 5}, {"n": 1, "m": 6}],
    "rewrite": BEFORE,
}


class Uploaded(NoRows):
    """Rows of a table as a client would have sent them."""

    def __init__(self, table: pa.Table) -> None:
        super().__init__(table.schema)
        object.__setattr__(self, "_table", table)

    def batches(self) -> Iterator[pa.RecordBatch]:
        return iter(self._table.to_batches())  # type: ignore[attr-defined]


def service_of(root: Path, storage: FaultStorage | None = None) -> Service:
    service = Service(Settings.resolve(str(root), environment={}))
    if storage is not None:
        service._catalog.storage = lambda path: storage  # type: ignore[method-assign]
    return service


def rows_of(root: Path) -> list[dict[str, int]]:
    found = lance.dataset(root / "t.lance").to_table().to_pylist()
    return sorted(found, key=lambda row: row["n"])  # type: ignore[no-any-return]


def stage_all(kind: str) -> Callable[[Path], list[str]]:
    """What stages all writes of one kind, and gives the receipts."""

    def prepare(root: Path) -> list[str]:
        staged = service_of(root).staged
        if kind == "rewrite":
            fragments = tuple(open_snapshot(LocalStorage(str(root / "t.lance"))).manifest.message.fragments)
            return [staged.execute(T, CompactionTask(1, fragments, CompactionOptions()))[0]]
        return [staged.stage(STAGE[kind], Uploaded(table)) for table in ROWS[kind]]

    return prepare


def commit_of(kind: str, receipts: Sequence[str], transaction_id: str | None = None) -> CommitCommand:
    """What commits them, by default with an id of its own that it could be repeated with."""
    operation = STAGE[kind].mode if kind in STAGE else kind
    return CommitCommand(T, operation, tuple(receipts), transaction_id=transaction_id or str(uuid.uuid4()))


def make_dataset(root: Path) -> None:
    """The dataset of `BEFORE`: one fragment."""
    lance.write_dataset(pa.table({"n": [0, 1]}), root / "t.lance")


def versions_of(root: Path) -> int:
    """How many versions there are that change what is in the table."""
    dataset = lance.dataset(root / "t.lance")
    made = [dataset.read_transaction(each["version"]) for each in dataset.versions()]
    return sum("ReserveFragments" not in type(each.operation).__name__ for each in made)
