"""Compaction, on two copies of a dataset: by us, and by the reference."""

from __future__ import annotations

import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

import lance
import lance.optimize
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lance_core
import lance_core.api.optimize
from lance_core.api.optimize import Compaction, CompactionPlan, CompactionTask, RewriteResult
from lance_core.errors import CommitConflictError, InvalidInputError, UnsupportedFeatureError
from support.oracles.comparison import assert_tables_equal
from support.oracles.two_copies import TwoCopies
from support.runs.draws import draws

STRUCT = pa.struct([("x", pa.int64()), ("l", pa.list_(pa.string()))])
VERSIONS = ["0.1", "2.0", "2.1", "2.2"]


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "a": pa.array(numbers, pa.int64()),
            "t": pa.array([None if n % 5 == 0 else f"text {n}" for n in numbers], pa.string()),
            "s": pa.array([{"x": n, "l": [str(n)] * (n % 3)} for n in numbers], STRUCT),
        },
        metadata={"origin": "here"},
    )


def write(path: Path, sizes: list[int], deleted: str | None = None, **arguments: Any) -> lance.LanceDataset:
    """Return a dataset by the reference with a fragment of each size."""
    first = 0
    for size in sizes:
        lance.write_dataset(rows(first, size), str(path), mode="append" if first else "create", **arguments)
        first += size
    dataset = lance.dataset(str(path))
    if deleted:
        dataset.delete(deleted)
    return dataset


def copied(path: Path) -> TwoCopies:
    shutil.copytree(path, path.with_name("theirs"))
    return TwoCopies(path, path.with_name("theirs"))


