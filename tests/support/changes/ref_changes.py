"""Every kind of change of tags, branches and clones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

import lance_core
from lance_core.maintenance.branches import create_branch, delete_branch
from lance_core.maintenance.clone import clone_table
from lance_core.maintenance.tags import (
    create_tag,
    delete_tag,
    replace_branch_metadata,
    replace_tag_metadata,
    update_tag,
)
from lance_core.storage import LocalStorage, Storage
from lance_core.table.snapshot import open_snapshot

ID = "7f3e1d52-4f0a-4c8e-9b57-2f54a6f1c002"
"""Id of the transaction of a clone."""
SOURCE = "source"
"""Source of a clone, beside it."""


def make_table(path: Path) -> None:
    """Three versions of one row more each; a tag; a branch with a row of its own, one more below its name."""
    for number in range(3):
        lance_core.write_dataset(pa.table({"x": [number]}), path, mode="append", sync=False)
    dataset = lance_core.dataset(path)
    dataset.tags.create("old", 1)
    lance_core.write_dataset(pa.table({"x": [7]}), dataset.create_branch("a", 1), mode="append", sync=False)
    dataset.create_branch("a/b", 2)


def _clone(target: Storage) -> None:
    source = LocalStorage(str(Path(target.uri).parent / SOURCE))
    clone_table(open_snapshot(source), target, transaction_id=ID)


REF_CHANGES: dict[str, Callable[[Storage], object]] = {
    "create a tag": lambda root: create_tag(root, "new", open_snapshot(root, 2)),
    "move a tag": lambda root: update_tag(root, "old", open_snapshot(root, 2)),
    "note on a tag": lambda root: replace_tag_metadata(root, "old", {"key": "value"}),
    "delete a tag": lambda root: delete_tag(root, "old"),
    "create a branch": lambda root: create_branch(root, "new", open_snapshot(root, 2)),
    "create a branch of a branch": lambda root: create_branch(
        root, "a/b/c", open_snapshot(root.below("tree/a/b"))
    ),
    "note on a branch": lambda root: replace_branch_metadata(root, "a", {"key": "value"}),
    "delete a branch": lambda root: delete_branch(root, "a/b"),
    "delete a branch above another": lambda root: delete_branch(root, "a"),
}
"""Changes of the references of the dataset of `make_table`; they get the storage of its main branch."""


def make_change(storage: Storage, kind: str) -> None:
    """Make one of `REF_CHANGES`, or "clone" what is in `SOURCE`."""
    _clone(storage) if kind == "clone" else REF_CHANGES[kind](storage)
