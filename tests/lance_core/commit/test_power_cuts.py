"""State of a table after a power cut at any moment of a commit."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.api.dataset import LanceDataset
from lance_core.errors import LanceError
from support.changes.every_change import CHANGES, make_table
from support.faults.power_cuts import Crash, Recording, crashes, files_below

SEED = int(os.environ.get("LANCE_TEST_SEED", "20261121"))
ROWS = pa.table({"id": range(100, 105), "text": ["new"] * 5, "number": [2.5] * 5})
Rows = dict[int, pa.Table]
"""The rows of every version."""


def _changes(dataset: LanceDataset, *, sync: bool) -> Iterator[LanceDataset]:
    """Yield the dataset after each of some changes, which is when they are acknowledged."""
    dataset = lance_core.write_dataset(ROWS, dataset, mode="append", sync=sync)
    yield dataset.checkout_version(dataset.version)
    dataset.delete("id % 4 = 1", sync=sync)
    yield dataset.checkout_version(dataset.version)
    builder = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    builder.execute(ROWS.set_column(0, "id", pa.array(range(3, 8))), sync=sync)
    yield dataset.checkout_version(dataset.version)
    dataset.add_columns({"more": "id * 2"}, sync=sync)
    yield dataset.checkout_version(dataset.version)
    dataset.drop_columns(["text"], sync=sync)
    yield dataset.checkout_version(dataset.version)
    if sync:
        dataset.optimize.compact_files()
        yield dataset.checkout_version(dataset.version)
    yield lance_core.write_dataset(ROWS, dataset, mode="overwrite", sync=sync)


def _record(path: Path, *, sync: bool) -> tuple[Recording, Rows, tuple[dict[str, bytes], set[str]]]:
    dataset = make_table(path)
    rows = {1: _sorted(dataset)}
    before = files_below(path)
    recording = Recording(path)
    changes = iter(_changes(dataset, sync=sync))
    while True:
        with recording.running():
            changed = next(changes, None)
        if changed is None:
            return recording, rows, before
        recording.acknowledge(changed.version)
        rows[changed.version] = _sorted(changed)


def _check(crash: Crash, path: Path, rows: Rows) -> int:
    """Return the version that both libraries find, with the rows it had."""
    ours, theirs = lance_core.dataset(crash.write(path)), lance.dataset(str(path))
    assert ours.version == theirs.version
    expected = rows[ours.version]
    assert ours.version >= max(crash.acknowledged, default=1), f"lost after step {crash.step}"
    assert _sorted(ours).equals(expected)
    assert _sorted(theirs).equals(expected)
    return ours.version


def _sorted(dataset: LanceDataset | lance.LanceDataset) -> pa.Table:
    """Return the rows by their ids, which are in the first column."""
    table = dataset.to_table()
    return table.sort_by(table.column_names[0])


def test_no_acknowledged_commit_is_lost(tmp_path: Path) -> None:
    """T36: every state that a power cut may leave can be opened, and contains all acknowledged commits."""
    recording, rows, before = _record(tmp_path / "recorded", sync=True)
    found = []
    for number, crash in enumerate(crashes(recording, before, SEED, tries=3)):
        path = tmp_path / str(number)
        found.append(_check(crash, path, rows))
        lance_core.write_dataset(ROWS, path, mode="overwrite", sync=False)
        assert lance.dataset(str(path)).to_table().equals(ROWS)
        shutil.rmtree(path)
    print(f"seed {SEED}: {len(recording.steps)} steps, {len(found)} states", file=sys.stderr)
    assert set(found) == set(rows)
    assert len(recording.steps) > 80
    assert len(found) > 30  # little is uncertain at a time


@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_of_every_kind(tmp_path: Path, kind: str) -> None:
    """T36: before its acknowledgement the old version or the new one, afterwards the new one."""
    path = tmp_path / "recorded"
    dataset = make_table(path)
    rows, before, recording = {1: _sorted(dataset)}, files_below(path), Recording(path)
    with recording.running():
        CHANGES[kind](dataset)
    changed = lance_core.dataset(path)
    recording.acknowledge(changed.version)
    rows[changed.version] = _sorted(changed)
    found = []
    for number, crash in enumerate(crashes(recording, before, SEED, tries=3)):
        found.append(_check(crash, tmp_path / str(number), rows))
    print(f"{kind}, seed {SEED}: {len(recording.steps)} steps, {len(found)} states", file=sys.stderr)
    assert set(found) == {1, 2} == set(rows)


@pytest.mark.parametrize("kind", ["append", "update"])
def test_what_is_synced_at_once(tmp_path: Path, kind: str) -> None:
    """T36: a data file has its name before its sync, which waits for no other, and the manifest after its own
    and all others.
    """
    path = tmp_path / "recorded"
    dataset = make_table(path)
    recording = Recording(path)
    with recording.running():
        if kind == "append":
            lance_core.write_dataset(ROWS, dataset, mode="append")
        else:
            dataset.update({"text": "'new'"}, where="id = 1")
    names = {what.directory: at for at, (step, what) in enumerate(recording.steps) if step == "name"}
    inodes = {what.directory: what.inode for step, what in recording.steps if step == "name"}
    synced = {what: at for at, (step, what) in enumerate(recording.steps) if step.startswith("sync")}
    assert names["data"] < synced[inodes["data"]]
    assert max(at for what, at in synced.items() if what != "_versions") < names["_versions"]
    assert [step for step, _ in recording.steps[names["_versions"] :]] == ["name", "sync directory"]


def test_large_data_files(tmp_path: Path) -> None:
    """T36: files that the disk has begun with are synced all the same, and before a version names them."""
    path = tmp_path / "recorded"
    dataset = make_table(path)
    texts = [np.random.default_rng(number).bytes(5 << 20).hex() for number in range(2)]
    large = pa.table({"id": [100, 101], "text": texts, "number": [2.5, 3.5]})
    rows, before, recording = {1: _sorted(dataset)}, files_below(path), Recording(path)
    with recording.running():
        changed = lance_core.write_dataset(large, dataset, mode="append", max_rows_per_file=1)
    recording.acknowledge(2)
    rows[2] = _sorted(changed)

    files = [what for step, what in recording.steps if step == "name" and what.directory == "data"]
    assert len(files) == 2
    assert all((path / "data" / file.name).stat().st_size > 4 << 20 for file in files)
    names = {what.directory: at for at, (step, what) in enumerate(recording.steps) if step == "name"}
    synced = {what: at for at, (step, what) in enumerate(recording.steps) if step == "sync file"}
    assert all(synced[file.inode] < names["_versions"] for file in files)
    found = [
        _check(crash, tmp_path / str(number), rows)
        for number, crash in enumerate(crashes(recording, before, SEED, tries=1))
    ]
    assert set(found) == {1, 2}


def test_files_of_an_index(tmp_path: Path) -> None:
    """T36: small files of a new segment are synced with the rest, and a version that names them has them."""
    path = tmp_path / "recorded"
    dataset = make_table(path)
    before, recording = files_below(path), Recording(path)
    with recording.running():
        dataset.create_scalar_index("id", "BTREE")
    recording.acknowledge(2)
    with recording.running():
        lance_core.write_dataset(ROWS, path, mode="append").optimize.optimize_indices()
    recording.acknowledge(4)
    files = files_below(path)[0]
    written: dict[int, dict[str, bytes]] = {}
    for version in (2, 4):
        (segment,) = lance_core.dataset(path, version).describe_indices()[0].segments
        below = f"_indices/{segment.uuid}/"
        written[version] = {name: files[name] for name in files if name.startswith(below)}
        assert len(written[version]) == 2
    written[3] = written[2]
    found = []
    for number, crash in enumerate(crashes(recording, before, SEED, tries=3)):
        version = lance_core.dataset(crash.write(tmp_path / str(number))).version
        assert version >= max(crash.acknowledged, default=1), f"lost after step {crash.step}"
        assert written.get(version, {}).items() <= crash.files.items()
        found.append(version)
    assert set(found) == {1, 2, 3, 4}


def test_files_in_base_paths(tmp_path: Path) -> None:
    """T36: files of an acknowledged append are durable in new base paths, too, and so are their names."""
    root = tmp_path / "recorded"
    dataset = make_table(root / "table")
    rows, before, recording = {1: _sorted(dataset)}, files_below(root), Recording(root)
    bases = [
        lance_core.DatasetBasePath(str(root / "plain"), "plain"),
        lance_core.DatasetBasePath(str(root / "far" / "rooted"), "rooted", is_dataset_root=True),
    ]
    with recording.running():
        dataset.add_bases(bases)
    recording.acknowledge(2)
    rows[2] = rows[1]
    with recording.running():
        changed = lance_core.write_dataset(
            ROWS, dataset, mode="append", target_bases=["plain", "rooted"], max_rows_per_file=3
        )
    recording.acknowledge(3)
    rows[3] = _sorted(changed)
    assert {base.id for base in changed.base_paths().values()} == {1, 2}
    found = []
    for crash in crashes(recording, before, SEED, tries=1):
        shutil.rmtree(root)  # base paths are absolute, so each state has to be at the same path
        crash.write(root)
        ours, theirs = lance_core.dataset(root / "table"), lance.dataset(str(root / "table"))
        assert ours.version == theirs.version >= max(crash.acknowledged, default=1)
        assert _sorted(ours).equals(rows[ours.version])
        assert _sorted(theirs).equals(rows[ours.version])
        found.append(ours.version)
    assert set(found) == set(rows)


def test_the_check_notices_commits_that_are_not_synced(tmp_path: Path) -> None:
    """Without syncing, acknowledged commits are lost, or tables do not open: the replay can tell."""
    recording, rows, before = _record(tmp_path / "recorded", sync=False)
    assert not any(kind.startswith("sync") for kind, _ in recording.steps)
    failures = 0
    for number, crash in enumerate(crashes(recording, before, SEED, tries=1)):
        path = tmp_path / str(number)
        try:
            _check(crash, path, rows)
        except (AssertionError, LanceError, ValueError, OSError):
            failures += 1
        shutil.rmtree(path)
        if failures > 5:
            return
    pytest.fail("no state was found to have lost anything")
