"""Deletion files of both kinds; tests of real ones are with the fragments."""

import random
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyroaring
import pytest

from lance_core.errors import CorruptFileError, FileMissingError, InvalidInputError, LanceError
from lance_core.storage import LocalStorage
from lance_core.table.deletions import path_of, read_deletions, write_deletions
from lance_core.table.snapshot import open_snapshot
from support.files.manifests import edit_manifest

ROW_ID = pa.field("row_id", pa.uint32(), nullable=False)


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """100 rows, three of them deleted by an Arrow file."""
    path = tmp_path / "t"
    lance.write_dataset(pa.table({"number": range(100)}), str(path)).delete("number IN (3, 50, 99)")
    return path


def deletion_file(path: Path) -> Path:
    (file,) = (path / "_deletions").iterdir()
    return file


def use_bitmap(path: Path) -> None:
    """Let the manifest say that the deletion file is a bitmap."""
    file = deletion_file(path)
    file.rename(file.with_suffix(".bin"))
    edit_manifest(path, lambda message: setattr(message.fragments[0].deletion_file, "file_type", 1))


def read(path: Path, *, count: int | None = 3) -> list[int]:
    """Return the deleted rows; the manifest is made to say `count` of them, or None for unknown."""
    edit_manifest(
        path, lambda message: setattr(message.fragments[0].deletion_file, "num_deleted_rows", count or 0)
    )
    snapshot = open_snapshot(LocalStorage(str(path)))
    deleted = read_deletions(snapshot.storage, snapshot.manifest.fragments[0])
    assert deleted.dtype == np.uint32
    return deleted.tolist()


def arrow_file(batches: list[pa.RecordBatch], codec: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(
        sink, batches[0].schema, options=pa.ipc.IpcWriteOptions(compression=codec)
    ) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def batch_of(rows: list[int | None], field: pa.Field = ROW_ID) -> pa.RecordBatch:
    return pa.record_batch([pa.array(rows, field.type)], schema=pa.schema([field]))


def test_a_fragment_without_a_deletion_file_has_no_deleted_rows(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"number": [1]}), str(tmp_path))
    snapshot = open_snapshot(LocalStorage(str(tmp_path)))
    assert read_deletions(snapshot.storage, snapshot.manifest.fragments[0]).tolist() == []


@pytest.mark.parametrize("codec", [None, "zstd", "lz4"])
def test_arrow_files_in_any_order_and_compression(dataset: Path, codec: str | None) -> None:
    deletion_file(dataset).write_bytes(arrow_file([batch_of([70, 1, 4])], codec))
    assert read(dataset) == [1, 4, 70]


@pytest.mark.parametrize("runs", [False, True])
def test_bitmaps_with_and_without_runs(dataset: Path, runs: bool) -> None:
    use_bitmap(dataset)
    bitmap = pyroaring.BitMap(range(20, 80))
    if runs:
        assert bitmap.run_optimize()
    deletion_file(dataset).write_bytes(bitmap.serialize())
    assert read(dataset, count=60) == list(range(20, 80))


@pytest.mark.parametrize(
    "batches",
    [
        [batch_of([1], pa.field("row_id", pa.uint32()))],
        [batch_of([1], pa.field("row_id", pa.int32(), nullable=False))],
        [batch_of([1], pa.field("rows", pa.uint32(), nullable=False))],
        [batch_of([1]), batch_of([2])],
        [batch_of([None])],
        [pa.record_batch([pa.array([1], pa.uint32())] * 2, schema=pa.schema([ROW_ID, ROW_ID]))],
    ],
    ids=["nullable", "int32", "name", "two batches", "null", "two columns"],
)
def test_arrow_files_of_another_form_are_corrupt(dataset: Path, batches: list[pa.RecordBatch]) -> None:
    """docs/format.md, "Deletions": the reference rejects these too."""
    deletion_file(dataset).write_bytes(arrow_file(batches))
    with pytest.raises(CorruptFileError, match=r"_deletions/.*row_id: uint32 not null"):
        read(dataset, count=1)


@pytest.mark.parametrize("bitmap", [False, True])
def test_a_row_that_is_not_there_is_corrupt(dataset: Path, bitmap: bool) -> None:
    """T22"""
    if bitmap:
        use_bitmap(dataset)
    data = pyroaring.BitMap([1, 2, 100]).serialize() if bitmap else arrow_file([batch_of([1, 2, 100])])
    deletion_file(dataset).write_bytes(data)
    with pytest.raises(CorruptFileError, match="expected less than 100, found 100"):
        read(dataset)


