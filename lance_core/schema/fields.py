"""Lance fields and schemas, and their Arrow schemas.

The format stores a schema as a flat list of fields, depth first, in which each field names its parent. Here
it is a tree. A field has two Arrow forms: its storage type, which pages decode to, and the form for users,
with extension types (arrow.uuid, fixed-shape tensors, ...) as pyarrow resolves them. Source: docs/format.md,
"Schema".
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from lance_core.errors import CorruptFileError, InvalidInputError, LanceError
from lance_core.hints import did_you_mean
from lance_core.proto import file_pb2
from lance_core.schema.arrow_types import EXTENSION_NAME, assemble, describe, resolve_extensions
from lance_core.schema.logical_types import BFLOAT16, JSON
from lance_core.schema.paths import split_path
from lance_core.schema.tree import build_tree

PACKED = "lance-encoding:packed"
BLOB = "lance-encoding:blob"
BLOB_V2 = "lance.blob.v2"


@dataclass(frozen=True)
class StoredDictionary:
    """The values of a dictionary field of 0.1 files: one page, in the file with the schema."""

    file: str
    content: bytes = field(repr=False)
    """The bytes of the whole file, since positions in it are absolute."""
    position: int
    length: int
    """Number of values."""


@dataclass(frozen=True)
class Field:
    """One node of a schema."""

    id: int
    parent_id: int
    """Id of the parent; -1 for a top-level field."""
    name: str
    logical_type: str
    nullable: bool
    metadata: Mapping[str, str] = field(hash=False)
    extension_name: str
    children: tuple["Field", ...] = ()
    dictionary: StoredDictionary | None = None
    file: str | None = field(default=None, compare=False)
    """Path of the file with the schema, for messages; None if unknown."""

    def __hash__(self) -> int:
        # Fields are keys of dictionaries of each scan. Of equal fields these are equal, and they are few.
        return hash((self.id, self.name))

    @cached_property
    def arrow_type(self) -> pa.DataType:
        """The storage type that pages of the column decode to. It has no extension types.

        Raises:
            UnsupportedFeatureError: an unknown logical type, of the field or of a field below it.
            CorruptFileError: a nested type with a wrong number of children, or children of a wrong type.
        """
        children = [pa.field(child.name, child.arrow_type, child.nullable) for child in self.children]
        return assemble(self.name, self.logical_type, children, file=self.file)

    def to_arrow(self) -> pa.Field:
        """Return the field as users see it, with metadata and extension types. Errors are those of
        `arrow_type`.
        """
        return resolve_extensions(pa.schema([self._described()])).field(0)

    @property
    def is_list(self) -> bool:
        """Whether this is a list of any length, whose items are its only child."""
        return self.logical_type.removesuffix(".struct") in ("list", "large_list")

    @property
    def is_packed(self) -> bool:
        """Whether this is a struct whose members share one column (docs/format.md, "Columns")."""
        return self.logical_type == "struct" and (
            self.metadata.get(PACKED, "").lower() == "true"
            or self.metadata.get("packed", "").lower() == "true"
            or self.is_blob_descriptor
        )

    @property
    def is_blob(self) -> bool:
        """Whether this is a blob of the first form: the column has descriptors of values outside the
        pages.
        """
        return self.logical_type == "blob" or (self.logical_type == "large_binary" and BLOB in self.metadata)

    @property
    def is_blob_descriptor(self) -> bool:
        """Whether this is the descriptor of a blob, made by `describe_blobs`."""
        return self.logical_type == "struct" and not self.is_blob_v2 and BLOB in self.metadata

    @property
    def is_blob_v2(self) -> bool:
        """Whether this is a blob of version 2 (2.2)."""
        return self.extension_name == BLOB_V2

    @property
    def is_json(self) -> bool:
        """Whether this is a column of binary JSON, which users see as text."""
        return self.logical_type == JSON

    def walk(self) -> Iterator["Field"]:
        """Yield this field and all fields below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def _described(self) -> pa.Field:
        children = [child._described() for child in self.children]
        return describe(self.name, self.logical_type, self.nullable, self.metadata, children, file=self.file)


