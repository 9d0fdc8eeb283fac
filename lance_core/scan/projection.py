"""Which columns a scan returns, and what has to be read for each of them.

A path such as `s.x.y` names a field inside structs and becomes one flat output column of that name, null
where any struct above it is null, with the metadata of the field it names. Names are matched exactly; a
part in backticks may hold any character, a backtick doubled. Paths do not reach into lists or maps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lance_core.encodings.json_binary import holds_json
from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.scan.options import ScanOptions
from lance_core.schema import Field, Schema, split_path
from lance_core.schema.blobs import binary_blobs, describe_blobs

ROW_ID = "_rowid"
ROW_ADDRESS = "_rowaddr"
ROW_OFFSET = "_rowoffset"
CREATED_AT = "_row_created_at_version"
LAST_UPDATED_AT = "_row_last_updated_at_version"
ROW_COLUMNS = (ROW_ID, ROW_ADDRESS, ROW_OFFSET, CREATED_AT, LAST_UPDATED_AT)


@dataclass(frozen=True)
class DataColumn:
    """An output column that is read from data files.

    Attributes:
        output: Field of the output schema.
        field: Top-level field to read, narrowed to the children that the path goes through.
        path: Child position at each struct level below `field`; empty when the whole field is the column.
        described: The field that the path leads to, if blobs in it are to be replaced by their values.
        json: The field that is shown, if it is binary JSON or holds some.
    """

    output: pa.Field
    field: Field
    path: tuple[int, ...]
    described: Field | None = None
    json: Field | None = None


@dataclass(frozen=True)
class RowColumn:
    """An output column that tells of the row itself: one of `ROW_COLUMNS`."""

    output: pa.Field


@dataclass(frozen=True)
class Projection:
    columns: tuple[DataColumn | RowColumn, ...]
    schema: pa.Schema


def project(schema: Schema, options: ScanOptions) -> Projection:
    """Resolve the columns of `options` against the schema of a table version.

    Raises:
        InvalidInputError: a name is unknown, is given twice, or does not lead through structs; names it.
        UnsupportedFeatureError: the column exists and cannot be read by this release; names it.
    """
    appended = [ROW_ID] * options.with_row_id + [ROW_ADDRESS] * options.with_row_address
    values = options.blob_handling == "all_binary"
    columns: list[DataColumn | RowColumn]
    if options.columns is None:
        columns = [_data_column(field.name, field, (), values) for field in schema.fields]
    else:
        _refuse_duplicates(options.columns)
        columns = [_resolve(schema, name, values) for name in options.columns if name not in appended]
    columns += [_row_column(name) for name in appended]
    metadata = dict(schema.metadata) or None
    return Projection(tuple(columns), pa.schema([column.output for column in columns], metadata=metadata))


def project_narrowed(schema: Schema, names: Sequence[str]) -> Projection:
    """Resolve columns as the reference does where it takes rows: paths narrow their top-level column.

    Such a column keeps only the fields that paths lead to, in the order of the schema; paths may lead through
    lists too, and names may be given again. Columns stand where they are named first.

    Raises:
        InvalidInputError: a name is unknown, or does not lead through structs and lists; names it.
        UnsupportedFeatureError: the column cannot be read, or not without its other children; names it.
    """
    tops = {field.name: field for field in schema.fields}
    paths: dict[str, list[Sequence[str]]] = {}
    for name in names:
        parts = split_path(name)
        if parts[0] not in tops and name not in ROW_COLUMNS:
            raise _no_such_column(name, schema.fields)
        paths.setdefault(parts[0], []).append(parts[1:])
    columns: list[DataColumn | RowColumn] = [
        _data_column(top, _keep(top, tops[top], below), (), False) if top in tops else _row_column(top)
        for top, below in paths.items()
    ]
    metadata = dict(schema.metadata) or None
    return Projection(tuple(columns), pa.schema([column.output for column in columns], metadata=metadata))


def _keep(name: str, field: Field, paths: Sequence[Sequence[str]]) -> Field:
    """The field with what `paths`, which count from it, lead to; an empty path keeps it whole."""
    if not all(paths):
        return field
    if field.is_packed:
        raise UnsupportedFeatureError("packed structs can be taken only whole", column=name)
    if field.logical_type.removesuffix(".struct") not in ("struct", "list", "large_list"):
        raise InvalidInputError(
            "paths lead through structs and lists only",
            column=name,
            found=f"{field.name} of type {field.logical_type}",
        )
    below: dict[str, list[Sequence[str]]] = {}
    for path in paths:
        below.setdefault(path[0], []).append(path[1:])
    kept = tuple(
        _keep(f"{name}.{child.name}", child, below.pop(child.name))
        for child in field.children
        if child.name in below
    )
    for missing in below:
        raise _no_such_column(f"{name}.{missing}", field.children)
    return replace(field, children=kept)


def _refuse_duplicates(names: tuple[str, ...]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidInputError("column is asked for twice", column=name)
        seen.add(name)


def _resolve(schema: Schema, name: str, blob_values: bool) -> DataColumn | RowColumn:
    names = split_path(name)
    for field in schema.fields:
        if field.name == names[0]:
            return _data_column(name, field, names[1:], blob_values)
    if name in ROW_COLUMNS:
        return _row_column(name)
    raise _no_such_column(name, schema.fields)


def _row_column(name: str) -> RowColumn:
    return RowColumn(pa.field(name, pa.uint64()))


def _data_column(name: str, top: Field, below: Sequence[str], blob_values: bool) -> DataColumn:
    narrowed, path, leaf, nullable = _narrow(name, describe_blobs(top), below)
    described = None
    if blob_values and any(field.is_blob_descriptor for field in leaf.walk()):
        described = leaf
        _, _, leaf, _ = _narrow(name, binary_blobs(top), below)
    output = leaf.to_arrow().with_name(name).with_nullable(nullable)
    return DataColumn(output, narrowed, path, described, leaf if holds_json(leaf) else None)


def _narrow(name: str, field: Field, below: Sequence[str]) -> tuple[Field, tuple[int, ...], Field, bool]:
    """The field cut down to one path, the child positions of that path, its last field, and its nullability.

    A null struct makes everything inside it null, so the column is nullable when any field on its path is.
    """
    if not below:
        return field, (), field, field.nullable
    if field.logical_type != "struct" or field.is_blob_descriptor:
        raise InvalidInputError(
            "paths lead through structs only", column=name, found=f"{field.name} of type {field.logical_type}"
        )
    position = next((p for p, child in enumerate(field.children) if child.name == below[0]), None)
    if position is None:
        raise _no_such_column(name, field.children)
    narrowed, path, leaf, nullable = _narrow(name, field.children[position], below[1:])
    # The bytes of a packed struct interleave all its children: it can only be read whole.
    if field.is_packed:
        return field, (position, *path), leaf, nullable or field.nullable
    return replace(field, children=(narrowed,)), (0, *path), leaf, nullable or field.nullable


def _no_such_column(name: str, known: Sequence[Field]) -> InvalidInputError:
    return InvalidInputError(
        "no such column", column=name, expected=f"one of {', '.join(field.name for field in known)}"
    )
