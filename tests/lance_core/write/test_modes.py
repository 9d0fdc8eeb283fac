"""Creating, appending and overwriting, compared with what the reference does with the same arguments."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import (
    CommitConflictError,
    DatasetExistsError,
    InvalidInputError,
    UnsupportedFeatureError,
)
from lance_core.file.v2_1 import writer as v2_1_writer
from lance_core.write.dataset import Mode
from support.runs.each_case import each_case

TABLE = pa.table({"a": pa.array([1, 2, None], pa.int32()), "b": ["x", None, ""]})
MORE = pa.table({"a": pa.array([7], pa.int32()), "b": ["more"]})


def test_a_new_dataset_is_what_the_reference_would_have_written(tmp_path: Path) -> None:
    ours = lance_core.write_dataset(TABLE, tmp_path / "ours")
    theirs = lance.write_dataset(TABLE, str(tmp_path / "theirs"))

    for dataset in (ours, lance.dataset(str(tmp_path / "ours"))):
        assert dataset.to_table().equals(TABLE)
        assert dataset.schema.equals(theirs.schema, check_metadata=True)
        assert dataset.version == theirs.version == 1
        assert dataset.data_storage_version == theirs.data_storage_version == "2.2"
        assert dataset.has_stable_row_ids is False
    assert lance.dataset(str(tmp_path / "ours")).validate() is None
    assert sorted(path.name for path in (tmp_path / "ours" / "_versions").glob("*.manifest")) == sorted(
        path.name for path in (tmp_path / "theirs" / "_versions").glob("*.manifest")
    )


@pytest.mark.parametrize("stable_row_ids", [False, True])
def test_versions_by_both_libraries_in_turn(stable_row_ids: bool, tmp_path: Path) -> None:
    path = str(tmp_path)
    lance_core.write_dataset(TABLE, path, enable_stable_row_ids=stable_row_ids)
    for step in range(3):
        lance.write_dataset(MORE, path, mode="append")
        lance_core.write_dataset(MORE, path, mode="append")
        if step == 1:
            lance.dataset(path).delete("a = 2")
    expected = pa.concat_tables(
        [TABLE.filter(pa.compute.fill_null(pa.compute.not_equal(TABLE["a"], 2), True))]
    )
    expected = pa.concat_tables([expected, *[MORE] * 6])

    theirs, ours = lance.dataset(path), lance_core.dataset(path)

    assert ours.to_table().equals(expected)
    assert theirs.to_table().equals(expected)
    assert theirs.validate() is None
    assert [version["version"] for version in theirs.versions()] == list(range(1, 9))
    for mine, other in zip(ours.versions(), theirs.versions(), strict=True):
        # The reference takes times through floats, whose steps are 256 ns: the last microsecond is rounded.
        assert abs(mine["timestamp"] - other["timestamp"]) <= timedelta(microseconds=1)
        assert {**mine, "timestamp": None} == {**other, "timestamp": None}
    ids = theirs.to_table(with_row_id=True)["_rowid"].to_pylist()
    assert len(set(ids)) == len(ids)
    assert ids == ours.to_table(with_row_id=True)["_rowid"].to_pylist()
    if stable_row_ids:
        assert ids == [0, 2, *range(3, 9)]
    theirs.optimize.compact_files()
    assert lance_core.dataset(path).to_table().equals(expected)


def test_overwrite_replaces_rows_and_schema_and_keeps_history(tmp_path: Path) -> None:
    lance_core.write_dataset(TABLE, tmp_path, enable_stable_row_ids=True, data_storage_version="2.1")

    dataset = lance_core.write_dataset({"other": [1.5]}, tmp_path, mode="overwrite")

    assert dataset.version == 2
    assert dataset.data_storage_version == "2.1"
    assert dataset.has_stable_row_ids
    reference = lance.dataset(str(tmp_path))
    assert reference.to_table(with_row_id=True).to_pydict() == {"other": [1.5], "_rowid": [3]}
    assert [fragment.fragment_id for fragment in reference.get_fragments()] == [1]
    assert dataset.checkout_version(1).to_table().equals(TABLE)


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_both_modes_create_where_there_is_nothing(mode: Any, tmp_path: Path) -> None:
    assert lance_core.write_dataset(TABLE, tmp_path / "new", mode=mode).version == 1


def test_create_refuses_a_dataset_that_is_there(tmp_path: Path) -> None:
    lance_core.write_dataset(TABLE, tmp_path)

    with pytest.raises(DatasetExistsError, match="already exists") as caught:
        lance_core.write_dataset(MORE, tmp_path)

    assert isinstance(caught.value, OSError)
    assert lance_core.dataset(tmp_path).to_table().equals(TABLE)


@each_case(
    ("arguments", "error", "message"),
    [
        ({"mode": "upsert"}, InvalidInputError, "'upsert'"),
        ({"data_storage_version": "7.7"}, InvalidInputError, "'7.7'"),
        ({"data_storage_version": "2.3"}, UnsupportedFeatureError, "not stable"),
        ({"data_storage_version": "next"}, UnsupportedFeatureError, "not stable"),
        ({"max_rows_per_file": 0}, InvalidInputError, "max_rows_per_file"),
        ({"max_rows_per_file": -1}, InvalidInputError, "max_rows_per_file"),
        ({"max_rows_per_group": 0}, InvalidInputError, "max_rows_per_group"),
        ({"max_bytes_per_file": -1}, InvalidInputError, "max_bytes_per_file"),
        ({"max_page_bytes": 0}, InvalidInputError, "max_page_bytes"),
        ({"max_rows_per_file": 3.5}, TypeError, "max_rows_per_file must be an integer, got float"),
        ({"max_bytes_per_file": "7"}, TypeError, "max_bytes_per_file must be an integer, got str"),
        ({"max_rows_per_group": "7"}, TypeError, "max_rows_per_group must be an integer, got str"),
        ({"max_page_bytes": 0.5}, TypeError, "max_page_bytes must be an integer, got float"),
    ],
)
def test_arguments_without_sense_write_nothing(
    arguments: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        lance_core.write_dataset(TABLE, tmp_path / "new", **arguments)

    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["max_rows_per_file", "max_rows_per_group", "max_bytes_per_file"])
def test_limits_that_are_not_given(name: str, tmp_path: Path) -> None:
    for library in (lance, lance_core):
        written = library.write_dataset(TABLE, str(tmp_path / library.__name__), **{name: None})
        assert written.to_table().equals(TABLE)
        assert len(written.get_fragments()) == 1


def test_append_keeps_the_file_version_of_the_table(tmp_path: Path) -> None:
    lance_core.write_dataset(TABLE, tmp_path, data_storage_version="2.1")

    with pytest.raises(InvalidInputError, match=r"expected 2\.1, found 2\.2"):
        lance_core.write_dataset(MORE, tmp_path, mode="append", data_storage_version="stable")

    appended = lance_core.write_dataset(MORE, tmp_path, mode="append")
    assert {
        (file.file_major_version, file.file_minor_version)
        for each in appended.get_fragments()
        for file in each.data_files()
    } == {(2, 1)}


def test_files_are_cut_by_rows(tmp_path: Path) -> None:
    table = pa.table({"a": range(25)})

    dataset = lance_core.write_dataset(table, tmp_path, max_rows_per_file=10)

    assert [fragment.physical_rows for fragment in dataset.get_fragments()] == [10, 10, 5]
    assert lance.dataset(str(tmp_path)).to_table().equals(table)


def test_files_are_cut_by_bytes(tmp_path: Path) -> None:
    """Rows that wait for their page are counted too: no file is larger than the limit and one batch."""
    rng = np.random.default_rng(9)
    table = pa.table({"a": pa.array([rng.bytes(4000) for _ in range(4000)])})
    limit, page = 2_000_000, 1 << 18

    batches = table.to_reader(max_chunksize=100)
    dataset = lance_core.write_dataset(batches, tmp_path, max_bytes_per_file=limit, max_page_bytes=page)

    sizes = [file.file_size_bytes for fragment in dataset.get_fragments() for file in fragment.data_files()]
    assert sum(fragment.physical_rows for fragment in dataset.get_fragments()) == 4000
    assert all(limit <= size < limit + 100 * 4_100 for size in sizes[:-1]), sizes
    assert lance.dataset(str(tmp_path)).to_table().equals(table)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_the_same_rows_give_the_same_files(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The speed of encoding does not matter: for plain columns, for text that becomes smaller, and beside
    blobs.
    """
    rng, timing = np.random.default_rng(3), random.Random(4)
    encode = v2_1_writer._encode

    def slow(*arguments: Any) -> Any:
        time.sleep(timing.choice((0, 0, 0.002, 0.01)))
        return encode(*arguments)

    monkeypatch.setattr(v2_1_writer, "_encode", slow)
    table = pa.table(
        {
            "number": rng.integers(-(2**63), 2**63, 20_000),
            "text": [f"some text that is much the same {x % 100}" for x in range(20_000)],
            "blob": pa.array([b"b" * (x % 50) for x in range(20_000)], pa.large_binary()),
        },
        schema=pa.schema(
            [
                ("number", pa.int64()),
                ("text", pa.string()),
                pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
            ]
        ),
    )
    written = []
    for name in ("a", "b", "c"):
        dataset = lance_core.write_dataset(
            table.to_reader(500),
            tmp_path / name,
            data_storage_version=version,
            max_bytes_per_file=60_000,
            max_page_bytes=1 << 14,
        )
        files = [file.path for fragment in dataset.get_fragments() for file in fragment.data_files()]
        written.append([(tmp_path / name / "data" / file).read_bytes() for file in files])
    assert len(written[0]) > 3
    assert written[0] == written[1] == written[2]


