"""Deletes and updates that lost a race against other changes of the same fragments, and are rebased if
possible.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_core
from lance_core.api.dataset import LanceDataset
from lance_core.api.dataset.operations import LanceOperation
from lance_core.errors import AlreadyExistsError, CommitConflictError
from lance_core.table.snapshot import open_snapshot
from support.faults.failing_storage import FaultStorage
from support.files.manifests import newest_manifest, read_message
from support.runs.draws import draws

ROWS, PER_FRAGMENT = 24, 8
Ids = frozenset[int]


def _make(
    path: Path, *, stable_row_ids: bool = False, rows: int = ROWS, per_file: int = PER_FRAGMENT
) -> None:
    table = pa.table({"id": range(rows), "value": [0] * rows})
    lance_core.write_dataset(
        table, path, max_rows_per_file=per_file, enable_stable_row_ids=stable_row_ids, sync=False
    )


def _where(ids: Ids) -> str:
    return f"id IN ({', '.join(map(str, sorted(ids)))})"


def _change(dataset: Any, kind: str, ids: Ids) -> None:
    """By whichever library, in one attempt."""
    if kind == "delete":
        dataset.delete(_where(ids), conflict_retries=0)
    else:
        dataset.update({"value": "value + 1"}, _where(ids), conflict_retries=0)


def _fragments(ids: Ids) -> dict[int, Ids]:
    return {
        number: frozenset(each for each in ids if each // PER_FRAGMENT == number)
        for number in {each // PER_FRAGMENT for each in ids}
    }


def _goes_on(before: list[Ids], mine: Ids) -> bool:
    """Return whether rows of mine are others than those that were changed meanwhile, and none is the last
    one.
    """
    gone = frozenset().union(*before)
    whole = {
        number for number, ids in _fragments(mine).items() if len(ids) == PER_FRAGMENT
    }  # a fragment of which I leave nothing is one that nobody else may have changed
    touched = set(_fragments(gone))
    return not (mine & gone) and not (whole & touched)


def _files_are_named(path: Path) -> None:
    """No deletion file or transaction is there that no version names."""
    named, transactions = set(), set()
    for version in lance_core.dataset(path).versions():
        manifest = lance_core.dataset(path, version["version"]).snapshot.manifest
        transactions.add(manifest.message.transaction_file)
        named |= {file.path for fragment in manifest.fragments if (file := fragment.deletion_file)}
    assert {f"_deletions/{file.name}" for file in (path / "_deletions").glob("*.*")} == named
    assert {file.name for file in (path / "_transactions").iterdir()} == transactions


_SETS = st.frozensets(st.integers(0, ROWS - 1), min_size=1, max_size=10)
_KINDS = st.sampled_from(["delete", "update"])


@settings(max_examples=draws(40), deadline=None)
@given(st.lists(st.tuples(_KINDS, _SETS), min_size=2, max_size=4), st.booleans(), st.booleans())
def test_stale_changes_go_on_where_rows_differ(
    changes: list[tuple[str, Ids]], stable_row_ids: bool, reference_first: bool
) -> None:
    """T37: in one attempt; each that goes on is there, each that does not is refused and changes nothing."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t"
        _make(path, stable_row_ids=stable_row_ids)
        stale: list[Any] = [lance_core.dataset(path) for _ in changes]
        if reference_first:
            stale[0] = lance.dataset(str(path))
        done: list[tuple[str, Ids]] = []
        for dataset, (kind, ids) in zip(stale, changes, strict=True):
            changed = [each for _, each in done]
            if _goes_on(changed, ids):
                _change(dataset, kind, ids)
                done.append((kind, ids))
                message = read_message(newest_manifest(path))
                shared = set(_fragments(ids)) & set(_fragments(frozenset().union(*changed)))
                left = [fragment for fragment in message.fragments if fragment.id in shared]
                assert all(each.deletion_file.read_version == message.version - 1 for each in left)
            else:
                with pytest.raises(CommitConflictError, match="too many concurrent writers"):
                    _change(dataset, kind, ids)
        expected = dict.fromkeys(range(ROWS), 0)
        for kind, ids in done:
            for number in ids:
                expected[number] += 1
                if kind == "delete":
                    del expected[number]
        for opened in (lance_core.dataset(path), lance.dataset(str(path))):
            table = opened.to_table(with_row_id=True)
            rows = dict(zip(table["id"].to_pylist(), table["value"].to_pylist(), strict=True))
            assert rows == expected
            assert len(table) == len(expected) == len(set(table["_rowid"].to_pylist()))
        assert lance.dataset(str(path)).validate() is None
        _files_are_named(path)


