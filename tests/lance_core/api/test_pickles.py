"""Objects that a user sends to workers open the same version there, used before or not."""

from __future__ import annotations

import inspect
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle

import lance_core
from lance_core import LanceOperation, errors
from lance_core.api.fragment import write_fragments
from lance_core.api.optimize import Compaction
from support.processes.workers import execute, fails, load, rows_of, side_by_side, spawned
from support.runs.each_case import each_case

ROWS = pa.table({"id": range(1000), "word": [f"w{number % 7}" for number in range(1000)]})


@pytest.fixture
def dataset(tmp_path: Path) -> lance_core.LanceDataset:
    """Two versions of 1000 rows, in four fragments, the later one without two of the rows."""
    dataset = lance_core.write_dataset(ROWS, tmp_path / "d", max_rows_per_file=250)
    dataset.delete("id IN (3, 999)")
    return lance_core.dataset(tmp_path / "d")


READABLE: dict[str, Callable[[lance_core.LanceDataset], Any]] = {
    "dataset": lambda dataset: dataset,
    "older": lambda dataset: dataset.checkout_version(1),
    "fragment": lambda dataset: dataset.get_fragments()[-1],
    "scanner": lambda dataset: dataset.scanner(),
    "sql": lambda dataset: dataset.scanner({"n": "id + 1"}, "word LIKE 'w1%' AND id IN (1, 8, 15)"),
    "expression": lambda dataset: dataset.scanner(["id"], pc.field("id") > 500, limit=7, with_row_id=True),
    "checksums": lambda dataset: dataset.scanner(verify_checksums=True),
}


@pytest.mark.parametrize("library", [pickle, cloudpickle], ids=["pickle", "cloudpickle"])
@pytest.mark.parametrize("kind", READABLE)
def test_what_can_be_read(dataset: lance_core.LanceDataset, kind: str, library: ModuleType) -> None:
    """Reading adds nothing to the pickle: neither metadata nor open files travel."""
    given = READABLE[kind](dataset)
    before = library.dumps(given)
    expected = given.to_table()
    assert list(given.to_batches())
    assert given.count_rows() == len(expected)
    assert len(library.dumps(given)) == len(before) < 3000
    for data in (before, library.dumps(given)):
        assert pickle.loads(data).to_table().equals(expected, check_metadata=True)


def _merge(dataset: lance_core.LanceDataset) -> LanceOperation.Merge:
    changed = [fragment.merge_columns({"next": "id + 1"}) for fragment in dataset.get_fragments()]
    return LanceOperation.Merge([fragment for fragment, _ in changed], changed[0][1])


def _append(dataset: lance_core.LanceDataset) -> LanceOperation.Append:
    return LanceOperation.Append(write_fragments(ROWS.slice(0, 2), dataset.uri))


@pytest.mark.parametrize("make", [_append, _merge])
def test_changes_that_another_process_commits(
    dataset: lance_core.LanceDataset, make: Callable[[lance_core.LanceDataset], Any]
) -> None:
    """Operations with the fragments and the schema that they hold."""
    operation = pickle.loads(cloudpickle.dumps(make(dataset)))
    committed = lance_core.LanceDataset.commit(dataset.uri, operation, read_version=dataset.version)
    assert committed.version == 3
    assert rows_of(committed) == rows_of(lance.dataset(dataset.uri))
    transactions = committed.get_transactions()
    for again, transaction in zip(pickle.loads(pickle.dumps(transactions)), transactions, strict=True):
        assert (again.uuid, again.read_version) == (transaction.uuid, transaction.read_version)
        assert type(again.operation) is type(transaction.operation)


def test_other_parts_of_a_dataset(dataset: lance_core.LanceDataset) -> None:
    dataset.tags.create("gold", 1)
    for given in (dataset.tags, dataset.branches):
        assert pickle.loads(pickle.dumps(given)).list() == given.list()
    for plain in (dataset.versions(), dataset.schema, dataset.get_fragments()[0].metadata):
        assert pickle.loads(pickle.dumps(plain)) == plain
    explanation = dataset.scanner(filter="id > 3").explain()
    assert pickle.loads(pickle.dumps(explanation)) == explanation
    merge = pickle.loads(pickle.dumps(dataset.merge_insert("id").when_matched_delete()))
    assert merge.execute(ROWS.slice(0, 2))["num_deleted_rows"] == 2
    delta = lance_core.dataset(dataset.uri).delta(compared_against=1)
    expected = delta.get_deleted_row_ids().read_all()
    assert pickle.loads(pickle.dumps(delta)).get_deleted_row_ids().read_all() == expected
    assert pickle.loads(pickle.dumps(dataset.optimize)).compact_files().fragments_removed == 4


