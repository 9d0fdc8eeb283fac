"""Projection: the columns that a scan returns, and the stored columns that it reads for them.

A path such as `s.x.y` names a field inside structs and becomes one flat output column of that name, null
where any struct above it is null, with the metadata of the field it names. Names are matched exactly; a
part in backticks may hold any character, a backtick doubled. Paths do not reach into lists or maps. They
reach into the descriptors of blobs (`b.kind`), which are structs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as attribute
from weakref import WeakKeyDictionary

import pyarrow as pa

from lance_core.encodings.json_binary import holds_json
from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.expressions.tree import Column, Expression, Path, columns, stored_only
from lance_core.hints import did_you_mean
from lance_core.scan.plan.options import ScanOptions
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

    output: pa.Field = attribute(hash=False)  # extension types of Python have no hash
    field: Field
    path: tuple[int, ...]
    described: Field | None = None
    json: Field | None = None

    @property
    def is_shown_as_stored(self) -> bool:
        """Whether the arrays of the files are those of the output."""
        return not self.path and self.json is None and self.field.arrow_type == self.output.type


@dataclass(frozen=True)
class RowColumn:
    """An output column with a fact about the row itself: one of `ROW_COLUMNS`."""

    output: pa.Field


@dataclass(frozen=True)
class ComputedColumn:
    """An output column that is computed from others.

    Attributes:
        inputs: Top-level columns that hold what the expression names.
    """

    output: pa.Field = attribute(hash=False)
    expression: Expression
    inputs: tuple[DataColumn | RowColumn, ...]


@dataclass(frozen=True)
class Projection:
    """The columns of a result, in order, and their schema."""

    columns: tuple[DataColumn | RowColumn | ComputedColumn, ...]
    schema: pa.Schema


@dataclass(frozen=True)
class FilteredProjection(Projection):
    """The returned columns, followed by columns that only the filter needs; `schema` has the returned
    columns.

    Attributes:
        num_outputs: Number of returned columns.
        inputs: Number of the column of the projection, for each top-level column that the filter names.
    """

    num_outputs: int
    inputs: Mapping[str, int]


def project(schema: Schema, options: ScanOptions) -> Projection:
    """Resolve the columns of `options` against the schema of a table version.

    Raises:
        InvalidInputError: a name is unknown, is given twice, or does not lead through structs; the message
            names it.
        UnsupportedFeatureError: the column exists, but this release cannot read it; the message names it.
    """
    appended = (ROW_ID,) * options.with_row_id + (ROW_ADDRESS,) * options.with_row_address
    values = options.blob_handling == "all_binary"
    if options.computed is not None:
        computed = [each for each in options.computed if each not in _as_computed(appended)]
        _refuse_duplicates([*(name for name, _ in computed), *appended])
        columns = [_computed(schema, name, value, values, options.stored) for name, value in computed]
        return _projection([*columns, *map(_row_column, appended)], schema)
    known = _known.setdefault(schema, {})
    key = options.columns, values, appended
    projection = known.get(key)
    if projection is None:
        projection = _project_columns(schema, options.columns, values, appended)
        if len(known) < _MOST_KNOWN:
            known[key] = projection
    return projection


def _project_columns(
    schema: Schema, names: tuple[str, ...] | None, blob_values: bool, appended: tuple[str, ...]
) -> Projection:
    """Return the projection of some columns of a table, or of all, and of the row columns `appended`."""
    columns: list[DataColumn | RowColumn]
    if names is None:
        columns = [_data_column(field.name, field, (), blob_values) for field in schema.fields]
    else:
        _refuse_duplicates(names)
        columns = [_resolve(schema, name, blob_values) for name in names if name not in appended]
    return _projection([*columns, *map(_row_column, appended)], schema)


# A request needs one for its plan, for its ticket and for its first batch, and the next request the same.
_known: WeakKeyDictionary[Schema, dict[tuple[tuple[str, ...] | None, bool, tuple[str, ...]], Projection]] = (
    WeakKeyDictionary()
)
_MOST_KNOWN = 64
"""Most projections that are kept for a schema."""


def _as_computed(names: Sequence[str]) -> list[tuple[str, Expression]]:
    """Return row columns in the form in which callers give computed columns."""
    return [(name, Column((name,), pa.uint64())) for name in names]


def project_filtered(schema: Schema, options: ScanOptions, condition: Expression) -> FilteredProjection:
    """Return the columns that a scan returns and that its filter reads; errors are those of `project`."""
    return with_inputs(schema, project(schema, options), [condition])


def with_inputs(
    schema: Schema,
    returned: Projection,
    expressions: Sequence[Expression],
    besides: Collection[str] = (),
) -> FilteredProjection:
    """Return the columns of a projection, and behind them the top-level columns that expressions name.

    The names `besides` are no columns of the table.
    """
    known = _known_filtered.setdefault(schema, {})
    key = id(returned), *_read_by(expressions), frozenset(besides)
    kept = known.get(key)
    if kept is None:
        columns_read = list(returned.columns)
        inputs = {}
        for column in _inputs(schema, *expressions, besides=besides):
            if column not in columns_read:
                columns_read.append(column)
            inputs[column.output.name] = columns_read.index(column)
        found = FilteredProjection(tuple(columns_read), returned.schema, len(returned.columns), inputs)
        if len(known) >= _MOST_KNOWN:
            known.clear()
        kept = known[key] = returned, found
    return kept[1]


# Callers repeat filters with other values, and opened files keep the columns of a projection. The returned
# columns are compared as an object, which is kept: to compare its columns would take as long as to make the
# result.
_known_filtered: WeakKeyDictionary[
    Schema,
    dict[tuple[int, tuple[Path, ...], frozenset[str], frozenset[str]], tuple[Projection, FilteredProjection]],
] = WeakKeyDictionary()


def project_inputs(schema: Schema, expressions: Sequence[Expression]) -> Projection:
    """Return the top-level columns that expressions name, with the fields that they read."""
    known = _known_inputs.setdefault(schema, {})
    key = _read_by(expressions)
    projection = known.get(key)
    if projection is None:
        projection = _projection(_inputs(schema, *expressions), schema)
        if len(known) >= _MOST_KNOWN:
            known.clear()
        known[key] = projection
    return projection


_known_inputs: WeakKeyDictionary[Schema, dict[tuple[tuple[Path, ...], frozenset[str]], Projection]] = (
    WeakKeyDictionary()
)


def _read_by(expressions: Sequence[Expression]) -> tuple[tuple[Path, ...], frozenset[str]]:
    """Return what decides the columns that expressions read."""
    return tuple([path for each in expressions for path in columns(each)]), stored_only(*expressions)


def expression_schema(schema: Schema, found: Sequence[pa.Field] = ()) -> pa.Schema:
    """Return the columns that expressions may name: the columns of the table, the row columns, and the
    columns `found` that a search adds.
    """
    known = _expression_schemas.get(schema)
    if known is None:
        fields = [_data_column(field.name, field, (), False).output for field in schema.fields]
        names = {field.name for field in fields}
        fields += [_row_column(name).output for name in ROW_COLUMNS if name not in names]
        known = _expression_schemas[schema] = pa.schema(fields)
    for field in found:
        known = known.append(field)
    return known


# Every request with an expression needs the schema, and a table may have thousands of columns.
_expression_schemas: WeakKeyDictionary[Schema, pa.Schema] = WeakKeyDictionary()


def project_taken(
    schema: Schema, columns: Sequence[str] | None, blob_handling: str = "blobs_descriptions"
) -> Projection:
    """Return the columns of taken rows: all for None, else those of `project_narrowed`."""
    if columns is None:
        return project(schema, ScanOptions(blob_handling=blob_handling))
    return project_narrowed(schema, columns, blob_values=blob_handling == "all_binary")


def project_narrowed(schema: Schema, names: Sequence[str], *, blob_values: bool = False) -> Projection:
    """Resolve columns as the reference does for takes: paths narrow their top-level column.

    A narrowed column keeps only the fields that paths lead to, in the order of the schema. Paths may lead
    through lists, too, and names may be repeated. The result has columns in the order of their first names,
    but a row column as often as it is named. With `blob_values`, blobs are values instead of descriptors.

    Raises:
        InvalidInputError: a name is unknown, or does not lead through structs and lists; the message names
            it.
        UnsupportedFeatureError: the column cannot be read, or not without its other children; the message
            names it.
    """
    tops = {field.name: field for field in schema.fields}
    paths: dict[str, list[Sequence[str]]] = {}
    order: list[str] = []
    for name in names:
        parts = split_path(name)
        if parts[0] not in tops and name not in ROW_COLUMNS:
            raise _no_such_column(name, parts[0], schema.fields)
        if parts[0] not in paths or parts[0] not in tops:
            order.append(parts[0])
        paths.setdefault(parts[0], []).append(parts[1:])
    columns = {
        top: _data_column(top, _keep(top, tops[top], below, blob_values), (), blob_values)
        if top in tops
        else _row_column(top)
        for top, below in paths.items()
    }
    return _projection([columns[top] for top in order], schema)


def _projection(columns: Sequence[DataColumn | RowColumn | ComputedColumn], schema: Schema) -> Projection:
    metadata = dict(schema.metadata) or None
    return Projection(tuple(columns), pa.schema([column.output for column in columns], metadata=metadata))


def descriptor_column(column: DataColumn) -> DataColumn:
    """Return the column with the descriptors of its blobs instead of their values."""
    if column.described is None:
        return column
    output = column.described.to_arrow().with_name(column.output.name)
    return replace(column, output=output, described=None)


def stored_column(field: Field) -> DataColumn:
    """Return a top-level column in the form that data files hold, but with the values of blobs."""
    described, binary = describe_blobs(field), binary_blobs(field)
    output = pa.field(field.name, binary.arrow_type, field.nullable)
    return DataColumn(output, described, (), described if described != field else None)


def _computed(
    schema: Schema, name: str, value: Expression, blob_values: bool, stored: bool
) -> DataColumn | RowColumn | ComputedColumn:
    """Return a computed column. A column that is only renamed is read, not computed."""
    if isinstance(value, Column):
        for field in schema.fields:
            if field.name == value.path[0]:
                if stored and value.path == (name,):
                    return stored_column(field)
                return _data_column(name, field, value.path[1:], blob_values)
        if value.path == (name,):
            return _row_column(name)
    from lance_core.expressions.nullability import is_nullable  # late: most scans compute nothing

    output = pa.field(name, value.type, nullable=is_nullable(value, expression_schema(schema)))
    return ComputedColumn(output, value, _inputs(schema, value))


def _inputs(
    schema: Schema, *expressions: Expression, besides: Collection[str] = ()
) -> tuple[DataColumn | RowColumn, ...]:
    """Return the top-level columns that contain the fields that expressions name, without all other children,
    and without the names `besides`. JSON is stored JSON if the expressions take it so everywhere.
    """
    below: dict[str, list[Path]] = {}
    for top, *rest in (path for expression in expressions for path in columns(expression)):
        if top not in besides:
            below.setdefault(top, []).append(tuple(rest))
    fields = {field.name: field for field in schema.fields}
    stored = stored_only(*expressions)
    return tuple(
        _input(top, _keep_read(fields[top], rest), top in stored) if top in fields else _row_column(top)
        for top, rest in below.items()
    )


def _input(name: str, field: Field, stored: bool) -> DataColumn:
    return stored_column(field) if stored else _data_column(name, field, (), False)


def _keep_read(field: Field, paths: Sequence[Path]) -> Field:
    """Return the field with only the children on `paths`, which begin below it. Packed structs stay whole."""
    if not all(paths) or field.is_packed:
        return field
    below: dict[str, list[Path]] = {}
    for name, *rest in paths:
        below.setdefault(name, []).append(tuple(rest))
    kept = (_keep_read(child, below[child.name]) for child in field.children if child.name in below)
    return replace(field, children=tuple(kept))


def _keep(name: str, field: Field, paths: Sequence[Sequence[str]], blob_values: bool) -> Field:
    """Return the field with only the children on `paths`, which begin below it. An empty path keeps all."""
    if not all(paths):
        return field
    if field.is_blob or field.is_blob_v2:  # the whole descriptor, as the reference takes it
        if blob_values:
            raise InvalidInputError(
                "values of blobs have no fields", column=name, found=".".join((name, *paths[0]))
            )
        known = describe_blobs(field).children
        for path in paths:
            if len(path) > 1 or path[0] not in {child.name for child in known}:
                raise _no_such_column(".".join((name, *path)), path[0], known)
        return field
    if field.is_packed:
        raise UnsupportedFeatureError("packed structs can be taken only whole", column=name)
    if not (field.logical_type == "struct" or field.is_list):
        raise InvalidInputError(
            "paths lead through structs and lists only",
            column=name,
            found=f"{field.name} of type {field.logical_type}",
        )
    below: dict[str, list[Sequence[str]]] = {}
    for path in paths:
        below.setdefault(path[0], []).append(path[1:])
    kept = tuple(
        _keep(f"{name}.{child.name}", child, below.pop(child.name), blob_values)
        for child in field.children
        if child.name in below
    )
    for missing in below:
        raise _no_such_column(f"{name}.{missing}", missing, field.children)
    return replace(field, children=kept)


def _refuse_duplicates(names: Sequence[str]) -> None:
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
    raise _no_such_column(name, names[0], schema.fields)


def _row_column(name: str) -> RowColumn:
    return RowColumn(pa.field(name, pa.uint64()))


def _data_column(name: str, top: Field, below: Sequence[str], blob_values: bool) -> DataColumn:
    narrowed, path, leaf, nullable = _narrow(name, describe_blobs(top), below)
    described = None
    if blob_values and below:
        _narrow(name, binary_blobs(top), below)  # refuses paths into blobs: a value has no children
    if blob_values and any(field.is_blob_descriptor for field in leaf.walk()):
        described = leaf
        _, _, leaf, _ = _narrow(name, binary_blobs(top), below)
    output = leaf.to_arrow().with_name(name).with_nullable(nullable)
    return DataColumn(output, narrowed, path, described, leaf if holds_json(leaf) else None)


def _narrow(name: str, field: Field, below: Sequence[str]) -> tuple[Field, tuple[int, ...], Field, bool]:
    """Return the field cut down to one path, the child positions of that path, its last field, and its
    nullability.

    A null struct makes everything inside it null, so the column is nullable when any field on its path is.
    """
    if not below:
        return field, (), field, field.nullable
    if field.logical_type != "struct":
        raise InvalidInputError(
            "paths lead through structs only", column=name, found=f"{field.name} of type {field.logical_type}"
        )
    position = next((p for p, child in enumerate(field.children) if child.name == below[0]), None)
    if position is None:
        raise _no_such_column(name, below[0], field.children)
    narrowed, path, leaf, nullable = _narrow(name, field.children[position], below[1:])
    # The bytes of a packed struct interleave all its children: it can only be read whole, like a descriptor.
    if field.is_packed or field.is_blob_descriptor:
        return field, (position, *path), leaf, nullable or field.nullable
    return replace(field, children=(narrowed,)), (0, *path), leaf, nullable or field.nullable


def _no_such_column(name: str, missing: str, known: Sequence[Field]) -> InvalidInputError:
    """Return the error for the path `name`, whose part `missing` is none of the `known` fields."""
    hint = did_you_mean(missing, [field.name for field in known])
    return InvalidInputError(f"there is no column {name!r}{hint}")