@pytest.mark.parametrize("first", [3, 6000])
def test_the_kind_of_file_stays(first: int, tmp_path: Path) -> None:
    """A bitmap is replaced by a bitmap; many rows become one."""
    _make(tmp_path, rows=12_000, per_file=12_000)
    stale = lance_core.dataset(tmp_path)
    lance_core.dataset(tmp_path).delete(f"id < {first}")
    stale.delete("id >= 11990", conflict_retries=0)
    (fragment,) = stale.snapshot.manifest.fragments
    assert fragment.deletion_file is not None
    assert fragment.deletion_file.is_bitmap is (first > 5000)
    assert fragment.deletion_file.num_deleted_rows == first + 10
    assert lance.dataset(str(tmp_path)).count_rows() == 12_000 - first - 10


def test_rows_that_are_the_last_ones_take_the_fragment_along(tmp_path: Path) -> None:
    _make(tmp_path)
    stale = lance_core.dataset(tmp_path)
    lance_core.dataset(tmp_path).delete("id < 5")
    stale.delete("id IN (5, 6, 7)", conflict_retries=0)
    assert [fragment.id for fragment in stale.snapshot.manifest.fragments] == [1, 2]
    assert lance.dataset(str(tmp_path)).get_transactions()[0].operation.deleted_fragment_ids == [0]
    assert lance.dataset(str(tmp_path)).count_rows() == 16
    _files_are_named(tmp_path)


def test_a_fragment_that_a_transaction_empties_is_removed(tmp_path: Path) -> None:
    """T37: the manifest drops it, and the transaction says so: the reference compares the two."""
    _make(tmp_path)
    dataset = lance_core.dataset(tmp_path)
    fragment = dataset.get_fragments()[1].delete("id < 15")
    assert fragment is not None
    assert fragment.deletion_file is not None
    fragment.physical_rows = fragment.deletion_file.num_deleted_rows = 7  # whoever made it knows no better
    operation = LanceOperation.Delete([fragment], [], "x")
    LanceDataset.commit(dataset, operation, read_version=1)
    reference = lance.dataset(str(tmp_path))
    assert reference.get_transactions()[0].operation.deleted_fragment_ids == [1]
    assert [each.fragment_id for each in reference.get_fragments()] == [0, 2]
    _files_are_named(tmp_path)


@pytest.mark.parametrize("how", ["compact", "columns", "overwrite"])
def test_what_changes_more_than_rows_is_no_ground(how: str, tmp_path: Path) -> None:
    _make(tmp_path)
    stale, other = lance_core.dataset(tmp_path), lance_core.dataset(tmp_path)
    if how == "compact":
        other.optimize.compact_files()
    elif how == "columns":
        values = pa.table({"id": [1], "value": [5]})
        fragment, fields = other.get_fragments()[0].update_columns(values, "id")[:2]
        operation = LanceOperation.Update(
            updated_fragments=[fragment], fields_modified=fields, update_mode="rewrite_columns"
        )
        LanceDataset.commit(other, operation, read_version=1)
    else:
        lance_core.write_dataset(pa.table({"id": [1], "value": [1]}), other, mode="overwrite")
    before = lance_core.dataset(tmp_path).to_table()
    with pytest.raises(CommitConflictError):
        stale.delete("id = 2", conflict_retries=0)
    assert lance_core.dataset(tmp_path).to_table().equals(before)
    _files_are_named(tmp_path)


