"""Schemas of the next version: fields are added, removed, renamed or get other types.

Field ids are not reused: a new field gets an id above all ids in the schema and in the data files.
Source: docs/format.md, "Schema".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import pyarrow as pa

from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.file.footer import FileVersion
from lance_core.proto import file_pb2, table_pb2
from lance_core.schema import Field, Schema, schema_from_arrow
from lance_core.schema.from_arrow import with_blobs_v2
from lance_core.table import feature_flags
from lance_core.table.fragment import HIDDEN
from lance_core.table.manifest import Manifest

TOP = -1
"""Parent id of top-level fields."""


def next_field_id(manifest: Manifest) -> int:
    """Return the first id above all ids of the version: of its fields and of the columns of its files.

    If the table keeps the largest id that was ever used, return an id above this one, too.
    """
    message = manifest.message
    highest = max((field.id for field in message.fields), default=TOP)
    for fragment in message.fragments:
        for file in fragment.files:
            highest = max(highest, max(file.fields, default=TOP))
    if manifest.writer_feature_flags & feature_flags.FIELD_IDS_NEVER_REUSED:
        highest = max(highest, message.max_allocated_field_id)
    return highest + 1


def with_fields(manifest: Manifest, given: pa.Schema) -> tuple[Schema, Schema]:
    """Return the schema of a version with new columns, and new children of structs, after the old ones.

    Args:
        manifest: Manifest of the version.
        given: The new columns. A struct or a list that exists already holds the children to add. In tables
            with 2.2 files blobs of the first form become blobs of the second.

    Returns:
        The whole schema, and the schema of the new fields alone with the structs and lists around them.

    Raises:
        InvalidInputError: A column exists already, or no table can have its name or type.
    """
    schema, version = manifest.schema, FileVersion.from_name(manifest.data_storage_version)
    new = schema_from_arrow(with_blobs_v2(given) if version >= FileVersion.V2_2 else given)
    ids: dict[int, int] = {}
    """Ids of new fields and of the structs and lists around them, by their ids in `given`."""
    added: list[file_pb2.Field] = []
    _number(new.fields, schema.fields, "", next_field_id(manifest), ids)
    known = schema.field_by_id
    for message in new.messages:
        own = file_pb2.Field()
        own.CopyFrom(message)
        own.id = ids[message.id]
        own.parent_id = ids[message.parent_id] if message.parent_id != TOP else TOP
        if own.id not in known:
            added.append(own)
    messages = list(schema.messages)
    for field in added:
        messages.insert(_end_of(messages, field.parent_id), field)
    wanted = set(ids.values())
    parts = [message for message in messages if message.id in wanted]
    return Schema(messages, schema.raw_metadata), Schema(parts, schema.raw_metadata)


def without_fields(schema: Schema, paths: Iterable[str]) -> Schema:
    """Return a schema without some fields, and without structs and lists that have no child left.

    Raises:
        InvalidInputError: There is no such column, or no column would be left.
        UnsupportedFeatureError: A path names a child of a column that is stored as a whole.
    """
    dropped: set[int] = set()
    for path in paths:
        field = schema.resolve(path)
        for parent in parents_of(schema, field):
            if parent.is_packed or parent.is_blob_v2:
                raise UnsupportedFeatureError("dropping a child of a column stored whole", column=path)
        dropped |= {node.id for node in field.walk()}
    kept: set[int] = set()
    for top in schema.fields:
        kept |= _kept(top, dropped)
    if not kept:
        raise InvalidInputError("cannot drop all columns from a dataset")
    return schema.only(kept)


def parents_of(schema: Schema, field: Field) -> list[Field]:
    """Return the parents of a field, innermost first."""
    parents = []
    while field.parent_id != TOP:
        field = schema.field_by_id[field.parent_id]
        parents.append(field)
    return parents


def preserves_nullability(old: Schema, new: Schema) -> bool:
    """Return whether rows of the old schema are valid in the new one: no field became non-nullable."""
    required = {message.id for message in old.messages if not message.nullable}
    return all(message.nullable or message.id in required for message in new.messages)


def used_files(fragments: Sequence[table_pb2.DataFragment], schema: Schema) -> list[table_pb2.DataFragment]:
    """Return the fragments without files that hold no field of the schema and no hidden column."""
    ids = {message.id for message in schema.messages} | HIDDEN
    replaced = []
    for fragment in fragments:
        if all(ids.intersection(file.fields) for file in fragment.files):
            replaced.append(fragment)
            continue
        own = table_pb2.DataFragment()
        own.CopyFrom(fragment)
        del own.files[:]
        own.files.extend(file for file in fragment.files if ids.intersection(file.fields))
        replaced.append(own)
    return replaced


def check_names(schema: Schema) -> None:
    """Refuse names that a new table could not have.

    Raises:
        InvalidInputError: Two fields of one parent have the same name, or a name is reserved or has a dot at
            the top level.
    """
    schema_from_arrow(schema.to_arrow())


def path_of(schema: Schema, field: Field) -> str:
    """Return the path of a column with quotes, as SQL and dotted paths accept it."""
    names = [field.name, *(parent.name for parent in parents_of(schema, field))]
    return ".".join("`" + name.replace("`", "``") + "`" for name in reversed(names))


def _number(
    new: Sequence[Field], known: Sequence[Field], path: str, next_id: int, ids: dict[int, int]
) -> int:
    """Put the ids of fields into `ids`, depth first, and return the next id. Known structs and lists keep
    their ids.
    """
    by_name = {field.name: field for field in known}
    for field in new:
        same = by_name.get(field.name)
        if same is None:
            for node in field.walk():
                ids[node.id] = next_id
                next_id += 1
            continue
        name = path + field.name
        is_kind_kept = same.logical_type == field.logical_type
        is_item_kept = [child.name for child in same.children] == [child.name for child in field.children]
        if not is_kind_kept or not (same.logical_type == "struct" or (same.is_list and is_item_kept)):
            raise InvalidInputError("column exists already", column=name)
        if same.is_packed or same.is_blob_v2:
            raise UnsupportedFeatureError("adding a child to a column stored whole", column=name)
        ids[field.id] = same.id
        next_id = _number(field.children, same.children, f"{name}.", next_id, ids)
    return next_id


def _end_of(messages: Sequence[file_pb2.Field], parent_id: int) -> int:
    """Return the position for another child of a field in a depth-first list."""
    if parent_id == TOP:
        return len(messages)
    inside = {parent_id}
    end = 0
    for position, message in enumerate(messages):
        if message.id == parent_id or message.parent_id in inside:
            inside.add(message.id)
            end = position + 1
    return end


def _kept(field: Field, dropped: Collection[int]) -> set[int]:
    """Return the ids of a field and its children that stay."""
    if field.id in dropped:
        return set()
    if not (field.logical_type == "struct" or field.is_list) or not field.children:
        return {node.id for node in field.walk()}
    below = set().union(*(_kept(child, dropped) for child in field.children))
    return {field.id} | below if below else set()
