"""Feature flags: what is not implemented is refused by name before anything else."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.proto import table_pb2
from lance_core.storage import LocalStorage
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import open_snapshot
from support.files.manifests import edit_manifest
from support.runs.each_case import each_case

IGNORED_FOR_READING = 32768
READABLE = {1, 2, 4, 8, 16, 32, 128, 256, 1024, 2048}
PAIRED = {256, 1024, 16384, 65536}


@pytest.fixture
def dataset(tmp_path: Path, table: pa.Table) -> Path:
    lance.write_dataset(table, str(tmp_path / "t"), enable_stable_row_ids=True)
    return tmp_path / "t"


def open_with(dataset: Path, **fields: int) -> Manifest:
    def change(message) -> None:
        for name, value in fields.items():
            setattr(message, name, value)

    edit_manifest(dataset, change)
    return open_snapshot(LocalStorage(str(dataset))).manifest


@each_case("bit", [1 << position for position in range(64)])
def test_every_bit_is_read_or_refused_by_name(dataset: Path, bit: int) -> None:
    """T43"""
    fields = {"reader_feature_flags": bit, "writer_feature_flags": bit}
    if bit in READABLE:
        assert open_with(dataset, **fields).reader_feature_flags == bit
    elif bit == IGNORED_FOR_READING:
        with pytest.raises(CorruptFileError, match=str(bit)):
            open_with(dataset, **fields)
    else:
        with pytest.raises(UnsupportedFeatureError, match=rf"flag {bit} "):
            open_with(dataset, **fields)


@pytest.mark.parametrize("bit", [1 << position for position in range(64)])
def test_flags_for_writers_do_not_stop_a_reader(dataset: Path, bit: int) -> None:
    if bit in PAIRED:
        with pytest.raises(CorruptFileError, match=rf"flag {bit} "):
            open_with(dataset, writer_feature_flags=bit)
    else:
        others = {"max_allocated_field_id": 9} if bit == IGNORED_FOR_READING else {}
        manifest = open_with(dataset, writer_feature_flags=bit, **others)
        assert manifest.writer_feature_flags == bit


@pytest.mark.parametrize("bit", [256, 1024])
def test_half_of_a_pair_is_corrupt(dataset: Path, bit: int) -> None:
    with pytest.raises(CorruptFileError, match=rf"flag {bit} "):
        open_with(dataset, reader_feature_flags=bit)


@pytest.mark.parametrize("fields", [{"writer_feature_flags": 32768}, {"max_allocated_field_id": 9}])
def test_the_highest_field_id_comes_with_its_flag(dataset: Path, fields: dict[str, int]) -> None:
    with pytest.raises(CorruptFileError, match="max_allocated_field_id must be set together"):
        open_with(dataset, **fields)


def test_stable_row_ids_without_ids_are_corrupt(dataset: Path) -> None:
    edit_manifest(dataset, lambda message: message.fragments[0].ClearField("row_id_sequence"))
    with pytest.raises(CorruptFileError, match="fragment 0 has no row ids"):
        open_snapshot(LocalStorage(str(dataset)))


def test_row_ids_in_external_files_are_refused(dataset: Path) -> None:
    """T43: field 6 of early descriptions of the format, which no library writes."""

    def change(message: table_pb2.Manifest) -> None:
        message.fragments[0].ClearField("row_id_sequence")
        message.fragments[0].MergeFromString(b"\x32\x03\x0a\x01x")

    edit_manifest(dataset, change)
    with pytest.raises(
        UnsupportedFeatureError, match="fragment 0 keeps its row id sequence in a separate file"
    ):
        open_snapshot(LocalStorage(str(dataset)))


@pytest.mark.parametrize(("number", "column"), [(8, "last_updated_at"), (10, "created_at")])
def test_row_versions_in_external_files_are_refused(dataset: Path, number: int, column: str) -> None:
    """T43: without them all rows would seem to be of version 1."""

    def change(message: table_pb2.Manifest) -> None:
        fragment = message.fragments[0]
        fragment.ClearField(f"{column}_version_sequence")
        fragment.MergeFromString(bytes([number << 3 | 2]) + b"\x03\x0a\x01x")

    edit_manifest(dataset, change)
    opened = lance_core.dataset(dataset)
    with pytest.raises(UnsupportedFeatureError, match="sequence in a separate file"):
        opened.to_table(columns=[f"_row_{column}_version"])
    assert opened.to_table().num_rows == opened.count_rows()


def test_an_external_fragment_list_is_refused(dataset: Path) -> None:
    """T43: the fragments in the manifest would be only some of them."""
    edit_manifest(dataset, lambda message: message.fragment_tree.SetInParent())
    with pytest.raises(UnsupportedFeatureError, match="fragment list"):
        open_snapshot(LocalStorage(str(dataset)))
