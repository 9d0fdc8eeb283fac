"""One of every operation, by the same code for both libraries: `LanceOperation` has the same names in them.

All are made on version 1 of `base_table`, with new data files that are there; deletion files are not.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

import lance
import pyarrow as pa
from lance.dataset import Index
from pyroaring import BitMap

import lance_core
from lance_core.proto.transaction_pb2 import Transaction

ROWS = 10
FRAGMENTS = 3


def base_table(path: Path) -> None:
    """Three fragments of ten rows with the columns a and b, field ids 0 and 1."""
    table = pa.table({"a": range(ROWS * FRAGMENTS), "b": range(ROWS * FRAGMENTS)})
    lance.write_dataset(table, str(path), max_rows_per_file=ROWS)
    parts = path.parent / "parts"
    for names in (["a", "b"], ["b"]):
        lance.write_dataset(table.select(names).slice(0, ROWS), str(parts / "".join(names)))


class Maker:
    """Makes operations of one library on an opened dataset of its."""

    def __init__(self, library: ModuleType, path: Path) -> None:
        self.library = library
        self.path = path
        self.dataset = library.LanceDataset(str(path))
        self.operation = library.LanceOperation
        self.is_reference = library is lance
        kinds: Any = lance.fragment if self.is_reference else lance_core
        self.fragment: Any = kinds.FragmentMetadata
        self.data_file: Any = kinds.DataFile
        self.index: Any = Index if self.is_reference else lance_core.Index

    def new(self) -> Any:
        """Return a fragment without an id."""
        return self.fragment(0, [self.file([0, 1])], ROWS)

    def file(self, fields: list[int]) -> Any:
        """Return a new data file with columns by their ids."""
        (source,) = (self.path.parent / "parts" / ("ab" if len(fields) == 2 else "b") / "data").iterdir()
        name = f"{uuid4().hex}.lance"
        shutil.copy(source, self.path / "data" / name)
        return self.data_file(name, fields, list(range(len(fields))), 2, 2)

    def old(self, number: int, **changes: Any) -> Any:
        """Return a fragment of the table, in which something is changed."""
        data = self.dataset.get_fragments()[number].metadata.to_json()
        return self.fragment.from_json(json.dumps({**data, **changes}))

    def deleted(self, number: int) -> Any:
        """Return a fragment of the table with a deletion file."""
        file = {"read_version": 1, "id": uuid4().int >> 65, "file_type": "array", "num_deleted_rows": 1}
        return self.old(number, deletion_file={**file, "base_id": None})

    def rewritten(self, number: int) -> Any:
        """Return a fragment of the table whose column b is in another file."""
        fragment = self.old(number)
        fragment.files[0].fields = [0, -2]
        fragment.files.append(self.file([1]))
        return fragment

    def built(self, name: str, fields: list[int], fragments: set[int]) -> Any:
        """Return an index."""
        details = ("/lance.table.BTreeIndexDetails", b"")
        index = self.index(str(uuid4()), name, fields, 1, fragments, 0)
        index.index_details = details
        return index

    def schema(self, *names: str) -> Any:
        """Columns of the table with their ids."""
        if self.is_reference:
            dataset = lance.dataset(self.dataset.uri)
            if set(names) != {"a", "b"}:
                dataset = _without(dataset, names)
            return dataset.lance_schema
        from lance_core.api.schema import LanceSchema
        from lance_core.schema import Schema

        kept = [field for field in self.dataset.lance_schema.schema.messages if field.name in names]
        return LanceSchema(Schema(kept, {}))

    def config(self, **maps: Any) -> Any:
        """Changes of settings: name of the map to its updates."""
        change = self.operation.UpdateMap
        made: dict[str, Any] = {}
        for name, updates in maps.items():
            if name == "field":
                made["field_metadata_updates"] = {0: change(updates)}
            else:
                made[f"{name}_updates"] = change(updates)
        return self.operation.UpdateConfig(**made)


def _without(dataset: Any, names: tuple[str, ...]) -> Any:
    """The reference gives out schemas of datasets only: a clone of this one with fewer columns."""
    clone = Path(dataset.uri).parent / f"clone-{uuid4().hex}"
    cloned = dataset.shallow_clone(str(clone), 1)
    cloned.drop_columns([name for name in ("a", "b") if name not in names])
    return cloned


OPERATIONS: dict[str, Callable[[Maker], Any]] = {
    "append": lambda make: make.operation.Append([make.new()]),
    "delete 0": lambda make: make.operation.Delete([make.deleted(0)], [], "x"),
    "delete 1": lambda make: make.operation.Delete([make.deleted(1)], [], "x"),
    "remove 0": lambda make: make.operation.Delete([], [0], "x"),
    "update 0": lambda make: make.operation.Update(
        [], [make.deleted(0)], [make.new()], [], [1], "rewrite_rows"
    ),
    "update 1": lambda make: make.operation.Update(
        [], [make.deleted(1)], [make.new()], [], [1], "rewrite_rows"
    ),
    "columns 0": lambda make: make.operation.Update([], [make.rewritten(0)], [], [1], [], "rewrite_columns"),
    "overwrite": lambda make: make.operation.Overwrite(make.dataset.schema, [make.new()]),
    "index a": lambda make: make.operation.CreateIndex([make.built("a", [0], {0, 2})], []),
    "index b": lambda make: make.operation.CreateIndex([make.built("b", [1], {0, 2})], []),
    "rewrite 0": lambda make: _rewrite(make, 0),
    "rewrite 1": lambda make: _rewrite(make, 1),
    "merge": lambda make: make.operation.Merge([make.old(n) for n in range(3)], make.schema("a", "b")),
    "merge pn": lambda make: make.operation.Merge(
        [make.old(n) for n in range(3)], make.schema("a", "b"), True
    ),
    "restore": lambda make: make.operation.Restore(1),
    "project": lambda make: make.operation.Project(make.schema("a")),
    "project pn": lambda make: make.operation.Project(make.schema("a"), True),
    "config x": lambda make: make.config(config={"x": "1"}),
    "config y": lambda make: make.config(config={"y": None}),
    "metadata": lambda make: make.config(table_metadata={"x": "1"}),
    "schema md": lambda make: make.config(schema_metadata={"x": "1"}),
    "field md": lambda make: make.config(field={"x": "1"}),
    "replace 0": lambda make: _replace(make, 0),
    "replace 1": lambda make: _replace(make, 1),
}


def _rewrite(make: Maker, number: int) -> Any:
    fragment = make.new()
    group = make.operation.RewriteGroup([make.old(number)], [fragment])
    return make.operation.Rewrite([group], [])


def _replace(make: Maker, number: int) -> Any:
    group = make.operation.DataReplacementGroup(number, make.file([0, 1]))
    return make.operation.DataReplacement([group])


def _reserve(transaction: Transaction) -> None:
    transaction.reserve_fragments.num_fragments = 2


def _bases(transaction: Transaction) -> None:
    transaction.update_bases.new_bases.add(id=7, name="elsewhere", path="/elsewhere")


def _mem_wal(transaction: Transaction) -> None:
    transaction.update_mem_wal_state.SetInParent()


def _overlay(transaction: Transaction) -> None:
    overlay = transaction.data_overlay.groups.add(fragment_id=0).overlays.add(committed_version=2)
    overlay.data_file.fields.append(1)
    overlay.data_file.path = "overlay.lance"
    overlay.data_file.column_indices.append(0)
    overlay.data_file.file_major_version = overlay.data_file.file_minor_version = 2
    overlay.shared_offset_bitmap = bytes(BitMap([1]).serialize())


HANDMADE: dict[str, Callable[[Transaction], None]] = {
    "reserve": _reserve,
    "bases": _bases,
    "mem wal": _mem_wal,
    "overlay 0": _overlay,
}
"""Transactions that the reference cannot commit through its interface."""


def message_of(name: str, path: Path) -> Transaction:
    """Return the transaction of an operation on version 1."""
    if name in HANDMADE:
        message = Transaction(read_version=1, uuid=str(uuid4()))
        HANDMADE[name](message)
        return message
    operation = OPERATIONS[name](Maker(lance_core, path))
    return lance_core.Transaction(1, operation).to_message()
