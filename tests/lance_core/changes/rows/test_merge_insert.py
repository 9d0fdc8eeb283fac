"""Merging rows: which rows match, what is refused, what a source may be."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import lance
import polars as pl
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import CommitConflictError, InvalidInputError, UnsupportedFeatureError
from support.oracles.row_twins import Twins

TABLE = pa.table(
    {
        "k": pa.array([1, 2, 3, 4, None], pa.int32()),
        "b": ["a", "b", "c", "d", "n"],
        "c": pa.array([1.0, 2, 3, 4, 5]),
    }
)
SOURCE = pa.table(
    {"k": pa.array([2, 3, 7, None], pa.int32()), "b": ["B", "C", "G", "N"], "c": [20.0, 30, 70, 50]}
)


def files(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}


def upsert(dataset: Any, source: Any, on: Any = "k", **arguments: Any) -> Any:
    merge = dataset.merge_insert(on).when_matched_update_all().when_not_matched_insert_all()
    return merge.execute(source, **arguments)


def test_a_merge_says_what_it_did_and_moves_the_dataset(tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(TABLE, tmp_path / "d")
    counts = upsert(dataset, SOURCE)
    assert counts == {"num_inserted_rows": 2, "num_updated_rows": 2, "num_deleted_rows": 0}
    assert list(counts) == ["num_inserted_rows", "num_updated_rows", "num_deleted_rows"]
    assert dataset.version == 2
    assert dataset.to_table()["b"].to_pylist() == ["a", "d", "n", "B", "C", "G", "N"]


KEYS = {
    "float": pa.array([0.0, float("nan"), 1.5, -0.0, None]),
    "dictionary": pa.array(["a", "b", None, "c", "d"]).dictionary_encode(),
    "text": pa.array(["a", "", None, "c", "\x00"]),
    "large_text": pa.array(["a", "", None, "c", "d"], pa.large_string()),
    "bytes": pa.array([b"a", b"", None, b"c", b"\x00"]),
    "fixed": pa.array([b"ab", b"cd", None, b"ef", b"gh"], pa.binary(2)),
    "decimal": pa.array(["1.5", "2", None, "4", "-5"]).cast(pa.decimal128(5, 2)),
    "date": pa.array([1, 2, None, 4, -5], pa.date32()),
    "time": pa.array([1, 2, None, 4, -5], pa.timestamp("us", "UTC")),
    "bool": pa.array([True, None]),
    "half": pa.array([1, 2, None, 4, -5]).cast(pa.float16()),
    "uint64": pa.array([0, 1 << 63, None, 5, (1 << 64) - 1], pa.uint64()),
}


@pytest.mark.parametrize("name", KEYS)
def test_keys_of_every_type_match_as_in_the_reference(name: str, tmp_path: Path) -> None:
    keys = KEYS[name]
    table = pa.table({"k": keys, "v": pa.array(range(len(keys)))})
    others = keys.take(pa.array(range(1, len(keys), 2)))
    source = pa.table({"k": others, "v": pa.array(range(100, 100 + len(others)))})
    twins = Twins(tmp_path, table, max_rows_per_file=2)
    twins.ours.delete("v = 0")
    twins.theirs.delete("v = 0")
    source = pa.concat_tables([source, table.slice(0, 1)]).combine_chunks()
    assert upsert(twins.ours, source) == upsert(twins.theirs, source)
    twins.check()


def test_nested_keys_are_refused(tmp_path: Path) -> None:
    table = pa.table({"s": [{"x": 1}], "l": [[1]], "v": [1]})
    dataset = lance_core.write_dataset(table, tmp_path / "d")
    for key in ("s", "l"):
        with pytest.raises(UnsupportedFeatureError, match=f"column {key}"):
            upsert(dataset, table, key)
    with pytest.raises(InvalidInputError, match=r"s\.x"):
        upsert(dataset, table, "s.x")


@pytest.mark.parametrize(
    ("source", "on", "named"),
    [
        (SOURCE.append_column("z", pa.array([1, 2, 3, 4])), "k", "z"),
        (SOURCE.select(["b", "c"]), "k", "k"),
        (SOURCE.set_column(0, "k", SOURCE["k"].cast(pa.int64())), "k", "int64"),
        (SOURCE.set_column(2, "c", SOURCE["c"].cast(pa.float32())), "k", "float"),
        (SOURCE, "zz", "zz"),
        (SOURCE, [], "matched by"),
        (SOURCE, None, "primary key"),
        (pa.concat_tables([SOURCE, SOURCE.slice(1, 1)]), "k", "k = 3"),
        (SOURCE.append_column("b", SOURCE["b"]), "k", "each once"),
    ],
)
def test_sources_that_do_not_fit_change_nothing(
    source: pa.Table, on: Any, named: str, tmp_path: Path
) -> None:
    dataset = lance_core.write_dataset(TABLE, tmp_path / "d")
    before = files(tmp_path / "d")
    with pytest.raises(InvalidInputError, match=named):
        upsert(dataset, source, on)
    assert files(tmp_path / "d") == before


def test_a_merge_that_can_change_nothing_is_refused(tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(TABLE, tmp_path / "d")
    with pytest.raises(InvalidInputError, match="not configured to change"):
        dataset.merge_insert("k").execute(SOURCE)
    with pytest.raises(InvalidInputError, match="k = 2"):
        dataset.merge_insert("k").when_matched_fail().when_not_matched_insert_all().execute(SOURCE)
    new = SOURCE.slice(2)
    unmatched = dataset.merge_insert("k").when_matched_fail()
    assert set(unmatched.execute(new).values()) == {0}
    with pytest.raises(InvalidInputError, match="k = 2"):
        unmatched.execute(SOURCE)
    counts = dataset.merge_insert("k").when_matched_fail().when_not_matched_insert_all().execute(new)
    assert counts["num_inserted_rows"] == 2


def test_rows_without_a_value_that_is_needed_are_not_inserted(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64(), nullable=False)])
    dataset = lance_core.write_dataset(pa.table({"k": [1, 2], "v": [1, 2]}, schema=schema), tmp_path / "d")
    keys = pa.table({"k": [1, 8]})
    with pytest.raises(InvalidInputError, match="column v"):
        upsert(dataset, keys)
    with pytest.raises(InvalidInputError, match="null in a column that allows none"):
        upsert(dataset, pa.table({"k": [1, 7], "v": pa.array([None, 7], pa.int64())}))
    assert dataset.latest_version == 1
    assert dataset.merge_insert("k").when_matched_update_all().execute(keys)["num_updated_rows"] == 1
    assert dataset.merge_insert("k").when_matched_delete().execute(keys)["num_deleted_rows"] == 1
    assert lance.dataset(str(tmp_path / "d")).to_table().to_pylist() == [{"k": 2, "v": 2}]


@pytest.mark.parametrize("by_source", [False, True])
def test_a_source_without_rows_may_lack_any_column(by_source: bool, tmp_path: Path) -> None:
    """A source without rows inserts none. A version is made, as by the reference, and unmatched rows may be
    deleted.
    """
    needed = TABLE.cast(
        pa.schema([TABLE.schema.field(0), pa.field("b", pa.string(), False), ("c", pa.float64())])
    )
    left = {}
    for library in (lance, lance_core):
        path = tmp_path / library.__name__
        merge = library.write_dataset(needed, path).merge_insert("k").when_matched_update_all()
        merge = merge.when_not_matched_insert_all()
        if by_source:
            merge = merge.when_not_matched_by_source_delete()
        left[library] = merge.execute(SOURCE.slice(0, 0).select(["k", "c"]))
        dataset = library.dataset(path)
        left[library] |= {"version": dataset.version, "rows": dataset.count_rows()}
    assert left[lance_core] == left[lance]


def test_the_primary_key_is_what_rows_match_by(tmp_path: Path) -> None:
    key = {"lance-schema:unenforced-primary-key": "true"}
    schema = pa.schema([pa.field("v", pa.int64()), pa.field("k", pa.int64(), nullable=False, metadata=key)])
    lance.write_dataset(pa.table({"v": [1, 2], "k": [1, 2]}, schema=schema), str(tmp_path / "d"))
    dataset = lance_core.dataset(tmp_path / "d")
    assert upsert(dataset, pa.table({"v": [20], "k": [2]}, schema=schema), None)["num_updated_rows"] == 1
    assert lance.dataset(str(tmp_path / "d")).to_table().to_pydict() == {"v": [1, 20], "k": [1, 2]}


@pytest.mark.parametrize(("first", "second"), [(1, 0), (0, 1), (0, 0)])
def test_a_primary_key_is_inserted_once(first: int, second: int, tmp_path: Path) -> None:
    """T37: two merges that begin on one version, by us (0) and by the reference (1)."""
    key = {"lance-schema:unenforced-primary-key": "true"}
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False, metadata=key), pa.field("v", pa.int64())])

    def rows(keys: list[int], value: int) -> pa.Table:
        return pa.table({"k": keys, "v": [value] * len(keys)}, schema=schema)

    path = str(tmp_path / "d")
    lance.write_dataset(rows([1, 2], 0), path)
    libraries: list[Any] = [lance_core, lance]
    early, late = libraries[first].dataset(path), libraries[second].dataset(path)
    stubborn = libraries[second].dataset(path).merge_insert("k").conflict_retries(0)
    assert upsert(early, rows([5], 1))["num_inserted_rows"] == 1
    with pytest.raises(OSError, match="oo many concurrent writers"):
        stubborn.when_matched_update_all().when_not_matched_insert_all().execute(rows([5, 6], 2))
    counts = upsert(late, rows([5, 6], 2))
    assert (counts["num_updated_rows"], counts["num_inserted_rows"]) == (1, 1)
    found = lance.dataset(path).to_table().to_pylist()
    assert [(row["k"], row["v"]) for row in found] == [(1, 0), (2, 0), (5, 2), (6, 2)]


def test_structs_are_updated_whole_or_not_at_all(tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(pa.table({"k": [1], "s": [{"x": 1, "y": 2}]}), tmp_path / "d")
    part = pa.table({"k": [1, 2], "s": [{"x": 5}, {"x": 6}]})
    with pytest.raises(UnsupportedFeatureError, match="column y"):
        upsert(dataset, part)
    assert dataset.merge_insert("k").when_not_matched_insert_all().execute(part)["num_inserted_rows"] == 1
    expected = [{"x": 1, "y": 2}, {"x": 6, "y": None}]
    assert dataset.to_table()["s"].to_pylist() == expected
    assert lance.dataset(str(tmp_path / "d")).to_table()["s"].to_pylist() == expected


def _stream(table: pa.Table, rows: int) -> pa.RecordBatchReader:
    def batches() -> Iterator[pa.RecordBatch]:
        yield from table.to_batches(max_chunksize=rows)

    return pa.RecordBatchReader.from_batches(table.schema, batches())


@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_streams_are_read_once_and_leave_no_file(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    numbers = range(500)
    table = pa.table({"k": numbers, "v": [f"v{n}" for n in numbers], "w": [[n] * (n % 4) for n in numbers]})
    source = pa.table(
        {
            "k": [n * 3 for n in range(300)],
            "v": pa.array([f"new {n}" for n in range(300)]),
            "w": [[n, None] for n in range(300)],
        }
    )
    twins = Twins(tmp_path, table, max_rows_per_file=90, enable_stable_row_ids=True)
    assert upsert(twins.ours, _stream(source, rows)) == upsert(twins.theirs, _stream(source, rows))
    twins.check()
    words = pa.table({"k": source["k"], "v": source["v"].dictionary_encode()}).cast(
        pa.schema([("k", pa.int64()), ("v", pa.string())])
    )
    merged = twins.ours.merge_insert("k").when_matched_update_all("source.v <> target.v")
    assert merged.execute(_stream(words, rows))["num_updated_rows"] == 0
    with pytest.raises(ZeroDivisionError):
        upsert(twins.ours, pa.RecordBatchReader.from_batches(source.schema, _failing(source)))
    assert list((tmp_path / "temporary").iterdir()) == []


def _failing(table: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from table.to_batches()
    raise ZeroDivisionError


VIEWS = {
    "texts": pl.Series(["a text that is longer than a view", None, "c"]),
    "bytes": pl.Series([b"a", None, b"more bytes than fit into a view"]),
    "lists": pl.Series([["a", None], None, ["b"]]),
    "structs": pl.Series([{"x": "a", "y": 1}, {"x": None, "y": None}, {"x": "c", "y": 3}]),
    "categories": pl.Series(["a", None, "b"], dtype=pl.Categorical),
    "enum": pl.Series(["a", None, "b"], dtype=pl.Enum(["a", "b"])),
}


@pytest.mark.parametrize("key", ["texts", "number"])
@pytest.mark.parametrize("as_table", [False, True])
def test_frames_of_polars(key: str, as_table: bool, tmp_path: Path) -> None:
    """Polars passes text as views, and Arrow cannot take rows out of views."""
    frame = pl.DataFrame({"number": [1, 2, 3], **VIEWS})
    dataset = lance_core.write_dataset(frame[:2], tmp_path / "d")
    changed = frame.with_columns(lists=pl.Series([["new"], ["new"], None]), bytes=pl.lit(b"new"))
    source = pa.table(changed[[2, 0]]) if as_table else changed[[2, 0]]
    counts = upsert(dataset, source, key)
    assert (counts["num_updated_rows"], counts["num_inserted_rows"]) == (1, 1)
    expected = pl.concat([frame[1:2], changed[[0, 2]]])
    assert pl.DataFrame(dataset.to_table()).equals(expected)


def test_dictionaries_that_differ_between_batches(tmp_path: Path) -> None:
    def words(values: list[str | None]) -> pa.RecordBatch:
        return pa.record_batch({"k": pa.array(values).dictionary_encode(), "v": range(len(values))})

    batches = [words(["a", "b"]), words(["z", None, "y"]), words(["b2", "a2"])]
    table = pa.Table.from_batches([words(["y", "x", "a", None, "b2"])])
    for source in (pa.Table.from_batches(batches), pa.RecordBatchReader.from_batches(table.schema, batches)):
        path = tmp_path / type(source).__name__
        dataset = lance_core.write_dataset(table, path)
        assert upsert(dataset, source) == {
            "num_inserted_rows": 4,
            "num_updated_rows": 3,
            "num_deleted_rows": 0,
        }
        rows = [(row["k"], row["v"]) for row in lance.dataset(str(path)).to_table().to_pylist()]
        expected = [("x", 1), (None, 3), ("y", 2), ("a", 0), ("b2", 0)]
        assert rows == [*expected, ("b", 1), ("z", 0), (None, 1), ("a2", 1)]


def test_dictionaries_that_do_not_fit_into_one(tmp_path: Path) -> None:
    small = pa.dictionary(pa.int8(), pa.string())
    schema = pa.schema([("k", pa.int64()), ("word", small)])

    def words(first: int) -> pa.RecordBatch:
        values = pa.array([f"w{number}" for number in range(first, first + 100)]).dictionary_encode()
        return pa.record_batch([pa.array(range(first, first + 100)), values.cast(small)], schema=schema)

    table = pa.Table.from_batches([words(number) for number in (0, 100, 200)])
    for source in (table, pa.RecordBatchReader.from_batches(schema, table.to_batches())):
        path = tmp_path / type(source).__name__
        dataset = lance_core.write_dataset(pa.Table.from_batches([words(0)]), path)
        assert upsert(dataset, source)["num_inserted_rows"] == 200
        # The reference cannot read this back, nor what it writes of it itself.
        found = lance_core.dataset(path).to_table()["word"]
        assert [word.as_py() for word in found] == [f"w{number}" for number in range(300)]
    turned = pa.Table.from_batches([words(100), words(0)])
    dataset = lance_core.write_dataset(turned, tmp_path / "turned")
    source = pa.Table.from_batches([words(0), words(100)]).slice(60, 80)
    assert dataset.merge_insert("k").when_matched_update_all().execute(source)["num_updated_rows"] == 80
    rows = dataset.to_table().to_pylist()
    assert len(rows) == 200
    assert all(row["word"] == f"w{row['k']}" for row in rows)


def test_conditions_see_both_sides(tmp_path: Path) -> None:
    twins = Twins(tmp_path, TABLE, max_rows_per_file=2)
    conditions = [
        "source.c > target.c * 10",
        "source.b = 'C'",
        "target.k = 2 AND source.k = 2",
        "source.c IS NULL",
        "true",
    ]
    for condition in conditions:
        results = [
            dataset.merge_insert("k").when_matched_update_all(condition).execute(SOURCE)
            for dataset in (twins.ours, twins.theirs)
        ]
        assert results[0] == results[1]
        twins.check()
    for condition in ("c > 1", "source.nosuch = 1", "source", "source.c"):
        with pytest.raises(InvalidInputError):
            twins.ours.merge_insert("k").when_matched_update_all(condition).execute(SOURCE)


def test_two_rows_for_one_are_told_apart_by_the_condition(tmp_path: Path) -> None:
    twins = Twins(tmp_path, TABLE)
    source = pa.concat_tables([SOURCE, SOURCE.set_column(2, "c", pa.array([0.0, 0, 0, 0]))])
    results = [
        dataset.merge_insert("k").when_matched_update_all("source.c > 0").execute(source)
        for dataset in (twins.ours, twins.theirs)
    ]
    assert results[0] == results[1] == {"num_inserted_rows": 0, "num_updated_rows": 2, "num_deleted_rows": 0}
    twins.check()


def test_settings_of_the_builder(tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(TABLE, tmp_path / "d")
    merge = dataset.merge_insert(["k"]).conflict_retries(0).retry_timeout(timedelta(seconds=1))
    merge = merge.use_index(False).write_mode("rewrite_rows").data_storage_version("2.2")
    merge.when_matched_delete().when_matched_update_all()  # the last one counts
    assert merge.execute(SOURCE)["num_updated_rows"] == 2
    with pytest.raises(UnsupportedFeatureError, match="rewrite_columns"):
        merge.write_mode("rewrite_columns")
    with pytest.raises(UnsupportedFeatureError, match=r"2\.1"):
        merge.data_storage_version("2.1")
    with pytest.raises(InvalidInputError, match="conflict_retries"):
        merge.conflict_retries(-1).execute(SOURCE)


def test_repeating_a_transaction_gives_its_first_result(tmp_path: Path) -> None:
    """T38: a client that did not hear the answer asks again."""
    dataset = lance_core.write_dataset(TABLE, tmp_path / "d")
    name = str(uuid4())
    first = upsert(dataset, SOURCE, transaction_id=name)
    assert upsert(dataset, SOURCE, transaction_id=name) == first
    assert dataset.latest_version == 2
    assert dataset.count_rows() == 7


def test_indices_of_the_reference_stay_right(tmp_path: Path) -> None:
    """An index that claims rows it has never seen would lose them."""
    for stable in (False, True):
        path = tmp_path / str(stable)
        lance.write_dataset(TABLE, str(path), max_rows_per_file=2, enable_stable_row_ids=stable)
        lance.dataset(str(path)).create_scalar_index("k", "BTREE")
        lance.dataset(str(path)).create_scalar_index("c", "BTREE")
        dataset = lance_core.dataset(path)
        upsert(dataset, SOURCE)
        upsert(dataset, SOURCE.select(["k", "c"]).slice(0, 1))
        dataset.merge_insert("k").when_matched_update_all().execute(SOURCE.select(["k", "b"]))
        reference = lance.dataset(str(path))
        for condition in ("k = 2", "k = 7", "k IS NULL", "c > 10", "c < 10", "k < 9"):
            indexed, plain = (
                reference.to_table(filter=condition, use_scalar_index=use).to_pylist()
                for use in (True, False)
            )
            assert sorted(map(repr, indexed)) == sorted(map(repr, plain)), condition
        assert reference.count_rows("k = 7") == 1
        reference.validate()


@pytest.mark.parametrize("stable", [False, True])
def test_a_merge_is_committed_later(stable: bool, tmp_path: Path) -> None:
    twins = Twins(tmp_path, TABLE, max_rows_per_file=2, enable_stable_row_ids=stable)
    ours, theirs = twins.ours, twins.theirs
    merges = [
        dataset.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
        for dataset in (ours, theirs)
    ]
    transaction, counts = merges[0].execute_uncommitted(SOURCE)
    their_transaction, their_counts = merges[1].execute_uncommitted(SOURCE)
    assert counts == their_counts
    assert ours.latest_version == 1
    ours.insert(TABLE.slice(0, 1))
    theirs.insert(TABLE.slice(0, 1))
    assert lance_core.LanceDataset.commit(ours, transaction).version == 3
    lance.LanceDataset.commit(str(twins.their_path), their_transaction)
    twins.check()
    later, _ = twins.ours.merge_insert("k").when_matched_delete().execute_uncommitted(SOURCE)
    twins.ours.delete("k = 2")
    with pytest.raises(CommitConflictError):
        lance_core.LanceDataset.commit(twins.our_path, later)


FAR = [(pa.timestamp("s"), 99_999_999_999_999), (pa.duration("s"), 2**62), (pa.date32(), 2_000_000_000)]


@pytest.mark.parametrize(("kind", "number"), FAR)
def test_keys_for_which_python_has_no_value_are_named(kind: pa.DataType, number: int, tmp_path: Path) -> None:
    rows = pa.table({"k": pa.array([number], f"int{kind.bit_width}").view(kind)})
    dataset = lance_core.write_dataset(rows, tmp_path)
    merge = dataset.merge_insert("k").when_matched_update_all()
    with pytest.raises(InvalidInputError, match=f"same row of the table: k = .* {number}"):
        merge.execute(pa.concat_tables([rows, rows]))
