"""Lance fields and schemas, and the Arrow schemas they stand for.

Lance keeps a schema as a flat list of fields, depth first, each naming its parent. Here it becomes a tree.
Two Arrow forms of a field exist: its storage type, which is what pages decode to, and what users see, where
extension types (arrow.uuid, fixed-shape tensors, ...) are resolved as pyarrow itself resolves them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from lance_core.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError
from lance_core.proto import file_pb2
from lance_core.schema.logical_types import FIXED_SIZE_LIST, JSON, leaf_type, list_size

EXTENSION_NAME = "ARROW:extension:name"

_MAX_DEPTH = 64
"""Arrow's own limit for nested types that cross its C interface."""

_NUM_CHILDREN = {"list": 1, "list.struct": 1, "large_list": 1, "large_list.struct": 1, "map": 1}


@dataclass(frozen=True)
class Field:
    """One node of a schema."""

    id: int
    parent_id: int
    """-1 for a top-level field."""
    name: str
    logical_type: str
    nullable: bool
    metadata: Mapping[str, str] = field(hash=False)
    extension_name: str
    children: tuple["Field", ...] = ()

    @cached_property
    def arrow_type(self) -> pa.DataType:
        """The storage type: what the column's pages decode to, extension types replaced by what they hold.

        Raises:
            UnsupportedFeatureError: a logical type that this package does not know, here or below.
            CorruptFileError: a nested type with a wrong number of child fields.
        """
        return self._assemble([child.storage_field for child in self.children])

    @property
    def storage_field(self) -> pa.Field:
        """The field with its storage type, without metadata."""
        return pa.field(self.name, self.arrow_type, self.nullable)

    def to_arrow(self) -> pa.Field:
        """The field as users see it: with metadata and extension types; errors are those of `arrow_type`."""
        return _resolve_extensions(self.described_field)

    @property
    def described_field(self) -> pa.Field:
        """The field with metadata, where extension types are only named in the metadata."""
        if self.logical_type == JSON:
            metadata = {**self.metadata, EXTENSION_NAME: "arrow.json"}
            return pa.field(self.name, pa.utf8(), self.nullable, metadata)
        if not self.children:
            return pa.field(self.name, self.arrow_type, self.nullable, self.metadata or None)
        arrow_type = self._assemble([child.described_field for child in self.children])
        return pa.field(self.name, arrow_type, self.nullable, self.metadata or None)

    @property
    def is_packed(self) -> bool:
        """Whether this is a struct whose children share one column (Lance file format, field metadata)."""
        return self.logical_type == "struct" and (
            self.metadata.get("lance-encoding:packed", "").lower() == "true"
            or self.metadata.get("packed", "").lower() == "true"
        )

    @property
    def is_blob(self) -> bool:
        """Whether values are kept outside the pages, with descriptors in the column (first form)."""
        return self.logical_type == "blob" or (
            self.logical_type == "large_binary" and "lance-encoding:blob" in self.metadata
        )

    @property
    def is_blob_v2(self) -> bool:
        """Whether values are kept outside the pages, with descriptors in the column (second form, 2.2)."""
        return self.extension_name == "lance.blob.v2"

    @property
    def is_json(self) -> bool:
        """Whether the column holds binary JSON that users see as text."""
        return self.logical_type == JSON

    def walk(self) -> Iterator["Field"]:
        """This field and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def _assemble(self, children: list[pa.Field]) -> pa.DataType:
        """The type of this field, made from the Arrow fields of its children."""
        kind = self.logical_type
        if kind == "struct":
            return pa.struct(children)
        fixed_size_struct = kind.startswith(FIXED_SIZE_LIST + ":struct:")
        expected = 1 if fixed_size_struct else _NUM_CHILDREN.get(kind, 0)
        if len(children) != expected:
            raise CorruptFileError(
                f"type {kind} has a wrong number of child fields",
                column=self.name,
                expected=expected,
                found=len(children),
            )
        match kind:
            case "list" | "list.struct":
                return pa.list_(children[0])
            case "large_list" | "large_list.struct":
                return pa.large_list(children[0])
            case "map":
                return self._map_type(children[0])
        try:
            return pa.list_(children[0], list_size(kind)) if fixed_size_struct else leaf_type(kind)
        except UnsupportedFeatureError:
            raise UnsupportedFeatureError("logical type", column=self.name, found=repr(kind)) from None

    def _map_type(self, entries: pa.Field) -> pa.DataType:
        if not pa.types.is_struct(entries.type) or entries.type.num_fields != 2:
            raise CorruptFileError(
                "map entries have a wrong type",
                column=self.name,
                expected="struct of two",
                found=entries.type,
            )
        return pa.map_(entries.type.field(0), entries.type.field(1))


class Schema:
    """The fields of a table or a file. Parsed on first use: a wide table is opened more often than listed."""

    def __init__(
        self, messages: Iterable[file_pb2.Field], metadata: Mapping[str, bytes], *, file: str | None = None
    ) -> None:
        """Take field list and metadata of a manifest or file descriptor; `file` is for messages."""
        self._messages = messages
        self._metadata = metadata
        self._file = file

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The top-level fields in order.

        Raises:
            CorruptFileError: ids appear twice, a parent does not come before its children, text is not UTF-8.
            UnsupportedFeatureError: the fields are nested too deeply.
        """
        return _build_tree(list(self._messages), self._file)

    @cached_property
    def metadata(self) -> Mapping[str, str]:
        """Key/value pairs of the schema itself."""
        return _text(self._metadata, self._file)

    @cached_property
    def field_by_id(self) -> Mapping[int, Field]:
        """Every field of every level by its id."""
        return {node.id: node for top in self.fields for node in top.walk()}

    @cached_property
    def _top_level(self) -> Mapping[str, Field]:
        return {top.name: top for top in self.fields}

    def resolve(self, path: str) -> Field:
        """The field at a dotted path such as `point.x`; names match exactly, paths lead through structs only.

        A name with dots or backticks in it is written between backticks, where two stand for one.

        Raises:
            InvalidInputError: there is no such field.
        """
        top, *rest = [path] if path in self._top_level else split_path(path)
        node = self._top_level.get(top)
        for name in rest:
            children = node.children if node and node.logical_type == "struct" else ()
            node = next((child for child in children if child.name == name), None)
        if node is None:
            raise InvalidInputError("no such column", column=path)
        return node

    def to_arrow(self) -> pa.Schema:
        """The schema as users see it: nullability, metadata and extension types; errors are those of `fields`
        and `Field.arrow_type`."""
        described = pa.schema([top.described_field for top in self.fields], self.metadata or None)
        try:
            return pa.schema(described)
        except pa.ArrowException:
            return pa.schema([_resolve_extensions(top) for top in described], described.metadata)