def test_versions_of_branches(dataset: lance_core.LanceDataset, tmp_path: Path) -> None:
    """Datasets opened in any way: by a pair, by the path of the branch, as what created it."""
    branch = dataset.create_branch("dev")
    branch.insert(ROWS.slice(0, 5))
    dataset.tags.create("gold", ("dev", 2))
    for opened in (
        branch,
        lance_core.dataset(branch.uri, 2),
        dataset.checkout_version(("dev", 3)),
        dataset.checkout_version("gold"),
        lance_core.dataset(branch.uri).checkout_version((None, 1)),
    ):
        expected = rows_of(opened)
        again = pickle.loads(pickle.dumps(opened))
        assert (again.uri, again.version, rows_of(again)) == (opened.uri, opened.version, expected)
        assert again.tags.list() == dataset.tags.list()
        assert again.checkout_version(("dev", 3)).count_rows() == 1003


def test_a_relative_path_is_the_same_elsewhere(
    dataset: lance_core.LanceDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    opened = lance_core.dataset("d")
    data = pickle.dumps(opened)
    assert (opened.uri, opened.checkout_version(1).uri) == ("d", "d")
    monkeypatch.chdir("/")
    again = pickle.loads(data)
    assert rows_of(again) == rows_of(dataset)
    again.delete("id = 0")
    assert lance_core.dataset(tmp_path / "d").version == 3
    assert again.uri == str(tmp_path / "d")


def test_another_dataset_in_its_place_is_refused(dataset: lance_core.LanceDataset) -> None:
    """A pickle pins the version and not its number: nobody reads rows of a dataset that was made again."""
    given = [pickle.dumps(make(dataset)) for make in READABLE.values()]
    shutil.rmtree(dataset.uri)
    lance_core.write_dataset(ROWS, dataset.uri, max_rows_per_file=250).delete("id < 2")
    for data in given:
        with pytest.raises(lance_core.VersionNotFoundError, match="made again"):
            pickle.loads(data)
    shutil.rmtree(dataset.uri)
    with pytest.raises(lance_core.DatasetNotFoundError):
        pickle.loads(given[0])


def test_workers_that_load_batches(dataset: lance_core.LanceDataset) -> None:
    """PyTorch's loader works so: each process unpickles the dataset, and reads a share in every epoch."""
    expected = dataset.to_table(filter="id >= 0")["id"].to_pylist()
    with spawned() as pool:
        shares = side_by_side(pool, load, [dataset] * 2, range(2), [2] * 2)
        by_fragment = side_by_side(pool, rows_of, dataset.get_fragments())
        by_scan = pool.submit(rows_of, dataset.scanner(["id"], "id > 990")).result()
        with pytest.raises(lance_core.CommitConflictError, match="lost") as raised:
            pool.submit(fails, lance_core.CommitConflictError("lost", retryable=True)).result()
    assert raised.value.retryable
    for epoch in range(2):
        assert sorted(number for share in shares for number in share[epoch]) == expected
    assert [row["id"] for rows in by_fragment for row in rows] == expected
    assert by_scan == [{"id": number} for number in range(991, 999)]


def test_workers_that_compact(dataset: lance_core.LanceDataset) -> None:
    plan = pickle.loads(pickle.dumps(Compaction.plan(dataset, {"target_rows_per_fragment": 500})))
    with spawned() as pool:
        results = side_by_side(pool, execute, plan.tasks, [dataset] * len(plan.tasks))
    metrics = Compaction.commit(dataset, results)
    assert (metrics.fragments_removed, dataset.count_rows()) == (4, 998)


@each_case(
    "kind", [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Exception)]
)
def test_errors(kind: type[errors.LanceError]) -> None:
    """An error that cannot be pickled ends a pool of processes, or hangs it."""
    needed = {"retryable": True} if kind is errors.CommitConflictError else {"file": "f", "expected": 1}
    error = kind("what", **needed)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (kind, str(error), vars(error))
    assert again.retryable == error.retryable


def test_a_process_without_the_storage_says_so(dataset: lance_core.LanceDataset, tmp_path: Path) -> None:
    data = pickle.dumps(dataset)
    os.rename(tmp_path / "d", tmp_path / "moved")
    with pytest.raises(lance_core.DatasetNotFoundError):
        pickle.loads(data)