def test_a_small_file_that_names_billions_of_rows_is_refused_before_it_is_expanded(dataset: Path) -> None:
    """T24: 16 GiB of offsets in less than a megabyte."""
    use_bitmap(dataset)
    bitmap = pyroaring.BitMap()
    bitmap.add_range(0, 1 << 32)
    bitmap.run_optimize()
    deletion_file(dataset).write_bytes(bitmap.serialize())
    assert deletion_file(dataset).stat().st_size < 1 << 20
    with pytest.raises(CorruptFileError, match="not in the fragment"):
        read(dataset)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_the_number_in_the_manifest_is_checked(dataset: Path, count: int) -> None:
    """A wrong number would make row counts wrong while scans stay right."""
    with pytest.raises(CorruptFileError, match=f"expected {count}, found 3"):
        read(dataset, count=count)


def test_repeated_rows_count_once(dataset: Path) -> None:
    deletion_file(dataset).write_bytes(arrow_file([batch_of([5, 5, 9])]))
    assert read(dataset, count=2) == [5, 9]


def test_an_unknown_number_is_counted(dataset: Path) -> None:
    assert read(dataset, count=None) == [3, 50, 99]


def test_a_missing_file_is_named(dataset: Path) -> None:
    file = deletion_file(dataset)
    file.unlink()
    with pytest.raises(FileMissingError, match=f"_deletions/{file.name}"):
        read(dataset)


@pytest.mark.parametrize("bitmap", [False, True])
def test_mutated_files_raise_only_lance_errors(dataset: Path, bitmap: bool) -> None:
    """T22: 2,000 mutants of each kind."""
    if bitmap:
        use_bitmap(dataset)
        data = pyroaring.BitMap([3, 50, 99]).serialize()
    else:
        data = deletion_file(dataset).read_bytes()
    file = deletion_file(dataset)
    snapshot = open_snapshot(LocalStorage(str(dataset)))
    generator = random.Random(5)
    refused = 0
    for _ in range(2000):
        mutant = bytearray(data)
        for _ in range(generator.choice([1, 1, 2, 4])):
            mutant[generator.randrange(len(mutant))] = generator.choice([0, 1, 127, 128, 255])
        file.write_bytes(mutant[: generator.choice([len(mutant), generator.randrange(len(mutant) + 1)])])
        try:
            read_deletions(snapshot.storage, snapshot.manifest.fragments[0])
        except LanceError:
            refused += 1
    assert refused > 500


@pytest.mark.parametrize("as_bitmap", [None, False, True])
@pytest.mark.parametrize("count", [1, 4999, 5000, 9999])
def test_written_files_are_read_by_both_libraries(count: int, as_bitmap: bool | None, tmp_path: Path) -> None:
    """The kind follows from the number of rows as in the reference, unless it is given."""
    lance.write_dataset(pa.table({"number": range(10_000)}), str(tmp_path))
    deleted = sorted(random.Random(count).sample(range(10_000), count))
    shuffled = np.array([*reversed(deleted), deleted[0]], dtype=np.uint32)

    message = write_deletions(LocalStorage(str(tmp_path)), 0, 1, shuffled, as_bitmap=as_bitmap)
    edit_manifest(tmp_path, lambda manifest: manifest.fragments[0].deletion_file.CopyFrom(message))

    assert message.num_deleted_rows == count
    is_bitmap = count >= 5000 if as_bitmap is None else as_bitmap
    assert path_of(0, message).endswith(".bin" if is_bitmap else ".arrow")
    snapshot = open_snapshot(LocalStorage(str(tmp_path)))
    assert read_deletions(snapshot.storage, snapshot.manifest.fragments[0]).tolist() == deleted
    reference = lance.dataset(str(tmp_path))
    expected = sorted(set(range(10_000)) - set(deleted))
    assert reference.to_table()["number"].to_pylist() == expected
    assert reference.count_rows() == 10_000 - count


def test_the_reference_takes_the_same_kind_of_file(tmp_path: Path) -> None:
    for count in (4999, 5000):
        path = tmp_path / str(count)
        lance.write_dataset(pa.table({"number": range(10_000)}), str(path)).delete(f"number < {count}")
        offsets = np.arange(count, dtype=np.uint32)
        message = write_deletions(LocalStorage(str(path)), 7, 1, offsets)
        assert Path(path_of(7, message)).suffix == deletion_file_of(path, 0).suffix


def deletion_file_of(path: Path, fragment: int) -> Path:
    """Return the deletion file of one fragment."""
    (file,) = (path / "_deletions").glob(f"{fragment}-*")
    return file


def test_a_file_without_rows_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="deleted rows"):
        write_deletions(LocalStorage(str(tmp_path)), 0, 1, np.empty(0, np.uint32))