@pytest.mark.parametrize("stable_row_ids", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
def test_compaction_is_that_of_the_reference(version: str, stable_row_ids: bool, tmp_path: Path) -> None:
    if version == "0.1" and stable_row_ids:
        return
    dataset = write(
        tmp_path / "ours",
        [5, 5, 40, 5, 5, 5],
        "a in (0, 1, 7, 12, 13, 57, 58, 59)",
        data_storage_version=version,
        enable_stable_row_ids=stable_row_ids,
    )
    dataset.update({"t": "'new'"}, where="a = 60")
    both = copied(tmp_path / "ours")
    metrics = [
        library.dataset(str(path)).optimize.compact_files(target_rows_per_fragment=12)
        for library, path in ((lance_core, both.ours), (lance, both.theirs))
    ]
    assert repr(metrics[0]) == repr(metrics[1])
    both.check(compare_versions=False)
    columns = ["_rowid", "a"]
    if stable_row_ids:
        columns += ["_row_created_at_version", "_row_last_updated_at_version"]
        expected = lance.dataset(str(both.theirs)).to_table(columns=columns)
        for library in (lance_core, lance):
            assert library.dataset(str(both.ours)).to_table(columns=columns).equals(expected)
    both.go_on()


SETTINGS: list[dict[str, Any]] = [
    {"target_rows_per_fragment": 12},
    {"target_rows_per_fragment": 5},
    {"target_rows_per_fragment": 6},
    {"target_rows_per_fragment": 4},
    {"target_rows_per_fragment": 4, "materialize_deletions": False},
    {"target_rows_per_fragment": 5, "materialize_deletions_threshold": 0.25},
    {"target_rows_per_fragment": 100, "excluded_fragment_ids": [2, 99]},
    {"target_rows_per_fragment": 10, "max_source_fragments": 4},
    {"target_rows_per_fragment": 10, "max_source_rows": 12},
    {"target_rows_per_fragment": 10, "max_source_bytes": 1500},
    {"target_rows_per_fragment": 0},
    {"num_threads": 3, "batch_size": 2, "max_rows_per_group": 7, "io_buffer_size": 1 << 20},
    {},
]


@pytest.mark.parametrize("number", range(len(SETTINGS)))
def test_plans_are_those_of_the_reference(number: int, tmp_path: Path) -> None:
    write(tmp_path / "d", [5] * 6, "a < 2 or a = 7 or a = 13 or a >= 28")
    ours = Compaction.plan(lance_core.dataset(tmp_path / "d"), SETTINGS[number])
    theirs = lance.optimize.Compaction.plan(lance.dataset(str(tmp_path / "d")), SETTINGS[number])
    groups = [
        [[fragment.id for fragment in task.fragments] for task in plan.tasks] for plan in (ours, theirs)
    ]
    assert groups[0] == groups[1]
    assert (ours.read_version, ours.num_tasks()) == (theirs.read_version, theirs.num_tasks())


@given(data=st.data())
@settings(max_examples=draws(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_drawn_plans_are_those_of_the_reference(data: st.DataObject, tmp_path_factory: Any) -> None:
    path = tmp_path_factory.mktemp("plan") / "d"
    sizes = data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=8), label="sizes")
    deleted = data.draw(st.sets(st.integers(0, sum(sizes) - 1), max_size=sum(sizes) // 2), label="deleted")
    write(path, sizes, f"a in ({', '.join(map(str, deleted))})" if deleted else None)
    threshold = data.draw(st.sampled_from([0.0, 0.1, 0.3, 0.5]), label="threshold")
    target = data.draw(st.integers(1, 30), label="target")
    options = {"target_rows_per_fragment": target, "materialize_deletions_threshold": threshold}
    ours = Compaction.plan(lance_core.dataset(path), options)
    theirs = lance.optimize.Compaction.plan(lance.dataset(str(path)), options)
    assert [[each.id for each in task.fragments] for task in ours.tasks] == [
        [each.id for each in task.fragments] for task in theirs.tasks
    ]
    expected = lance.dataset(str(path)).to_table().sort_by("a")
    theirs_after = path.with_name("theirs")
    shutil.copytree(path, theirs_after)
    metrics = lance_core.dataset(path).optimize.compact_files(**options)
    assert repr(metrics) == repr(lance.dataset(str(theirs_after)).optimize.compact_files(**options))
    assert lance.dataset(str(path)).to_table().equals(lance.dataset(str(theirs_after)).to_table())
    assert lance.dataset(str(path)).to_table().sort_by("a").equals(expected)
    assert lance.dataset(str(path)).validate() is None


def test_settings_of_the_table_stand_for_options(tmp_path: Path) -> None:
    dataset = write(tmp_path / "d", [5] * 4)
    dataset.update_config({"lance.compaction.target_rows_per_fragment": "10"})
    opened = lance_core.dataset(tmp_path / "d")
    assert Compaction.plan(opened, {}).num_tasks() == 2
    assert Compaction.plan(opened, {"target_rows_per_fragment": 100}).num_tasks() == 1


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"bogus": 1}, InvalidInputError),
        ({"batch_size": 0}, InvalidInputError),
        ({"compaction_mode": "other"}, InvalidInputError),
        ({"compaction_mode": "force_binary_copy"}, UnsupportedFeatureError),
        ({"data_storage_version": "2.1"}, UnsupportedFeatureError),
    ],
)
def test_refused_options(options: dict[str, Any], error: type[Exception], tmp_path: Path) -> None:
    write(tmp_path / "d", [5] * 4)
    (name,) = options
    with pytest.raises(error, match="file version" if name == "data_storage_version" else name):
        Compaction.plan(lance_core.dataset(tmp_path / "d"), options)


