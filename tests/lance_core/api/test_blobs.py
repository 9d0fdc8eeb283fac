"""Blob columns of every version beside the reference: descriptors in scans, values on demand."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_core
from lance_core import Session
from lance_core.api.serving import TakeReads
from lance_core.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError

VERSIONS = ("2.0", "2.1", "2.2")
_SOURCE = np.random.default_rng(3)
VALUES = [
    b"abc",
    None,
    b"",
    _SOURCE.bytes(100_000),
    b"zz",
    None,
    _SOURCE.bytes(70_000),
    _SOURCE.bytes(5_000_000),
    b"last",
]


def write_blobs(path: Path, version: str, **options: object) -> lance.LanceDataset:
    schema = pa.schema(
        [
            pa.field("id", pa.int64()),
            pa.field("image", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
        ]
    )
    table = pa.Table.from_arrays(
        [pa.array(range(len(VALUES))), pa.array(VALUES, pa.large_binary())], schema=schema
    )
    return lance.write_dataset(table, str(path), data_storage_version=version, **options)


@pytest.mark.parametrize("version", VERSIONS)
def test_scans_give_the_descriptors_of_the_reference(tmp_path: Path, version: str) -> None:
    reference = write_blobs(tmp_path / "blobs.lance", version, max_rows_per_file=4)
    dataset = lance_core.dataset(reference.uri)
    assert dataset.schema.equals(reference.schema, check_metadata=True)
    for arguments in ({}, {"columns": ["image"]}, {"limit": 3, "offset": 2}, {"columns": ["id"]}):
        expected = reference.to_table(**arguments)
        found = dataset.to_table(**arguments)
        assert found.schema.equals(expected.schema, check_metadata=True)
        assert found.to_pylist() == expected.to_pylist()


@pytest.mark.parametrize("version", VERSIONS)
def test_deleted_rows_are_left_out(tmp_path: Path, version: str) -> None:
    reference = write_blobs(tmp_path / "blobs.lance", version)
    reference.delete("id in (0, 3)")
    reference = lance.dataset(reference.uri)
    assert lance_core.dataset(reference.uri).to_table().to_pylist() == reference.to_table().to_pylist()


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_blobs_inside_structs(tmp_path: Path, version: str) -> None:
    child = pa.field("image", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    inside = pa.StructArray.from_arrays(
        [pa.array(VALUES, pa.large_binary())],
        fields=[child],
        # 2.0 files keep no validity of structs.
        mask=pa.array([version != "2.0" and row in (2, 8) for row in range(len(VALUES))]),
    )
    table = pa.table({"s": inside})
    reference = lance.write_dataset(table, str(tmp_path / "nested.lance"), data_storage_version=version)
    found = lance_core.dataset(reference.uri).to_table()
    expected = reference.to_table()
    assert found.schema.equals(expected.schema, check_metadata=True)
    assert found.to_pylist() == expected.to_pylist()


@pytest.mark.parametrize("version", VERSIONS)
def test_scans_read_the_values_when_asked(tmp_path: Path, version: str) -> None:
    reference = write_blobs(tmp_path / "blobs.lance", version, max_rows_per_file=4)
    dataset = lance_core.dataset(reference.uri)
    for arguments in ({}, {"columns": ["image"], "limit": 4, "offset": 3}):
        expected = reference.scanner(blob_handling="all_binary", **arguments).to_table()
        found = dataset.scanner(blob_handling="all_binary", **arguments).to_table()
        found.validate(full=True)
        assert found.schema.equals(expected.schema, check_metadata=True)
        assert found.to_pylist() == expected.to_pylist()
    batches = list(dataset.scanner(blob_handling="all_binary").to_batches())
    assert max(batch.nbytes for batch in batches if batch.num_rows > 1) <= 2 << 20
    with pytest.raises(InvalidInputError, match="blob_handling"):
        dataset.scanner(blob_handling="some_binary")


@pytest.mark.parametrize("version", VERSIONS)
def test_conditions_beside_values(tmp_path: Path, version: str) -> None:
    """The condition finds the nulls that the scan returns. In 2.0 files their descriptors are no nulls."""
    reference = write_blobs(tmp_path / "blobs.lance", version, max_rows_per_file=4)
    dataset = lance_core.dataset(reference.uri)
    for condition in (
        "image IS NULL",
        "image IS NOT NULL AND id > 1",
        "image IS NULL OR id = 0",
        "NOT (image IS NULL)",
        "coalesce(image, image) IS NULL",
    ):
        for columns in (None, ["id"], ["image"]):
            arguments = {"filter": condition, "blob_handling": "all_binary", "columns": columns}
            expected = reference.to_table(**arguments)
            for _ in range(2):  # the second time with the statistics that the first one found
                assert dataset.to_table(**arguments).to_pylist() == expected.to_pylist(), condition
                scanner = dataset.scanner(**arguments)
                assert pa.Table.from_batches(scanner.to_batches()).to_pylist() == expected.to_pylist()
                assert scanner.count_rows() == len(expected)
        arguments = {"filter": condition, "columns": ["id"]}
        assert dataset.to_table(**arguments) == reference.to_table(**arguments)  # of descriptors
    computed = {"columns": {"is_missing": "image IS NULL", "value": "image"}, "blob_handling": "all_binary"}
    assert dataset.to_table(**computed).to_pylist() == reference.to_table(**computed).to_pylist()
    frames = [each.to_pandas(filter="image IS NULL", blob_mode="bytes") for each in (dataset, reference)]
    assert frames[0]["id"].tolist() == frames[1]["id"].tolist() == [1, 5]
    in_sql = dataset.sql("SELECT id FROM dataset WHERE image IS NULL").blob_handling("all_binary").build()
    assert pa.Table.from_batches(in_sql.to_batch_records())["id"].to_pylist() == [1, 5]
    in_arrow = dataset.scanner(["id"], filter=pc.field("image").is_null(), blob_handling="all_binary")
    assert in_arrow.to_table()["id"].to_pylist() == [1, 5]
    assert dataset.update({"id": "id + 100"}, where="image IS NULL") == {"num_rows_updated": 2}
    assert sorted(dataset.to_table(blob_handling="all_binary")["id"].to_pylist())[-2:] == [101, 105]


@pytest.mark.parametrize("version", VERSIONS)
def test_conditions_of_merges_see_the_nulls_of_values(tmp_path: Path, version: str) -> None:
    counts = []
    for library in (lance, lance_core):
        path = str(tmp_path / f"{library.__name__}.lance")
        target = write_blobs(Path(path), version)
        ids, new = pa.array(range(len(VALUES))), [b"new"] * len(VALUES)
        if version == "2.2":
            source = pa.table({"id": ids, "image": lance.blob_array(new)})
        else:
            source = pa.Table.from_arrays([ids, pa.array(new, pa.large_binary())], schema=target.schema)
        merge = library.dataset(path).merge_insert("id").when_matched_update_all("target.image IS NULL")
        updated = merge.execute(source)
        write_blobs(Path(path), version, mode="overwrite")
        merge = library.dataset(path).merge_insert("id").when_not_matched_insert_all()
        deleted = merge.when_not_matched_by_source_delete("image IS NULL").execute(source.slice(0, 1))
        counts.append([(each["num_updated_rows"], each["num_deleted_rows"]) for each in (updated, deleted)])
    assert counts[0] == counts[1] == [(2, 0), (0, 2)]


@pytest.mark.parametrize("version", VERSIONS)
def test_conditions_on_values_inside_structs(tmp_path: Path, version: str) -> None:
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    nested = pa.StructArray.from_arrays([pa.array(VALUES, pa.large_binary())], fields=[blob])
    table = pa.table({"id": range(len(VALUES)), "s": nested})
    reference = lance.write_dataset(table, str(tmp_path / "d"), data_storage_version=version)
    dataset = lance_core.dataset(tmp_path / "d")
    arguments = {"columns": ["id"], "blob_handling": "all_binary"}
    for condition, expected in (("s.b IS NULL", [1, 5]), ("s.b IS NOT NULL AND id < 4", [0, 2, 3])):
        assert dataset.to_table(filter=condition, **arguments)["id"].to_pylist() == expected
        if version != "2.2":
            assert reference.to_table(filter=condition, **arguments)["id"].to_pylist() == expected


def test_arrow_conditions_that_see_only_descriptors_are_refused(tmp_path: Path) -> None:
    dataset = lance_core.dataset(write_blobs(tmp_path / "blobs.lance", "2.0").uri)
    image = pc.field("image")
    condition = pc.coalesce(image, image).is_null()
    assert dataset.to_table(["id"], condition).num_rows == 0
    with pytest.raises(UnsupportedFeatureError, match=r"values of blobs.*image"):
        dataset.scanner(["id"], condition, blob_handling="all_binary")


@pytest.mark.parametrize("version", ["0.1", *VERSIONS])
def test_all_descriptions_are_those_of_blobs(tmp_path: Path, version: str) -> None:
    """The reference describes blobs alone, whatever other binary columns there are."""
    table = pa.table(
        {
            "plain": pa.array([b"a", None, b"b"], pa.binary()),
            "large": pa.array([b"c", b"", b"d"], pa.large_binary()),
            "inside": [{"x": b"e"}, {"x": b"f"}, {"x": b"g"}],
        }
    )
    path = tmp_path / "blobs.lance"
    if version == "0.1":
        reference = lance.write_dataset(table, str(path), data_storage_version=version)
    else:
        reference = write_blobs(path, version)
        reference.add_columns({"plain": "arrow_cast('x', 'Binary')"})
        reference = lance.dataset(str(path))
    expected = reference.scanner(blob_handling="all_descriptions").to_table()
    found = lance_core.dataset(reference.uri).scanner(blob_handling="all_descriptions").to_table()
    assert found.schema.equals(expected.schema, check_metadata=True)
    assert found.to_pylist() == expected.to_pylist()


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_values_inside_structs(tmp_path: Path, version: str) -> None:
    child = pa.field("image", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    inside = pa.StructArray.from_arrays([pa.array(VALUES, pa.large_binary())], fields=[child])
    reference = lance.write_dataset(
        pa.table({"s": inside}), str(tmp_path / "nested.lance"), data_storage_version=version
    )
    dataset = lance_core.dataset(reference.uri)
    for columns in (None, ["s"], ["s.image"]):
        found = dataset.scanner(columns, blob_handling="all_binary").to_table()
        expected = pa.table({"s": inside}) if columns != ["s.image"] else pa.table({"s.image": VALUES})
        assert found.to_pylist() == expected.to_pylist()


@pytest.mark.parametrize("version", VERSIONS)
def test_single_blobs_inside_structs(tmp_path: Path, version: str) -> None:
    child = pa.field("image", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    inside = pa.StructArray.from_arrays([pa.array(VALUES, pa.large_binary())], fields=[child])
    beside = pa.field("name", pa.string())
    around = pa.StructArray.from_arrays(
        [pa.array(map(str, range(len(VALUES)))), inside],
        fields=[beside, pa.field("inner", inside.type)],
        # 2.0 files keep no validity of structs.
        mask=pa.array([version != "2.0" and row == 3 for row in range(len(VALUES))]),
    )
    reference = lance.write_dataset(
        pa.table({"s": around}), str(tmp_path / "nested.lance"), data_storage_version=version
    )

    rows = list(range(len(VALUES)))
    found, expected = (
        [blob and blob.readall() for blob in dataset.take_blobs("s.inner.image", indices=rows)]
        for dataset in (lance_core.dataset(reference.uri), reference)
    )

    assert found == expected
    assert found == [None if version != "2.0" and row == 3 else VALUES[row] for row in rows]


@pytest.mark.parametrize("version", VERSIONS)
def test_single_blobs_as_files(tmp_path: Path, version: str) -> None:
    reference = write_blobs(
        tmp_path / "blobs.lance", version, max_rows_per_file=4, enable_stable_row_ids=version == "2.2"
    )
    reference.delete("id = 4")
    reference = lance.dataset(reference.uri)
    dataset = lance_core.dataset(reference.uri)
    rows = [6, 0, 1, 2, 3, 7, 0]
    found = dataset.take_blobs("image", indices=rows)
    expected = reference.take_blobs("image", indices=rows)
    assert [blob and blob.readall() for blob in found] == [blob and blob.readall() for blob in expected]
    addresses = dataset.to_table(["_rowaddr"])["_rowaddr"].to_pylist()
    by_address = dataset.take_blobs("image", addresses=addresses[::-1])
    live = [value for row, value in enumerate(VALUES) if row != 4]
    assert [blob and blob.readall() for blob in by_address] == live[::-1]
    ids = dataset.to_table(["_rowid"])["_rowid"].to_pylist()
    by_id = dataset.take_blobs("image", ids=ids)
    assert [blob and blob.readall() for blob in by_id] == live


def test_a_blob_file_reads_like_a_file(tmp_path: Path) -> None:
    reference = write_blobs(tmp_path / "blobs.lance", "2.2")
    (blob,) = lance_core.dataset(reference.uri).take_blobs("image", indices=[3])
    value = VALUES[3]
    assert blob is not None
    assert value is not None
    assert blob.size() == len(value)
    assert blob.read(10) == value[:10]
    assert blob.tell() == 10
    assert blob.seek(-5, 2) == len(value) - 5
    assert blob.read() == value[-5:]
    assert blob.read(1) == b""
    assert blob.read_range(7, 9) == value[7:16]
    assert blob.read_ranges([(0, 2), (99_998, 2)]) == [value[:2], value[-2:]]
    with pytest.raises(InvalidInputError, match="leaves the blob"):
        blob.read_range(99_999, 2)
    with pytest.raises(ValueError, match="negative"):
        blob.seek(-1)
    blob.close()
    with pytest.raises(ValueError, match="closed"):
        blob.read()


def test_blobs_outside_the_dataset(tmp_path: Path) -> None:
    """T11: a caller of the library follows them as the reference does."""
    (tmp_path / "outside.bin").write_bytes(b"0123456789" * 10)
    uri = f"file://{tmp_path}/outside.bin"
    blobs = lance.blob_array([b"in", lance.Blob.from_uri(uri), None, lance.Blob.from_uri(uri, 5, 10)])
    table = pa.table([blobs], schema=pa.schema([lance.blob_field("image")]))
    reference = lance.write_dataset(
        table,
        str(tmp_path / "outside.lance"),
        data_storage_version="2.2",
        allow_external_blob_outside_bases=True,
    )
    dataset = lance_core.dataset(reference.uri)
    found = dataset.take_blobs("image", indices=[0, 1, 2, 3])
    assert [blob and blob.readall() for blob in found] == [b"in", b"0123456789" * 10, None, b"5678901234"]
    assert dataset.scanner(blob_handling="all_binary").to_table()["image"].to_pylist() == [
        b"in",
        b"0123456789" * 10,
        None,
        b"5678901234",
    ]


def test_a_descriptor_that_points_outside_its_file(tmp_path: Path) -> None:
    """T22: the error names file and column."""
    reference = write_blobs(tmp_path / "blobs.lance", "2.2")
    side_files = list((tmp_path / "blobs.lance" / "data").glob("*/*.blob"))
    assert len(side_files) > 1
    for side_file in side_files:
        side_file.write_bytes(side_file.read_bytes()[:1000])
    dataset = lance_core.dataset(reference.uri)
    for read in (
        lambda: dataset.scanner(["image"], blob_handling="all_binary").to_table(),
        lambda: dataset.take_blobs("image", indices=[3]),
    ):
        with pytest.raises(CorruptFileError, match=r"outside its file.*\.blob, column image"):
            read()


def test_what_is_no_blob_is_refused_by_name(tmp_path: Path) -> None:
    dataset = lance_core.dataset(write_blobs(tmp_path / "blobs.lance", "2.1").uri)
    for column in ("id", "_rowid", "missing"):
        with pytest.raises(InvalidInputError, match=column):
            dataset.take_blobs(column, indices=[0])
    for keys in ({}, {"indices": [0], "ids": [0]}):
        with pytest.raises(InvalidInputError, match="Exactly one of ids, indices, or addresses"):
            dataset.take_blobs("image", **keys)


@pytest.mark.parametrize("writer", [lance, lance_core], ids=["theirs", "ours"])
def test_conditions_on_descriptors(tmp_path: Path, writer: ModuleType) -> None:
    """A descriptor has members of the names that the value has: statistics of the latter say nothing."""
    table = pa.table({"id": range(len(VALUES)), "b": lance.blob_array(VALUES)})
    nested = pa.StructArray.from_arrays([lance.blob_array(VALUES)], fields=[lance.blob_field("b")])
    writer.write_dataset(table.append_column("s", nested), str(tmp_path / "d"), data_storage_version="2.2")
    dataset, reference = lance_core.dataset(tmp_path / "d"), lance.dataset(str(tmp_path / "d"))

    for column in ("b", "s.b"):
        for condition in ("size > 10", "size = 3", "size IS NULL", "kind = 1", "position = 0", "blob_id > 1"):
            sql = f"{column}.{condition}"
            expected = reference.to_table(columns=["id"], filter=sql)
            for _ in range(2):  # the second time with the statistics that the first one found
                assert dataset.to_table(columns=["id"], filter=sql) == expected, sql
                assert dataset.count_rows(sql) == len(expected), sql
    assert dataset.count_rows("b.size > 10") == 3


@pytest.mark.parametrize("nested", [False, True])
def test_parts_of_descriptors_are_columns(tmp_path: Path, nested: bool) -> None:
    """Parts of descriptors are read by names and by expressions, with filters and without, as in the
    reference for 2.2.
    """
    blobs = lance.blob_array(VALUES)
    table = pa.table({"id": range(len(VALUES)), "b": blobs})
    name = "b"
    if nested:
        field = pa.field("b", blobs.type)
        parts = pa.StructArray.from_arrays(
            [pa.array(range(len(VALUES))), blobs], fields=[pa.field("n", pa.int64()), field]
        )
        table, name = pa.table({"id": range(len(VALUES)), "s": parts}), "s.b"
    path = tmp_path / "blobs.lance"
    reference = lance.write_dataset(table, str(path), data_storage_version="2.2", max_rows_per_file=4)
    reference.delete("id = 4")
    reference, dataset = lance.dataset(str(path)), lance_core.dataset(path)
    for part in ("kind", "position", "size", "blob_id", "blob_uri"):
        column = f"{name}.{part}"
        for arguments in (
            {"columns": [column]},
            {"columns": ["id", column, f"{name}.size"] if part != "size" else [column, "id"]},
            {"columns": {"x": column, "id": "id"}},
            {"columns": [column], "filter": f"{name}.size > 2"},
            {"columns": [column], "limit": 3, "offset": 2},
            {"columns": [column], "with_row_id": True, "blob_handling": "all_descriptions"},
        ):
            expected, found = reference.to_table(**arguments), dataset.to_table(**arguments)
            assert found.equals(expected), (part, arguments)
            assert found.schema.types == expected.schema.types
    assert dataset.to_table(columns={"n": f"{name}.size + 1"})["n"].to_pylist()[:2] == [4, None]
    with pytest.raises(InvalidInputError, match="there are 'kind', 'position', 'size', 'blob_id'"):
        dataset.to_table(columns=[f"{name}.nothing"])
    with pytest.raises(InvalidInputError, match="found b of type large_binary"):
        dataset.to_table(columns=[f"{name}.kind"], blob_handling="all_binary")


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_parts_of_the_first_descriptors_are_columns(tmp_path: Path, version: str) -> None:
    """The reference refuses these paths."""
    write_blobs(tmp_path, version, max_rows_per_file=4)
    dataset = lance_core.dataset(tmp_path)
    whole = dataset.to_table(columns=["image"])["image"].to_pylist()
    for part in ("position", "size"):
        found = dataset.to_table(columns=[f"image.{part}"])
        assert found[f"image.{part}"].to_pylist() == [each and each[part] for each in whole]
    with pytest.raises(InvalidInputError, match="there are 'position', 'size'"):
        dataset.to_table(columns=["image.kind"])


@pytest.mark.parametrize("version", VERSIONS)
def test_rows_are_taken_with_whole_descriptors(tmp_path: Path, version: str) -> None:
    """A path into a descriptor does not narrow it, as in the reference."""
    reference = write_blobs(tmp_path, version)
    dataset = lance_core.dataset(tmp_path)
    expected = reference.take([0, 3], columns=["image.size"])
    assert dataset.take([0, 3], columns=["image.size"]).equals(expected)
    with pytest.raises(InvalidInputError, match=r"image\.nothing"):
        dataset.take([0, 3], columns=["image.nothing"])


@pytest.fixture(scope="module")
def sixty_files(tmp_path_factory: pytest.TempPathFactory) -> lance_core.LanceDataset:
    """Twenty small blobs, and sixty of half a MiB that have a file each."""
    values = [b"small"] * 20 + [bytes(512 << 10)] * 60
    schema = pa.schema([lance_core.blob_field("b", dedicated_size_threshold=256 << 10)])
    table = pa.Table.from_arrays([lance_core.blob_array(values)], schema=schema)
    path = tmp_path_factory.mktemp("blobs") / "files.lance"
    return lance_core.write_dataset(table, path, data_storage_version="2.2")


def test_few_files_of_blobs_stay_open(sixty_files: lance_core.LanceDataset) -> None:
    """T6: a scan or a taker that lives long holds some descriptors, not one per large blob."""
    session = Session()
    snapshot = lance_core.dataset(sixty_files.uri, session=session).snapshot
    before = len(os.listdir("/proc/self/fd"))
    reads = TakeReads(snapshot, None, "all_binary")
    rows = sum(run.rows.num_rows for run in reads.batch_runs("_rowoffset", np.arange(80, dtype=np.uint64)))
    assert rows == 80
    assert len(os.listdir("/proc/self/fd")) - before < 40


def test_takes_of_values_know_their_sizes(sixty_files: lance_core.LanceDataset) -> None:
    """T33: large values after small ones are not all read at once."""
    session = Session()
    snapshot = lance_core.dataset(sixty_files.uri, session=session).snapshot
    reads = TakeReads(snapshot, ("b",), "all_binary")
    keys = np.arange(80, dtype=np.uint64)
    found = [value for run in reads.batch_runs("_rowoffset", keys) for value in run.rows["b"].to_pylist()]
    assert [len(value) for value in found] == [5] * 20 + [512 << 10] * 60
    assert session.budget.peak_bytes < 9 << 20