def test_lost_attempts_leave_no_files(tmp_path: Path) -> None:
    """Other writers are faster at each of the first manifests: a file is written per attempt, one stays."""
    _make(tmp_path)
    storage = FaultStorage(tmp_path)
    real, others = storage.change, iter(range(5))

    def overtake(name: str, call: Any) -> None:
        if name.startswith("put _versions") and (number := next(others, None)) is not None:
            lance_core.dataset(tmp_path).delete(f"id = {number}", sync=False)
        real(name, call)

    storage.change = overtake  # type: ignore[method-assign]
    stale = LanceDataset(storage.uri, snapshot=open_snapshot(storage))

    stale.delete("id = 7 OR id = 20", conflict_retries=0)

    assert stale.version == 7
    ids = lance.dataset(str(tmp_path)).to_table()["id"].to_pylist()
    assert ids == [5, 6, *range(8, 20), 21, 22, 23]
    assert sum(name.startswith("create _deletions") for name in storage.calls) == 7
    _files_are_named(tmp_path)


def test_one_transaction_id_deletes_once(tmp_path: Path) -> None:
    """T38: also when the commit was rebased, and its file has another name than at first."""
    number = "7f3e1d52-4f0a-4c8e-9b57-2f54a6f1c002"
    _make(tmp_path)
    stale, late = lance_core.dataset(tmp_path), lance_core.dataset(tmp_path)
    lance_core.dataset(tmp_path).delete("id = 0")
    stale.delete("id = 1", transaction_id=number, conflict_retries=0)
    assert stale.snapshot.manifest.transaction_uuid == number
    for dataset in (late, lance_core.dataset(tmp_path)):
        dataset.delete("id = 1", transaction_id=number)
        assert dataset.version == stale.version == 3
    shutil.rmtree(tmp_path / "_transactions")
    lance_core.dataset(tmp_path).delete("id = 1", transaction_id=number)
    assert lance_core.dataset(tmp_path).version == 3


def test_an_attempt_that_landed_though_the_storage_said_no(tmp_path: Path) -> None:
    """T38: the next attempt finds its own transaction; nothing that the version names is removed."""
    _make(tmp_path)
    lance_core.dataset(tmp_path).delete("id = 0")
    stale = lance_core.dataset(tmp_path, 1)
    storage = FaultStorage(tmp_path)
    real = storage.change

    def deny(name: str, call: Any) -> None:
        real(name, call)
        if name.startswith("put _versions"):
            raise AlreadyExistsError("file exists")

    storage.change = deny  # type: ignore[method-assign]
    late = LanceDataset(storage.uri, snapshot=open_snapshot(storage, 1))

    late.delete("id = 1", conflict_retries=0)

    assert late.version == 3
    assert lance.dataset(str(tmp_path)).to_table()["id"].to_pylist() == list(range(2, ROWS))
    assert lance.dataset(str(tmp_path)).get_transactions()[0].operation is not None
    named = read_message(newest_manifest(tmp_path))
    assert (tmp_path / "_transactions" / named.transaction_file).exists()
    assert stale.count_rows() == ROWS


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_appended_columns_that_were_dropped_are_no_others(version: str, tmp_path: Path) -> None:
    """T37: the next new column gets the id of a dropped column, and must not read the dropped
    column's bytes.
    """
    first = lance_core.write_dataset({"id": range(3)}, tmp_path, data_storage_version=version)
    first.add_columns({"b": "id + 100"})
    stale = lance_core.dataset(tmp_path)
    lance_core.dataset(tmp_path).drop_columns(["b"])
    lance_core.dataset(tmp_path).add_columns({"c": "concat('c', cast(id as string))"})
    stale.insert(pa.table({"id": [10], "b": [110]}))
    expected = ["c0", "c1", "c2", None]
    for library in (lance_core, lance):
        found = library.dataset(str(tmp_path))
        assert found.to_table()["c"].to_pylist() == expected
        found.validate()
    lance.dataset(str(tmp_path)).optimize.compact_files()
    assert lance_core.dataset(tmp_path).to_table()["c"].to_pylist() == expected
    _files_are_named(tmp_path)


