"""Indices that the reference built: the same rows with them, without them, and by the reference."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.changes.rows.key_matches import key_fields, key_scan
from lance_core.changes.source_rows import SourceRows
from support.searches.indexed_columns import COLUMNS, KINDS, IndexedColumn, table

SEED = int(os.environ.get("LANCE_TEST_SEED", "20261124"))
VERSIONS = ("2.0", "2.1", "2.2")
DEFAULT = {
    ("int64", "BTREE"),
    ("float64", "BITMAP"),
    ("string", "BLOOMFILTER"),
    ("labels", "LABEL_LIST"),
    ("text", "NGRAM"),
    ("timestamp", "ZONEMAP"),
}
"""Cases of the default run: every kind, and every group of types."""

Change = Callable[[Any, IndexedColumn, np.random.Generator], object]
CHANGES: list[Change] = [
    lambda dataset, column, chance: dataset.insert(table(column, chance, 1000, 20)),
    lambda dataset, column, chance: dataset.delete(f"id % 7 = {chance.integers(7)}"),
    lambda dataset, column, chance: dataset.update({"other": "other + 1"}, f"id % 5 = {chance.integers(5)}"),
    lambda dataset, column, chance: dataset.update({"c": "NULL"}, f"id % 5 = {chance.integers(5)}"),
    lambda dataset, column, chance: (
        dataset.merge_insert("id")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute(table(column, chance, 140, 30))
    ),
    lambda dataset, column, chance: dataset.optimize.compact_files(target_rows_per_fragment=200),
    lambda dataset, column, chance: lance.dataset(dataset.uri).optimize.optimize_indices(),
    lambda dataset, column, chance: lance.dataset(dataset.uri).optimize.optimize_indices(
        num_indices_to_merge=0
    ),
]


def ids(dataset: Any, query: str, **options: object) -> list[int]:
    """Return the ids of the rows that meet a filter, in the order of the scan."""
    return dataset.to_table(["id"], filter=query, **options)["id"].to_pylist()


def check(path: Path, column: IndexedColumn, name: str, what: object) -> int:
    """All filters give the same rows. Return how many of them an index answered."""
    dataset, reference = lance_core.dataset(path), lance.dataset(str(path))
    num_used = 0
    for number, pattern in enumerate((*column.filters, *column.others)):
        query = pattern.format(c=name)
        for text in (query, f"({query}) AND other < 3")[: 1 + (number % 3 == 0)]:
            expected = ids(dataset, text, use_scalar_index=False)
            assert ids(dataset, text) == expected, (what, text)
            assert dataset.count_rows(text) == len(expected), (what, text)
        if pattern not in column.others:
            assert sorted(ids(reference, query)) == sorted(ids(dataset, query)), (what, query)
        num_used += bool(dataset.scanner(filter=query).explain().indices)
    return num_used


def run(folder: Path, name: str, kind: str, version: str, stable: bool, seed: int, changes: int) -> None:
    column, chance = COLUMNS[name], np.random.default_rng([SEED, seed])
    path = folder / f"{name} {kind} {version} {stable} {seed}"
    dataset = lance.write_dataset(
        table(column, chance, 0, 150),
        str(path),
        max_rows_per_file=60,
        data_storage_version=version,
        enable_stable_row_ids=stable,
    )
    indexed = "s.c" if seed % 3 == 2 else "c"
    dataset.create_scalar_index(indexed, kind)
    what = (name, kind, version, stable, seed)
    assert check(path, column, indexed, what) > 0, what
    for step in range(changes):
        library = (lance, lance_core)[chance.integers(2)]
        change = CHANGES[chance.integers(len(CHANGES))]
        change(library.dataset(str(path)), column, chance)
        check(path, column, indexed, (*what, step))


@pytest.mark.parametrize(
    ("name", "kind"),
    [case if case in DEFAULT else pytest.param(*case, marks=pytest.mark.long) for case in KINDS],
)
def test_rows_are_the_same_with_and_without_an_index(name: str, kind: str, tmp_path: Path) -> None:
    number = KINDS.index((name, kind))
    run(tmp_path, name, kind, VERSIONS[number % 3], number % 2 == 0, number, changes=1)


@pytest.mark.long
@pytest.mark.parametrize(("name", "kind"), KINDS)
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
@pytest.mark.parametrize("version", VERSIONS)
def test_every_kind_in_every_file_version(
    version: str, stable: bool, name: str, kind: str, tmp_path: Path
) -> None:
    for seed in range(3):
        run(tmp_path, name, kind, version, stable, seed, changes=5)


@pytest.mark.parametrize("library", [lance, lance_core], ids=["reference", "ours"])
@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()], ids=lambda kind: str(kind)
)
def test_a_bloom_filter_finds_texts_and_bytes(kind: pa.DataType, library: Any, tmp_path: Path) -> None:
    """No zone has the empty text, whose hash must not stand for that of another one."""
    path = str(tmp_path / "t")
    names = pa.array([f"v{number}" for number in range(200)]).cast(kind)
    lance.write_dataset(pa.table({"id": range(200), "c": names}), path, max_rows_per_file=10)
    library.dataset(path).create_scalar_index("c", "BLOOMFILTER")
    ours = lance_core.dataset(path)
    for expected in ([5], [5, 6], [5, 60, 77], [0, 99, 150, 199]):
        texts = [f"v{number}" for number in expected]
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            query = f"c IN ({', '.join(f'X{text.encode().hex()!r}' for text in texts)})"
        else:
            query = f"c IN ({', '.join(map(repr, texts))})"
        assert ours.scanner(filter=query).explain().indices
        assert ids(ours, query) == expected


@pytest.mark.parametrize("merged", [None, 0])
@pytest.mark.parametrize("segments", [1, 2])
def test_segments_are_not_mixed_with_those_of_the_reference(
    segments: int, merged: int | None, tmp_path: Path
) -> None:
    """With stable row ids, B-trees of the reference name rows by address, and it refuses both ways in one."""
    path = str(tmp_path / "t")
    rows = pa.table({"n": range(100)})
    dataset = lance.write_dataset(rows, path, enable_stable_row_ids=True)
    dataset.create_scalar_index("n", "BTREE")
    for _ in range(segments - 1):
        dataset.insert(rows)
        dataset.optimize.optimize_indices(num_indices_to_merge=0)
    assert len(dataset.describe_indices()[0].segments) == segments
    ours = lance_core.dataset(path)
    ours.insert(rows)
    ours.optimize.optimize_indices(num_indices_to_merge=merged)
    for one in (ours, lance.dataset(path)):
        assert one.count_rows("n = 7") == segments + 1
    ours.insert(rows)
    ours.optimize.optimize_indices(num_indices_to_merge=0)
    assert len(ours.describe_indices()[0].segments) == 2
    assert lance.dataset(path).count_rows("n = 7") == segments + 2


def test_a_segment_that_does_not_fit_those_of_the_reference_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    rows = pa.table({"n": range(100)})
    dataset = lance.write_dataset(rows, path, enable_stable_row_ids=True)
    dataset.create_scalar_index("n", "BTREE")
    ours = lance_core.dataset(path)
    ours.insert(rows)
    segment = ours.create_index_uncommitted("n", "BTREE", "n_idx", fragment_ids=[1])
    with pytest.raises(lance_core.InvalidInputError, match="name rows by id and by address"):
        ours.commit_existing_index_segments("n_idx", "n", [segment])
    whole = ours.create_index_uncommitted("n", "BTREE", "n_idx", fragment_ids=[0, 1])
    ours.commit_existing_index_segments("n_idx", "n", [whole])
    assert lance.dataset(path).count_rows("n = 7") == 2


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
def test_a_merge_looks_its_keys_up(stable: bool, tmp_path: Path) -> None:
    """A merge reads the rows that an index finds, and the rows that no index covers."""
    rows = pa.table({"key": [f"k{number}" for number in range(5000)], "value": [0] * 5000})
    path = tmp_path / "t"
    options = {"max_rows_per_file": 1000, "enable_stable_row_ids": stable}
    dataset = lance.write_dataset(rows, str(path), **options)
    dataset.create_scalar_index("key", "BTREE")
    dataset.insert(pa.table({"key": ["late", "later"], "value": [0, 0]}))
    source = pa.table({"key": ["k17", "k4999", "late", "new"], "value": [1, 2, 3, 4]})
    ours = lance_core.dataset(path)
    merge = ours.merge_insert("key").when_matched_update_all().when_not_matched_insert_all()
    done = merge.execute(source)
    assert (done["num_updated_rows"], done["num_inserted_rows"]) == (3, 1)
    changed = lance.dataset(str(path)).to_table(filter="value > 0").sort_by("value")
    assert changed["key"].to_pylist() == ["k17", "k4999", "late", "new"]
    found = key_scan(ours._snapshot, SourceRows(source), key_fields(ours._snapshot, ["key"]))
    assert found.filter is not None
    assert "IsIn" in type(found.filter).__name__


def test_two_bounds_are_one_question(tmp_path: Path) -> None:
    """Each bound alone has too many rows for an index; a large answer is left to a scan."""
    rows = pa.table({"n": np.random.default_rng(1).permutation(60_000), "m": np.arange(60_000)})
    dataset = lance.write_dataset(rows, str(tmp_path / "t"))
    dataset.create_scalar_index("n", "BTREE")
    ours = lance_core.dataset(tmp_path / "t")
    for query, num_rows, is_used in [
        ("n BETWEEN 30000 AND 30009", 10, True),
        ("m >= 0 AND n > 30000 AND n <= 30005", 5, True),
        ("NOT (n < 30000 OR n > 30003)", 4, True),
        ("(n >= 30000 AND n < 30002) OR n = 7", 3, True),
        ("n > 40000 AND n < 20000", 0, True),
        ("n > 100", 59_899, False),
        ("n BETWEEN 100 AND 40000", 39_901, False),
    ]:
        assert ours.count_rows(query) == num_rows, query
        assert ours.to_table(filter=query).num_rows == num_rows, query
        assert bool(ours.scanner(filter=query).explain().indices) == is_used, query
