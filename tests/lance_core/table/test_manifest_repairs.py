"""Tables with the damage that old releases of the reference left, made by editing manifests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.proto import table_pb2
from lance_core.table.manifest import parse_manifest, serialize_manifest
from support.files.manifests import edit_manifest, newest_manifest, read_message

Edit = Callable[[table_pb2.Manifest], object]


def sign(message: table_pb2.Manifest, release: str) -> None:
    message.writer_version.library, message.writer_version.version = "lance", release


def append(path: Path) -> None:
    lance_core.write_dataset(lance_core.dataset(path).to_table(limit=1), path, mode="append")


def delete_nothing(path: Path) -> None:
    lance_core.dataset(path).delete("false")


def delete(path: Path) -> None:
    lance_core.dataset(path).delete("x = 1")


def compact(path: Path) -> None:
    lance_core.dataset(path).optimize.compact_files()


def add_column(path: Path) -> None:
    lance_core.dataset(path).add_columns({"added": "x + 1"})


CHANGES = [append, delete_nothing, delete, compact, add_column]


def check_written_on(path: Path, change: Callable[[Path], None], expected: pa.Table) -> None:
    """A change of ours leaves a table that is right for both libraries, and that the reference continues."""
    change(path)
    ours = lance_core.dataset(path)
    ours.validate()
    if change in (append, delete):
        more = expected.slice(0, 1) if change is append else expected.slice(0, 0)
        left = [value != 1 or change is append for value in expected["x"].to_pylist()]
        expected = pa.concat_tables([expected.filter(pa.array(left)), more])
    for found in (ours, lance.dataset(str(path))):
        assert found.to_table(columns=expected.column_names).equals(expected)
        assert found.count_rows() == expected.num_rows
    lance.dataset(str(path)).validate()
    lance.write_dataset(ours.to_table().slice(0, 1), str(path), mode="append")
    assert lance.dataset(str(path)).count_rows() == expected.num_rows + 1
    assert lance_core.dataset(path).to_table().equals(lance.dataset(str(path)).to_table())


@pytest.fixture
def miscounted(tmp_path: Path) -> Path:
    """Write the row counts of release 0.8.0, which recorded the live rows as all rows and
    signed no manifest.
    """
    path = tmp_path / "miscounted"
    dataset = lance.write_dataset(
        pa.table({"x": range(40)}), str(path), max_rows_per_file=30, data_storage_version="legacy"
    )
    dataset.delete("x >= 25 AND x < 30")

    def damage(message: table_pb2.Manifest) -> None:
        message.ClearField("writer_version")
        message.ClearField("data_format")
        message.fragments[0].physical_rows = 25

    edit_manifest(path, damage)
    return path


def test_wrong_row_counts_are_not_believed(miscounted: Path) -> None:
    """T22: a count is the count that a scan gives; the deleted rows lie behind the rows that are noted."""
    ours = lance_core.dataset(miscounted)
    assert ours.count_rows() == ours.to_table().num_rows == lance.dataset(str(miscounted)).count_rows() == 35
    assert [fragment.physical_rows for fragment in ours.get_fragments()] == [30, 10]
    with pytest.raises(CorruptFileError, match="fragment 0 has 30 rows, not 25"):
        ours.validate()


def test_rows_are_counted_in_files_of_a_wrong_size(miscounted: Path) -> None:
    """T22: some releases measured 0.1 files before their end was written; counting rows ignores that."""

    def damage(message: table_pb2.Manifest) -> None:
        for fragment in message.fragments:
            fragment.files[0].file_size_bytes = 100

    edit_manifest(miscounted, damage)
    assert lance_core.dataset(miscounted).count_rows() == 35


@pytest.mark.parametrize("change", CHANGES)
def test_wrong_row_counts_are_written_right(miscounted: Path, change: Callable[[Path], None]) -> None:
    """A commit of ours is signed, and readers believe the row counts of signed manifests."""
    expected = pa.table({"x": [*range(25), *range(30, 40)]})
    check_written_on(miscounted, change, expected)
    counts = [fragment.physical_rows for fragment in read_message(newest_manifest(miscounted)).fragments]
    assert change is compact or counts[:2] == [30, 10]


def test_wrong_row_counts_of_a_restored_version_are_written_right(miscounted: Path) -> None:
    damaged = lance_core.dataset(miscounted).version
    lance_core.write_dataset(pa.table({"x": [1]}), miscounted, mode="overwrite")
    lance_core.dataset(miscounted, version=damaged).restore()
    lance_core.dataset(miscounted).validate()
    assert lance.dataset(str(miscounted)).count_rows() == lance_core.dataset(miscounted).count_rows() == 35


@pytest.fixture(params=[("0.10.5", 1), ("0.10.5", 2), (None, 1)])
def doubled(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Releases to 0.10 gave added columns the ids of one or two dropped ones, which stayed in the files."""
    release, num_dropped = request.param
    path = tmp_path / f"doubled{num_dropped}"
    dropped = [f"old{number}" for number in range(num_dropped)]
    for values in ([0, 1, 7], [2, 3, 8]):
        table = pa.table({"x": values[:2], **dict.fromkeys(dropped, values[2:] * 2)})
        lance.write_dataset(table, str(path), mode="append", data_storage_version="legacy")
    dataset = lance.dataset(str(path))
    dataset.drop_columns(dropped)
    dataset.add_columns({"new": "x * 4", "newer": "x * 5"})

    def damage(message: table_pb2.Manifest) -> None:
        if release:
            sign(message, release)
        else:
            message.ClearField("writer_version")
        for field in message.fields[1:]:
            field.id -= num_dropped
        for fragment in message.fragments:
            fragment.files[1].fields[:] = [1, 2]

    edit_manifest(path, damage)
    return path


