"""Staged writes of one small dataset, and services that share its folder."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import lance
import pyarrow as pa

from flight_server.requests.names import DatasetReference
from flight_server.requests.write_command import CommitCommand, WriteCommand
from flight_server.service import Service
from flight_server.settings import Settings
from flight_server.writing.uploads import NoRows
from lance_core.changes.compaction import CompactionOptions, CompactionTask
from lance_core.changes.rows.merge_insert import MergePlan
from lance_core.storage import LocalStorage
from lance_core.table.snapshot import open_snapshot
from support.faults.failing_storage import FaultStorage

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
    "join": WriteCommand(T, mode="add_columns", on=("n",), stage=True),
    "replace_columns": WriteCommand(T, mode="replace_columns", fragment_id=0, stage=True),
}
"""Staged uploads; a staged compaction is made in another way."""
KINDS = (*STAGE, "rewrite")
ROWS = {
    "append": [pa.table({"n": [2, 3]}), pa.table({"n": [4]})],
    "overwrite": [pa.table({"n": [2, 3]}), pa.table({"n": [4]})],
    "upsert": [pa.table({"n": [1, 2]}), pa.table({"n": [3, 4]})],
    "insert": [pa.table({"n": [1, 2]}), pa.table({"n": [3, 4]})],
    "replace": [pa.table({"n": [1, 2]}), pa.table({"n": [3, 4]})],
    "add_columns": [pa.table({"m": [5, 6]})],
    "join": [pa.table({"n": [1, 7], "m": [6, 8]}), pa.table({"n": [0], "m": [5]})],
    "replace_columns": [pa.table({"n": [5, 6]})],
}
BEFORE = [{"n": 0}, {"n": 1}]
AFTER = {
    "append": [{"n": n} for n in range(5)],
    "overwrite": [{"n": n} for n in range(2, 5)],
    "upsert": [{"n": n} for n in range(5)],
    "insert": [{"n": n} for n in range(5)],
    "replace": [{"n": n} for n in range(2, 5)],
    "add_columns": [{"n": 0, "m": 5}, {"n": 1, "m": 6}],
    "join": [{"n": 0, "m": 5}, {"n": 1, "m": 6}],
    "replace_columns": [{"n": 5}, {"n": 6}],
    "rewrite": BEFORE,
}


class Uploaded(NoRows):
    """Rows of a table as a client would have sent them."""

    def __init__(self, table: pa.Table) -> None:
        super().__init__(table.schema)
        object.__setattr__(self, "_table", table)

    def batches(self) -> Iterator[pa.RecordBatch]:
        return iter(self._table.to_batches())  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Staged:
    """A folder with the dataset of `BEFORE`, one fragment, and staged writes of one kind."""

    root: Path
    kind: str | None
    """None: nothing is staged."""
    receipts: tuple[str, ...] = ()

    @staticmethod
    def make(root: Path, kind: str | None = None) -> Staged:
        """Make the dataset, and stage all writes of a kind."""
        lance.write_dataset(pa.table({"n": [0, 1]}), root / "t.lance")
        made = Staged(root, kind)
        return made if kind is None else replace(made, receipts=made._stage(kind))

    def _stage(self, kind: str) -> tuple[str, ...]:
        staged = self.service().staged
        if kind == "rewrite":
            fragments = tuple(open_snapshot(LocalStorage(str(self.path))).manifest.message.fragments)
            return (staged.execute(T, CompactionTask(1, fragments, CompactionOptions()).json())[0],)
        return tuple(staged.stage(STAGE[kind], Uploaded(table)) for table in ROWS[kind])

    @contextmanager
    def copied(self, root: Path) -> Iterator[Staged]:
        """Yield a copy in another folder, while the block runs."""
        shutil.copytree(self.root, root)
        yield replace(self, root=root)
        shutil.rmtree(root)

    @property
    def path(self) -> Path:
        """Path of the dataset."""
        return self.root / "t.lance"

    @property
    def after(self) -> list[dict[str, int]]:
        """The rows when all that is staged was committed once."""
        return AFTER[str(self.kind)]

    def service(self, storage: FaultStorage | None = None) -> Service:
        """Return a server of the folder, through a storage that may fail."""
        service = Service(Settings.resolve(str(self.root), environment={}))
        if storage is not None:
            service._catalog.storage = lambda path: storage  # type: ignore[method-assign]
        return service

    def command(self) -> CommitCommand:
        """Command that commits everything that is staged, with an id of its own, so that it can be
        repeated.
        """
        operation = STAGE[str(self.kind)].mode if self.kind in STAGE else str(self.kind)
        return CommitCommand(T, operation, self.receipts, transaction_id=str(uuid.uuid4()))

    def rows(self) -> list[dict[str, int]]:
        """Return the rows that the reference reads, in the order of the column n."""
        found = lance.dataset(self.path).to_table().to_pylist()
        return sorted(found, key=lambda row: row["n"])  # type: ignore[no-any-return]

    def versions(self) -> int:
        """Return the number of versions that change the content of the table."""
        dataset = lance.dataset(self.path)
        made = [dataset.read_transaction(each["version"]) for each in dataset.versions()]
        return sum("ReserveFragments" not in type(each.operation).__name__ for each in made)