class Schema:
    """The fields of a table or a file. They are parsed on first use, because many calls do not need all
    fields of a wide table.
    """

    def __init__(
        self,
        messages: Iterable[file_pb2.Field],
        metadata: Mapping[str, bytes],
        *,
        file: str | None = None,
        content: bytes = b"",
    ) -> None:
        """Keep the field list and the metadata of a manifest or a file descriptor.

        `file` is the file with the schema, for messages. `content` is its bytes, needed if it has dictionary
        values.
        """
        self._messages = messages
        self._metadata = metadata
        self._file = file
        self._content = content

    def __reduce__(self) -> tuple[Callable[..., "Schema"], tuple[object, ...]]:
        """Pickle the messages one by one: a repeated field of a manifest cannot be pickled."""
        return _schema_of, (list(self._messages), dict(self._metadata), self._file, self._content)

    @property
    def messages(self) -> Iterable[file_pb2.Field]:
        """The flat list of fields, as in manifests and files."""
        return self._messages

    @property
    def raw_metadata(self) -> Mapping[str, bytes]:
        """The metadata of the schema as bytes."""
        return self._metadata

    def only(self, ids: Container[int]) -> "Schema":
        """Return the schema of the fields with these ids. If an id is in `ids`, the ids of the fields above
        it must be too.
        """
        messages = [message for message in self._messages if message.id in ids]
        return Schema(messages, self._metadata, file=self._file, content=self._content)

    def narrowed(self, names: Container[str]) -> "Schema":
        """Return the schema of the top-level fields with these names, without metadata of the schema: it may
        tell about other fields.
        """
        ids = {node.id for top in self.fields if top.name in names for node in top.walk()}
        messages = [message for message in self._messages if message.id in ids]
        return Schema(messages, {}, file=self._file, content=self._content)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The top-level fields in order.

        Raises:
            CorruptFileError: an id is used twice, a field comes before its parent, text is not UTF-8, or a
                field of
                the null type is required.
            UnsupportedFeatureError: the fields are nested too deeply.
        """

        def make(message: file_pb2.Field, children: Sequence[Field]) -> Field:
            self._check(message)
            metadata = self._field_metadata(message)
            return Field(
                message.id,
                message.parent_id,
                message.name,
                message.logical_type,
                message.nullable,
                metadata,
                metadata.get(EXTENSION_NAME, ""),
                tuple(children),
                self._dictionary(message),
                self._file,
            )

        return tuple(build_tree(self._messages, make, file=self._file))

    @cached_property
    def metadata(self) -> Mapping[str, str]:
        """The metadata of the schema as text."""
        return _text(self._metadata, self._file)

    @cached_property
    def field_by_id(self) -> Mapping[int, Field]:
        """All fields of all levels by id."""
        return {node.id: node for top in self.fields for node in top.walk()}

    @cached_property
    def _top_level(self) -> Mapping[str, Field]:
        return {top.name: top for top in self.fields}

    def resolve(self, path: str) -> Field:
        """Return the field at a dotted path such as `point.x` or `points.item.x`. Names match exactly, and
        paths lead through structs and lists only.

        Raises:
            InvalidInputError: there is no such field.
        """
        top, *rest = [path] if path in self._top_level else split_path(path)
        node, known = self._top_level.get(top), list(self._top_level)
        missing = top
        for name in rest:
            if node is None:
                break
            children = node.children if node.logical_type == "struct" or node.is_list else ()
            known, missing = [child.name for child in children], name
            node = next((child for child in children if child.name == name), None)
        if node is None:
            raise InvalidInputError(f"there is no column {path!r}{did_you_mean(missing, known)}")
        return node

    @cached_property
    def is_shareable(self) -> bool:
        """Whether the schema may stand for an equal one of another file.

        All fields and types have to be valid, because errors name the file. No field may have an extension
        type, because programs register such types at any time.
        """
        for message in self._messages:
            has_extension = message.extension_name or EXTENSION_NAME in message.metadata
            if has_extension or BFLOAT16 in message.logical_type:
                return False
        try:
            self.to_arrow()
            return self.fields is not None
        except LanceError:
            return False

    def to_arrow(self) -> pa.Schema:
        """Return the schema as users see it, with metadata and extension types.

        Errors are those of `fields` and `Field.arrow_type`.
        """
        return self._arrow

    @cached_property
    def _arrow(self) -> pa.Schema:
        def make(message: file_pb2.Field, children: Sequence[pa.Field]) -> pa.Field:
            self._check(message)
            metadata = self._field_metadata(message)
            return describe(
                message.name, message.logical_type, message.nullable, metadata, children, file=self._file
            )

        # Built from the messages, because building the tree of a wide table takes longer.
        described = build_tree(self._messages, make, file=self._file)
        return resolve_extensions(pa.schema(described, self.metadata or None))

    def _check(self, message: file_pb2.Field) -> None:
        if not message.nullable and message.logical_type == "null":
            raise CorruptFileError(
                "a field of the null type has to be nullable", file=self._file, column=message.name
            )

    def _dictionary(self, message: file_pb2.Field) -> StoredDictionary | None:
        if not message.HasField("dictionary"):
            return None
        place = message.dictionary
        return StoredDictionary(self._file or "", self._content, place.offset, place.length)

    def _field_metadata(self, message: file_pb2.Field) -> dict[str, str]:
        metadata = _text(message.metadata, self._file)
        if message.extension_name:
            metadata.setdefault(EXTENSION_NAME, message.extension_name)
        return metadata


def _schema_of(
    messages: Iterable[file_pb2.Field], metadata: Mapping[str, bytes], file: str | None, content: bytes
) -> Schema:
    return Schema(messages, metadata, file=file, content=content)


def _text(metadata: Mapping[str, bytes], file: str | None) -> dict[str, str]:
    if not metadata:
        return {}
    try:
        return {key: value.decode() for key, value in metadata.items()}
    except UnicodeDecodeError:
        raise CorruptFileError("schema metadata is not UTF-8", file=file) from None
