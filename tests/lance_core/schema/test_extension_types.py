"""Extension types: as the reference reports them, registered with pyarrow or not, at any depth."""

from __future__ import annotations

import uuid
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance._arrow.bf16 import BFloat16Type

import lance_core
from support.oracles.comparison import assert_tables_equal
from support.runs.each_case import each_case


class Colour(pa.ExtensionType):
    """A registered type of somebody else, with parameters."""

    def __init__(self, model: str) -> None:
        self.model = model
        super().__init__(pa.list_(pa.uint8(), 3), "test.colour")

    def __arrow_ext_serialize__(self) -> bytes:
        return self.model.encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Colour:
        return cls(serialized.decode())


@pytest.fixture(scope="module", autouse=True)
def registered() -> object:
    pa.register_extension_type(Colour("rgb"))
    yield
    pa.unregister_extension_type("test.colour")


def labelled(storage: pa.Array, name: str) -> pa.Table:
    """Return a column whose extension type is known by its name only."""
    metadata = {"ARROW:extension:name": name, "ARROW:extension:metadata": "some"}
    return pa.table([storage], schema=pa.schema([pa.field("c", storage.type, metadata=metadata)]))


def extension(data_type: pa.DataType, storage: pa.Array) -> pa.Array:
    return pa.ExtensionArray.from_storage(data_type, storage)


def tables() -> dict[str, pa.Table]:
    uuids = pa.array([uuid.UUID(int=row).bytes for row in range(1, 5)], pa.uuid())
    halves = extension(BFloat16Type(), pa.array([b"ab", b"cd", b"\x00\x00", b"\x80\x3f"], pa.binary(2)))
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(32, dtype=np.float32).reshape(4, 2, 4))
    colours = pa.FixedSizeListArray.from_arrays(pa.array(range(12), pa.uint8()), 3)
    offsets = pa.array([0, 2, 2, 3, 4], pa.int32())
    arrays = {
        "uuid": uuids,
        "bfloat16": halves,
        "tensor": tensors,
        "bool8": extension(pa.bool8(), pa.array([1, 0, None, 1], pa.int8())),
        "opaque": extension(pa.opaque(pa.binary(), "kind", "vendor"), pa.array([b"1", b"", None, b"x"])),
        "registered": extension(Colour("hsv"), colours),
        "list of uuid": pa.ListArray.from_arrays(offsets, uuids),
        "list of bfloat16": pa.ListArray.from_arrays(offsets, halves),
        "vector of bfloat16": pa.FixedSizeListArray.from_arrays(halves, 2),
        "struct of tensor": pa.StructArray.from_arrays([tensors, uuids], names=["t", "u"]),
    }
    return {name: pa.table({"c": array}) for name, array in arrays.items()} | {
        "unregistered text": labelled(pa.array(["a", None, "b"]), "image.uri"),
        "unregistered bytes": labelled(pa.array([b"a", None, b"b"]), "image.encoded"),
    }


@each_case("version", ["2.0", "2.1", "2.2"])
@each_case("name", list(tables()))
def test_extension_types(tmp_path: Path, name: str, version: str) -> None:
    theirs = lance.write_dataset(tables()[name], str(tmp_path), data_storage_version=version)
    ours = lance_core.dataset(tmp_path)
    assert ours.schema.equals(theirs.schema, check_metadata=True)
    assert_tables_equal(theirs.to_table(), ours.to_table())
    assert_tables_equal(theirs.take([1, 0]), ours.take([1, 0]))


def below_null_structs(values: pa.Array) -> pa.Array:
    """Structs that allow no null below them, some of which are null themselves."""
    return pa.StructArray.from_arrays(
        [values, pa.array(range(len(values)))],
        fields=[pa.field("x", values.type, nullable=False), pa.field("n", pa.int64())],
        mask=pa.array([number % 3 == 1 for number in range(len(values))]),
    )


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("with_dictionary", [False, True])
def test_below_null_structs(tmp_path: Path, version: str, with_dictionary: bool) -> None:
    structs = below_null_structs(pa.array([uuid.UUID(int=row).bytes for row in range(9)], pa.uuid()))
    if with_dictionary:
        words = pa.array(["a", "b", None] * 3).dictionary_encode()
        structs = pa.StructArray.from_arrays([structs, words], ["s", "d"])
    lists = pa.ListArray.from_arrays([0, 2, 2, 9], structs)
    table = pa.table({"structs": structs.slice(0, 3), "lists": lists})
    theirs = lance.write_dataset(table, str(tmp_path), data_storage_version=version)
    ours = lance_core.dataset(tmp_path)
    assert_tables_equal(theirs.to_table(), ours.to_table())
    assert_tables_equal(theirs.take([2, 0]), ours.take([2, 0]))
    present = 3 if with_dictionary else 2
    for condition in ("structs IS NOT NULL", pc.field("structs").is_valid()):
        assert ours.to_table(filter=condition).num_rows == present


@pytest.mark.parametrize("view", [pa.string_view(), pa.dictionary(pa.int8(), pa.string_view())], ids=str)
def test_beside_views_in_merged_rows(tmp_path: Path, view: pa.DataType) -> None:
    uuids = pa.array([uuid.UUID(int=row).bytes for row in range(4)], pa.uuid())
    words = pa.array(["a", "b", None, "c"]).cast(pa.string_view())
    if pa.types.is_dictionary(view):
        words = pa.DictionaryArray.from_arrays(pa.array([3, 2, None, 0], pa.int8()), words)
    given = pa.table({"k": range(4), "s": pa.StructArray.from_arrays([uuids, words], ["u", "w"])})
    dataset = lance_core.write_dataset(given.slice(2), tmp_path, data_storage_version="2.2")
    dataset.merge_insert("k").when_matched_update_all().when_not_matched_insert_all().execute(given)
    assert sorted(dataset.to_table().to_pylist(), key=lambda row: row["k"]) == given.to_pylist()


@pytest.mark.parametrize("name", ["registered", "bfloat16"])
def test_types_without_a_hash_can_be_filtered(tmp_path: Path, name: str) -> None:
    """Extension types that are written in Python have none."""
    column = tables()[name]["c"].combine_chunks()
    values = column.take(pa.array([0, None, 2, 3]))
    source = pa.table({"id": range(4), "c": values, "s": pa.StructArray.from_arrays([values], names=["c"])})
    theirs = lance.write_dataset(source, str(tmp_path))
    theirs.create_scalar_index("id", "BTREE")
    ours, theirs = lance_core.dataset(tmp_path), lance.dataset(str(tmp_path))
    for condition in ("c IS NULL", "s.c IS NOT NULL", "id > 1 AND c IS NOT NULL", "is_valid(c) OR id = 1"):
        assert_tables_equal(theirs.to_table(filter=condition), ours.to_table(filter=condition))
        assert ours.count_rows(condition) == theirs.count_rows(condition)
    computed = {"c": "c", "is_null": "c IS NULL"}
    assert_tables_equal(theirs.to_table(computed), ours.to_table(computed))
    assert ours.delete("c IS NULL") == {"num_deleted_rows": 1}