def split_path(path: str) -> list[str]:
    """The names of a dotted path: `` s.`a.b` `` is ["s", "a.b"].

    Raises:
        InvalidInputError: an empty name or an unclosed backtick.
    """
    names: list[str] = []
    rest = path
    while True:
        if rest.startswith("`"):
            name, rest = _quoted(path, rest[1:])
        else:
            name, dot, rest = rest.partition(".")
            rest = dot + rest
        if not name or (rest and not rest.startswith(".")):
            raise InvalidInputError("malformed column path", column=path)
        names.append(name)
        if not rest:
            return names
        rest = rest[1:]


def _quoted(path: str, rest: str) -> tuple[str, str]:
    """The name up to the closing backtick, and what follows it."""
    name = ""
    while True:
        piece, tick, rest = rest.partition("`")
        if not tick:
            raise InvalidInputError("backtick is not closed", column=path)
        name += piece
        if not rest.startswith("`"):
            return name, rest
        name += "`"
        rest = rest[1:]


def _resolve_extensions(described: pa.Field) -> pa.Field:
    """Let pyarrow turn the extension names in the metadata into the extension types registered with it.

    Handing the field through Arrow's C interface does exactly that. A name that does not fit its storage
    type stays metadata: the data is good, only the label is wrong.
    """
    try:
        return pa.schema(pa.schema([described])).field(0)
    except pa.ArrowException:
        return described


def _text(metadata: Mapping[str, bytes], file: str | None) -> dict[str, str]:
    if not metadata:
        return {}
    try:
        return {key: value.decode() for key, value in metadata.items()}
    except UnicodeDecodeError:
        raise CorruptFileError("schema metadata is not UTF-8", file=file) from None


def _build_tree(messages: list[file_pb2.Field], file: str | None) -> tuple[Field, ...]:
    """Turn the flat list into a tree, children before parents, which is the list read backwards."""
    depths: dict[int, int] = {-1: 0}
    nodes: list[tuple[int, int, file_pb2.Field]] = []
    for message in messages:
        number, parent = message.id, message.parent_id
        if number < 0 or number in depths:
            raise CorruptFileError("field id is negative or used twice", file=file, found=number)
        if parent not in depths:
            raise CorruptFileError(
                "field comes before its parent", file=file, column=message.name, found=parent
            )
        if depths[parent] == _MAX_DEPTH:
            raise UnsupportedFeatureError(
                "nesting depth of the schema", file=file, expected=f"at most {_MAX_DEPTH}", found="more"
            )
        depths[number] = depths[parent] + 1
        nodes.append((number, parent, message))
    children: dict[int, list[Field]] = {-1: []}
    for number, parent, message in reversed(nodes):
        below = children.pop(number, None)
        node = _field(number, parent, message, tuple(reversed(below)) if below else (), file)
        children.setdefault(parent, []).append(node)
    return tuple(reversed(children[-1]))


def _field(
    number: int, parent: int, message: file_pb2.Field, children: tuple[Field, ...], file: str | None
) -> Field:
    metadata = _text(message.metadata, file)
    if message.extension_name:
        metadata.setdefault(EXTENSION_NAME, message.extension_name)
    return Field(
        number,
        parent,
        message.name,
        message.logical_type,
        message.nullable,
        metadata,
        metadata.get(EXTENSION_NAME, ""),
        children,
    )
