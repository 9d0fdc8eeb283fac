"""Fragments through a life of changes, compared with the reference after each."""

from collections.abc import Callable
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_core.errors import CorruptFileError, LanceError, UnsupportedFeatureError
from lance_core.proto import table_pb2
from lance_core.schema import leaves
from lance_core.storage import LocalStorage
from lance_core.table.deletions import read_deletions
from lance_core.table.fragment import Fragment
from lance_core.table.snapshot import Snapshot, open_snapshot
from support.files.manifests import edit_manifest


def snapshot_of(path: Path, version: int | None = None) -> Snapshot:
    return open_snapshot(LocalStorage(str(path)), version)


def compare(path: Path, version: int) -> None:
    """Everything the reference tells about the fragments of a version."""
    theirs = lance.dataset(str(path), version=version)
    ours = snapshot_of(path, version)
    assert ours.manifest.num_rows == theirs.count_rows()
    assert ours.manifest.schema.to_arrow().equals(theirs.schema, check_metadata=True)
    assert [fragment.id for fragment in ours.manifest.fragments] == [
        fragment.fragment_id for fragment in theirs.get_fragments()
    ]
    for mine, other in zip(ours.manifest.fragments, theirs.get_fragments(), strict=True):
        assert mine.physical_rows == other.physical_rows
        assert mine.num_deleted_rows == other.num_deletions
        assert mine.num_rows == other.count_rows()
        assert [(file.path, dict(file.columns), file.version.name, file.size) for file in mine.files] == [
            (
                f"data/{file.path}",
                {
                    field: column
                    for field, column in zip(file.fields, file.column_indices, strict=True)
                    if field >= 0 and column >= 0
                },
                f"{file.file_major_version}.{file.file_minor_version}",
                file.file_size_bytes,
            )
            for file in other.data_files()
        ]
        deleted = read_deletions(ours.storage, mine)
        addresses = other.to_table(columns=[], with_row_address=True)["_rowaddr"].to_numpy()
        left = np.setdiff1d(np.arange(mine.physical_rows, dtype=np.uint64), deleted)
        assert np.array_equal(left, addresses & 0xFFFFFFFF)


CHANGES: dict[str, Callable[[lance.LanceDataset], object]] = {
    "append": lambda dataset: lance.write_dataset(
        dataset.to_table(), dataset.uri, mode="append", max_rows_per_file=7
    ),
    "delete some": lambda dataset: dataset.delete("number % 3 = 1"),
    "delete more": lambda dataset: dataset.delete("number = 5"),
    "delete a fragment": lambda dataset: dataset.delete("number < 4"),
    "delete nothing": lambda dataset: dataset.delete("number > 1000"),
    "add a column": lambda dataset: dataset.add_columns({"twice": "number * 2"}),
    "add a null column": lambda dataset: dataset.add_columns(pa.field("later", pa.list_(pa.utf8()))),
    "append with more columns": lambda dataset: lance.write_dataset(
        dataset.to_table(), dataset.uri, mode="append"
    ),
    "rename": lambda dataset: dataset.alter_columns({"path": "text", "name": "label"}),
    "cast": lambda dataset: dataset.alter_columns({"path": "twice", "data_type": pa.int16()}),
    "drop": lambda dataset: dataset.drop_columns(["label"]),
    "drop nested": lambda dataset: dataset.drop_columns(["point.y"]),
    "update": lambda dataset: dataset.update({"twice": "7"}, where="number = 8"),
    "compact": lambda dataset: dataset.optimize.compact_files(target_rows_per_fragment=9),
    "restore": lambda dataset: lance.dataset(dataset.uri, version=4).restore(),
    "empty": lambda dataset: dataset.delete("true"),
    "overwrite": lambda dataset: lance.write_dataset(pa.table({"new": [1]}), dataset.uri, mode="overwrite"),
}


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("stable_row_ids", [False, True])
def test_every_version_of_a_long_life(
    tmp_path: Path, table: pa.Table, version: str, stable_row_ids: bool
) -> None:
    path = tmp_path / "t"
    lance.write_dataset(
        table,
        str(path),
        max_rows_per_file=4,
        data_storage_version=version,
        enable_stable_row_ids=stable_row_ids,
    )
    for change in CHANGES.values():
        change(lance.dataset(str(path)))
    latest = lance.dataset(str(path)).version
    assert latest >= len(CHANGES)
    for number in range(1, latest + 1):
        compare(path, number)
    assert max(len(fragment.files) for fragment in snapshot_of(path, 8).manifest.fragments) > 1