def test_no_rows_and_no_columns(tmp_path: Path) -> None:
    empty = TABLE.slice(0, 0)
    for name, table in (("rows", empty), ("columns", pa.table({}))):
        dataset = lance_core.write_dataset(table, tmp_path / name)
        assert dataset.get_fragments() == []
        assert lance.dataset(str(tmp_path / name)).schema.equals(table.schema)
    appended = lance_core.write_dataset(TABLE, tmp_path / "rows", mode="append")
    appended.insert(empty)
    assert appended.version == 3
    assert lance.dataset(str(tmp_path / "rows")).to_table().equals(TABLE)


def test_old_manifest_names_are_written_and_kept(tmp_path: Path) -> None:
    lance_core.write_dataset(TABLE, tmp_path, enable_v2_manifest_paths=False)
    lance_core.write_dataset(MORE, tmp_path, mode="append")

    assert {path.name for path in (tmp_path / "_versions").iterdir()} == {"1.manifest", "2.manifest"}
    lance.write_dataset(MORE, str(tmp_path), mode="append")
    assert lance_core.dataset(tmp_path).count_rows() == lance.dataset(str(tmp_path)).count_rows() == 5


def test_message_and_properties_are_in_the_transaction(tmp_path: Path) -> None:
    arguments = {
        "commit_message": "why",
        "transaction_properties": {"job": "7", "__lance_commit_message": "x"},
    }
    lance_core.write_dataset(TABLE, tmp_path / "ours", **arguments)
    lance.write_dataset(TABLE, str(tmp_path / "theirs"), **arguments)

    (ours,) = lance.dataset(str(tmp_path / "ours")).get_transactions()
    (theirs,) = lance.dataset(str(tmp_path / "theirs")).get_transactions()

    assert ours.transaction_properties == theirs.transaction_properties
    assert ours.transaction_properties["__lance_commit_message"] == "why"
    assert ours.read_version == theirs.read_version == 0


