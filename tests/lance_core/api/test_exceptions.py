"""A script's `except` clauses for errors of the reference catch our errors, too.

Each mistake is made with both libraries. Our error must be an instance of the type that the reference raises.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
import lance_core.api.file
from lance_core.errors import LanceError
from support.runs.each_case import each_case

ROWS = pa.table({"id": [1, 2, 3], "s": ["a", "b", "c"], "p": [{"x": 1}] * 3})
Mistake = Callable[[Any, Any], object]
"""Function of a library and of a dataset that this library has just written."""

MISTAKES: dict[str, Mistake] = {
    # reads
    "column of a filter": lambda lib, data: data.to_table(filter="nope > 1"),
    "syntax of a filter": lambda lib, data: data.to_table(filter="id >"),
    "column of a scan": lambda lib, data: data.to_table(columns=["nope"]),
    "expression of a scan": lambda lib, data: data.to_table(columns={"y": "nope + 1"}),
    "negative limit": lambda lib, data: data.to_table(limit=-1),
    "negative offset": lambda lib, data: data.to_table(offset=-1, limit=1),
    "batch size": lambda lib, data: data.to_table(batch_size=0),
    "filter of a count": lambda lib, data: data.count_rows(filter="nope > 1"),
    "offset out of range": lambda lib, data: data.take([5]),
    "negative row": lambda lib, data: data.take([-1]),
    "row address out of range": lambda lib, data: data._take_rows([1 << 40]),
    "negative row address": lambda lib, data: data._take_rows([-1]),
    "sample": lambda lib, data: data.sample(100),
    "blobs of another column": lambda lib, data: data.take_blobs("id", indices=[0]),
    "no rows of blobs": lambda lib, data: data.take_blobs("id"),
    "offset out of a fragment": lambda lib, data: data.get_fragments()[0].take([9]),
    "negative row of a fragment": lambda lib, data: data.get_fragments()[0].take([-9]),
    "column of a fragment": lambda lib, data: data.get_fragments()[0].to_table(columns=["nope"]),
    # versions, tags, branches
    "version to check out": lambda lib, data: data.checkout_version(9),
    "tag to check out": lambda lib, data: data.checkout_version("nope"),
    "branch to check out": lambda lib, data: data.checkout_version(("nope", None)),
    "version of a branch": lambda lib, data: data.checkout_version(("main", 7)),
    "version to open": lambda lib, data: lib.dataset(data.uri, version=9),
    "tag to open": lambda lib, data: lib.dataset(data.uri, version="nope"),
    "no dataset": lambda lib, data: lib.dataset(data.uri + "-nope"),
    "a tag twice": lambda lib, data: (data.tags.create("a", 1), data.tags.create("a", 1)),
    "name of a tag": lambda lib, data: data.tags.create("a b", 1),
    "version of a tag": lambda lib, data: data.tags.create("a", 9),
    "tag to move": lambda lib, data: data.tags.update("a", 1),
    "tag to delete": lambda lib, data: data.tags.delete("a"),
    "a branch twice": lambda lib, data: (data.create_branch("a"), data.create_branch("a")),
    "name of a branch": lambda lib, data: data.create_branch("a b"),
    "version of a new branch": lambda lib, data: data.create_branch("a", 9),
    "tag of a new branch": lambda lib, data: data.create_branch("a", "nope"),
    "branch to delete": lambda lib, data: data.branches.delete("a"),
    "deleting main": lambda lib, data: data.branches.delete("main"),
    "deleting a base": lambda lib, data: (
        data.create_branch("a").create_branch("b"),
        data.branches.delete("a"),
    ),
    "clone of no version": lambda lib, data: data.shallow_clone(data.uri + "-clone", 9),
    "clone onto a dataset": lambda lib, data: data.shallow_clone(data.uri, 1),
    "delta of no version": lambda lib, data: data.delta(compared_against=9).list_transactions(),
    "transaction of no version": lambda lib, data: data.read_transaction(9),
    # changes of rows
    "column of a delete": lambda lib, data: data.delete("nope = 1"),
    "syntax of a delete": lambda lib, data: data.delete("id ="),
    "delete by a number": lambda lib, data: data.delete("id + 1"),
    "column of an update": lambda lib, data: data.update({"nope": "1"}),
    "expression of an update": lambda lib, data: data.update({"id": "nope"}),
    "condition of an update": lambda lib, data: data.update({"id": "1"}, where="nope = 1"),
    "no updates": lambda lib, data: data.update({}),
    "key of a merge": lambda lib, data: data.merge_insert("nope").when_matched_update_all().execute(ROWS),
    "merge without actions": lambda lib, data: data.merge_insert("id").execute(ROWS),
    "two source rows for one": lambda lib, data: (
        data.merge_insert("id").when_matched_update_all().execute(ROWS.take([0, 0]))
    ),
    "columns of a merge": lambda lib, data: (
        data.merge_insert("id").when_not_matched_insert_all().execute(pa.table({"id": [1], "q": [1]}))
    ),
    "type of a merge": lambda lib, data: (
        data.merge_insert("s").when_matched_update_all().execute(ROWS.set_column(0, "id", [["1", "2", "3"]]))
    ),
    "condition of a merge": lambda lib, data: (
        data.merge_insert("id").when_matched_update_all("nope > 1").execute(ROWS)
    ),
    "merge that fails": lambda lib, data: data.merge_insert("id").when_matched_fail().execute(ROWS),
    "mode of an insert": lambda lib, data: data.insert(ROWS, mode="nope"),
    "dataset exists": lambda lib, data: lib.write_dataset(ROWS, data.uri),
    "columns of an append": lambda lib, data: data.insert(pa.table({"q": [1]})),
    "type of an append": lambda lib, data: data.insert(ROWS.set_column(0, "id", [["1", "2", "3"]])),
    "name used twice": lambda lib, data: _written(lib, data, pa.table([[1], [2]], names=["a", "a"])),
    "dot in a name": lambda lib, data: _written(lib, data, pa.table({"a.b": [1]})),
    "reserved name": lambda lib, data: _written(lib, data, pa.table({"_rowid": [1]})),
    "null without nulls": lambda lib, data: _written(
        lib, data, pa.table({"a": pa.nulls(1, pa.int32())}, pa.schema([pa.field("a", pa.int32(), False)]))
    ),
    "union": lambda lib, data: _written(
        lib,
        data,
        pa.table({"u": pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [[1]])}),
    ),
    "interval": lambda lib, data: _written(lib, data, pa.table({"i": [pa.MonthDayNano([1, 2, 3])]})),
    "runs": lambda lib, data: _written(
        lib, data, pa.table({"r": pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), [1])})
    ),
    "list of size 0": lambda lib, data: _written(
        lib, data, pa.table({"l": pa.array([[]], pa.list_(pa.int32(), 0))})
    ),
    "map in 2.0": lambda lib, data: _written(lib, data, _map(), data_storage_version="2.0"),
    "map in 2.1": lambda lib, data: _written(lib, data, _map(), data_storage_version="2.1"),
    # changes of columns
    "new column exists": lambda lib, data: data.add_columns({"id": "1"}),
    "expression of a new column": lambda lib, data: data.add_columns({"q": "nope"}),
    "syntax of a new column": lambda lib, data: data.add_columns({"q": "1 +"}),
    "column to drop": lambda lib, data: data.drop_columns(["nope"]),
    "dropping all columns": lambda lib, data: data.drop_columns(["id", "s", "p"]),
    "column to alter": lambda lib, data: data.alter_columns({"path": "nope", "name": "x"}),
    "name of another column": lambda lib, data: data.alter_columns({"path": "id", "name": "s"}),
    "cast of a struct": lambda lib, data: data.alter_columns({"path": "p", "data_type": pa.int32()}),
    "cast of text": lambda lib, data: data.alter_columns({"path": "s", "data_type": pa.int32()}),
    "key of joined columns": lambda lib, data: data.merge(
        pa.table({"q": [1], "r": [1]}), left_on="nope", right_on="q"
    ),
    "key of the joined": lambda lib, data: data.merge(
        pa.table({"q": [1], "r": [1]}), left_on="id", right_on="nope"
    ),
    "joined columns exist": lambda lib, data: data.merge(pa.table({"id": [1], "s": ["x"]}), left_on="id"),
    "metadata of no column": lambda lib, data: data.replace_field_metadata("nope", {"a": "b"}),
    # commits and maintenance
    "commit without a version": lambda lib, data: lib.LanceDataset.commit(
        data.uri, lib.LanceOperation.Append([])
    ),
    "commit on a later version": lambda lib, data: lib.LanceDataset.commit(
        data.uri, lib.LanceOperation.Append([]), read_version=99
    ),
    "commit on no dataset": lambda lib, data: lib.LanceDataset.commit(
        data.uri + "-nope", lib.LanceOperation.Append([]), read_version=1
    ),
    "no operation": lambda lib, data: lib.LanceDataset.commit(data.uri, 3, read_version=1),
    "cleanup of no versions": lambda lib, data: data.cleanup_old_versions(retain_versions=0),
    "rate of a cleanup": lambda lib, data: data.cleanup_old_versions(delete_rate_limit=0),
    "cleanup of tags": lambda lib, data: (
        data.tags.create("a", 1),
        data.delete("id = 1"),
        data.cleanup_old_versions(older_than=timedelta(0), error_if_tagged_old_versions=True),
    ),
    "option of a compaction": lambda lib, data: data.optimize.compact_files(nope=1),
    "index to drop": lambda lib, data: data.drop_index("nope"),
    "index to describe": lambda lib, data: data.index_statistics("nope"),
    "dataset to drop": lambda lib, data: lib.LanceDataset.drop(data.uri + "-nope"),
    # damage
    "damaged data file": lambda lib, data: (
        _truncate(data, "data/*.lance"),
        lib.dataset(data.uri).to_table(),
    ),
    "damaged manifest": lambda lib, data: (_truncate(data, "_versions/*.manifest"), lib.dataset(data.uri)),
    "missing data file": lambda lib, data: (_delete(data, "data/*.lance"), lib.dataset(data.uri).to_table()),
    "file to read": lambda lib, data: _files(lib).LanceFileReader(data.uri + "/nope.lance"),
    "file of something else": lambda lib, data: _files(lib).LanceFileReader(__file__),
}


def _written(lib: Any, data: Any, rows: pa.Table, **options: Any) -> None:
    lib.write_dataset(rows, data.uri + "-other", **options)


def _map() -> pa.Table:
    return pa.table({"m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32()))})


def _files(lib: ModuleType) -> Any:
    return import_module("lance.file") if lib is lance else lance_core.api.file


def _truncate(data: Any, pattern: str) -> None:
    (path,) = Path(data.uri).glob(pattern)
    path.write_bytes(path.read_bytes()[:20])


def _delete(data: Any, pattern: str) -> None:
    (path,) = Path(data.uri).glob(pattern)
    path.unlink()


def error_of(lib: Any, mistake: Mistake, path: Path) -> BaseException:
    data = lib.write_dataset(ROWS, str(path))
    try:
        mistake(lib, data)
    except Exception as error:
        return error
    raise AssertionError(f"{lib.__name__} raises nothing")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the reference
@each_case("mistake", MISTAKES.values(), ids=MISTAKES)
def test_the_reference_s_type_catches_our_error(mistake: Mistake, tmp_path: Path) -> None:
    expected = type(error_of(lance, mistake, tmp_path / "theirs"))
    error = error_of(lance_core, mistake, tmp_path / "ours")
    # pyarrow's own errors, which only Arrow can raise, are built-in ones, too.
    expected = next(kind for kind in expected.__mro__ if kind.__module__ == "builtins")
    assert isinstance(error, expected), f"{expected.__name__} expected, found {error!r}"
    assert isinstance(error, LanceError | TypeError | KeyError)