def test_steps_on_different_machines(tmp_path: Path) -> None:
    """Plans, tasks and results travel as text; some of the results may be committed."""
    write(tmp_path / "d", [5] * 6, "a in (3, 17)", enable_stable_row_ids=True)
    dataset = lance_core.dataset(tmp_path / "d")
    expected = dataset.to_table(columns=["a", "t", "s", "_rowid"])
    plan = CompactionPlan.from_json(Compaction.plan(dataset, {"target_rows_per_fragment": 10}).json())
    assert [len(task.fragments) for task in plan.tasks] == [3, 3]
    results = []
    for task in plan.tasks:
        elsewhere = lance_core.dataset(tmp_path / "d")
        result = CompactionTask.from_json(task.json()).execute(elsewhere)
        assert [each.id for each in result.original_fragments] == [each.id for each in task.fragments]
        results.append(RewriteResult.from_json(result.json()))
    lance_core.write_dataset(rows(100, 2), tmp_path / "d", mode="append")
    metrics = Compaction.commit(dataset, list(reversed(results)))
    assert (metrics.fragments_removed, metrics.fragments_added) == (6, 2)
    assert dataset.version == 8 + 1
    after = lance.dataset(str(tmp_path / "d"))
    assert after.validate() is None
    found = after.to_table(columns=["a", "t", "s", "_rowid"]).sort_by("a")
    assert found.slice(0, 28).equals(expected)
    assert found.num_rows == 30


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"read_version": 1, "tasks": 3, "fragments": ["?"]}'])
def test_what_travelled_badly(text: str) -> None:
    for kind in (CompactionPlan, CompactionTask, RewriteResult):
        with pytest.raises(InvalidInputError):
            kind.from_json(text)


def test_a_task_of_another_table(tmp_path: Path) -> None:
    for name in ("one", "other"):
        write(tmp_path / name, [5] * 4)
    task = Compaction.plan(lance_core.dataset(tmp_path / "one"), {}).tasks[0]
    with pytest.raises(CommitConflictError):
        task.execute(lance_core.dataset(tmp_path / "other"))


@pytest.mark.parametrize("stable_row_ids", [False, True])
def test_queries_through_indices_stay_right(stable_row_ids: bool, tmp_path: Path) -> None:
    """Indices cover what they know, and no group mixes fragments that they know and others."""
    path = tmp_path / "d"
    dataset = write(path, [5] * 4, enable_stable_row_ids=stable_row_ids)
    dataset.create_scalar_index("a", "BTREE")
    dataset.create_scalar_index("t", "BITMAP")
    for first in (100, 200):
        lance.write_dataset(rows(first, 5), str(path), mode="append")
    dataset = lance.dataset(str(path))
    dataset.delete("a = 3")
    expected = dataset.to_table()
    ours = lance_core.dataset(path)
    assert [[each.id for each in task.fragments] for task in Compaction.plan(ours, {}).tasks] == [
        [0, 1, 2, 3],
        [4, 5],
    ]
    ours.optimize.compact_files()
    theirs = lance.dataset(str(path))
    assert theirs.validate() is None
    assert_tables_equal(expected, theirs.to_table().sort_by("a"))
    for number in (3, 4, 17, 102, 204):
        for condition in (f"a = {number}", f"t = 'text {number}'"):
            wanted = expected.filter(pa.compute.equal(expected["a"], number))
            assert theirs.to_table(filter=condition).equals(wanted), condition
    coverage = {index.name: index.segments[0].fragment_ids for index in ours.describe_indices()}
    assert {name: set(ids) for name, ids in coverage.items()} == {"a_idx": {6}, "t_idx": {6}}
    theirs.optimize.optimize_indices()
    assert lance.dataset(str(path)).to_table(filter="a = 204").num_rows == 1
    assert lance_core.dataset(path).to_table(filter="a = 204").num_rows == 1


def test_dropped_columns_are_left_out(tmp_path: Path) -> None:
    write(tmp_path / "ours", [5] * 4)
    both = copied(tmp_path / "ours")
    both.do(lambda d: d.drop_columns(["s"]))
    both.do(lambda d: d.add_columns({"n": "a + 1"}))
    both.do(lambda d: d.optimize.compact_files())
    both.check(compare_versions=False)
    (fragment,) = lance_core.dataset(both.ours).get_fragments()
    assert [file.fields for file in fragment.data_files()] == [[0, 1, 6]]


def test_structs_in_several_files_are_joined(tmp_path: Path) -> None:
    """Children that were cast, added without values or rewritten lie in files of their own."""
    write(tmp_path / "ours", [5] * 4, "a in (3, 11)", enable_stable_row_ids=True)
    both = copied(tmp_path / "ours")
    both.do(lambda d: d.alter_columns({"path": "s.x", "data_type": pa.int16()}))
    both.do(lambda d: d.add_columns(pa.field("s", pa.struct([("new", pa.string())]))))
    both.do(lambda d: d.add_columns({"n": "s.x + 1"}))
    assert {len(each.data_files()) for each in lance_core.dataset(both.ours).get_fragments()} == {3}
    both.do(lambda d: d.optimize.compact_files())
    both.check(compare_versions=False)
    assert {len(each.data_files()) for each in lance_core.dataset(both.ours).get_fragments()} == {1}


