"""Indices that we create, replace, extend and commit in parts, and what the reference makes of them."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.api.indices import IndexConfig
from lance_core.errors import (
    ColumnTypeError,
    CommitConflictError,
    IndexNotFoundError,
    InvalidInputError,
    UnknownColumnError,
    UnsupportedFeatureError,
)
from support.runs.products import thinned
from support.searches.indexed import FILTERS, SCALAR_KINDS, build_scalar_indices, check_filters, indexed_rows

BUILT = [column for column, kind in SCALAR_KINDS.items() if kind != "INVERTED"]


@pytest.fixture(params=[False, True], ids=["addresses", "stable"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a table with four fragments and deleted rows."""
    path = tmp_path / "t"
    dataset = lance.write_dataset(
        indexed_rows(0, 400), str(path), max_rows_per_file=100, enable_stable_row_ids=request.param
    )
    dataset.delete("id % 10 = 3")
    return path


def _build(dataset: Any) -> None:
    for column in BUILT:
        dataset.create_scalar_index(column, SCALAR_KINDS[column])


def _segments(path: Path, name: str) -> list[set[int]]:
    dataset = lance.dataset(str(path))
    present = {fragment.fragment_id for fragment in dataset.get_fragments()}
    (index,) = (index for index in dataset.describe_indices() if index.name == name)
    return [set(segment.fragment_ids) & present for segment in index.segments]


def _kind(path: Path, name: str) -> str:
    return {index.name: index.index_type for index in lance.dataset(str(path)).describe_indices()}[name]


@pytest.mark.parametrize("rounds", [3, pytest.param(5, marks=pytest.mark.long)])
def test_rounds_of_both_libraries(rounds: int, table: Path) -> None:
    """The reference finds the same rows with and without our indices, whoever changed the table and the
    indices since. Two rounds have each library in both roles.
    """
    ours = lance_core.dataset(table)
    _build(ours)
    check_filters(lance.dataset(str(table)), "built")
    for number in range(rounds):
        first, second = (lance, lance_core) if number % 2 else (lance_core, lance)
        first.dataset(str(table)).insert(indexed_rows(1000 * (number + 1), 60))
        second.dataset(str(table)).delete(f"id % 11 = {number}")
        first.dataset(str(table)).update({"number": "number + 1", "zone": "zone + 7"}, f"id % 5 = {number}")
        check_filters(lance.dataset(str(table)), (number, "changed"))
        options = {} if number else {"num_indices_to_merge": 0}
        second.dataset(str(table)).optimize.optimize_indices(**options)
        check_filters(lance.dataset(str(table)), (number, "optimized"))
        first.dataset(str(table)).optimize.compact_files(target_rows_per_fragment=300)
        check_filters(lance.dataset(str(table)), (number, "compacted"))


def test_the_plan_of_the_reference_has_our_indices(table: Path) -> None:
    """Every filter that an index of the reference answers is answered by ours."""
    _build(lance_core.dataset(table))
    ours = lance.dataset(str(table))
    plans = {
        query: "ScalarIndexQuery" in ours.scanner(filter=query).explain_plan()
        for column in BUILT
        for query in FILTERS[column]
    }
    build_scalar_indices(ours, BUILT)
    theirs = lance.dataset(str(table))
    assert any(plans.values())
    for query, is_indexed in plans.items():
        assert is_indexed == ("ScalarIndexQuery" in theirs.scanner(filter=query).explain_plan()), query


def test_an_index_replaces_an_index_of_another_kind(table: Path) -> None:
    dataset = lance_core.dataset(table)
    dataset.create_scalar_index("number", "BTREE")
    dataset.create_scalar_index("number", "BITMAP")
    assert _kind(table, "number_idx") == "Bitmap"
    with pytest.raises(InvalidInputError, match="already exists"):
        dataset.create_scalar_index("number", "BTREE", replace=False)
    with pytest.raises(InvalidInputError, match="already exists with different fields"):
        dataset.create_scalar_index("word", "BITMAP", name="number_idx")
    assert dataset.version == lance_core.dataset(table).version


