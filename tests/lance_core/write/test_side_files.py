"""Large blobs in files beside the data file: where the reference puts them, and gone when they should be."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import CorruptFileError, InvalidInputError, LanceError, UnsupportedFeatureError
from lance_core.file.side_files import read_checksums

_SOURCE = np.random.default_rng(4)
SIZES = [10, 65_536, 65_537, None, 0, 100_000, 4 << 20, (4 << 20) + 1, 70_000]
VALUES = [None if size is None else _SOURCE.bytes(size) for size in SIZES]
ROWS = [row for row, value in enumerate(VALUES) if value is not None]
FIRST_FORM = {"lance-encoding:blob": "true"}


def blobs(values: list[Any] = VALUES, metadata: dict[str, str] | None = None) -> pa.Table:
    field = lance.blob_field("b")
    if metadata:
        field = field.with_metadata(metadata)
    schema = pa.schema([pa.field("id", pa.int64()), field])
    return pa.table([pa.array(range(len(values))), lance.blob_array(values)], schema=schema)


def files(path: Path) -> list[str]:
    return sorted(str(each.relative_to(path)) for each in (path / "data").rglob("*") if each.is_file())


def side_files(path: Path) -> dict[str, int]:
    return {each.name: each.stat().st_size for each in (path / "data").rglob("*.blob")}


def places(table: pa.Table, column: str = "b") -> list[Any]:
    """Descriptors, without the places in the data file, which differ."""
    found = table[column].to_pylist()
    return [each and {**each, "position": each["kind"] and each["position"]} for each in found]


def assert_same_as_reference(table: pa.Table, path: Path) -> lance_core.LanceDataset:
    ours = lance_core.write_dataset(table, path / "ours")
    theirs = lance.write_dataset(table, str(path / "theirs"))
    assert ours.schema.equals(theirs.schema, check_metadata=True)
    assert places(ours.to_table()) == places(theirs.to_table())
    assert places(lance.dataset(str(path / "ours")).to_table()) == places(theirs.to_table())
    assert side_files(path / "ours") == side_files(path / "theirs")
    ours.validate()
    return ours


def assert_values(path: Path, values: list[Any] = VALUES, column: str = "b") -> None:
    rows = [row for row, value in enumerate(values) if value is not None]
    for dataset in (lance_core.dataset(path), lance.dataset(str(path))):
        taken = dataset.take_blobs(column, indices=rows)
        assert [blob.readall() for blob in taken] == [values[row] for row in rows]
        scanned = dataset.to_table(columns=[column], blob_handling="all_binary")[column].to_pylist()
        assert scanned == values


def test_large_values_are_where_the_reference_puts_them(tmp_path: Path) -> None:
    assert_same_as_reference(blobs(), tmp_path)
    assert_values(tmp_path / "ours")
    assert sorted(side_files(tmp_path / "ours")) == [f"{'01':0<32}.blob", f"{'1':0<32}.blob"]


@pytest.mark.parametrize(
    "sizes",
    [{"inline": "5"}, {"inline": "0"}, {"dedicated": "20"}, {"inline": "9", "pack-file": "100"}],
    ids=str,
)
def test_fields_say_what_is_large(tmp_path: Path, sizes: dict[str, str]) -> None:
    metadata = {f"lance-encoding:blob-{name}-size-threshold": size for name, size in sizes.items()}
    values = [b"a" * 10, b"", None, b"b" * 30, b"c" * 80, b"d" * 2000, b"e" * 90]
    assert_same_as_reference(blobs(values, metadata), tmp_path)
    assert_values(tmp_path / "ours", values)


@pytest.mark.parametrize(
    ("name", "size"), [("inline", "x"), ("inline", "-1"), ("dedicated", "0"), ("pack-file", "")]
)
def test_sizes_that_make_no_sense(tmp_path: Path, name: str, size: str) -> None:
    table = blobs(metadata={f"lance-encoding:blob-{name}-size-threshold": size})
    with pytest.raises(OSError, match="threshold"):
        lance.write_dataset(table, str(tmp_path / "theirs"))
    with pytest.raises(InvalidInputError, match=rf"blob-{name}-size-threshold.*column b"):
        lance_core.write_dataset(table, tmp_path / "ours")
    assert not list((tmp_path / "ours").rglob("*.lance"))


def test_blobs_of_the_first_form_become_those_of_the_second(tmp_path: Path) -> None:
    """In 2.2 files, which have no others."""
    for kind in (pa.large_binary(), pa.binary()):
        field = pa.field("b", kind, metadata={**FIRST_FORM, "note": "kept"})
        table = pa.table([pa.array(VALUES, kind)], schema=pa.schema([field]))
        assert_same_as_reference(table, tmp_path / str(kind))
        path = tmp_path / str(kind) / "ours"
        lance_core.write_dataset(table, path, mode="append")
        lance_core.write_dataset(blobs().select(["b"]), path, mode="append")
        lance.write_dataset(table, str(path), mode="append")
        assert_values(path, VALUES * 4)
    inside = pa.StructArray.from_arrays(
        [pa.array(VALUES, pa.large_binary())],
        fields=[pa.field("b", pa.large_binary(), metadata=FIRST_FORM)],
        mask=pa.array([row in (0, 2) for row in range(len(VALUES))]),
    )
    nested = pa.table({"s": inside})
    ours = lance_core.write_dataset(nested, tmp_path / "nested")
    assert ours.to_table().to_pylist() == lance.dataset(str(tmp_path / "nested")).to_table().to_pylist()
    theirs = lance.write_dataset(nested, str(tmp_path / "theirs"))
    assert side_files(tmp_path / "nested") == side_files(tmp_path / "theirs")
    assert ours.schema.equals(theirs.schema, check_metadata=True)
    ours.validate()


def test_rows_that_move_take_their_blobs_along(tmp_path: Path) -> None:
    """Compaction, updates and merges write them again; cleanup removes side files with their data files."""
    path = tmp_path / "d"
    lance_core.write_dataset(blobs(), path, max_rows_per_file=3)
    dataset = lance_core.dataset(path)
    dataset.update({"id": "id + 100"}, "id = 7")
    source = blobs([b"new" * 30_000]).set_column(0, "id", pa.array([2]))
    dataset.merge_insert("id").when_matched_update_all().execute(source)
    dataset.optimize.compact_files()
    by_id = dict(enumerate(VALUES)) | {107: VALUES[7], 2: b"new" * 30_000}
    del by_id[7]
    ids = dataset.to_table()["id"].to_pylist()
    assert sorted(ids) == sorted(by_id)
    assert_values(path, [by_id[number] for number in ids])
    dataset.cleanup_old_versions(older_than=timedelta(0))
    (kept,) = (path / "data").glob("*.lance")
    assert {each.parent for each in (path / "data").rglob("*.blob")} == {kept.with_suffix("")}
    assert [each.name for each in (path / "data").iterdir() if each.is_dir()] == [kept.stem]
    assert_values(path, [by_id[number] for number in ids])
    dataset.validate()


def test_the_reference_compacts_and_cleans_up_files_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "d"
    lance_core.write_dataset(blobs(), path, max_rows_per_file=3)
    reference = lance.dataset(str(path))
    reference.optimize.compact_files()
    reference.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    (kept,) = (path / "data").glob("*.lance")
    assert {each.parent for each in (path / "data").rglob("*.blob")} == {kept.with_suffix("")}
    assert_values(path)


def test_clones_find_the_side_files(tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(blobs(), tmp_path / "d")
    clone = dataset.shallow_clone(str(tmp_path / "clone"), 1)
    assert [blob.readall() for blob in clone.take_blobs("b", indices=ROWS)] == [VALUES[row] for row in ROWS]
    clone.validate()


def test_every_byte_of_a_side_file_is_covered(tmp_path: Path) -> None:
    """T26: in all of them, and a missing one."""
    dataset = lance_core.write_dataset(blobs(), tmp_path)
    dataset.validate()
    for file in (tmp_path / "data").rglob("*.blob"):
        whole = file.read_bytes()
        for place in (0, len(whole) // 2, len(whole) - 1):
            file.write_bytes(whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :])
            with pytest.raises(CorruptFileError, match=file.name):
                dataset.validate()
        file.write_bytes(whole + b"x")
        with pytest.raises(CorruptFileError, match="size"):
            dataset.validate()
        file.unlink()
        with pytest.raises(LanceError, match=file.name):
            dataset.validate()
        file.write_bytes(whole)
    dataset.validate()


def test_damaged_checksums_of_side_files() -> None:
    """T22, T26: cut anywhere, or changed anywhere."""
    content = bytes(16) + bytes.fromhex("00000000")
    for data in (b"", b"abc", content, bytes(20) + b"\1"):
        with pytest.raises(CorruptFileError, match="side files are damaged"):
            read_checksums(data, "f")


@pytest.mark.parametrize("step", ["write", "add_columns"])
def test_a_write_that_fails_leaves_no_side_files(tmp_path: Path, step: str) -> None:
    """T27: neither an incomplete shared side file nor the side files of single values remain."""
    lance_core.write_dataset(blobs(), tmp_path)
    before = files(tmp_path)

    def failing(name: str) -> pa.RecordBatchReader:
        def batches() -> Iterator[pa.RecordBatch]:
            yield blobs().select(["b"]).rename_columns([name]).to_batches()[0].slice(0, 8)
            raise ValueError("the source ended")

        schema = blobs().select(["b"]).rename_columns([name]).schema
        return pa.RecordBatchReader.from_batches(schema, batches())

    def change() -> None:
        if step == "write":
            lance_core.write_dataset(failing("b"), tmp_path, mode="append")
        else:
            lance_core.dataset(tmp_path).add_columns(failing("c"))

    with pytest.raises(ValueError, match="the source ended"):
        change()
    assert files(tmp_path) == before
    assert len([each for each in (tmp_path / "data").iterdir() if each.is_dir()]) == 1


def test_new_columns_have_side_files(tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(pa.table({"id": range(len(VALUES))}), tmp_path)
    dataset.add_columns(blobs().select(["b"]).to_reader())
    assert_values(tmp_path)


def test_blobs_outside_the_dataset(tmp_path: Path) -> None:
    """Only where the caller allows them; they are named, not read."""
    outside = tmp_path / "outside.bin"
    outside.write_bytes(bytes(range(200)))
    whole = lance.Blob(uri=f"file://{outside}")
    part = lance.Blob(uri=f"file://{outside}", position=3, size=4)
    table = blobs([whole, part, b"inside", None])
    with pytest.raises(UnsupportedFeatureError, match="outside the dataset"):
        lance_core.write_dataset(table, tmp_path / "refused")
    allowed = {"allow_external_blob_outside_bases": True}
    ours = lance_core.write_dataset(table, tmp_path / "ours", **allowed)
    theirs = lance.write_dataset(table, str(tmp_path / "theirs"), **allowed)
    assert places(ours.to_table()) == places(theirs.to_table())
    for dataset in (ours, lance.dataset(str(tmp_path / "ours"))):
        found = [blob.readall() for blob in dataset.take_blobs("b", indices=[0, 1, 2])]
        assert found == [bytes(range(200)), bytes([3, 4, 5, 6]), b"inside"]
    with pytest.raises(InvalidInputError, match="URI of a blob"):
        lance_core.write_dataset(blobs([lance.Blob(uri="no/scheme")]), tmp_path / "refused", **allowed)


@pytest.mark.parametrize("large", [65_537, 100_000, (4 << 20) + 1])
def test_large_blobs_beside_blobs_outside(large: int, tmp_path: Path) -> None:
    """In one batch, blobs in side files get positions there, and external blobs keep their URIs."""
    (tmp_path / "outside").write_bytes(bytes(range(200)))
    uri = f"file://{tmp_path}/outside"
    inside = np.random.default_rng(5).bytes(large)
    part = lance.Blob.from_uri(uri, position=3, size=4)
    table = blobs([inside, part, None, b"small", lance.Blob.from_uri(uri), inside[::-1]])
    allowed = {"allow_external_blob_outside_bases": True}

    for mode in ("create", "append"):
        for writer, name in ((lance_core, "ours"), (lance, "theirs")):
            writer.write_dataset(table, str(tmp_path / name), mode=mode, **allowed)

    assert places(lance_core.dataset(tmp_path / "ours").to_table()) == places(
        lance.dataset(str(tmp_path / "theirs")).to_table()
    )
    expected = [inside, bytes([3, 4, 5, 6]), b"small", bytes(range(200)), inside[::-1]]
    rows = [0, 1, 3, 4, 5]
    for dataset in (lance_core.dataset(tmp_path / "ours"), lance.dataset(str(tmp_path / "ours"))):
        found = dataset.take_blobs("b", indices=[*rows, *(row + 6 for row in rows)])
        assert [blob.readall() for blob in found] == expected * 2
    lance_core.dataset(tmp_path / "ours").validate()


def test_a_blob_that_is_nothing_is_refused(tmp_path: Path) -> None:
    field = lance.blob_field("b")
    members = [
        pa.array([b"a", None], pa.large_binary()),
        *(pa.nulls(2, each.type) for each in list(field.type.storage_type)[1:]),
    ]
    values = pa.StructArray.from_arrays(members, fields=list(field.type.storage_type))
    table = pa.table([pa.ExtensionArray.from_storage(field.type, values)], schema=pa.schema([field]))
    with pytest.raises(OSError, match="exactly one"):
        lance.write_dataset(table, str(tmp_path / "theirs"))
    with pytest.raises(InvalidInputError, match=r"exactly one.*column b"):
        lance_core.write_dataset(table, tmp_path / "ours")


def _listed(kind: pa.DataType) -> pa.Table:
    """Lists of blobs in every place that blobs can be in, of nulls, of nothing, and null."""
    rows = [VALUES[:4], None, [], VALUES[4:], [None], [VALUES[0]]]
    if pa.types.is_struct(kind.value_type):
        rows = [row and [{"n": number, "b": value} for number, value in enumerate(row)] for row in rows]
    ids = pa.array(range(len(rows)))
    return pa.Table.from_arrays(
        [ids, pa.array(rows, kind)], schema=pa.schema([("id", pa.int64()), ("c", kind)])
    )


_ITEM = pa.field("item", pa.large_binary(), metadata=FIRST_FORM)
LISTS = {
    "list": pa.list_(_ITEM),
    "large_list": pa.large_list(_ITEM),
    "structs": pa.list_(pa.struct([("n", pa.int32()), _ITEM.with_name("b")])),
}


def _values_in_lists(path: Path) -> list[Any]:
    return (
        lance_core.dataset(path)
        .scanner(columns=["c"], blob_handling="all_binary")
        .to_table()["c"]
        .to_pylist()
    )


@pytest.mark.parametrize("kind", LISTS)
def test_blobs_in_lists_are_where_the_reference_puts_them(kind: str, tmp_path: Path) -> None:
    table = _listed(LISTS[kind])
    ours = lance_core.write_dataset(table, tmp_path / "ours", max_rows_per_file=4)
    theirs = lance.write_dataset(table, str(tmp_path / "theirs"), max_rows_per_file=4)

    assert ours.schema.equals(theirs.schema, check_metadata=True)
    assert side_files(tmp_path / "ours") == side_files(tmp_path / "theirs")
    ours.validate()
    for path in (tmp_path / "ours", tmp_path / "theirs"):
        assert _values_in_lists(path) == table["c"].to_pylist()
        found = lance_core.dataset(path).to_table()
        assert lance.dataset(str(path)).to_table().equals(found)
        assert lance_core.dataset(path).take([3, 0])["c"].to_pylist() == found.take([3, 0])["c"].to_pylist()
        with pytest.raises(InvalidInputError, match="column"):
            lance_core.dataset(path).take_blobs("c", indices=[0])


@pytest.mark.parametrize("kind", LISTS)
def test_blobs_in_lists_are_moved(kind: str, tmp_path: Path) -> None:
    table = _listed(LISTS[kind])
    lance_core.write_dataset(table, tmp_path / "d", max_rows_per_file=2)

    lance_core.dataset(tmp_path / "d").update({"id": "0"}, where="id = 3")
    lance_core.dataset(tmp_path / "d").optimize.compact_files()

    moved = [*range(3), 4, 5, 3]
    assert _values_in_lists(tmp_path / "d") == table.take(moved)["c"].to_pylist()
    lance_core.dataset(tmp_path / "d").validate()
    lance.dataset(str(tmp_path / "d")).optimize.compact_files()
    assert _values_in_lists(tmp_path / "d") == table.take(moved)["c"].to_pylist()


_TWO = lance.blob_array([b"a", b"b"])


@pytest.mark.parametrize(
    "column",
    [
        pa.FixedSizeListArray.from_arrays(_TWO, type=pa.list_(lance.blob_field("item"), 2)),
        pa.MapArray.from_arrays(pa.array([0, 2], pa.int32()), ["x", "y"], _TWO),
    ],
    ids=["fixed_size_list", "map"],
)
def test_blobs_are_not_in_what_the_reference_does_not_write(column: pa.Array, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFeatureError, match="blobs in"):
        lance_core.write_dataset(pa.table({"c": column}), tmp_path / "d")


@pytest.mark.parametrize(("field", "option"), [(None, 250_000), ("300000", 150_000), ("150000", 350_000)])
def test_a_write_says_how_large_shared_files_are(field: str | None, option: int, tmp_path: Path) -> None:
    metadata = field and {"lance-encoding:blob-pack-file-size-threshold": field}
    source = np.random.default_rng(6)
    table = blobs([source.bytes(100_000) for _ in range(6)], metadata or None)
    for writer in (lance, lance_core):
        writer.write_dataset(table, str(tmp_path / writer.__name__), blob_pack_file_size_threshold=option)
    assert side_files(tmp_path / "lance_core") == side_files(tmp_path / "lance")
    lance_core.dataset(tmp_path / "lance_core").validate()


def _outside(tmp_path: Path) -> tuple[pa.Table, list[Any]]:
    large, small = np.random.default_rng(7).bytes(300_000), b"hello world"
    (tmp_path / "large").write_bytes(large)
    (tmp_path / "small").write_bytes(small)
    uris = [f"file://{tmp_path}/{name}" for name in ("large", "small")]
    values = [
        b"own",
        lance.Blob.from_uri(uris[0]),
        lance.Blob.from_uri(uris[1]),
        None,
        lance.Blob.from_uri(uris[1], position=6, size=5),
        lance.Blob.from_uri(uris[0], position=7, size=100_000),
        b"",
    ]
    return blobs(values), [b"own", large, small, None, b"world", large[7:100_007], b""]


def test_blobs_are_taken_in_from_where_they_are(tmp_path: Path) -> None:
    table, values = _outside(tmp_path)
    for writer in (lance, lance_core):
        writer.write_dataset(table, str(tmp_path / writer.__name__), external_blob_mode="ingest")
    assert places(lance_core.dataset(tmp_path / "lance_core").to_table()) == places(
        lance.dataset(str(tmp_path / "lance")).to_table()
    )
    assert side_files(tmp_path / "lance_core") == side_files(tmp_path / "lance")
    (tmp_path / "large").unlink()
    assert_values(tmp_path / "lance_core", values)
    lance_core.dataset(tmp_path / "lance_core").validate()


@pytest.mark.parametrize(
    ("blob", "message"),
    [
        (lance.Blob.from_uri("file:///nowhere/at/all"), "all"),
        (lance.Blob.from_uri("{}/small", position=6, size=500), r"within 11 bytes, found \[6, 506\)"),
    ],
    ids=["missing", "range"],
)
def test_what_cannot_be_taken_in_leaves_nothing(blob: Any, message: str, tmp_path: Path) -> None:
    _outside(tmp_path)
    blob = lance.Blob.from_uri(blob.uri.format(tmp_path), blob.position, blob.size)
    with pytest.raises(LanceError, match=message):
        lance_core.write_dataset(blobs([b"x" * 100_000, blob]), tmp_path / "d", external_blob_mode="ingest")
    assert not list((tmp_path / "d").rglob("*.*"))


def test_modes_that_mean_nothing(tmp_path: Path) -> None:
    for options in (
        {"external_blob_mode": "copy"},
        {"external_blob_mode": "ingest", "allow_external_blob_outside_bases": True},
        {"blob_pack_file_size_threshold": -1},
    ):
        with pytest.raises(InvalidInputError, match=r"external_blob_mode|blob_pack_file_size_threshold"):
            lance_core.write_dataset(blobs(), tmp_path / "d", **options)


def test_limits_of_the_table_apply_to_appends(tmp_path: Path) -> None:
    """An append may repeat limits or leave them out. The reference refuses other limits, too."""

    def table(**limits: int) -> pa.Table:
        schema = pa.schema([lance_core.blob_field("b", **limits)])
        return pa.table([lance_core.blob_array([b"x" * 100])], schema=schema)

    for own in ({}, {"inline_size_threshold": 10}, {"dedicated_size_threshold": 50}):
        lance_core.write_dataset(table(**own), tmp_path / "d", mode="overwrite")
        for given in (
            {},
            own,
            {"inline_size_threshold": 64 << 10},
            {"inline_size_threshold": 11},
            {"pack_file_size_threshold": 1 << 30},
            {"pack_file_size_threshold": 1000},
        ):
            is_refused = False
            try:
                lance.write_dataset(table(**given), str(tmp_path / "d"), mode="append")
            except OSError as error:
                is_refused = "threshold" in str(error)
            if is_refused:
                with pytest.raises(
                    InvalidInputError, match=r"blob threshold metadata.*column b, expected inline"
                ):
                    lance_core.write_dataset(table(**given), tmp_path / "d", mode="append")
            else:
                lance_core.write_dataset(table(**given), tmp_path / "d", mode="append")
    lance_core.write_dataset(table(inline_size_threshold=11), tmp_path / "d", mode="overwrite")


def test_fragments_refer_to_blobs_outside_or_take_them_in(tmp_path: Path) -> None:
    outside = tmp_path / "outside.bin"
    outside.write_bytes(b"hello")
    table = pa.table({"b": lance_core.blob_array([outside.as_uri(), b"in"])})
    path = tmp_path / "d"
    with pytest.raises(UnsupportedFeatureError, match="outside"):
        lance_core.write_fragments(table, path)
    assert not list(path.rglob("*.lance"))
    with pytest.raises(InvalidInputError, match='only applies when external_blob_mode="reference"'):
        lance_core.write_fragments(
            table, path, external_blob_mode="ingest", allow_external_blob_outside_bases=True
        )
    for options in ({"allow_external_blob_outside_bases": True}, {"external_blob_mode": "ingest"}):
        written = lance_core.write_fragments(
            table, path, mode="overwrite", return_transaction=True, **options
        )
        assert isinstance(written, lance_core.Transaction)
        lance_core.LanceDataset.commit(path, written)
        if "external_blob_mode" in options:
            outside.unlink()
        for opened in (lance_core.dataset(path), lance.dataset(str(path))):
            assert [data for _, data in opened.read_blobs("b", indices=[0, 1])] == [b"hello", b"in"]