def test_nothing_to_gain_makes_no_version(tmp_path: Path) -> None:
    write(tmp_path / "d", [20])
    dataset = lance_core.dataset(tmp_path / "d")
    metrics = dataset.optimize.compact_files()
    assert (metrics.fragments_removed, metrics.files_added, dataset.version) == (0, 0, 1)


def test_fragments_of_which_nothing_is_left(tmp_path: Path) -> None:
    """Rows that are all deleted go without a trace, as long as some of the table are left."""
    path = tmp_path / "d"
    write(path, [5, 5, 5])
    lance.dataset(str(path)).delete("a >= 5 and a < 10")
    lance_core.dataset(path).optimize.compact_files()
    assert lance.dataset(str(path)).to_table()["a"].to_pylist() == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]


def test_large_files_are_cut_as_in_the_reference(tmp_path: Path) -> None:
    write(tmp_path / "ours", [50, 3], "a % 3 = 0")
    both = copied(tmp_path / "ours")
    both.do(lambda d: d.optimize.compact_files(target_rows_per_fragment=12))
    sizes = [
        [fragment.physical_rows for fragment in library.dataset(str(path)).get_fragments()]
        for library, path in ((lance_core, both.ours), (lance, both.theirs))
    ]
    assert sizes[0] == sizes[1]
    both.check(compare_versions=False)


def test_options_of_files(tmp_path: Path) -> None:
    write(tmp_path / "d", [200, 200])
    lance_core.dataset(tmp_path / "d").optimize.compact_files(max_bytes_per_file=1, batch_size=100)
    assert len(lance_core.dataset(tmp_path / "d").get_fragments()) == 4


def test_a_delete_between_plan_and_commit_is_not_lost(tmp_path: Path) -> None:
    """T37: the compaction is refused, or done again; the row stays deleted."""
    write(tmp_path / "d", [5] * 4)
    dataset = lance_core.dataset(tmp_path / "d")
    results = [task.execute(dataset) for task in Compaction.plan(dataset, {}).tasks]
    lance.dataset(str(tmp_path / "d")).delete("a = 7")
    with pytest.raises(CommitConflictError) as caught:
        Compaction.commit(dataset, results)
    assert caught.value.retryable
    dataset.optimize.compact_files()
    assert dataset.count_rows("a = 7") == 0
    assert dataset.count_rows() == 19
    assert lance.dataset(str(tmp_path / "d")).count_rows() == 19


def test_tasks_that_others_did_not_touch_are_not_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delete in one group while another one is written: only the first is written anew."""
    write(tmp_path / "d", [5] * 4)
    executed: list[list[int]] = []
    compact = import_module("lance_core.changes.compaction.compact")
    real = compact.execute

    def execute(snapshot: Any, task: CompactionTask, **arguments: Any) -> RewriteResult:
        executed.append([each.id for each in task.fragments])
        result = real(snapshot, task, **arguments)
        if len(executed) == 2:
            lance.dataset(str(tmp_path / "d")).delete("a = 12")
        return result

    monkeypatch.setattr(compact, "execute", execute)
    dataset = lance_core.dataset(tmp_path / "d")
    dataset.optimize.compact_files(target_rows_per_fragment=9)
    assert executed == [[0, 1], [2, 3], [2, 3]]
    assert sorted(dataset.to_table()["a"].to_pylist()) == [n for n in range(20) if n != 12]
    referenced = {file.path for each in dataset.get_fragments() for file in each.data_files()}
    on_disk = {path.name for path in (tmp_path / "d" / "data").iterdir()}
    assert referenced < on_disk
    assert len(on_disk - referenced) == 4, "those of older versions, and none that was given up"