DOUBLED = pa.table({"x": range(4), "new": [0, 4, 8, 12], "newer": [0, 5, 10, 15]})


def test_the_last_column_of_a_field_counts(doubled: Path) -> None:
    """T22: the reference reads the values of the dropped column until its next commit."""
    assert lance.dataset(str(doubled)).to_table(columns=["new"])["new"].to_pylist() == [7, 7, 8, 8]
    ours = lance_core.dataset(doubled)
    assert ours.to_table().equals(DOUBLED)
    assert ours.to_table(columns=["new"], filter="newer > 5").equals(DOUBLED.select(["new"]).slice(2))
    with pytest.raises(CorruptFileError, match=r"fields \[1(, 2)?\] have two columns"):
        ours.validate()
    lance.dataset(str(doubled)).delete("false")  # the repair of the reference
    if doubled.name == "doubled2":  # it loses files that are left with new and old ids
        assert lance.dataset(str(doubled)).to_table().equals(DOUBLED)


@pytest.mark.parametrize("change", CHANGES)
def test_fields_with_two_columns_are_written_right(doubled: Path, change: Callable[[Path], None]) -> None:
    check_written_on(doubled, change, DOUBLED)


@pytest.mark.parametrize("change", CHANGES)
def test_fields_with_two_columns_in_some_fragments(doubled: Path, change: Callable[[Path], None]) -> None:
    """Rows that were appended after the damage have all their columns in one file."""
    added = doubled.parent / "added"
    more = pa.table({"x": [4, 5], "new": [16, 20], "newer": [20, 25]})
    lance.write_dataset(more, str(added), data_storage_version="legacy")
    fragment = read_message(newest_manifest(added)).fragments[0]
    fragment.id = 2
    (file,) = fragment.files
    (doubled / "data" / file.path).write_bytes((added / "data" / file.path).read_bytes())

    def add_fragment(message: table_pb2.Manifest) -> None:
        message.fragments.append(fragment)
        message.max_fragment_id = 2

    edit_manifest(doubled, add_fragment)
    expected = pa.concat_tables([DOUBLED, more])
    assert lance_core.dataset(doubled).to_table().equals(expected)
    check_written_on(doubled, change, expected)


def test_fields_with_two_columns_are_corrupt_in_later_releases(doubled: Path) -> None:
    """T22"""
    edit_manifest(doubled, lambda message: sign(message, "0.20.0"))
    with pytest.raises(CorruptFileError, match="field of fragment 0 has two columns"):
        lance_core.dataset(doubled).to_table()


def test_a_struct_with_two_columns_keeps_its_children(tmp_path: Path) -> None:
    """The struct and its children get new ids, the children name the new parent, and indices on these fields
    are dropped.
    """
    table = pa.table({"x": [0, 1], "old": [{"a": 7}] * 2})
    dataset = lance.write_dataset(table, str(tmp_path), data_storage_version="legacy")
    dataset.create_scalar_index("x", "BTREE")
    dataset.drop_columns(["old"])
    lance.dataset(str(tmp_path)).merge(pa.table({"x": [0, 1], "new": [{"b": 3}, {"b": 4}]}), "x")
    file = newest_manifest(tmp_path)
    manifest = parse_manifest(file.read_bytes(), "manifest")
    message, section = manifest.message, table_pb2.IndexSection.FromString(manifest.index_section or b"")
    sign(message, "0.10.5")
    index = section.indices.add()
    index.CopyFrom(section.indices[0])
    index.name, index.fields[:] = "on_new", [2]
    index.uuid.uuid = bytes(range(16))
    first = message.fields[1].id
    for field in message.fields[1:]:
        field.id -= first - 1
        field.parent_id -= first - 1 if field.parent_id > 0 else 0
    message.fragments[0].files[1].fields[:] = [1, 2]
    file.write_bytes(
        serialize_manifest(message, manifest.transaction_section or b"", section.SerializeToString())
    )

    ours = lance_core.dataset(tmp_path)

    assert ours.to_table().to_pydict() == {"x": [0, 1], "new": [{"b": 3}, {"b": 4}]}
    assert [index.name for index in ours.describe_indices()] == ["x_idx"]


