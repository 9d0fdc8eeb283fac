"""The plan of a merge as text, merges that are only measured, and sources that memory holds."""

from __future__ import annotations

import re
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.api.dataset import ExecuteResult
from lance_core.errors import InvalidInputError, UnsupportedFeatureError

TABLE = pa.table({"k": range(100), "a": ["old"] * 100, "b": [0.5] * 100})
SOURCE = pa.table({"k": [7, 8, 200], "a": ["new"] * 3})


def files(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}


def upsert(dataset: Any) -> Any:
    return dataset.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()


def metrics(line: str) -> dict[str, float]:
    (found,) = re.findall(r"metrics=\[(.*)\]", line)
    return {name: float(value) for name, value in (each.split("=") for each in found.split(", "))}


@pytest.fixture
def dataset(tmp_path: Path) -> Any:
    return lance_core.write_dataset(TABLE, tmp_path / "d", max_rows_per_file=50)


def test_a_plan_names_the_actions_the_columns_and_the_pages(dataset: Any) -> None:
    plan = upsert(dataset).explain_plan(SOURCE.schema).splitlines()
    assert plan[0].startswith("MergeInsert: on=[k], when_matched=UpdateAll, when_not_matched=InsertAll")
    write = next(line for line in plan if "WriteRows" in line)
    assert "from_source=[k, a], updated_rows_keep=[b], inserted_rows_null=[b]" in write
    assert any("HashJoin" in line and "keys=[k]" in line for line in plan)
    assert any("LanceRead: columns=[k, _rowaddr], projection=[k], fragments=2" in line for line in plan)
    verbose = upsert(dataset).explain_plan(verbose=True)
    assert "Fragment 1: rows=50" in verbose
    assert "Fragment 1" not in upsert(dataset).explain_plan()
    assert dataset.version == 1


def test_a_plan_shows_conditions_and_only_the_steps_that_run(dataset: Any) -> None:
    merge = dataset.merge_insert("k").when_not_matched_by_source_delete("b > 3")
    plan = merge.explain_plan()
    assert "when_not_matched_by_source=Delete, when_not_matched_by_source_condition=b > 3" in plan
    assert "RemoveRows" in plan
    assert "WriteRows" not in plan
    assert "RemoveRows" not in dataset.merge_insert("k").when_not_matched_insert_all().explain_plan()
    conditional = dataset.merge_insert("k").when_matched_update_all("source.a > target.a")
    assert "when_matched_condition=source.a > target.a" in conditional.explain_plan()


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (pa.schema([("k", pa.int64()), ("z", pa.int64())]), "found \\[k, z\\]"),
        (pa.schema([("k", pa.int64()), ("a", pa.int64())]), "column a"),
        (pa.schema([("a", pa.string())]), "lacks a key column.*k"),
    ],
)
def test_a_plan_refuses_what_the_merge_would_refuse(dataset: Any, schema: pa.Schema, text: str) -> None:
    with pytest.raises(InvalidInputError, match=text):
        upsert(dataset).explain_plan(schema)
    with pytest.raises(InvalidInputError, match="not configured to change"):
        dataset.merge_insert("k").explain_plan()


def test_an_analysis_measures_the_merge_and_leaves_no_trace(dataset: Any, tmp_path: Path) -> None:
    before = files(tmp_path)
    plan = upsert(dataset).analyze_plan(SOURCE.to_reader())
    assert files(tmp_path) == before
    assert lance_core.dataset(tmp_path / "d").version == 1
    lines = plan.splitlines()
    assert metrics(lines[0]).items() >= {
        ("num_inserted_rows", 1),
        ("num_updated_rows", 2),
        ("num_deleted_rows", 0),
        ("num_files_written", 1),
        ("num_deletion_files_written", 1),
    }
    assert metrics(lines[0])["bytes_written"] > 0
    assert metrics(lines[0])["elapsed_ms"] > metrics(lines[3])["elapsed_ms"] > 0
    assert metrics(lines[3])["output_rows"] == 2
    assert "held_in=a temporary file" in lines[4]
    assert metrics(lines[4])["output_rows"] == 3
    assert "pruned" in plan
    assert "held_in=memory" in upsert(dataset).analyze_plan_batches(SOURCE.to_reader())


def test_an_analysis_that_fails_leaves_no_trace(dataset: Any, tmp_path: Path) -> None:
    before = files(tmp_path)
    with pytest.raises(InvalidInputError, match="k = 7"):
        dataset.merge_insert("k").when_matched_fail().analyze_plan(SOURCE)
    assert files(tmp_path) == before


@pytest.mark.parametrize("make", [lambda t: t, lambda t: t.to_batches()[0], lambda t: t.to_reader()])
def test_rows_in_memory_are_merged_as_from_a_file(make: Any, tmp_path: Path) -> None:
    results = []
    for name, library in (("ours", lance_core), ("theirs", lance)):
        dataset = library.write_dataset(TABLE, str(tmp_path / name))
        data = make(SOURCE)
        given = data if name == "ours" or isinstance(data, pa.RecordBatchReader) else SOURCE.to_reader()
        transaction, counts = upsert(dataset).execute_uncommitted_batches(given)
        committed = type(dataset).commit(dataset, transaction)
        again = make(pa.table({"k": [1], "a": ["again"]}))
        given = again if name == "ours" else pa.table({"k": [1], "a": ["again"]}).to_reader()
        more = upsert(committed).execute_batches(given)
        results.append((counts, more, committed.to_table().sort_by("k")))
    assert results[0][:2] == results[1][:2]
    assert results[0][2].equals(results[1][2])


def test_rows_that_memory_does_not_hold_as_arrow_are_refused(dataset: Any) -> None:
    with pytest.raises(TypeError, match="new_data must be an Arrow table, batch or reader, got list"):
        upsert(dataset).execute_batches([SOURCE])


def test_keys_are_checked_when_the_merge_is_begun(tmp_path: Path) -> None:
    table = pa.table({"k": [1], "l": [[1]]})
    dataset = lance_core.write_dataset(table, tmp_path / "d")
    for on, text in (
        (None, "primary key"),
        ([], "primary key"),
        ("key", "did you mean 'k'|no key column 'key'"),
    ):
        with pytest.raises(InvalidInputError, match=text):
            dataset.merge_insert(on)
    with pytest.raises(UnsupportedFeatureError, match="column l"):
        dataset.merge_insert("l")
    with pytest.raises(TypeError, match="timedelta"):
        dataset.merge_insert("k").retry_timeout(3)
    assert dataset.merge_insert("k").retry_timeout(timedelta(seconds=1)) is not None


def test_results_have_the_names_of_the_reference() -> None:
    theirs = import_module("lance.dataset").ExecuteResult  # `lance.dataset` is a function
    assert list(ExecuteResult.__annotations__) == list(theirs.__annotations__)
