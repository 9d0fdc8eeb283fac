"""Observers of writes, with the names of the reference."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import lance.progress
import pyarrow as pa
import pytest

import lance_core
import lance_core.api.progress as progress_module
from lance_core import FragmentMetadata, LanceFragment, write_fragments
from lance_core.api.progress import (
    FileSystemFragmentWriteProgress,
    FragmentWriteProgress,
    NoopFragmentWriteProgress,
)

TABLE = pa.table({"a": [1, 2, 3]})


class Events(FragmentWriteProgress):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, FragmentMetadata]] = []

    def begin(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        self.events.append(("begin", fragment))

    def complete(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        self.events.append(("complete", fragment))


@pytest.mark.parametrize("fragment_id", [None, 7])
def test_progress_describes_the_fragment_that_is_written(fragment_id: int | None, tmp_path: Path) -> None:
    progress = Events()
    written = LanceFragment.create(tmp_path, TABLE, fragment_id, progress=progress)
    (begin, begun), (complete, completed) = progress.events
    assert (begin, complete) == ("begin", "complete")
    assert completed == written
    assert (begun.id, begun.physical_rows) == (fragment_id or 0, 0)
    assert [(file.path, file.fields) for file in begun.files] == [(written.files[0].path, [])]


def test_write_fragments_and_datasets_tell_of_each_file(tmp_path: Path) -> None:
    progress = Events()
    fragments = write_fragments(TABLE, tmp_path / "a", max_rows_per_file=2, progress=progress)
    dataset = lance_core.write_dataset(TABLE, tmp_path / "b", max_rows_per_file=2, progress=progress)
    completed = [fragment for event, fragment in progress.events if event == "complete"]
    assert completed[:2] == fragments
    assert [each.files for each in completed[2:]] == [each.data_files() for each in dataset.get_fragments()]


@pytest.mark.parametrize("library", ["ours", "theirs"])
@pytest.mark.parametrize("form", [str, Path.as_uri], ids=["path", "uri"])
def test_progress_files_of_a_fragment(form: Callable[[Path], str], library: str, tmp_path: Path) -> None:
    """Files of the observer are those of the reference; the fragment in them is read by both."""
    directory = tmp_path / "progress"
    module: Any = {"ours": progress_module, "theirs": lance.progress}[library]
    seen: list[dict[str, Any]] = []

    class Watched(module.FileSystemFragmentWriteProgress):
        def complete(self, fragment: Any, **kwargs: Any) -> None:
            seen.append(json.loads((directory / "fragment_3.in_progress").read_text()))
            super().complete(fragment, **kwargs)

    create = {"ours": LanceFragment, "theirs": lance.LanceFragment}[library].create
    written = create(tmp_path / "table", TABLE, 3, progress=Watched(form(directory), {"worker": "w1"}))
    assert seen == [{"fragment_id": 3, "metadata": {"worker": "w1"}}]
    assert [path.name for path in directory.iterdir()] == ["fragment_3.json"]
    text = (directory / "fragment_3.json").read_text()
    for kind in (FragmentMetadata, lance.fragment.FragmentMetadata):
        kept = kind.from_json(text)
        assert (kept.id, [file.path for file in kept.files]) == (3, [written.files[0].path])


def test_a_write_that_fails_leaves_its_progress_file(tmp_path: Path) -> None:
    """The file in progress names a fragment whose writer is gone."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield from TABLE.to_batches()
        raise RuntimeError("power is gone")

    progress = FileSystemFragmentWriteProgress(tmp_path / "progress")
    with pytest.raises(RuntimeError, match="power is gone"):
        LanceFragment.create(tmp_path / "table", batches(), 1, TABLE.schema, progress=progress)
    assert (tmp_path / "progress" / "fragment_1.in_progress").exists()
    assert not [path for path in (tmp_path / "table").rglob("*") if path.is_file()]


def test_the_observer_that_does_nothing(tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(TABLE, tmp_path, progress=NoopFragmentWriteProgress())
    assert dataset.to_table() == TABLE


@pytest.mark.parametrize(
    ("completed", "total"), [(1, 4), (9, 4), (0, 4), (None, 4), (1, None), (1, 0), (0, 0)]
)
def test_progress_of_an_index(completed: int | None, total: int | None) -> None:
    ours = lance_core.IndexProgress("progress", "train", completed, total, "rows")
    theirs = lance.progress.IndexProgress("progress", "train", completed, total, "rows")
    assert (ours.fraction, repr(ours)) == (theirs.fraction, repr(theirs))
