"""Dropping indices of the reference, also beside other writers."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.changes.drop_index import drop_index
from lance_core.commit.conflicts import Verdict, check_conflict
from lance_core.commit.index_section import FRAGMENT_REUSE
from lance_core.errors import IndexNotFoundError, UnsupportedFeatureError
from lance_core.proto import table_pb2
from lance_core.proto.transaction_pb2 import Transaction


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a table of four fragments with the indices `n_idx` and `letters`."""
    table = pa.table({"n": range(40), "s": list("abcd") * 10})
    dataset = lance.write_dataset(table, str(tmp_path / "t"), max_rows_per_file=10)
    dataset.create_scalar_index("n", "BTREE")
    dataset.create_scalar_index("s", "BITMAP", name="letters")
    return tmp_path / "t"


def _names(path: Path) -> set[str]:
    names = {index.name for index in lance_core.dataset(path).describe_indices()}
    assert {index.name for index in lance.dataset(str(path)).describe_indices()} == names
    return names


def test_an_index_is_dropped_by_its_name(path: Path) -> None:
    dataset = lance_core.dataset(path)
    before = dataset.version
    dataset.drop_index("letters")
    assert (dataset.version, _names(path)) == (before + 1, {"n_idx"})
    found = lance.dataset(str(path))
    assert found.count_rows("s = 'a'") == 10
    assert "ScalarIndexQuery" not in found.scanner(filter="s = 'a'").explain_plan()
    assert "ScalarIndexQuery" in found.scanner(filter="n = 7").explain_plan()
    assert lance.dataset(str(path), version=before).count_rows("s = 'a'") == 10
    dataset.cleanup_old_versions(timedelta(0))
    left = {segment.uuid for index in dataset.describe_indices() for segment in index.segments}
    assert {each.name for each in (path / "_indices").iterdir()} == left


def test_all_segments_go(path: Path) -> None:
    lance.write_dataset(pa.table({"n": [90], "s": ["z"]}), str(path), mode="append")
    lance.dataset(str(path)).optimize.optimize_indices(num_indices_to_merge=0)
    dataset = lance_core.dataset(path)
    assert [len(index.segments) for index in dataset.describe_indices()] == [2, 2]
    dataset.drop_index("n_idx")
    assert _names(path) == {"letters"}


def test_what_is_no_index(path: Path) -> None:
    dataset = lance_core.dataset(path)
    with pytest.raises(IndexNotFoundError, match=r"letters, n_idx.*found s"):
        dataset.drop_index("s")
    with pytest.raises(RuntimeError, match="index not found"):  # as the reference says it
        dataset.drop_index("s")
    with pytest.raises(UnsupportedFeatureError, match=FRAGMENT_REUSE):
        dataset.drop_index(FRAGMENT_REUSE)


def test_a_repeated_drop(path: Path) -> None:
    """T38: repeating the transaction id gives the first result."""
    transaction_id = str(uuid4())
    snapshot = lance_core.dataset(path).snapshot
    first = drop_index(snapshot, "letters", transaction_id=transaction_id)
    lance_core.dataset(path).delete("n = 1")
    again = drop_index(snapshot, "letters", transaction_id=transaction_id)
    assert again.manifest.version == first.manifest.version


@pytest.mark.parametrize("library", [lance, lance_core])
def test_index_files_that_were_written_anew_meanwhile(library: object, path: Path) -> None:
    """The index is dropped, not only the files that it had before."""
    stale = lance_core.dataset(path).snapshot
    if library is lance:
        lance.dataset(str(path)).optimize.compact_files()
    else:
        lance_core.dataset(path).optimize.compact_files()
    drop_index(stale, "n_idx")
    assert _names(path) == {"letters"}


def test_an_index_that_was_merged_meanwhile(path: Path) -> None:
    stale = lance_core.dataset(path).snapshot
    lance.write_dataset(pa.table({"n": [90], "s": ["z"]}), str(path), mode="append")
    lance.dataset(str(path)).optimize.optimize_indices()
    drop_index(stale, "n_idx")
    assert _names(path) == {"letters"}


def test_two_compactions_that_write_one_index_anew() -> None:
    """The second one would lose the coverage that the first one kept: it is made again."""

    def rewrite(fragment: int, old: bytes) -> Transaction:
        transaction = Transaction(read_version=1, uuid=str(uuid4()))
        group = transaction.rewrite.groups.add()
        group.old_fragments.add(id=fragment)
        transaction.rewrite.rewritten_indices.add(old_id=table_pb2.UUID(uuid=old))
        return transaction

    one, other = uuid4().bytes, uuid4().bytes
    assert check_conflict(rewrite(1, one), rewrite(2, one)) is Verdict.RETRY
    assert check_conflict(rewrite(1, one), rewrite(2, other)) is Verdict.OK
    assert check_conflict(rewrite(1, one), rewrite(1, other)) is Verdict.RETRY
