"""Arrow types of fields, made from a logical type and the Arrow fields of the children."""

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
    """Return the type of the field `name`; `file` is where it is stored, for messages.

    Raises:
        UnsupportedFeatureError: a logical type that this package does not know.
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
    """Return the field `name` with metadata, where extension types are only named in the metadata.

    `children` are described fields too; errors are those of `assemble`.
    """
    if logical_type == JSON:
        return pa.field(name, pa.utf8(), nullable, {**metadata, EXTENSION_NAME: ARROW_JSON})
    return pa.field(name, assemble(name, logical_type, children, file=file), nullable, metadata or None)


def resolve_extensions(described: pa.Schema) -> pa.Schema:
    """Let pyarrow turn the extension names in the metadata into the extension types registered with it.

    Handing the schema through Arrow's C interface does exactly that. A name that does not fit its storage
    type stays metadata: the data is good, only the label is wrong.
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
