"""Conforming batches to the schema of a table: comparison with the schema, and conversion to the stored form.

Columns and children of structs are matched by name, in any order. Nullable ones may be missing and become
null. Types must be equal, except that views become plain strings and binaries, and extension types their
storage.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.encodings.json_binary import store_json
from lance_core.encodings.values import seen_as
from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.file.side_files import BlobSizes
from lance_core.schema import Field, Schema, is_view, schema_from_arrow
from lance_core.schema.arrow_types import EXTENSION_METADATA
from lance_core.schema.from_arrow import with_blobs_v2

_VIEW_BYTES = 16


class Conformer:
    """Conversion of batches with one schema to the form that the data files of a table store."""

    schema: Schema
    """Fields of the table that the batches have, in the order of the table and with its field ids."""

    def __init__(self, table: Schema, given: pa.Schema) -> None:
        """Compare the schema `given` with the schema of the table.

        Raises:
            InvalidInputError: `given` has a column that the table lacks, lacks a required column, or has
                another type.
            UnsupportedFeatureError: `given` has a type that cannot be written.
        """
        self._given = given
        self.schema, self._stored = table, _stored(table)
        is_equal = _is_plain(table) and given.equals(self._stored)
        if is_equal and _have_names_alone(given, self._stored):
            self._columns, self._is_stored = list(range(len(given))), True
            return
        has_blobs_v2 = any(node.is_blob_v2 for field in table.fields for node in field.walk())
        described = with_blobs_v2(given) if has_blobs_v2 else given
        ids = _matched(table.fields, schema_from_arrow(described).fields, "")
        messages = [message for message in table.messages if message.id in ids]
        self.schema = Schema(messages, table.raw_metadata)
        self._columns = [given.get_field_index(field.name) for field in self.schema.fields]
        self._stored = _stored(self.schema)
        self._is_stored = given.equals(self._stored) and all(
            node.nullable and not node.is_json for field in self.schema.fields for node in field.walk()
        )

    def conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of a batch in the order and with the storage types of `schema`.

        Raises:
            InvalidInputError: the batch has another schema than `given`, or has a null in a required column.
        """
        if not batch.schema.equals(self._given):
            raise InvalidInputError(
                "batch has another schema than announced", expected=self._given, found=batch.schema
            )
        if self._is_stored:
            return batch
        arrays = [
            convert(batch.column(index), field)
            for index, field in zip(self._columns, self.schema.fields, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._stored)


def _stored(schema: Schema) -> pa.Schema:
    """Return the Arrow schema of the stored form."""
    return pa.schema([pa.field(each.name, each.arrow_type, each.nullable) for each in schema.fields])


def _is_plain(schema: Schema) -> bool:
    """Return whether Arrow's types and names alone describe the columns, as in most small appends."""
    return all(
        field.nullable
        and not field.extension_name
        and not field.is_blob
        and not field.is_json
        and not pa.types.is_dictionary(field.arrow_type)
        for top in schema.fields
        for field in top.walk()
    )


def _have_names_alone(given: Iterable[pa.Field], stored: Iterable[pa.Field]) -> bool:
    """Return whether fields of equal types have the same names and no metadata, at any depth.

    Arrow calls lists equal whose items have other names.
    """
    return all(
        mine.name == known.name
        and mine.metadata is None
        and _have_names_alone(_members(mine.type), _members(known.type))
        for mine, known in zip(given, stored, strict=True)
    )


def _members(kind: pa.DataType) -> list[pa.Field]:
    return [kind.field(place) for place in range(kind.num_fields)]


def _matched(fields: Sequence[Field], given: Sequence[Field], path: str) -> set[int]:
    """Return the ids of the table's `fields`, and of their children, that `given` contains."""
    by_name = {field.name: field for field in given}
    known = {field.name for field in fields}
    unexpected = [path + name for name in by_name if name not in known]
    missing = [path + field.name for field in fields if field.name not in by_name and not field.nullable]
    if unexpected or missing:
        raise InvalidInputError(
            "columns do not match the table",
            column=(unexpected + missing)[0],
            expected=f"[{', '.join(field.name for field in fields)}]",
            found=f"unexpected [{', '.join(unexpected)}], missing and not nullable [{', '.join(missing)}]",
        )
    ids: set[int] = set()
    for field in fields:
        if field.name in by_name:
            ids |= _match(field, by_name[field.name], path)
    return ids


def _match(field: Field, given: Field, path: str) -> set[int]:
    name = path + field.name
    if (field.logical_type, field.extension_name) != (given.logical_type, given.extension_name):
        raise InvalidInputError(
            "column has another type than in the table",
            column=name,
            expected=_type_name(field),
            found=_type_name(given),
        )
    if _parameters(field) != _parameters(given):
        raise InvalidInputError(
            "extension type has other parameters than in the table",
            column=name,
            expected=f"{field.extension_name} {field.metadata.get(EXTENSION_METADATA, '')}".rstrip(),
            found=f"{given.extension_name} {given.metadata.get(EXTENSION_METADATA, '')}".rstrip(),
        )
    if field.is_blob_v2:  # the struct may have a range of bytes for its URI, or not
        _refuse_other_limits(field, given, name)
        return {node.id for node in field.walk()}
    if field.logical_type == "struct":
        names, known = ([child.name for child in node.children] for node in (given, field))
        if known and not names:
            raise InvalidInputError("struct without any of its children", column=name)
        if field.is_packed and set(known) != set(names):
            raise InvalidInputError("packed struct without all of its children", column=name)
    return {field.id} | _matched(field.children, given.children, f"{name}.")


def _refuse_other_limits(field: Field, given: Field, name: str) -> None:
    """Refuse limits in the metadata of a blob field that differ from those of the table, which apply."""
    expected, found = (
        BlobSizes.of(field),
        BlobSizes.of(replace(field, metadata={**field.metadata, **given.metadata})),
    )
    if expected != found:
        raise InvalidInputError(
            "Cannot append data with blob threshold metadata that differs from the table",
            column=name,
            expected=expected,
            found=found,
        )


def _parameters(field: Field) -> object:
    """Return the parsed parameters of an extension type.

    Types with different parameters, such as the shape of a tensor, are different types. The parameters are
    parsed because libraries write the same JSON with and without spaces, and may leave empty text out.
    """
    text = field.metadata.get(EXTENSION_METADATA, "") if field.extension_name else ""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _type_name(field: Field) -> str:
    return f"{field.logical_type} ({field.extension_name})" if field.extension_name else field.logical_type


def convert(
    array: pa.Array, field: Field, path: str | None = None, parents: pa.BooleanArray | None = None
) -> pa.Array:
    """Convert values to the storage type of a field.

    Args:
        array: values whose type matches the field; children of structs may be in any order.
        field: target field.
        path: names of the fields from the top down to this one, for messages.
        parents: where the enclosing structs are not null; None means everywhere.

    Raises:
        InvalidInputError: a required field has a null.
    """
    path = path or field.name
    while isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if not field.nullable and array.null_count:
        nulls = array.is_null() if parents is None else pc.and_(array.is_null(), parents)
        if pc.any(nulls).as_py():
            row = pc.index(nulls, True).as_py()
            raise InvalidInputError("null in a column that allows none", column=path, found=f"row {row}")
    wanted = field.arrow_type
    if field.is_json:
        return store_json(array, path)
    if field.is_blob_v2:
        return _blobs_v2(array, field)
    if array.type.equals(wanted) and all(node.nullable and not node.is_json for node in field.walk()):
        return array
    if pa.types.is_struct(wanted):
        return _struct(array, field, path, parents)
    if is_view(array.type):
        return _without_hidden_views(array).cast(wanted)
    if pa.types.is_dictionary(array.type) and is_view(array.type.value_type):
        values = _without_hidden_views(array.dictionary).cast(wanted.value_type)
        return pa.DictionaryArray.from_arrays(array.indices, values, ordered=wanted.ordered)
    if not field.children:
        # Only name, nullability and metadata of the list's item change. The bytes stay.
        return seen_as(wanted, array) if pa.types.is_fixed_size_list(wanted) else array.cast(wanted)
    return _list(array, field, path)


def plain(array: pa.Array, name: str) -> pa.Array:
    """Return the values as a new table would store them: without views and extension types on any level.

    Args:
        array: values of any type that a column may have.
        name: name of the column, for messages.

    Raises:
        UnsupportedFeatureError: the type cannot be written.
    """
    (field,) = schema_from_arrow(pa.schema([("", array.type)])).fields
    return convert(array, field, name)


def _blobs_v2(array: pa.Array, field: Field) -> pa.StructArray:
    """Return blobs as structs with the members of the field. `array` has bytes, or structs of the second
    form.
    """
    wanted, count = field.arrow_type, len(array)
    given = {"data": array}
    if pa.types.is_struct(array.type):
        given = {member.name: array.field(place) for place, member in enumerate(array.type)}
    for name in set(given).difference(member.name for member in wanted):
        if given[name].null_count != count:
            raise UnsupportedFeatureError(f"blobs with a {name} in this table", column=field.name)
    members = [
        given[member.name].cast(member.type) if member.name in given else pa.nulls(count, member.type)
        for member in wanted
    ]
    return pa.StructArray.from_arrays(members, fields=list(wanted), mask=_mask(array))


def _without_hidden_views(array: pa.Array) -> pa.Array:
    """Return the values with empty views at nulls.

    Arrow does not validate a view at a null, and crashes when it casts a view with a length such as -2^31.
    """
    if not array.null_count:
        return array
    validity, views, *data = array.buffers()
    end = array.offset + len(array)
    cleaned = np.frombuffer(views, np.uint8, end * _VIEW_BYTES).reshape(end, _VIEW_BYTES).copy()
    cleaned[array.offset :][array.is_null().to_numpy(zero_copy_only=False)] = 0
    buffers = [validity, pa.py_buffer(cleaned), *data]
    return pa.Array.from_buffers(array.type, len(array), buffers, array.null_count, array.offset)


def _struct(
    array: pa.StructArray, field: Field, path: str, parents: pa.BooleanArray | None
) -> pa.StructArray:
    if not field.children:
        return array
    if array.null_count:
        parents = array.is_valid() if parents is None else pc.and_(array.is_valid(), parents)
    children = [
        convert(array.field(child.name), child, f"{path}.{child.name}", parents) for child in field.children
    ]
    return pa.StructArray.from_arrays(children, fields=list(field.arrow_type), mask=_mask(array))


def _list(array: pa.Array, field: Field, path: str) -> pa.Array:
    """Convert lists of any kind, or maps. Only the items that the lists cover are converted."""
    wanted, (child,) = field.arrow_type, field.children
    if pa.types.is_fixed_size_list(wanted):
        values = array.values.slice(array.offset * wanted.list_size, len(array) * wanted.list_size)
        items = convert(values, child, f"{path}.{child.name}")
        return pa.FixedSizeListArray.from_arrays(items, type=wanted, mask=_mask(array))
    if pa.types.is_map(wanted):
        given = pa.struct([array.type.key_field, array.type.item_field])
        array = seen_as(pa.list_(pa.field("entries", given)), array)
    offsets = array.offsets
    start = offsets[0].as_py()
    values = array.values.slice(start, offsets[-1].as_py() - start)
    items = convert(values, child, f"{path}.{child.name}")
    offsets = pc.subtract(offsets, pa.scalar(start, offsets.type))
    kind = pa.LargeListArray if pa.types.is_large_list(wanted) else pa.ListArray
    item = pa.field(child.name, items.type, child.nullable)
    type_ = pa.large_list(item) if kind is pa.LargeListArray else pa.list_(item)
    lists = kind.from_arrays(offsets, items, type=type_, mask=_mask(array))
    return seen_as(wanted, lists) if pa.types.is_map(wanted) else lists


def _mask(array: pa.Array) -> pa.BooleanArray | None:
    return array.is_null() if array.null_count else None
