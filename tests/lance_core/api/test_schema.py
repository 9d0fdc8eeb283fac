"""Schemas with field ids, and schemas as JSON: equal to those of the reference."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import lance
import lance.schema
import pyarrow as pa
import pytest

import lance_core
from lance_core.api import schema as ours
from lance_core.errors import InvalidInputError
from support.runs.each_case import each_case

KEYS = {
    "lance-schema:unenforced-primary-key": "true",
    "lance-schema:unenforced-primary-key:position": "2",
}
SCHEMA = pa.schema(
    [
        pa.field("x", pa.int64(), nullable=False, metadata=KEYS),
        pa.field("s", pa.struct([("a", pa.int32()), ("B", pa.string())])),
        pa.field("l", pa.list_(pa.field("it", pa.float32(), metadata={"of": "list"}))),
        pa.field("m", pa.map_(pa.string(), pa.int32())),
        pa.field("v", pa.list_(pa.float32(), 4)),
        pa.field("u", pa.uuid()),
    ],
    {"k": "v"},
)

TYPES = [
    pa.null(),
    pa.date64(),
    pa.time64("ns"),
    pa.duration("ms"),
    pa.float16(),
    pa.large_binary(),
    pa.binary(5),
    pa.decimal256(40, 3),
    pa.timestamp("s"),
    pa.timestamp("us", "+02:00"),
    pa.dictionary(pa.int8(), pa.string()),
    pa.struct([]),
    pa.large_list(pa.int8()),
    pa.list_(pa.field("it", pa.int8(), False, {"a": "b"})),
    pa.list_(pa.struct([("q", pa.list_(pa.int8(), 3))])),
    pa.uuid(),
    pa.json_(),
]


def facts(field: Any) -> tuple[Any, ...]:
    """Return what a field of either library says, with its children."""
    return (
        field.name(),
        field.id(),
        field.is_unenforced_primary_key(),
        field.unenforced_primary_key_position(),
        field.is_unenforced_clustering_key(),
        field.unenforced_clustering_key_position(),
        dict(field.metadata),
        [facts(child) for child in field.children()],
    )


def test_fields_are_those_of_the_reference() -> None:
    made, theirs = ours.LanceSchema.from_pyarrow(SCHEMA), lance.schema.LanceSchema.from_pyarrow(SCHEMA)
    assert [facts(field) for field in made.fields()] == [facts(field) for field in theirs.fields()]
    assert made.to_pyarrow().equals(SCHEMA, check_metadata=True)
    for name in ("x", "s.a", "s.b", "S.B", "X", "missing", "s.missing"):
        for lookup in ("field", "field_case_insensitive"):
            found, expected = getattr(made, lookup)(name), getattr(theirs, lookup)(name)
            assert (found and facts(found)) == (expected and facts(expected)), (name, lookup)


def test_keys_are_ordered_by_position() -> None:
    position = "lance-schema:unenforced-primary-key:position"
    schema = pa.schema(
        [
            pa.field("a", pa.int8(), False, {"lance-schema:unenforced-primary-key": "true"}),
            pa.field("b", pa.int8(), False, {**KEYS, position: "2"}),
            pa.field("c", pa.int8(), False, {**KEYS, position: "1"}),
        ]
    )
    for library in (ours, lance.schema):
        key = library.LanceSchema.from_pyarrow(schema).unenforced_primary_key()
        assert [field.name() for field in key] == ["c", "b", "a"]
        assert library.LanceSchema.from_pyarrow(schema).unenforced_clustering_key() == []


def test_schemas_are_compared_and_pickled() -> None:
    schema = ours.LanceSchema.from_pyarrow(SCHEMA)
    assert pickle.loads(pickle.dumps(schema)) == schema == ours.LanceSchema.from_pyarrow(SCHEMA)
    assert schema != ours.LanceSchema.from_pyarrow(SCHEMA.remove_metadata())
    assert schema != ours.LanceSchema.from_pyarrow(pa.schema([*SCHEMA][1:], SCHEMA.metadata))
    assert repr(schema).startswith('Schema { fields: [Field { name: "x", id: 0,')
    assert schema != 3


def test_ids_stay_when_columns_are_renamed_by_either_library(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": [1], "s": [{"b": 2}]}), path)
    lance_core.dataset(path).alter_columns({"path": "s.b", "name": "c"})
    read, theirs = lance_core.dataset(path).lance_schema, lance.dataset(path).lance_schema
    assert [facts(field) for field in read.fields()] == [facts(field) for field in theirs.fields()]
    assert [child.name() for child in read.fields()[1].children()] == ["c"]


@pytest.mark.parametrize("names", [["a"], ["c", "d"], ["b", "a"]], ids=["drop", "rename", "swap"])
def test_projects_of_new_schemas_name_fields_by_position(tmp_path: Path, names: list[str]) -> None:
    path = str(tmp_path / "t")
    lance_core.write_dataset(pa.table({"a": [1, 2], "b": [3, 4]}), path)
    schema = ours.LanceSchema.from_pyarrow(pa.schema([(name, pa.int64()) for name in names]))
    lance_core.LanceDataset.commit(path, lance_core.LanceOperation.Project(schema), read_version=1)
    expected = dict(zip(names, ([1, 2], [3, 4]), strict=False))
    assert lance_core.dataset(path).to_table().to_pydict() == expected
    assert lance.dataset(path).to_table().to_pydict() == expected


def test_merges_take_arrow_schemas_with_a_warning(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    dataset = lance_core.write_dataset(pa.table({"a": [1, 2]}), path)
    changed, schema = dataset.get_fragments()[0].merge_columns({"b": "a + 1"})
    assert isinstance(schema, ours.LanceSchema)
    with pytest.warns(DeprecationWarning, match="LanceSchema"):
        operation = lance_core.LanceOperation.Merge([changed], schema.to_pyarrow())
    lance_core.LanceDataset.commit(path, operation, read_version=1)
    assert lance.dataset(path).to_table().to_pydict() == {"a": [1, 2], "b": [2, 3]}
    committed = lance_core.dataset(path).read_transaction(2)
    assert committed is not None
    assert committed.operation.schema == schema
    with pytest.raises(InvalidInputError, match="LanceSchema"):
        lance_core.LanceDataset.commit(path, lance_core.LanceOperation.Project(["a"]), read_version=2)


@each_case("data_type", TYPES)
def test_json_is_that_of_the_reference(data_type: pa.DataType) -> None:
    schema = pa.schema([("c", data_type)], {"k": "v"})
    described = ours.schema_to_json(schema)
    assert described == lance.schema.schema_to_json(schema)
    assert ours.json_to_schema(described).equals(schema, check_metadata=True)


@pytest.mark.parametrize("data_type", [pa.string_view(), pa.map_(pa.string(), pa.int8())], ids=str)
def test_types_without_json_are_refused(data_type: pa.DataType) -> None:
    for library in (ours, lance.schema):
        with pytest.raises(ValueError, match=r"JSON form|to json"):
            library.schema_to_json(pa.schema([("c", data_type)]))


@pytest.mark.parametrize(
    "described",
    [
        {},
        {"fields": [{"name": "a"}]},
        {"fields": [{"name": "a", "nullable": True, "type": {"type": "nope"}}]},
        {"fields": [{"name": "a", "nullable": True, "type": {"type": "list", "fields": []}}]},
        {"fields": [{"name": "a", "nullable": True, "type": {"type": 3}}]},
    ],
    ids=str,
)
def test_other_json_is_refused(described: dict[str, Any]) -> None:
    """The reference panics if the item of a list is missing."""
    with pytest.raises(InvalidInputError, match="JSON is not a schema"):
        ours.json_to_schema(described)