def test_wrong_requests_are_refused_by_name(table: Path) -> None:
    dataset = lance_core.dataset(table)
    with pytest.raises(UnknownColumnError, match="nmber"):
        dataset.create_scalar_index("nmber", "BTREE")
    with pytest.raises(KeyError):
        dataset.create_scalar_index("nmber", "BTREE")
    with pytest.raises(UnsupportedFeatureError, match="RTREE"):
        dataset.create_scalar_index("number", "RTREE")
    for column, kind in (("labels", "BTREE"), ("number", "LABEL_LIST"), ("number", "NGRAM")):
        with pytest.raises(ColumnTypeError, match=column):
            dataset.create_scalar_index(column, kind)
    with pytest.raises(InvalidInputError, match="rows_per_page"):
        dataset.create_scalar_index("number", "BTREE", rows_per_page=5)
    with pytest.raises(InvalidInputError, match="zone_size"):
        dataset.create_scalar_index("number", IndexConfig("btree", {"zone_size": 0}))
    with pytest.raises(InvalidInputError, match="fragment_ids"):
        dataset.create_index_uncommitted("number", "BTREE", fragment_ids=[77])
    with pytest.raises(IndexNotFoundError, match="nothing"):
        dataset.optimize.optimize_indices(index_names=["nothing"])
    assert not list(table.glob("_indices/*/*"))


def test_a_column_of_dictionaries_is_refused(tmp_path: Path) -> None:
    words = pa.array(["a", "b", None]).dictionary_encode()
    dataset = lance_core.write_dataset(pa.table({"word": words}), tmp_path / "t")
    for kind in ("BTREE", "BITMAP", "BLOOMFILTER"):
        with pytest.raises(ColumnTypeError, match="word"):
            dataset.create_scalar_index("word", kind)


