"""Sessions: every read and change of a dataset uses the caches, memory and settings of one object."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core import LanceDataset, Session
from lance_core.errors import CorruptFileError, InvalidInputError
from lance_core.scan.session import default_session

ROWS = 20_000
VALUES = np.random.default_rng(0).normal(size=ROWS)


def write(path: Path) -> str:
    table = pa.table({"id": range(ROWS), "x": VALUES})
    lance_core.write_dataset(table, str(path), max_rows_per_file=ROWS // 2)
    return str(path)


def damage(path: Path) -> None:
    """Flip a bit of row 77, so that it decodes to another value."""
    for file in (path / "data").iterdir():
        whole = bytearray(file.read_bytes())
        place = whole.find(VALUES[77].tobytes())
        if place >= 0:
            whole[place] ^= 1
            file.write_bytes(whole)


Read = Callable[[LanceDataset], object]

READS: dict[str, Read] = {
    "to_table": lambda dataset: dataset.to_table(),
    "to_batches": lambda dataset: list(dataset.to_batches()),
    "filter": lambda dataset: dataset.to_table(filter="x > 1.5"),
    "computed": lambda dataset: dataset.to_table({"y": "x + 1"}),
    "count_rows": lambda dataset: dataset.count_rows("x > 1.5"),
    "head": lambda dataset: dataset.head(100),
    "analyze_plan": lambda dataset: dataset.scanner().analyze_plan(),
    "take": lambda dataset: dataset.take([77]),
    "take computed": lambda dataset: dataset.take([77], {"y": "x + 1"}),
    "sample": lambda dataset: dataset.sample(ROWS),
    "fragment": lambda dataset: dataset.get_fragments()[0].to_table(),
    "take of a fragment": lambda dataset: dataset.get_fragments()[0].take([77]),
    "copy": lambda dataset: lance_core.write_dataset(dataset, f"{dataset.uri}.copy"),
}
CHANGES: dict[str, Read] = {
    "delete": lambda dataset: dataset.delete("x > 1.5"),
    "update": lambda dataset: dataset.update({"x": "x + 1"}, where="id < 100"),
    "merge_insert": lambda dataset: (
        dataset.merge_insert("x").when_matched_delete().execute(pa.table({"x": VALUES[:3]}))
    ),
    "add_columns": lambda dataset: dataset.add_columns({"y": "x + 1"}),
    "alter_columns": lambda dataset: dataset.alter_columns({"path": "x", "data_type": pa.float32()}),
    "compact_files": lambda dataset: dataset.optimize.compact_files(),
}
WAYS: dict[str, Callable[[str, Session], LanceDataset]] = {
    "opened": lambda path, session: lance_core.dataset(path, session=session),
    "a version": lambda path, session: lance_core.dataset(path, 1, session=session).checkout_version(1),
    "a tag": lambda path, session: lance_core.dataset(path, "first", session=session),
    "latest": lambda path, session: _latest(lance_core.dataset(path, session=session)),
    "changed": lambda path, session: _changed(lance_core.dataset(path, session=session)),
    "a branch": lambda path, session: lance_core.dataset(path, session=session).create_branch("side"),
}
"""Ways to another dataset object that has the same session."""


def _latest(dataset: LanceDataset) -> LanceDataset:
    dataset.checkout_latest()
    return dataset


def _changed(dataset: LanceDataset) -> LanceDataset:
    dataset.delete("id = 19999")
    dataset.insert(pa.table({"id": [1], "x": [0.5]}))
    return dataset


@pytest.mark.parametrize("read", [*READS, *CHANGES])
def test_checksums_reach_every_read(read: str, tmp_path: Path) -> None:
    """T26: a session that verifies finds a flipped bit in whatever is read; another one in changes only."""
    path = write(tmp_path / "data")
    damage(tmp_path / "data")
    run = READS.get(read) or CHANGES[read]
    with pytest.raises(CorruptFileError, match="does not match its checksum"):
        run(lance_core.dataset(path, session=Session(verify_checksums=True)))
    if read in CHANGES or read == "copy":
        with pytest.raises(CorruptFileError, match="does not match its checksum"):
            run(lance_core.dataset(path, session=Session()))
    else:
        run(lance_core.dataset(path, session=Session()))


@pytest.mark.parametrize("read", [*READS, *CHANGES])
def test_caches_reach_every_read(read: str, tmp_path: Path) -> None:
    """Files are kept by the session of the dataset, and no other one is asked."""
    path = write(tmp_path / "data")
    others = default_session.files.use()
    session = Session()
    (READS.get(read) or CHANGES[read])(lance_core.dataset(path, session=session))
    assert session.cache_use()["files"].misses > 0
    assert session.size_bytes() > 0
    assert default_session.files.use() == others


@pytest.mark.parametrize("read", ["to_batches", "filter", "delete", "update", "merge_insert", "add_columns"])
def test_memory_reaches_every_stream(read: str, tmp_path: Path) -> None:
    """Rows that are decoded ahead count in the session; at the end nothing is held."""
    path = write(tmp_path / "data")
    session = Session(memory_limit_bytes=1 << 20)
    dataset = lance_core.dataset(path, session=session)
    if read == "filter":
        list(dataset.to_batches(filter="x > 1.5"))
    else:
        (READS.get(read) or CHANGES[read])(dataset)
    assert session.budget.peak_bytes > 0
    assert session.budget.used_bytes == 0


@pytest.mark.parametrize("way", WAYS)
def test_sessions_stay_with_their_datasets(way: str, tmp_path: Path) -> None:
    """T26: versions, branches and changed datasets have the session of the one that they come from."""
    path = write(tmp_path / "data")
    lance_core.dataset(path).tags.create("first", 1)
    session = Session(verify_checksums=True)
    dataset = WAYS[way](path, session)
    assert dataset.session().is_same_as(session)
    damage(tmp_path / "data")
    with pytest.raises(CorruptFileError, match="does not match its checksum"):
        dataset.to_table()


def test_statistics_go_to_the_directory_of_the_session(tmp_path: Path) -> None:
    path = str(tmp_path / "theirs")
    lance.write_dataset(pa.table({"x": VALUES}), path)
    session = Session(cache_directory=tmp_path / "kept")
    assert lance_core.dataset(path, session=session).count_rows("x > 1.5") == (VALUES > 1.5).sum()
    assert any((tmp_path / "kept").rglob("*"))
    assert session.settings()["keeps_statistics"]


def test_takers_are_shared_by_datasets_of_a_session(tmp_path: Path) -> None:
    """Opening a dataset again finds what an earlier take opened."""
    path = write(tmp_path / "data")
    session = Session()
    lance_core.dataset(path, session=session).take([5])
    first = session.taker(lance_core.dataset(path, session=session).snapshot, None)
    assert session.taker(lance_core.dataset(path, session=session).snapshot, None) is first


def test_what_is_no_session_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "data")
    with pytest.raises(TypeError, match="must be a lance_core"):
        lance_core.dataset(path, session=lance.Session())
    with pytest.raises(InvalidInputError, match="memory_limit_bytes"):
        Session(memory_limit_bytes=-1)
    assert not Session(1, 1 << 20).is_same_as(Session(1, 1 << 20))


def test_the_old_size_of_the_index_cache_counts_entries_of_20_mib(tmp_path: Path) -> None:
    uri = write(tmp_path / "d")
    with pytest.warns(DeprecationWarning, match="index_cache_size_bytes"):
        dataset = lance_core.dataset(uri, index_cache_size=3)
    assert dataset.session().indices.max_bytes == 60 << 20
    with pytest.warns(DeprecationWarning, match="20 MiB"):
        dataset = lance_core.dataset(uri, index_cache_size=3, index_cache_size_bytes=5)
    assert dataset.session().indices.max_bytes == 5
