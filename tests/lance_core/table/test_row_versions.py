"""Row lineage: the versions that made and changed each row, in the manifest and in hidden columns."""

import contextlib
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lance_core
from lance_core.errors import CorruptFileError, LanceError
from lance_core.proto import rowids_pb2, table_pb2
from lance_core.table.row_versions import decode_versions
from support.files.manifests import edit_manifest

COLUMNS = ["x", "_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"]


def encoded(*runs: tuple[dict[str, object], int]) -> bytes:
    return rowids_pb2.RowDatasetVersionSequence(
        runs=[
            rowids_pb2.RowDatasetVersionRun(span=rowids_pb2.U64Segment(**span), version=version)
            for span, version in runs
        ]
    ).SerializeToString()


def assert_every_version_reads_equal(path: Path) -> None:
    for entry in lance.dataset(str(path)).versions():
        theirs = lance.dataset(str(path), version=entry["version"]).to_table(COLUMNS)
        ours = lance_core.dataset(str(path), version=entry["version"]).to_table(COLUMNS)
        assert ours.schema == theirs.schema
        assert ours.equals(theirs), entry["version"]


@pytest.mark.parametrize("spill", [False, True])
def test_lineage_is_that_of_the_reference(tmp_path: Path, spill: bool) -> None:
    """Through updates, merge-inserts, deletions and compactions."""
    path = str(tmp_path)
    table = pa.table({"x": range(100), "s": [f"v{row}" for row in range(100)]})
    dataset = lance.write_dataset(table, path, enable_stable_row_ids=True, max_rows_per_file=40)
    if spill:
        dataset.update_config({"lance.row_lineage.spill": "true", "lance.row_lineage.inline_max_bytes": "1"})
    dataset.update({"s": "'u'"}, where="x % 3 = 0")
    changes = pa.table({"x": [1, 5, 1000], "s": ["a", "b", "c"]})
    merge = lance.dataset(path).merge_insert("x").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(changes)
    lance.dataset(path).delete("x BETWEEN 20 AND 30")
    lance.dataset(path).optimize.compact_files()
    assert_every_version_reads_equal(tmp_path)
    spilled = lance_core.dataset(path).snapshot.manifest.reader_feature_flags & 2048
    assert bool(spilled) == spill


def test_tables_without_lineage_report_the_first_version(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"x": range(10)}), str(tmp_path), max_rows_per_file=4)
    lance.dataset(str(tmp_path)).delete("x = 5")
    assert_every_version_reads_equal(tmp_path)


def test_a_hidden_column_that_no_file_has_is_corrupt(tmp_path: Path) -> None:
    """T22"""
    lance.write_dataset(pa.table({"x": range(4)}), str(tmp_path), enable_stable_row_ids=True)

    def spill(message: table_pb2.Manifest) -> None:
        message.fragments[0].column_created_at_versions.SetInParent()

    edit_manifest(tmp_path, spill)
    assert lance_core.dataset(str(tmp_path)).to_table(["x", "_rowid"]).num_rows == 4
    with pytest.raises(CorruptFileError, match="hidden column -4"):
        lance_core.dataset(str(tmp_path)).to_table(["_row_created_at_version"])


def test_a_run_has_as_many_rows_as_its_span_has_values() -> None:
    bitmap = {"range_with_bitmap": {"start": 0, "end": 10, "bitmap": bytes([0b11011111, 0b11])}}
    data = encoded(({"range": {"start": 7, "end": 9}}, 3), (bitmap, 5))
    assert decode_versions(data, 11, "versions").tolist() == [3] * 2 + [5] * 9
    assert decode_versions(b"", 0, "versions").tolist() == []


@pytest.mark.parametrize("rows", [1, 3])
def test_versions_of_another_number_of_rows_are_corrupt(rows: int) -> None:
    """T22, T24"""
    with pytest.raises(CorruptFileError, match="one per row"):
        decode_versions(encoded(({"range": {"start": 0, "end": 2}}, 1)), rows, "versions")
    with pytest.raises(CorruptFileError, match="one per row"):
        decode_versions(encoded(({"range": {"start": 0, "end": 1 << 62}}, 1)), rows, "versions")


@given(data=st.binary(max_size=60), rows=st.integers(0, 40))
def test_any_bytes_give_versions_or_a_lance_error(data: bytes, rows: int) -> None:
    """T22"""
    with contextlib.suppress(LanceError):
        assert len(decode_versions(data, rows, "versions")) == rows