@pytest.fixture
def twins(tmp_path: Path) -> Path:
    """Releases around 0.16 mixed 0.1 and 2.0 files, and gave two fragments one id."""
    path, other = tmp_path / "twins", tmp_path / "other"
    lance.write_dataset(pa.table({"x": range(3)}), str(path), data_storage_version="legacy")
    lance.write_dataset(pa.table({"x": range(3, 6)}), str(other), data_storage_version="2.0")
    added = read_message(newest_manifest(other)).fragments[0]
    for file in added.files:
        (path / "data" / file.path).write_bytes((other / "data" / file.path).read_bytes())

    def damage(message: table_pb2.Manifest) -> None:
        sign(message, "0.16.1")
        message.fragments.append(added)

    edit_manifest(path, damage)
    return path


def test_fragments_of_one_id_are_told_apart(twins: Path) -> None:
    """T22: with one id for two fragments, row addresses of one would select rows of the other."""
    ours = lance_core.dataset(twins)
    table = ours.to_table(with_row_address=True)
    assert table["x"].to_pylist() == lance.dataset(str(twins)).to_table()["x"].to_pylist() == list(range(6))
    assert table["_rowaddr"].to_pylist() == [0, 1, 2, *((1 << 32) + row for row in range(3))]
    assert ours.count_rows() == 6
    assert ours.take([4, 1])["x"].to_pylist() == [4, 1]
    with pytest.raises(CorruptFileError, match="two fragments have the id 0"):
        ours.validate()


@pytest.mark.parametrize("change", CHANGES)
def test_tables_of_two_file_versions_are_not_written_on(twins: Path, change: Callable[[Path], None]) -> None:
    """The reference refuses all later commits, so ours are refused as well."""
    with pytest.raises(UnsupportedFeatureError, match="files"):
        change(twins)
    assert len(list((twins / "_versions").glob("*.manifest"))) == 1
    lance_core.write_dataset(pa.table({"x": [1]}), twins, mode="overwrite")
    assert lance.dataset(str(twins)).to_table()["x"].to_pylist() == [1]


def test_fragments_of_one_id_with_deleted_rows_are_refused(twins: Path) -> None:
    """T22: the name of a deletion file contains the id, so it is unknown which fragment the deleted rows
    belong to.
    """

    def delete_rows(message: table_pb2.Manifest) -> None:
        message.fragments[1].deletion_file.num_deleted_rows = 1

    edit_manifest(twins, delete_rows)
    with pytest.raises(CorruptFileError, match="has the id of another one"):
        lance_core.dataset(twins)


@pytest.mark.parametrize("change", CHANGES)
def test_the_version_of_the_files_counts(tmp_path: Path, change: Callable[[Path], None]) -> None:
    """Releases around 0.16 said 0.1 while all files were 2.0: reads say 2.0, writes go on with it."""
    expected = pa.table({"x": range(6)})
    lance.write_dataset(expected, str(tmp_path), data_storage_version="2.0", max_rows_per_file=3)
    edit_manifest(tmp_path, lambda message: setattr(message.data_format, "version", "0.1"))
    ours = lance_core.dataset(tmp_path)
    assert ours.data_storage_version == "2.0"
    with pytest.raises(CorruptFileError, match=r"data files are 0\.1, but they are 2\.0"):
        ours.validate()
    check_written_on(tmp_path, change, expected)
    assert lance.dataset(str(tmp_path)).data_storage_version == "2.0"


@pytest.mark.parametrize("version", ["0.1", "2.0"])
def test_a_table_without_files_keeps_the_version_of_its_flags(tmp_path: Path, version: str) -> None:
    """Releases before 0.15 noted 2.x as a flag alone."""
    lance.write_dataset(pa.table({"x": [1]}).slice(1), str(tmp_path), data_storage_version="0.1")

    def damage(message: table_pb2.Manifest) -> None:
        sign(message, "0.15.0")
        message.ClearField("data_format")
        message.writer_feature_flags |= 4 if version != "0.1" else 0

    edit_manifest(tmp_path, damage)
    for _ in range(2):
        found = lance_core.dataset(tmp_path).data_storage_version
        assert found == lance.dataset(str(tmp_path)).data_storage_version
        lance_core.dataset(tmp_path).delete("false")


def test_the_coverage_of_old_indices_is_forgotten(tmp_path: Path) -> None:
    """Fragment bitmaps of releases before 0.8.15 may be wrong. The reference trusts the bitmaps of other
    libraries.
    """
    dataset = lance.write_dataset(pa.table({"x": range(10)}), str(tmp_path))
    dataset.create_scalar_index("x", "BTREE")
    file = newest_manifest(tmp_path)
    manifest = parse_manifest(file.read_bytes(), "manifest")
    sign(manifest.message, "0.8.14")
    section = manifest.index_section
    file.write_bytes(serialize_manifest(manifest.message, manifest.transaction_section or b"", section))

    append(tmp_path)

    written = parse_manifest(newest_manifest(tmp_path).read_bytes(), "manifest")
    (index,) = table_pb2.IndexSection.FromString(written.index_section or b"").indices
    assert not index.fragment_bitmap
    assert lance.dataset(str(tmp_path)).to_table(filter="x = 0")["x"].to_pylist() == [0, 0]