def test_options_stay_when_indices_are_extended(table: Path) -> None:
    """The size of pages and zones is in the files, and new segments get it."""
    dataset = lance_core.dataset(table)
    dataset.create_scalar_index("number", IndexConfig("btree", {"zone_size": 16}))
    dataset.create_scalar_index("zone", IndexConfig("zonemap", {"rows_per_zone": 10}))
    dataset.create_scalar_index(
        "bloom", IndexConfig("bloomfilter", {"number_of_items": 50, "probability": 0.01})
    )
    dataset.insert(indexed_rows(1000, 60))
    before = {path.name: path.stat().st_size for path in table.glob("_indices/*/*")}
    dataset.optimize.optimize_indices()
    check_filters(lance.dataset(str(table)))
    found = lance.dataset(str(table))
    assert found.stats.index_stats("zone_idx")["indices"][0]["rows_per_zone"] == 10
    assert found.stats.index_stats("bloom_idx")["indices"][0]["number_of_items"] == 50
    assert found.stats.index_stats("number_idx")["indices"][0]["num_pages"] == -(-420 // 16)
    assert before


@pytest.mark.parametrize("is_nested", [False, True])
def test_names_of_indices_are_those_of_the_reference(is_nested: bool, tmp_path: Path) -> None:
    rows = pa.table(
        {"a b": [1, 2], "s": [{"x": 1, "y.z": 5}, {"x": 2, "y.z": None}], "Case": [1, None]},
        pa.schema(
            [
                ("a b", pa.int64()),
                ("s", pa.struct([("x", pa.int64()), ("y.z", pa.int64())])),
                ("Case", pa.int8()),
            ]
        ),
    )
    paths = ["s.x", "s.`y.z`"] if is_nested else ["a b", "case"]
    names = []
    for library in (lance, lance_core):
        dataset = library.write_dataset(rows, str(tmp_path / library.__name__))
        for path in paths:
            dataset.create_scalar_index(path, "BTREE")
        names.append([(index.name, list(index.field_names)) for index in dataset.describe_indices()])
    assert names[0] == names[1]


def test_an_index_without_training_is_filled_later(table: Path) -> None:
    dataset = lance_core.dataset(table)
    for column in BUILT:
        dataset.create_scalar_index(column, SCALAR_KINDS[column], train=False)
        assert _segments(table, f"{column}_idx") == [set()]
    check_filters(lance.dataset(str(table)), "empty")
    dataset.optimize.optimize_indices()
    assert _segments(table, "number_idx") == [{0, 1, 2, 3}]
    check_filters(lance.dataset(str(table)), "filled")


def test_the_modes_of_optimize_indices(table: Path) -> None:
    dataset = lance_core.dataset(table)
    dataset.create_scalar_index("number", "BTREE")
    version = dataset.version
    dataset.optimize.optimize_indices()
    assert dataset.version == version
    dataset.insert(indexed_rows(1000, 20))
    dataset.optimize.optimize_indices(num_indices_to_merge=0)
    assert _segments(table, "number_idx") == [{0, 1, 2, 3}, {4}]
    dataset.insert(indexed_rows(2000, 20))
    dataset.optimize.optimize_indices()
    assert _segments(table, "number_idx") == [{0, 1, 2, 3}, {4, 5}]
    dataset.insert(indexed_rows(3000, 20))
    dataset.optimize.optimize_indices(num_indices_to_merge=2)
    assert _segments(table, "number_idx") == [{0, 1, 2, 3, 4, 5, 6}]
    dataset.optimize.optimize_indices(retrain=True)
    assert _segments(table, "number_idx") == [{0, 1, 2, 3, 4, 5, 6}]
    check_filters(lance.dataset(str(table)))


@pytest.mark.parametrize(("column", "merges"), thinned(BUILT, [False, True]))
def test_segments_of_several_workers_become_one_index(column: str, merges: bool, table: Path) -> None:
    dataset = lance_core.dataset(table)
    parts = [
        lance_core.dataset(table).create_index_uncommitted(
            column, SCALAR_KINDS[column], fragment_ids=fragment_ids
        )
        for fragment_ids in ([0, 1], [2], [3])
    ]
    with pytest.raises(InvalidInputError, match="overlapping"):
        dataset.commit_existing_index_segments(
            "mine",
            column,
            [*parts, dataset.create_index_uncommitted(column, SCALAR_KINDS[column], fragment_ids=[2])],
        )
    if merges:
        parts = [dataset.merge_existing_index_segments(parts[:2]), parts[2]]
    dataset.commit_existing_index_segments("mine", column, parts)
    assert _segments(table, "mine") == ([{0, 1, 2}, {3}] if merges else [{0, 1}, {2}, {3}])
    check_filters(lance.dataset(str(table)), column)


def test_an_index_is_built_again_if_its_fragments_were_compacted(table: Path) -> None:
    """Another writer compacts between the build and the commit (threat T32)."""
    dataset = lance_core.dataset(table)
    compacted = threading.Event()

    def compact(event: object) -> None:
        if not compacted.is_set():
            compacted.set()
            lance_core.dataset(table).optimize.compact_files(target_rows_per_fragment=1000)

    dataset.create_scalar_index("number", "BTREE", progress_callback=compact)
    (fragment,) = (fragment.fragment_id for fragment in dataset.get_fragments())
    assert _segments(table, "number_idx") == [{fragment}]
    assert len(list(table.glob("_indices/*"))) == 1
    check_filters(lance.dataset(str(table)))


def test_an_index_on_a_column_that_was_dropped_meanwhile_is_refused(table: Path) -> None:
    dataset = lance_core.dataset(table)
    segment = dataset.create_index_uncommitted("word", "BITMAP", fragment_ids=[0, 1, 2, 3])
    lance_core.dataset(table).drop_columns(["word"])
    with pytest.raises((CommitConflictError, UnknownColumnError)):
        dataset.commit_existing_index_segments("word_idx", "word", [segment])
    assert lance_core.dataset(table).describe_indices() == []


def test_repeating_a_transaction_gives_the_first_result(table: Path) -> None:
    identity = "7c1b6b83-5c0f-4f0b-9d8e-0a5e5e5b5f3d"
    dataset = lance_core.dataset(table)
    dataset.create_scalar_index("number", "BTREE", transaction_id=identity)
    again = lance_core.dataset(table)
    again.create_scalar_index("number", "BTREE", transaction_id=identity)
    assert again.version == dataset.version
    assert len(list(table.glob("_indices/*"))) == 1


def test_progress_is_reported(table: Path) -> None:
    events: list[Any] = []
    lance_core.dataset(table).create_scalar_index("number", "BTREE", progress_callback=events.append)
    assert events[0].event == "start"
    assert events[-1].event == "complete"
    read = [event for event in events if event.stage == events[0].stage]
    assert read[-1].completed == read[-1].total == 360


def test_statistics_of_no_index_name_the_indices(table: Path) -> None:
    dataset = lance_core.dataset(table)
    dataset.create_scalar_index("number", "BTREE")
    with pytest.raises(KeyError, match=r'Index "nothing" not found.*number_idx'):
        dataset.stats.index_stats("nothing")
