"""Columns of single fragments: written by many, committed by one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyroaring
import pytest

import lance_core
from lance_core import LanceOperation
from lance_core.changes.columns.column_file import delete_files
from lance_core.changes.columns.staged_columns import (
    StagedColumns,
    StagedColumnsWriter,
    commit_staged_columns,
)
from lance_core.errors import CommitConflictError, InvalidInputError, UnsupportedFeatureError
from support.oracles.two_copies import TwoCopies
from support.runs.products import thinned

STRUCT = pa.struct([("x", pa.int64()), ("y", pa.string())])
LIBRARIES = {"ours": (lance_core, LanceOperation), "theirs": (lance, lance.LanceOperation)}


def table(*, null_structs: bool = True) -> pa.Table:
    return pa.table(
        {
            "a": pa.array(range(12), pa.int64()),
            "b": pa.array([None if n % 5 == 0 else n / 2 for n in range(12)]),
            "t": [f"text {n}" for n in range(12)],
            "s": pa.array(
                [None if n == 6 and null_structs else {"x": n, "y": str(n)} for n in range(12)], STRUCT
            ),
        }
    )


def copies(path: Path, version: str = "2.2", *, stable_row_ids: bool = True) -> TwoCopies:
    """Three fragments of four rows, of the second of which one is deleted."""
    dataset = lance.write_dataset(
        table(null_structs=version > "2.0"),
        str(path / "ours"),
        max_rows_per_file=4,
        data_storage_version=version,
        enable_stable_row_ids=stable_row_ids,
    )
    dataset.delete("a = 5")
    shutil.copytree(path / "ours", path / "theirs")
    return TwoCopies(path / "ours", path / "theirs")


UPDATES: dict[str, tuple[pa.Table, str, str | None]] = {
    "one column": (pa.table({"a": [4, 6, 99], "b": [-1.0, None, 3.0]}), "a", None),
    "another name": (pa.table({"k": ["text 7", "text 7"], "b": [1.0, 2.0]}), "t", "k"),
    "by row id": (pa.table({"_rowid": pa.array([4, 7], pa.uint64()), "t": ["x", "y"]}), "_rowid", None),
    "by address": (pa.table({"_rowaddr": pa.array([1 << 32], pa.uint64()), "a": [77]}), "_rowaddr", None),
    "a struct": (
        pa.table(
            {
                "a": [6, 7],
                "s": pa.array([{"x": -6, "y": None}, {"x": None, "y": "z"}], STRUCT),
                "t": ["p", "q"],
            }
        ),
        "a",
        None,
    ),
    "nothing": (pa.table({"a": [99], "b": [1.0]}), "a", None),
    "a deleted row": (pa.table({"a": [5], "b": [1.0]}), "a", None),
}


@pytest.mark.parametrize(
    ("version", "update", "with_offsets"), thinned(["2.0", "2.1", "2.2"], UPDATES, [False, True])
)
def test_updates_are_those_of_the_reference(
    version: str, update: str, with_offsets: bool, tmp_path: Path
) -> None:
    both = copies(tmp_path, version)
    rows, left_on, right_on = UPDATES[update]
    for name, (library, operations) in LIBRARIES.items():
        uri = str(tmp_path / name)
        dataset = library.dataset(uri)
        fragment = dataset.get_fragment(1)
        result = fragment.update_columns(rows, left_on, right_on, with_offsets=with_offsets)
        more = {"updated_fragment_offsets": {1: result[2]}} if with_offsets else {}
        operation = operations.Update(
            updated_fragments=[result[0]],
            fields_modified=result[1],
            update_mode="rewrite_columns",
            **more,
        )
        library.LanceDataset.commit(uri, operation, read_version=dataset.version)
        if with_offsets:
            assert set(pyroaring.BitMap.deserialize(result[2])) < {0, 2, 3} | {9}
    compare(both, with_versions=with_offsets)
    both.go_on()


def compare(both: TwoCopies, *, with_versions: bool) -> None:
    """Compare like `TwoCopies.check`, but ignore the order of columns in files.

    Where nobody says which rows changed the reference calls none changed, and we call all.
    """
    ours, theirs = lance_core.dataset(both.ours), lance.dataset(str(both.theirs))
    assert lance.dataset(str(both.ours)).validate() is None
    columns = [*theirs.schema.names, "_rowid", "_rowaddr"]
    if with_versions:
        columns += ["_row_created_at_version", "_row_last_updated_at_version"]
    expected = theirs.to_table(columns=columns)
    assert ours.to_table(columns=columns).equals(expected)
    assert lance.dataset(str(both.ours)).to_table(columns=columns).equals(expected)
    files = [
        [[sorted(file.fields) for file in each.files] for each in dataset.snapshot.manifest.message.fragments]
        for dataset in (ours, lance_core.dataset(both.theirs))
    ]
    assert files[0] == files[1]


def test_updated_columns_are_forgotten_by_their_indices(tmp_path: Path) -> None:
    """The reference finds new values, and no old ones, through its index."""
    both = copies(tmp_path)
    lance.dataset(str(both.ours)).create_scalar_index("a", "BTREE")
    lance.dataset(str(both.ours)).create_scalar_index("t", "BTREE")
    dataset = lance_core.dataset(both.ours)
    fragment, fields = dataset.get_fragment(1).update_columns(pa.table({"t": ["text 4"], "a": [400]}), "t")
    operation = LanceOperation.Update(
        updated_fragments=[fragment], fields_modified=fields, update_mode="rewrite_columns"
    )
    lance_core.LanceDataset.commit(str(both.ours), operation, read_version=dataset.version)
    theirs = lance.dataset(str(both.ours))
    wanted = {"a = 400": ["text 4"], "a = 4": [], "a = 6": ["text 6"], "a = 8": ["text 8"]}
    for condition, found in wanted.items():
        assert theirs.to_table(filter=condition)["t"].to_pylist() == found
    assert theirs.to_table(filter="t = 'text 4'")["a"].to_pylist() == [400]


def test_files_of_which_every_column_was_replaced_go(tmp_path: Path) -> None:
    both = copies(tmp_path)
    both.do(lambda d: d.add_columns({"n": "a * 2"}))
    for name, (library, operations) in LIBRARIES.items():
        uri = str(tmp_path / name)
        dataset = library.dataset(uri)
        rows = pa.table({"a": [4, 6], "n": [-4, -6]})
        fragment, fields, offsets = dataset.get_fragment(1).update_columns(rows, "a", with_offsets=True)
        operation = operations.Update(
            updated_fragments=[fragment],
            fields_modified=fields,
            update_mode="rewrite_columns",
            updated_fragment_offsets={1: offsets},
        )
        library.LanceDataset.commit(uri, operation, read_version=dataset.version)
    compare(both, with_versions=True)
    both.go_on()


@pytest.mark.parametrize(
    "rows",
    [
        pa.table({"a": [4], "b": [1]}),
        pa.table({"a": [4], "zz": [1]}),
        pa.table({"zz": [4], "b": [1.0]}),
        pa.table({"a": pa.array([4], pa.int8()), "b": [1.0]}),
        pa.table({"a": [4], "s": [{"x": 1}]}),
    ],
)
def test_refused_updates_leave_no_files(rows: pa.Table, tmp_path: Path) -> None:
    both = copies(tmp_path)
    files = sorted((both.ours / "data").iterdir())
    with pytest.raises(InvalidInputError):
        lance_core.dataset(both.ours).get_fragment(1).update_columns(rows, "a")
    assert sorted((both.ours / "data").iterdir()) == files


@pytest.mark.parametrize("column", ["_rowid", "_rowaddr", "_row_created_at_version"])
def test_row_ids_and_the_like_cannot_be_updated(column: str, tmp_path: Path) -> None:
    fragment = lance_core.dataset(copies(tmp_path).ours).get_fragment(1)
    with pytest.raises(InvalidInputError, match=f"metadata column .*{column}"):
        fragment.update_columns(pa.table({"a": [4], column: pa.array([0], pa.uint64())}), "a")


def test_updates_of_legacy_files(tmp_path: Path) -> None:
    both = copies(tmp_path, "0.1", stable_row_ids=False)
    with pytest.raises(UnsupportedFeatureError, match=r"0\.1"):
        lance_core.dataset(both.ours).get_fragment(1).update_columns(pa.table({"a": [4], "b": [1.0]}), "a")


@pytest.mark.parametrize("kind", ["expression", "stream", "join"])
def test_columns_of_each_fragment_committed_at_once(kind: str, tmp_path: Path) -> None:
    both = copies(tmp_path)
    for name, (library, operations) in LIBRARIES.items():
        uri = str(tmp_path / name)
        dataset = library.dataset(uri)
        fragments, schema = [], None
        for fragment in dataset.get_fragments():
            if kind == "expression":
                message, schema = fragment.merge_columns({"n": "a * 2"})
            elif kind == "stream":
                values = pa.table({"n": [f"{fragment.fragment_id}"] * fragment.count_rows()})
                message, schema = fragment.merge_columns(values.to_reader())
            else:
                message, schema = fragment.merge(pa.table({"a": [0, 4, 11], "n": [1, 2, 3]}), "a")
            fragments.append(message)
        operation = operations.Merge(fragments, schema, preserves_nullability=True)
        library.LanceDataset.commit(uri, operation, read_version=dataset.version)
    both.check()
    both.go_on()


def test_a_stream_with_more_rows_than_the_fragment(tmp_path: Path) -> None:
    both = copies(tmp_path)
    files = sorted((both.ours / "data").iterdir())
    for num_rows in (2, 4):
        with pytest.raises(InvalidInputError, match="rows"):
            lance_core.dataset(both.ours).get_fragment(1).merge_columns(pa.table({"n": [1] * num_rows}))
    assert sorted((both.ours / "data").iterdir()) == files


def replacement(library: Any, uri: str, fragment_id: int) -> Any:
    """Return a file with other values of the column `a`."""
    from lance.file import LanceFileWriter

    name = f"{fragment_id}.lance"
    path = Path(uri) / "data" / name
    with LanceFileWriter(str(path), pa.schema([("a", pa.int64())]), version="2.2") as writer:
        writer.write_batch(pa.record_batch({"a": pa.array(range(100, 104), pa.int64())}))
    data_file = lance.fragment.DataFile if library is lance else lance_core.DataFile
    return data_file(name, [0], [0], 2, 2, path.stat().st_size)


def test_replaced_data(tmp_path: Path) -> None:
    """A file in the place of another one, and no stale hits through the index on its column."""
    lance.write_dataset(pa.table({"a": range(12)}), str(tmp_path / "ours"), max_rows_per_file=4)
    lance.dataset(str(tmp_path / "ours")).create_scalar_index("a", "BTREE")
    shutil.copytree(tmp_path / "ours", tmp_path / "theirs")
    for name, (library, operations) in LIBRARIES.items():
        uri = str(tmp_path / name)
        group = operations.DataReplacementGroup(1, replacement(library, uri, 1))
        operation = operations.DataReplacement([group])
        library.LanceDataset.commit(uri, operation, read_version=library.dataset(uri).version)
    TwoCopies(tmp_path / "ours", tmp_path / "theirs").check()
    theirs = lance.dataset(str(tmp_path / "ours"))
    assert [theirs.count_rows(f"a = {n}") for n in (3, 4, 8, 100, 103)] == [1, 0, 1, 1, 1]


def stage(path: Path, fragment_id: int, schema: pa.Schema, values: list[Any]) -> StagedColumns:
    """Write a column of all physical rows of a fragment, in two batches."""
    writer = StagedColumnsWriter(lance_core.dataset(path).snapshot, fragment_id, schema)
    for part in (values[:3], values[3:]):
        writer.write(pa.record_batch([pa.array(part, schema.field(0).type)], schema=schema))
    return StagedColumns.from_json(writer.finish().json())


N = pa.schema([pa.field("n", pa.int64())])


def test_staged_columns(tmp_path: Path) -> None:
    both = copies(tmp_path)
    staged = [stage(both.ours, number, N, [10 * number + n for n in range(4)]) for number in (0, 1)]
    lance.dataset(str(both.ours)).delete("a = 1")  # between: what is deleted has a value, which nobody reads
    lance_core.write_dataset(table().slice(0, 1), both.ours, mode="append")
    made = commit_staged_columns(lance_core.dataset(both.ours).snapshot, staged)
    assert made.manifest.version == 5
    values = [0, 2, 3, 10, 12, 13, *[None] * 4, None]
    for library in (lance_core, lance):
        dataset = library.dataset(str(both.ours))
        dataset.validate()
        assert dataset.to_table()["n"].to_pylist() == values
        assert dataset.schema.names == ["a", "b", "t", "s", "n"]


def test_staged_columns_are_committed_once(tmp_path: Path) -> None:
    both = copies(tmp_path)
    snapshot = lance_core.dataset(both.ours).snapshot
    staged = [stage(both.ours, 1, N, [1, 2, 3, 4])]
    uuid = "0f8fad5b-d9cb-469f-a165-70867728950e"
    versions = [
        commit_staged_columns(snapshot, staged, transaction_id=uuid).manifest.version for _ in range(2)
    ]
    assert versions == [3, 3]


def test_refused_staged_columns(tmp_path: Path) -> None:
    both = copies(tmp_path)
    snapshot = lance_core.dataset(both.ours).snapshot
    with pytest.raises(InvalidInputError, match="fewer rows"):
        stage(both.ours, 1, N, [1, 2, 3])
    with pytest.raises(InvalidInputError, match="more rows"):
        stage(both.ours, 1, N, [1, 2, 3, 4, 5])
    with pytest.raises(InvalidInputError, match="fragment"):
        stage(both.ours, 7, N, [1])
    with pytest.raises(InvalidInputError, match="exists"):
        stage(both.ours, 1, pa.schema([("a", pa.int64())]), [1, 2, 3, 4])
    with pytest.raises(InvalidInputError, match="staged columns"):
        StagedColumns.from_json("[]")
    one = stage(both.ours, 1, N, [1, 2, 3, 4])
    with pytest.raises(InvalidInputError, match="twice"):
        commit_staged_columns(snapshot, [one, one])
    with pytest.raises(InvalidInputError, match="nothing"):
        commit_staged_columns(snapshot, [])
    other = stage(both.ours, 2, pa.schema([("m", pa.int64())]), [1, 2, 3, 4])
    with pytest.raises(InvalidInputError, match="different"):
        commit_staged_columns(snapshot, [one, other])
    required = stage(both.ours, 0, pa.schema([pa.field("m", pa.int64(), False)]), [1, 2, 3, 4])
    with pytest.raises(InvalidInputError, match="fragment 1 lacks"):
        commit_staged_columns(snapshot, [required])
    assert lance_core.dataset(both.ours).version == 2
    delete_files(snapshot.storage, [each.fragment.files[-1].path for each in (one, other, required)])
    referenced = {path.name for path in (both.theirs / "data").iterdir()}
    assert {path.name for path in (both.ours / "data").iterdir()} == referenced


@pytest.mark.parametrize("change", ["add", "compact", "update", "move", "restore", "remove"])
def test_staged_columns_of_what_is_no_more(change: str, tmp_path: Path) -> None:
    """T37: rows that are in other places, or there again, would have nulls."""
    both = copies(tmp_path)
    staged = [stage(both.ours, 1, N, [1, 2, 3, 4])]
    dataset = lance.dataset(str(both.ours))
    if change == "move":
        dataset.update({"t": "'new'"}, "a = 6")
    elif change == "restore":
        lance.dataset(str(both.ours), version=1).restore()
    elif change == "remove":  # a version that nobody can compare
        dataset.update({"t": "'new'"}, "a = 6")
        dataset.delete("a = 0")
        next((both.ours / "_versions").glob(f"*{2**64 - 4}.manifest")).unlink()
    elif change == "add":
        dataset.add_columns({"q": "a"})
    elif change == "compact":
        dataset.optimize.compact_files()
    else:
        fragment, fields = dataset.get_fragment(1).update_columns(pa.table({"a": [4], "b": [1.0]}), "a")
        operation = lance.LanceOperation.Update(updated_fragments=[fragment], fields_modified=fields)
        lance.LanceDataset.commit(str(both.ours), operation, read_version=dataset.version)
    before = lance.dataset(str(both.ours)).version
    with pytest.raises(CommitConflictError) as caught:
        commit_staged_columns(lance_core.dataset(both.ours).snapshot, staged)
    assert not caught.value.retryable
    assert lance.dataset(str(both.ours)).version == before


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.2"])
def test_all_rows_become_one_fragment(tmp_path: Path, version: str) -> None:
    """Also more rows than `write_fragments` puts into one by default."""
    rows = pa.table({"x": range((1 << 20) + 5)})
    lance.write_dataset(rows[:1], tmp_path / "d", data_storage_version=version)
    written = lance_core.LanceFragment.create(str(tmp_path / "d"), rows)
    assert (written.id, written.physical_rows) == (0, rows.num_rows)
    dataset = lance_core.LanceDataset.commit(tmp_path / "d", LanceOperation.Append([written]), read_version=1)
    assert [fragment.physical_rows for fragment in dataset.get_fragments()] == [1, rows.num_rows]
    assert lance.dataset(tmp_path / "d").to_table() == pa.concat_tables([rows[:1], rows])


@pytest.mark.parametrize("library", [lance, lance_core], ids=lambda library: library.__name__)
def test_fragments_are_created_as_by_the_reference(tmp_path: Path, library: Any) -> None:
    create, rows = library.LanceFragment.create, pa.table({"x": [1, 2]})
    assert create(str(tmp_path / "d"), rows, fragment_id=7).id == 7
    assert create(str(tmp_path / "d"), rows.to_reader(), schema=rows.schema, mode="overwrite").num_rows == 2
    with pytest.raises((OSError, InvalidInputError)):
        create(str(tmp_path / "d"), rows[:0])
    left = list((tmp_path / "d" / "data").iterdir())
    assert library is lance or len(left) == 2  # the reference leaves a file of the last one


@pytest.mark.parametrize("library", [lance, lance_core], ids=lambda library: library.__name__)
def test_only_operations_are_committed(tmp_path: Path, library: Any) -> None:
    library.write_dataset(pa.table({"x": [1]}), str(tmp_path / "d"))
    with pytest.raises(TypeError, match=r"^operation must be"):
        library.LanceDataset.commit(str(tmp_path / "d"), "append", read_version=1)
