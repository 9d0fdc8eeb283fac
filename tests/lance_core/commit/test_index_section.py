"""Indices that the reference built stay right, whatever we do to the table: asked by the reference."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.api.dataset import LanceDataset
from lance_core.api.dataset.operations import LanceOperation
from lance_core.commit.index_section import FRAGMENT_REUSE, IndexSectionEditor, coverage
from lance_core.errors import CommitConflictError, InvalidInputError
from lance_core.proto import table_pb2

SEED = int(os.environ.get("LANCE_TEST_SEED", "20261121"))
ROWS = 60


def _table(first: int, chance: random.Random) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(first, first + ROWS), pa.int64()),
            "number": pa.array([chance.randrange(8) for _ in range(ROWS)], pa.int64()),
            "word": [chance.choice("abcd") for _ in range(ROWS)],
            "other": pa.array([0] * ROWS, pa.int64()),
        }
    )


def _indexed(path: Path, stable_row_ids: bool, chance: random.Random) -> LanceDataset:
    """Three fragments, two of which the indices on number, word and id cover."""
    lance_core.write_dataset(
        _table(0, chance).slice(0, 40), path, max_rows_per_file=20, enable_stable_row_ids=stable_row_ids
    )
    reference = lance.dataset(str(path))
    reference.create_scalar_index("id", "BTREE")
    reference.create_scalar_index("number", "BTREE")
    reference.create_scalar_index("word", "BITMAP")
    return lance_core.write_dataset(_table(40, chance).slice(0, 20), path, mode="append", sync=False)


def _column(dataset: LanceDataset, chance: random.Random) -> None:
    """A column of one fragment is written anew in place."""
    fragment = chance.choice(dataset.get_fragments())
    ids = fragment.to_table(["id"])["id"].to_pylist()
    chosen = chance.sample(ids, min(len(ids), 5))
    values = pa.table({"id": chosen, "number": pa.array([99] * len(chosen), pa.int64())})
    changed, fields = fragment.update_columns(values, "id")[:2]
    operation = LanceOperation.Update(
        updated_fragments=[changed], fields_modified=fields, update_mode="rewrite_columns"
    )
    LanceDataset.commit(dataset, lance_core.Transaction(dataset.version, operation), sync=False)


def _merge_insert(dataset: LanceDataset, chance: random.Random) -> None:
    rows = _table(chance.randrange(200), chance)
    builder = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    builder.execute(rows.select(dataset.schema.names), sync=False)


def _restore(dataset: LanceDataset, chance: random.Random) -> None:
    numbers = [version["version"] for version in dataset.versions()]
    dataset.checkout_version(chance.choice(numbers[4:] or numbers[-1:])).restore()


def _append(dataset: LanceDataset, chance: random.Random) -> None:
    rows = _table(1000 + chance.randrange(1000), chance).slice(0, 10)
    lance_core.write_dataset(rows, dataset, mode="append", sync=False)


CHANGES: dict[str, Callable[[LanceDataset, random.Random], object]] = {
    "append": _append,
    "delete": lambda dataset, chance: dataset.delete(f"id % 7 = {chance.randrange(7)}", sync=False),
    "update number": lambda dataset, chance: dataset.update(
        {"number": "number + 1"}, f"id % 5 = {chance.randrange(5)}", sync=False
    ),
    "update other": lambda dataset, chance: dataset.update(
        {"other": "other + 1"}, f"id % 5 = {chance.randrange(5)}", sync=False
    ),
    "update word": lambda dataset, chance: dataset.update(
        {"word": "'z'"}, f"id % 6 = {chance.randrange(6)}", sync=False
    ),
    "column": _column,
    "merge_insert": _merge_insert,
    "compact": lambda dataset, chance: dataset.optimize.compact_files(),
    "restore": _restore,
}

QUERIES = [
    *(f"number = {number}" for number in (0, 3, 8, 99)),
    "number > 5",
    "word = 'a'",
    "word IN ('b', 'z')",
    "id < 50",
    "id = 7",
    "number = 2 AND word = 'c'",
]


def _names(path: Path) -> set[str]:
    return {index.name for index in lance_core.dataset(path).describe_indices()}


def _check(path: Path, what: object) -> None:
    reference = lance.dataset(str(path))
    assert reference.validate() is None
    for query in QUERIES:
        found = [
            reference.to_table(filter=query, use_scalar_index=use).sort_by([("id", "ascending")])
            for use in (True, False)
        ]
        assert found[0].equals(found[1]), (what, query)


@pytest.mark.parametrize(
    ("run", "stable_row_ids"),
    [
        pytest.param(run, stable, marks=[] if run < 4 and stable == run % 2 else pytest.mark.long)
        for run in range(40)
        for stable in (False, True)
    ],
)
def test_queries_by_index_find_what_scans_find(run: int, stable_row_ids: bool, tmp_path: Path) -> None:
    """Random changes of ours, one after the other; the reference asks the indices after each."""
    chance = random.Random(SEED + run)
    _indexed(tmp_path, stable_row_ids, chance)
    done: list[str] = []
    for _ in range(6):
        done.append(chance.choice(list(CHANGES)))
        CHANGES[done[-1]](lance_core.dataset(tmp_path), chance)
        _check(tmp_path, done)
    print(f"seed {SEED + run}: {done}", file=sys.stderr)


@pytest.mark.parametrize("kind", list(CHANGES))
@pytest.mark.parametrize("stable_row_ids", [False, True])
def test_each_change_by_itself(kind: str, stable_row_ids: bool, tmp_path: Path) -> None:
    chance = random.Random(kind)
    _indexed(tmp_path, stable_row_ids, chance)
    CHANGES[kind](lance_core.dataset(tmp_path), chance)
    _check(tmp_path, kind)
    assert _names(tmp_path) == {"id_idx", "number_idx", "word_idx"}


def test_coverage_is_kept_where_it_may_be(tmp_path: Path) -> None:
    """After a compaction indices cover the new fragments. Indices that name rows by address do so with new
    files.
    """
    dataset = _indexed(tmp_path, True, random.Random(1))
    before = {index.name: index.segments[0].uuid for index in dataset.describe_indices()}

    dataset.optimize.compact_files()

    ids = [fragment.fragment_id for fragment in dataset.get_fragments()]
    covered = {index.name: set(index.segments[0].fragment_ids) for index in dataset.describe_indices()}
    assert covered == {name: {max(ids)} for name in before}
    after = {index.name: index.segments[0].uuid for index in dataset.describe_indices()}
    assert [name for name in before if before[name] == after[name]] == ["word_idx"]
    plan = lance.dataset(str(tmp_path)).scanner(filter="word = 'a'").explain_plan()
    assert "ScalarIndexQuery" in plan


def test_dropped_columns_take_their_indices_along(tmp_path: Path) -> None:
    dataset = _indexed(tmp_path, False, random.Random(1))
    dataset.drop_columns(["number"])
    assert {index.name for index in dataset.describe_indices()} == {"id_idx", "word_idx"}
    assert {index.name for index in lance.dataset(str(tmp_path)).describe_indices()} == {"id_idx", "word_idx"}


@pytest.mark.parametrize("how", ["replacement", "update", "merge"])
@pytest.mark.parametrize("version", ["2.0", "2.2"])
def test_an_index_on_a_list_forgets_lists_that_changed(version: str, how: str, tmp_path: Path) -> None:
    """The index names the list, while files from 2.1 on name its items, and so do operations."""
    lance.write_dataset({"n": range(6)}, str(tmp_path), max_rows_per_file=3, data_storage_version=version)
    words = pa.schema([("words", pa.list_(pa.string()))])
    column = pa.record_batch([pa.array([[c] for c in "abcabc"], words.field(0).type)], schema=words)
    reference = lance.dataset(str(tmp_path))
    reference.add_columns(pa.RecordBatchReader.from_batches(words, [column]))
    reference.create_scalar_index("words", "LABEL_LIST")
    dataset = lance_core.dataset(tmp_path)
    new = pa.table({"n": range(3), "words": pa.array([["z"], ["b"], ["a"]], words.field(0).type)})
    changed, fields = dataset.get_fragment(0).update_columns(new, "n")[:2]
    operation: LanceOperation.BaseOperation
    if how == "replacement":
        group = LanceOperation.DataReplacementGroup(0, changed.files[-1])
        operation = LanceOperation.DataReplacement([group])
    elif how == "update":
        operation = LanceOperation.Update(
            updated_fragments=[changed], fields_modified=fields, update_mode="rewrite_columns"
        )
    else:
        operation = LanceOperation.Merge([changed, dataset.get_fragment(1).metadata], dataset.lance_schema)
    LanceDataset.commit(dataset, lance_core.Transaction(dataset.version, operation))
    found = lance.dataset(str(tmp_path))
    assert "ScalarIndexQuery" in found.scanner(filter="array_has_any(words, ['a'])").explain_plan()
    for word, rows in {"a": [2, 3], "b": [1, 4], "c": [5], "z": [0]}.items():
        assert sorted(found.to_table(filter=f"array_has_any(words, ['{word}'])")["n"].to_pylist()) == rows


def test_an_overwrite_drops_all(tmp_path: Path) -> None:
    dataset = _indexed(tmp_path, False, random.Random(1))
    dataset = lance_core.write_dataset(_table(0, random.Random(2)), dataset, mode="overwrite")
    assert not dataset.describe_indices()
    _check(tmp_path, "overwrite")


def test_indices_without_rows_stay(tmp_path: Path) -> None:
    """Indices without rows stay as in the released reference, vector indices too, which earlier releases
    dropped.
    """
    vectors = pa.FixedSizeListArray.from_arrays(np.random.default_rng(1).random(512 * 8, np.float32), 8)
    table = pa.table({"id": range(512), "vector": vectors})
    for library in (lance, lance_core):
        path = tmp_path / library.__name__
        reference = lance.write_dataset(table, str(path), max_rows_per_file=256)
        reference.create_index("vector", "IVF_FLAT", num_partitions=2)
        reference.create_scalar_index("id", "BTREE")
        lance.write_dataset(table, str(path), mode="append")
        library.dataset(str(path)).delete("id < 100")
        assert {index.name for index in lance_core.dataset(path).describe_indices()} == {
            "vector_idx",
            "id_idx",
        }
        fragments = lance.dataset(str(path)).get_fragments()
        removed = [fragment.fragment_id for fragment in fragments[:2]]
        operation = library.LanceOperation.Delete([], removed, "all of it")
        library.LanceDataset.commit(str(path), operation, read_version=5)
        assert _names(path) == {"vector_idx", "id_idx"}, library


def _segment(name: str, fields: list[int], fragments: list[int], **more: object) -> table_pb2.IndexMetadata:
    index = lance_core.Index(str(uuid4()), name, fields, 1, fragments, 0)
    message = index.to_message()
    for field, value in more.items():
        setattr(message, field, value)
    return message


def _carried(*segments: table_pb2.IndexMetadata) -> IndexSectionEditor:
    return IndexSectionEditor(table_pb2.IndexSection(indices=segments).SerializeToString())


def test_a_section_in_which_nothing_changes_is_the_same_to_the_byte() -> None:
    unknown = b"\xba\x3e\x03new"
    carried = _carried(
        table_pb2.IndexMetadata.FromString(_segment("a", [0], [1]).SerializeToString() + unknown)
    )
    before = carried.section
    carried.forget([1], [7])
    carried.retain({0, 7}, [1])
    carried.move([({5}, {6})], rewritten=set(), stable_row_ids=True)
    assert carried.section == before
    carried.forget([1], [0])
    assert carried.section != before
    assert unknown in (carried.section or b"")


def test_a_fragment_reuse_index_is_replaced_only_as_it_was() -> None:
    """T37: an entry that was made for another one is refused, and the change is computed again."""
    reuse, newer = _segment(FRAGMENT_REUSE, [], []), _segment(FRAGMENT_REUSE, [], [3])
    carried = _carried(_segment("a", [0], [1]), reuse)
    for replaces in (None, newer.uuid.uuid):
        with pytest.raises(CommitConflictError, match="changed meanwhile"):
            carried.replace_reuse(newer, replaces)
    carried.replace_reuse(newer, reuse.uuid.uuid)
    assert [segment.uuid.uuid for segment in carried.segments][1:] == [newer.uuid.uuid]
    carried.replace_reuse(None, newer.uuid.uuid)
    assert [segment.name for segment in carried.segments] == ["a"]


def test_groups_that_an_index_knows_in_part() -> None:
    segment = _segment("a", [0], [1])
    carried = _carried(segment)
    with pytest.raises(InvalidInputError, match="joined with others"):
        carried.move([({1, 2}, {3})], rewritten={segment.uuid.uuid}, stable_row_ids=False)


@pytest.mark.parametrize("stable_row_ids", [False, True])
def test_an_index_that_is_not_rewritten_covers_no_new_fragment(stable_row_ids: bool) -> None:
    """If the files still name old addresses, the old fragments stay in the bitmap: readers skip them."""
    carried = _carried(_segment("a", [0], [1, 2, 4]))
    carried.move([({1, 2}, {5})], rewritten=set(), stable_row_ids=stable_row_ids)
    assert set(coverage(next(iter(carried.segments)))) == ({4} if stable_row_ids else {1, 2, 4})


def test_of_segments_without_rows_the_oldest_stays() -> None:
    old, new = _segment("a", [0], [1]), _segment("a", [0], [2], dataset_version=5)
    carried = _carried(new, old)
    carried.retain({0}, [1, 2])
    assert len(carried.segments) == 2
    carried.retain({0}, [2])
    assert [segment.uuid.uuid for segment in carried.segments] == [new.uuid.uuid]
    carried = _carried(new, old)
    carried.retain({0}, [])
    assert [segment.uuid.uuid for segment in carried.segments] == [old.uuid.uuid]
