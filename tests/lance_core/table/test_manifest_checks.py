"""Errors that `validate` finds in manifests and among the files that they name, compared with the
reference.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import CorruptFileError, FileMissingError, LanceError
from lance_core.proto import rowids_pb2, table_pb2
from lance_core.table.manifest import parse_manifest, serialize_manifest
from support.files.manifests import newest_manifest


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Three fragments with stable row ids, deletions in one, an index of two segments, by the reference."""
    place = tmp_path / "t.lance"
    table = pa.table({"x": range(30)})
    dataset = lance.write_dataset(table, str(place), max_rows_per_file=10, enable_stable_row_ids=True)
    dataset.create_scalar_index("x", "BTREE")
    dataset.insert(pa.table({"x": range(30, 40)}))
    dataset.optimize.optimize_indices(num_indices_to_merge=0)
    dataset.delete("x IN (3, 4)")
    return place


def edit(
    path: Path,
    change: Callable[[table_pb2.Manifest], object] = lambda _: None,
    change_indices: Callable[[table_pb2.IndexSection], object] = lambda _: None,
) -> None:
    """Change the newest manifest; its sections stay."""
    file = newest_manifest(path)
    manifest = parse_manifest(file.read_bytes(), "manifest")
    section = table_pb2.IndexSection.FromString(manifest.index_section or b"")
    change(manifest.message)
    change_indices(section)
    for name in ("index_section", "transaction_section"):
        manifest.message.ClearField(name)
    assert manifest.transaction_section is not None
    data = serialize_manifest(manifest.message, manifest.transaction_section, section.SerializeToString())
    file.write_bytes(data)


def swap_fragments(message: table_pb2.Manifest) -> None:
    first, *others = [
        table_pb2.DataFragment.FromString(each.SerializeToString()) for each in message.fragments
    ]
    del message.fragments[:]
    message.fragments.extend([*others, first])


def row_ids(start: int, count: int) -> bytes:
    segment = rowids_pb2.U64Segment(range=rowids_pb2.U64Segment.Range(start=start, end=start + count))
    return rowids_pb2.RowIdSequence(segments=[segment]).SerializeToString()


CHANGES: dict[str, tuple[Callable[[table_pb2.Manifest], object], str]] = {
    "order": (swap_fragments, "order of their ids"),
    "highest id": (lambda m: setattr(m, "max_fragment_id", 1), "above the highest id"),
    "next row id": (lambda m: setattr(m, "next_row_id", 39), "above the highest id"),
    "row id twice": (
        lambda m: setattr(m.fragments[1], "inline_row_ids", row_ids(9, 10)),
        "have the same row id",
    ),
    "too few row ids": (lambda m: setattr(m.fragments[1], "inline_row_ids", row_ids(10, 9)), "one per row"),
    "number of rows": (lambda m: setattr(m.fragments[3], "physical_rows", 11), "expected 11"),
    "number of deleted rows": (
        lambda m: setattr(m.fragments[0].deletion_file, "num_deleted_rows", 3),
        "deleted rows",
    ),
    "size of a file": (lambda m: setattr(m.fragments[1].files[0], "file_size_bytes", 9), "wrong size"),
}


def test_what_is_right_passes(path: Path) -> None:
    lance_core.dataset(path).validate()
    edit(path)
    lance_core.dataset(path).validate()
    lance.dataset(str(path)).validate()


@pytest.mark.parametrize("name", CHANGES)
def test_a_manifest_that_contradicts_itself_or_its_files(path: Path, name: str) -> None:
    change, message = CHANGES[name]
    edit(path, change)
    with pytest.raises(CorruptFileError, match=message):
        lance_core.dataset(path).validate()


def test_a_row_id_of_a_deleted_row_may_be_live_elsewhere(path: Path) -> None:
    """An update moves a row and leaves a deleted row with the same id."""
    edit(
        path, lambda message: setattr(message.fragments[1], "inline_row_ids", row_ids(3, 2) + row_ids(12, 8))
    )
    lance_core.dataset(path).validate()


def test_indices_that_contradict_each_other(path: Path) -> None:
    edit(path, change_indices=lambda section: section.indices.append(section.indices[0]))
    with pytest.raises(CorruptFileError, match="the same uuid"):
        lance_core.dataset(path).validate()


def test_segments_of_an_index_that_cover_the_same_fragment(path: Path) -> None:
    def cover(section: table_pb2.IndexSection) -> None:
        assert len(section.indices) == 2
        section.indices[0].fragment_bitmap = section.indices[1].fragment_bitmap

    edit(path, change_indices=cover)
    with pytest.raises(CorruptFileError, match="cover the same fragment"):
        lance_core.dataset(path).validate()
    with pytest.raises((OSError, ValueError)):
        lance.dataset(str(path)).validate()


@pytest.mark.parametrize("directory", ["data", "_deletions"])
def test_a_file_that_is_missing_or_damaged(path: Path, directory: str) -> None:
    file = sorted((path / directory).iterdir())[0]
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    with pytest.raises(LanceError):
        lance_core.dataset(path).validate()
    file.unlink()
    with pytest.raises(FileMissingError, match=file.name):
        lance_core.dataset(path).validate()


def test_the_reference_finds_no_more(path: Path) -> None:
    """We make all checks of the manifest that the reference makes."""
    for name in CHANGES:
        before = newest_manifest(path).read_bytes()
        edit(path, CHANGES[name][0])
        try:
            lance.dataset(str(path)).validate()
        except (OSError, ValueError):
            with pytest.raises(LanceError):
                lance_core.dataset(path).validate()
        newest_manifest(path).write_bytes(before)