def test_a_dropped_child_of_a_struct_is_not_appended(tmp_path: Path) -> None:
    struct = pa.struct([("x", pa.int64()), ("y", pa.string())])
    for version in ("2.0", "2.2"):
        path = tmp_path / version
        rows = pa.table({"s": pa.array([{"x": n, "y": str(n)} for n in range(3)], struct)})
        stale = lance_core.write_dataset(rows, path, data_storage_version=version)
        lance.dataset(str(path)).drop_columns(["s.y"])
        stale.insert(rows)
        for library in (lance_core, lance):
            found = library.dataset(str(path))
            assert found.to_table()["s"].to_pylist() == [{"x": n} for n in range(3)] * 2
            assert all(len(each.data_files()) == 1 for each in found.get_fragments())


@pytest.mark.parametrize("version", ["0.1", "2.2"])
def test_an_append_of_what_is_left_of_nothing_is_refused(version: str, tmp_path: Path) -> None:
    """0.1 files begin with a certain field, and fragments without a file would have rows of nothing."""
    rows = pa.table({"a": [1], "b": [2]})
    lance_core.write_dataset(rows, tmp_path, data_storage_version=version)
    stale = lance_core.dataset(tmp_path)
    lance_core.dataset(tmp_path).drop_columns(["b"])
    with pytest.raises(CommitConflictError, match="dropped") as caught:
        stale.insert(rows if version == "0.1" else rows.select(["b"]))
    assert caught.value.retryable
    assert lance_core.dataset(tmp_path).to_table() == rows.select(["a"])
    assert len(list((tmp_path / "data").iterdir())) == 1


def test_values_of_a_column_that_got_another_type_are_not_lost(tmp_path: Path) -> None:
    """T37: the reference commits them, and has nulls in their place."""
    stale = lance_core.write_dataset(pa.table({"a": pa.array([1], pa.int32())}), tmp_path)
    lance_core.dataset(tmp_path).alter_columns({"path": "a", "data_type": pa.int64()})
    with pytest.raises(CommitConflictError) as caught:
        stale.insert(pa.table({"a": pa.array([2], pa.int32())}))
    assert caught.value.retryable
    assert lance_core.dataset(tmp_path).to_table()["a"].to_pylist() == [1]


@pytest.mark.parametrize("kind", ["delete", "update", "columns"])
def test_a_change_of_rows_brings_no_dropped_column_back(kind: str, tmp_path: Path) -> None:
    """T37: a change of fragments on an older version names the old files, which the reference finds
    corrupt.
    """
    _make(tmp_path)
    lance_core.dataset(tmp_path).add_columns({"more": "id + 1"})
    stale = lance_core.dataset(tmp_path)
    lance_core.dataset(tmp_path).drop_columns(["more"])
    if kind == "columns":
        values = pa.table({"id": [1], "value": [1]})
        fragment, fields = stale.get_fragment(0).update_columns(values, "id")[:2]
        operation = LanceOperation.Update(
            updated_fragments=[fragment], fields_modified=fields, update_mode="rewrite_columns"
        )
        LanceDataset.commit(stale, lance_core.Transaction(stale.version, operation))
    else:
        _change(stale, kind, frozenset({1, 9}))
    found = lance.dataset(str(tmp_path))
    found.validate()
    assert found.to_table().equals(lance_core.dataset(tmp_path).to_table())
    assert len(found.get_fragment(0).data_files()) == 1 + (kind == "columns")
