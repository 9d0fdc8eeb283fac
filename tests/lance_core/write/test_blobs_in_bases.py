"""Blobs in files below base paths of the table, beside the reference."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import InvalidInputError, UnsupportedFeatureError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with files inside and outside base paths."""
    for name in ("base/a.bin", "base/sub/b c.bin", "base/inner/d.bin", "base2/e.bin", "root/f.bin"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(f"<{name}>".encode())
    return tmp_path


def create(folder: Path, name: str) -> Path:
    """Create a table with base paths that are nested, a plain path, a URI, and the root of a dataset."""
    bases = [
        lance.DatasetBasePath((folder / "base").as_uri(), name="base"),
        lance.DatasetBasePath(f"{folder}/base/inner/", name="inner"),
        lance.DatasetBasePath(str(folder / "root"), name="root", is_dataset_root=True),
    ]
    table = pa.table([lance.blob_array([b"x"])], schema=pa.schema([lance.blob_field("b")]))
    lance.write_dataset(table, str(folder / name), data_storage_version="2.2", initial_bases=bases)
    return folder / name


def append(library: ModuleType, path: Path, values: list[Any], **options: Any) -> list[Any]:
    """Append blobs. Return their descriptors."""
    table = pa.table([library.blob_array(values)], schema=pa.schema([library.blob_field("b")]))
    before = lance.dataset(str(path)).count_rows()
    library.write_dataset(table, str(path), mode="append", **options)
    return lance.dataset(str(path)).to_table(offset=before)["b"].to_pylist()


def test_files_in_base_paths_are_stored_by_the_path_below(folder: Path) -> None:
    values = [
        (folder / "base/a.bin").as_uri(),
        (folder / "base/sub/b c.bin").as_uri(),
        None,
        (folder / "base/inner/d.bin").as_uri(),
        ((folder / "base/a.bin").as_uri(), 1, 4),
        b"in",
    ]
    stored = {}
    for library in (lance, lance_core):
        path = create(folder, library.__name__)
        blobs = [library.Blob.from_uri(*each) if isinstance(each, tuple) else each for each in values]
        stored[library] = append(library, path, blobs)
        for opened in (lance.dataset(str(path)), lance_core.dataset(path)):
            found = [data for _, data in opened.read_blobs("b", indices=range(1, 7))]
            assert found == [
                b"<base/a.bin>",
                b"<base/sub/b c.bin>",
                None,
                b"<base/inner/d.bin>",
                b"base",
                b"in",
            ]
    for found, expected in zip(stored[lance_core], stored[lance], strict=True):
        assert found == expected
    assert [each and each["blob_uri"] for each in stored[lance_core]][:4] == [
        "a.bin",
        "sub/b c.bin",
        None,
        "d.bin",
    ]


@pytest.mark.parametrize("name", ["base2/e.bin", "root/f.bin", "base/../base2/e.bin"])
def test_other_files_are_refused_unless_allowed(folder: Path, name: str) -> None:
    """T11: a path that leads out of a base path is no path below it."""
    path = create(folder, "d")
    uri = f"{folder.as_uri()}/{name}"
    with pytest.raises(OSError, match="outside registered external bases"):
        append(lance, path, [uri])
    with pytest.raises(UnsupportedFeatureError, match=r"outside registered external bases.*column b"):
        append(lance_core, path, [uri])
    (stored,) = append(lance_core, path, [uri], allow_external_blob_outside_bases=True)
    assert (stored["blob_id"], stored["blob_uri"]) == (0, uri)
    with pytest.raises(InvalidInputError, match=r"scheme://"):
        append(lance_core, path, [f"{folder}/base/a.bin"])


def test_a_writer_that_allows_nothing_refuses_files_in_base_paths(folder: Path) -> None:
    """T11: a client of a server must not name files of the server, not even below a base path."""
    from lance_core.storage import storage_for
    from lance_core.write.dataset import write_data

    path = create(folder, "d")
    table = pa.table(
        [lance_core.blob_array([(folder / "base/a.bin").as_uri()])],
        schema=pa.schema([lance_core.blob_field("b")]),
    )
    with pytest.raises(UnsupportedFeatureError, match="blobs outside the dataset"):
        write_data(storage_for(str(path)), table, mode="append")


def test_new_columns_may_have_blobs_of_every_place(folder: Path) -> None:
    """Files of a change that fails are removed, side files too, and files in base paths stay."""
    outside = (folder / "base/a.bin").as_uri()
    values = [b"inline", b"p" * 70_000, b"d" * 5_000_000, outside]
    payloads = [*values[:3], b"<base/a.bin>"]
    base = lance.DatasetBasePath((folder / "base").as_uri(), name="base")
    path = folder / "d"
    lance.write_dataset(
        pa.table({"id": range(8)}),
        str(path),
        initial_bases=[base],
        data_storage_version="2.2",
        max_rows_per_file=4,
    )
    dataset = lance_core.dataset(path)
    before = {file for file in path.rglob("*") if file.is_file()}
    schema = pa.schema([lance_core.blob_field("b")])

    def batches(last: list[Any]) -> list[pa.RecordBatch]:
        return [pa.record_batch([lance_core.blob_array(each)], schema=schema) for each in (values, last)]

    for last in (values[:3], [*values, b"more"], [*values[:3], (folder / "base2/e.bin").as_uri()]):
        with pytest.raises(lance_core.LanceError):
            dataset.add_columns(batches(last), reader_schema=schema)
        assert {file for file in path.rglob("*") if file.is_file()} == before
        assert dataset.version == 1

    dataset.add_columns(batches(values[::-1]), reader_schema=schema)

    @lance_core.batch_udf(output_schema=pa.schema([lance_core.blob_field("c")]))
    def computed(batch: pa.RecordBatch) -> pa.RecordBatch:
        chosen = [values[row % 4] for row in batch["id"].to_pylist()]
        return pa.record_batch([lance_core.blob_array(chosen)], ["c"])

    dataset.add_columns(computed, read_columns=["id"])
    for opened in (dataset, lance.dataset(str(path))):
        kinds = opened.to_table(columns=["b"])["b"].combine_chunks().field("kind").to_pylist()
        assert kinds == [0, 1, 2, 3, 3, 2, 1, 0]
        for column, expected in (("b", payloads + payloads[::-1]), ("c", payloads * 2)):
            assert [data for _, data in opened.read_blobs(column, indices=range(8))] == expected
    assert (folder / "base/a.bin").exists()