def test_large_deletions_are_bitmaps(tmp_path: Path) -> None:
    path = tmp_path / "t"
    dataset = lance.write_dataset(pa.table({"number": range(40_000)}), str(path), max_rows_per_file=20_000)
    dataset.delete("number % 2 = 0 OR number BETWEEN 1000 AND 3000")
    dataset.delete("number = 20_001")

    kinds = [fragment.deletion_file.is_bitmap for fragment in snapshot_of(path).manifest.fragments]
    assert kinds == [True, True]
    compare(path, 2)
    compare(path, 3)


def test_obsolete_and_hidden_columns_are_left_out(tmp_path: Path, table: pa.Table) -> None:
    """docs/format.md, "Fragments": -2 marks an obsolete column, -3 to -5 hidden ones."""
    lance.write_dataset(table, str(tmp_path))

    def change(message: table_pb2.Manifest) -> None:
        message.fragments[0].files[0].fields[:] = [0, -2, -3, 4]

    edit_manifest(tmp_path, change)
    (fragment,) = snapshot_of(tmp_path).manifest.fragments
    assert dict(fragment.files[0].columns) == {0: 0, 4: 3}


def test_an_in_place_column_rewrite_leaves_a_tombstone(tmp_path: Path, table: pa.Table) -> None:
    dataset = lance.write_dataset(table, str(tmp_path))
    update = pa.table({"number": pa.array([3], pa.int32()), "text": ["changed"]})
    fragment, modified = dataset.get_fragments()[0].update_columns(update, "number", "number")
    operation = lance.LanceOperation.Update(
        updated_fragments=[fragment], fields_modified=modified, update_mode="rewrite_columns"
    )
    lance.LanceDataset.commit(dataset, operation, read_version=1)

    compare(tmp_path, 2)
    snapshot = snapshot_of(tmp_path)
    (mine,) = snapshot.manifest.fragments
    text = snapshot.manifest.schema.resolve("text").id
    assert [text in file.columns for file in mine.files] == [False, True]


def test_every_stored_field_has_a_leaf(tmp_path: Path, table: pa.Table) -> None:
    lance.write_dataset(table, str(tmp_path))
    manifest = snapshot_of(tmp_path).manifest
    expected = {leaf.id for field in manifest.schema.fields for leaf in leaves(field)}
    assert set(manifest.fragments[0].files[0].columns) == expected


@pytest.mark.parametrize(
    "path",
    [
        "../../secret.lance",
        "/etc/passwd",
        "a/../../x",
        "",
        ".",
        "..",
        "x\0.lance",
        "..\\x",
        "sub//x",
        "file:///etc/passwd",
    ],
)
def test_a_data_file_cannot_leave_its_table(tmp_path: Path, table: pa.Table, path: str) -> None:
    """T11"""
    lance.write_dataset(table, str(tmp_path))
    edit_manifest(tmp_path, lambda message: setattr(message.fragments[0].files[0], "path", path))
    with pytest.raises(CorruptFileError, match="leaves the dataset"):
        _ = snapshot_of(tmp_path).manifest.fragments[0].files


def test_a_link_in_a_table_cannot_lead_out_of_it(tmp_path: Path, table: pa.Table) -> None:
    """T8, T11"""
    path = tmp_path / "t"
    lance.write_dataset(table, str(path))
    (file,) = (path / "data").iterdir()
    file.rename(tmp_path / "outside.lance")
    file.symlink_to(tmp_path / "outside.lance")
    snapshot = snapshot_of(path)
    with pytest.raises(LanceError, match="link leaves"):
        snapshot.storage.open_file(snapshot.manifest.fragments[0].files[0].path)


def test_base_paths_that_no_file_uses_are_harmless(tmp_path: Path, table: pa.Table) -> None:
    lance.write_dataset(table, str(tmp_path))

    def change(message: table_pb2.Manifest) -> None:
        message.base_paths.add(id=1, path="/elsewhere")
        message.reader_feature_flags |= 16
        message.writer_feature_flags |= 16

    edit_manifest(tmp_path, change)
    manifest = snapshot_of(tmp_path).manifest
    assert [(base.id, base.path) for base in manifest.base_paths.values()] == [(1, "/elsewhere")]
    assert manifest.num_rows == 10


def walk(path: Path) -> None:
    for fragment in snapshot_of(path).manifest.fragments:
        _ = fragment.files, fragment.deletion_file, fragment.num_rows


def set_file(**fields: object) -> Callable[[table_pb2.Manifest], None]:
    def change(message: table_pb2.Manifest) -> None:
        (file,) = message.fragments[0].files
        for name, value in fields.items():
            if isinstance(value, list):
                getattr(file, name)[:] = value
            else:
                setattr(file, name, value)

    return change