def test_settings_of_the_clean_up_are_noted(tmp_path: Path) -> None:
    options = {"interval": 3, "older_than_seconds": 90}

    dataset = lance_core.write_dataset(TABLE, tmp_path, auto_cleanup_options=options)

    assert dataset.config() == {"lance.auto_cleanup.interval": "3", "lance.auto_cleanup.older_than": "90s"}
    for _ in range(4):  # what the reference reads out of them
        lance.write_dataset(MORE, str(tmp_path), mode="append")
    assert lance.dataset(str(tmp_path)).version == 5


def test_insert_moves_the_dataset_on(tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(TABLE, tmp_path)

    dataset.insert(MORE)
    dataset.insert(MORE, mode="overwrite")

    assert dataset.version == 3
    assert dataset.to_table().equals(MORE)


def test_a_write_on_an_old_version_is_checked_against_the_later_ones(tmp_path: Path) -> None:
    """T37: the commits since the opened version decide, not the newest version alone."""
    dataset = lance_core.write_dataset(TABLE, tmp_path)
    old = dataset.checkout_version(1)
    lance.write_dataset(MORE, str(tmp_path), mode="append")

    appended = lance_core.write_dataset(MORE, old, mode="append")
    assert appended.version == 3
    assert appended.count_rows() == 5

    lance.write_dataset(MORE, str(tmp_path), mode="overwrite")
    with pytest.raises(
        CommitConflictError, match="append is in conflict with overwrite of version 4"
    ) as failed:
        lance_core.write_dataset(MORE, old, mode="append")
    assert not failed.value.retryable
    with pytest.raises(CommitConflictError, match="overwrite is in conflict with overwrite") as retry:
        lance_core.write_dataset(MORE, old, mode="overwrite")
    assert retry.value.retryable
    assert len(list((tmp_path / "data").iterdir())) == 4
    assert len(list((tmp_path / "_transactions").iterdir())) == 4
    assert lance_core.dataset(tmp_path).to_table().equals(MORE)


def test_progress_is_told_about_fragments(tmp_path: Path) -> None:
    class Progress:
        def __init__(self) -> None:
            self.events: list[tuple[str, int]] = []

        def begin(self, fragment: Any) -> None:
            self.events.append(("begin", fragment.physical_rows))

        def complete(self, fragment: Any) -> None:
            self.events.append(("complete", fragment.physical_rows))

    progress = Progress()
    lance_core.write_dataset(pa.table({"a": range(5)}), tmp_path, max_rows_per_file=3, progress=progress)

    assert progress.events == [("begin", 0), ("complete", 3), ("begin", 0), ("complete", 2)]


@pytest.mark.parametrize("fragments_before", [0, 1, 2])
def test_progress_that_raises_leaves_no_files(fragments_before: int, tmp_path: Path) -> None:
    """The last file is completed by the commit, the others before it."""

    class Progress:
        num_complete = 0

        def begin(self, fragment: Any) -> None:
            """Nothing to tell."""

        def complete(self, fragment: Any) -> None:
            if self.num_complete == fragments_before:
                raise RuntimeError("told to stop")
            self.num_complete += 1

    with pytest.raises(RuntimeError, match="told to stop"):
        lance_core.write_dataset(
            pa.table({"a": range(8)}), tmp_path, max_rows_per_file=3, progress=Progress()
        )
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
def test_memory_does_not_hold_on_to_batches(version: str, tmp_path: Path) -> None:
    """T28: values of narrow columns wait long for a full page. The writer keeps a copy of them, not their
    batch.
    """
    before = pa.total_allocated_bytes()
    most = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal most
        for number in range(200):
            most = max(most, pa.total_allocated_bytes() - before)
            wide = rng.integers(0, 256, (1000, 1000), np.uint8)
            rows = pa.array([row.tobytes() for row in wide], pa.binary())
            yield pa.record_batch({"narrow": pa.array([number % 100] * 1000, pa.int8()), "wide": rows})

    rng = np.random.default_rng(5)
    schema = pa.schema([("narrow", pa.int8()), ("wide", pa.binary())])
    dataset = lance_core.write_dataset(batches(), tmp_path, schema=schema, data_storage_version=version)

    assert dataset.count_rows() == 200_000
    # What batches may be held for; a page of 8 MiB and its copy per thread, and for the next and current one.
    bound = (16 + 16 * (len(os.sched_getaffinity(0)) + 2)) << 20
    assert most < bound, f"{most >> 20} MiB were held for 200 MiB that were written"


@pytest.mark.parametrize("mode", ["create", "append", "overwrite"])
def test_a_transaction_id_is_used_once(mode: Mode, tmp_path: Path) -> None:
    """T38: committing a transaction again returns the first result and changes nothing."""
    number = "0d0e9a1c-6f2b-4c52-8f0b-0f7f8f7a1c11"
    place: Any = tmp_path if mode == "create" else lance_core.write_dataset(TABLE, tmp_path)
    first = lance_core.write_dataset(MORE, place, mode=mode, transaction_id=number)
    files = sorted(tmp_path.rglob("*.*"))
    lance_core.write_dataset(MORE, tmp_path / "other")

    for again in (place, tmp_path):
        second = lance_core.write_dataset(MORE, again, mode=mode, transaction_id=number)
        assert second.version == first.version
        assert second.to_table().equals(first.to_table())

    assert first.snapshot.manifest.transaction_uuid == number
    assert sorted(path for path in tmp_path.rglob("*.*") if "other" not in path.parts) == files
    assert lance.dataset(str(tmp_path)).get_transactions()[0].uuid == number


def test_a_transaction_file_of_a_commit_that_died(tmp_path: Path) -> None:
    """T35: a commit is made again after its process died before the manifest."""
    number = "0d0e9a1c-6f2b-4c52-8f0b-0f7f8f7a1c11"
    lance_core.write_dataset(TABLE, tmp_path)
    left = tmp_path / "_transactions" / f"1-{number}.txn"
    left.write_bytes(b"of other data files")
    made = lance_core.write_dataset(MORE, tmp_path, mode="append", transaction_id=number)
    assert made.version == 2
    assert made.snapshot.manifest.transaction_uuid == number
    assert lance.dataset(str(tmp_path)).get_transactions()[0].uuid == number
    assert number.encode() in left.read_bytes()


@pytest.mark.parametrize("name", ["../../x", "0d0e9a1c", "", "0d0e9a1c-6f2b-4c52-8f0b-0f7f8f7a1c11/../x"])
def test_a_transaction_id_is_a_uuid(name: str, tmp_path: Path) -> None:
    """T9: a transaction id is part of the name of a file."""
    with pytest.raises(InvalidInputError, match="transaction id"):
        lance_core.write_dataset(TABLE, tmp_path, transaction_id=name)
    assert not list(tmp_path.rglob("*.*"))


def test_memory_without_a_name_is_a_new_dataset_for_every_write() -> None:
    first, second = (lance_core.write_dataset(table, "memory://") for table in (TABLE, MORE))
    assert lance.write_dataset(TABLE, "memory://").count_rows() == TABLE.num_rows
    assert lance.write_dataset(MORE, "memory://").count_rows() == MORE.num_rows
    for dataset, table in ((first, TABLE), (second, MORE)):
        assert dataset.to_table() == lance_core.dataset(dataset.uri).to_table() == table
    with pytest.raises(DatasetExistsError):
        lance_core.write_dataset(TABLE, first.uri)
