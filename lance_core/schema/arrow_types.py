"""Arrow types of fields, from their logical types and the Arrow fields of their children."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.schema.logical_types import ARROW_JSON, FIXED_SIZE_LIST, JSON, leaf_type, list_size

EXTENSION_NAME = "ARROW:extension:name"
EXTENSION_METADATA = "ARROW:extension:metadata"

_NUM_CHILDREN = {"list": 1, "list.struct": 1, "large_list": 1, "large_list.struct": 1, "map": 1}


def assemble(
    name: str, logical_type: str, children: Sequence[pa.Field], *, file: str | None = None
) -> pa.DataType:
    """Return the type of the field `name`. `file` is the file with the schema, for messages.

    Raises:
        UnsupportedFeatureError: an unknown logical type.
        CorruptFileError: a nested type with a wrong number of children, or children of a wrong type.
    """
    if logical_type == "struct":
        return pa.struct(children)
    fixed_size_struct = logical_type.startswith(FIXED_SIZE_LIST + ":struct:")
    expected = 1 if fixed_size_struct else _NUM_CHILDREN.get(logical_type, 0)
    if len(children) != expected:
        raise CorruptFileError(
            f"type {logical_type} has a wrong number of child fields",
            file=file,
            column=name,
            expected=expected,
            found=len(children),
        )
    match logical_type:
        case "list" | "list.struct":
            return pa.list_(children[0])
        case "large_list" | "large_list.struct":
            return pa.large_list(children[0])
        case "map":
            return _map_type(name, children[0].type, file)
    try:
        if fixed_size_struct:
            return pa.list_(children[0], list_size(logical_type))
        return leaf_type(logical_type)
    except UnsupportedFeatureError:
        raise UnsupportedFeatureError(
            "logical type", file=file, column=name, found=repr(logical_type)
        ) from None


def describe(
    name: str,
    logical_type: str,
    nullable: bool,
    metadata: Mapping[str, str],
    children: Sequence[pa.Field],
    *,
    file: str | None = None,
) -> pa.Field:
    """Return the field `name` with metadata. Extension types are not resolved: only the metadata names them.

    `children` are results of this function too. Errors are those of `assemble`.
    """
    if logical_type == JSON:
        return pa.field(name, pa.utf8(), nullable, {**metadata, EXTENSION_NAME: ARROW_JSON})
    return pa.field(name, assemble(name, logical_type, children, file=file), nullable, metadata or None)


def resolve_extensions(described: pa.Schema) -> pa.Schema:
    """Resolve the extension names in the metadata to the extension types that are registered with pyarrow.

    A schema that passes through Arrow's C interface gets its extension types. If a name does not fit its
    storage type, the field keeps its storage type and its metadata: the data is readable, only the name is
    wrong.
    """
    try:
        return pa.schema(described)
    except pa.ArrowException:
        if len(described) == 1:
            return described
        fields = [resolve_extensions(pa.schema([field])).field(0) for field in described]
        return pa.schema(fields, described.metadata)


def _map_type(name: str, entries: pa.DataType, file: str | None) -> pa.DataType:
    if not pa.types.is_struct(entries) or entries.num_fields != 2:
        raise CorruptFileError(
            "map entries have a wrong type", file=file, column=name, expected="struct of two", found=entries
        )
    key, value = entries
    if key.nullable:
        raise CorruptFileError("map keys may not be nullable", file=file, column=name, found=key)
    return pa.map_(key, value)