def add(what: Callable[[table_pb2.Manifest], object]) -> Callable[[table_pb2.Manifest], None]:
    def change(message: table_pb2.Manifest) -> None:
        what(message)

    return change


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (set_file(column_indices=[0]), CorruptFileError, "one column per field"),
        (set_file(fields=[0, 0, 3, 4]), CorruptFileError, "two columns"),
        (set_file(file_minor_version=1), CorruptFileError, "another version"),
        (set_file(file_minor_version=3), UnsupportedFeatureError, "2.3"),
        (set_file(base_id=0), CorruptFileError, "base path that the table does not declare"),
        (
            add(lambda m: m.fragments[0].files.append(m.fragments[0].files[0])),
            CorruptFileError,
            "two columns",
        ),
        (add(lambda m: m.fragments[0].overlays.add()), UnsupportedFeatureError, "overlay"),
        (add(lambda m: m.fragments.append(m.fragments[0])), CorruptFileError, "fragment ids"),
        (add(lambda m: setattr(m.fragments[0], "id", 1 << 32)), CorruptFileError, "fragment ids"),
        (
            add(lambda m: setattr(m.fragments[0].deletion_file, "base_id", 3)),
            CorruptFileError,
            "base path that the table does not declare",
        ),
        (
            add(lambda m: setattr(m.fragments[0].deletion_file, "file_type", 7)),
            UnsupportedFeatureError,
            "found 7",
        ),
        (
            add(lambda m: setattr(m.fragments[0].deletion_file, "num_deleted_rows", 11)),
            CorruptFileError,
            "more deleted rows",
        ),
    ],
)
def test_a_fragment_that_contradicts_itself_is_refused(
    tmp_path: Path,
    table: pa.Table,
    change: Callable[[table_pb2.Manifest], None],
    error: type[LanceError],
    words: str,
) -> None:
    """T22, T43"""
    lance.write_dataset(table, str(tmp_path), data_storage_version="2.2").delete("number = 1")
    edit_manifest(tmp_path, change)
    with pytest.raises(error, match=words):
        walk(tmp_path)


def test_files_of_several_versions_need_their_flag(tmp_path: Path, table: pa.Table) -> None:
    lance.write_dataset(table, str(tmp_path), data_storage_version="2.1")

    def change(message: table_pb2.Manifest) -> None:
        message.data_format.version = "2.2"
        message.reader_feature_flags |= 256
        message.writer_feature_flags |= 256

    edit_manifest(tmp_path, change)
    assert snapshot_of(tmp_path).manifest.fragments[0].files[0].version.name == "2.1"


@pytest.mark.parametrize("delete", [False, True])
def test_unknown_row_counts_are_counted(tmp_path: Path, table: pa.Table, delete: bool) -> None:
    """Libraries before 0.8 stored no numbers of rows and deleted rows."""
    dataset = lance.write_dataset(table, str(tmp_path), max_rows_per_file=5)
    if delete:
        dataset.delete("number IN (1, 7, 9)")

    def change(message: table_pb2.Manifest) -> None:
        for fragment in message.fragments:
            fragment.physical_rows = 0
            if delete:
                fragment.deletion_file.num_deleted_rows = 0

    edit_manifest(tmp_path, change)
    manifest = snapshot_of(tmp_path).manifest
    assert [(f.physical_rows, f.num_rows) for f in manifest.fragments] == (
        [(5, 4), (5, 3)] if delete else [(5, 5)] * 2
    )
    assert manifest.num_rows == lance.dataset(str(tmp_path)).count_rows() == (7 if delete else 10)


@pytest.mark.parametrize(
    ("fields", "columns"),
    [([4, 5, 7], {4: 0, 5: 1, 7: 3}), ([4, -2, 7], {4: 0, 7: 3}), ([7, 4], None), ([-2, 7], None)],
)
def test_columns_of_0_1_files_follow_from_field_ids(
    fields: list[int], columns: dict[int, int] | None
) -> None:
    """The page table begins with the first field that the manifest lists, which has to be the smallest.

    T22: a wrong beginning would give the values of other fields.
    """
    file = table_pb2.DataFile(path="f.lance", fields=fields, file_minor_version=2)
    fragment = Fragment(table_pb2.DataFragment(files=[file], physical_rows=1), "manifest", None, {})
    if columns is None:
        with pytest.raises(LanceError, match=r"f\.lance"):
            _ = fragment.files
    else:
        assert fragment.files[0].columns == columns
