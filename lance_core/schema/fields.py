"""Lance fields and schemas, and the Arrow schemas they stand for.

Lance keeps a schema as a flat list of fields, depth first, each naming its parent. Here it becomes a tree.
Two Arrow forms of a field exist: its storage type, which is what pages decode to, and what users see, where
extension types (arrow.uuid, fixed-shape tensors, ...) are resolved as pyarrow itself resolves them.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from lance_core.errors import CorruptFileError, InvalidInputError
from lance_core.hints import did_you_mean
from lance_core.proto import file_pb2
from lance_core.schema.arrow_types import EXTENSION_NAME, assemble, describe, resolve_extensions
from lance_core.schema.logical_types import JSON
from lance_core.schema.paths import split_path
from lance_core.schema.tree import build_tree

PACKED = "lance-encoding:packed"
BLOB = "lance-encoding:blob"
BLOB_V2 = "lance.blob.v2"


@dataclass(frozen=True)
class StoredDictionary:
    """The values of a dictionary field, for its columns in 0.1 files: a page in the file with the schema."""

    file: str
    content: bytes = field(repr=False)
    """The whole file, since positions inside it are absolute."""
    position: int
    length: int
    """Number of values."""


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
    dictionary: StoredDictionary | None = None
    file: str | None = field(default=None, compare=False)
    """Path of the data file that stores the field, for messages; None if it is not known."""

    @cached_property
    def arrow_type(self) -> pa.DataType:
        """The storage type: what the column's pages decode to, extension types replaced by what they hold.

        Raises:
            UnsupportedFeatureError: a logical type that this package does not know, here or below.
            CorruptFileError: a nested type with a wrong number of child fields, or children of a wrong type.
        """
        children = [pa.field(child.name, child.arrow_type, child.nullable) for child in self.children]
        return assemble(self.name, self.logical_type, children, file=self.file)

    def to_arrow(self) -> pa.Field:
        """Return the field as users see it: with metadata and extension types; errors are those of
        `arrow_type`.
        """
        return resolve_extensions(pa.schema([self._described()])).field(0)

    @property
    def is_packed(self) -> bool:
        """Whether this is a struct whose children share one column (docs/format.md, "Columns")."""
        return self.logical_type == "struct" and (
            self.metadata.get(PACKED, "").lower() == "true"
            or self.metadata.get("packed", "").lower() == "true"
            or self.is_blob_descriptor
        )

    @property
    def is_blob(self) -> bool:
        """Whether values are kept outside the pages, with descriptors in the column (first form)."""
        return self.logical_type == "blob" or (self.logical_type == "large_binary" and BLOB in self.metadata)

    @property
    def is_blob_descriptor(self) -> bool:
        """Whether this is the struct that `describe_blobs` puts in the place of a blob."""
        return self.logical_type == "struct" and not self.is_blob_v2 and BLOB in self.metadata

    @property
    def is_blob_v2(self) -> bool:
        """Whether values are kept outside the pages, with descriptors in the column (second form, 2.2)."""
        return self.extension_name == BLOB_V2

    @property
    def is_json(self) -> bool:
        """Whether the column holds binary JSON that users see as text."""
        return self.logical_type == JSON

    def walk(self) -> Iterator["Field"]:
        """This field and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def _described(self) -> pa.Field:
        children = [child._described() for child in self.children]
        return describe(self.name, self.logical_type, self.nullable, self.metadata, children, file=self.file)


class Schema:
    """The fields of a table or a file. Parsed on first use: a wide table is opened more often than listed."""

    def __init__(
        self,
        messages: Iterable[file_pb2.Field],
        metadata: Mapping[str, bytes],
        *,
        file: str | None = None,
        content: bytes = b"",
    ) -> None:
        """Take field list and metadata of a manifest or file descriptor.

        `file` is its name for messages, `content` its bytes where fields say that values lie in them.
        """
        self._messages = messages
        self._metadata = metadata
        self._file = file
        self._content = content

    def __reduce__(self) -> tuple[Callable[..., "Schema"], tuple[object, ...]]:
        """Pickle messages one by one: a repeated field of a manifest cannot be pickled."""
        return _schema_of, (list(self._messages), dict(self._metadata), self._file, self._content)

    @property
    def messages(self) -> Iterable[file_pb2.Field]:
        """The flat field list, as manifests and files have it."""
        return self._messages

    @property
    def raw_metadata(self) -> Mapping[str, bytes]:
        """The metadata of the schema as it is stored."""
        return self._metadata

    def only(self, ids: Container[int]) -> "Schema":
        """Return the schema of the fields with these ids; those that are above one of them have to be
        among them.
        """
        messages = [message for message in self._messages if message.id in ids]
        return Schema(messages, self._metadata, file=self._file, content=self._content)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The top-level fields in order.

        Raises:
            CorruptFileError: ids appear twice, a parent does not come before its children, text is not UTF-8,
                a field of nulls only may not be null.
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
        """Return the field at a dotted path such as `point.x`; names match exactly, paths lead through
        structs only.

        Raises:
            InvalidInputError: there is no such field.
        """
        top, *rest = [path] if path in self._top_level else split_path(path)
        node, known = self._top_level.get(top), list(self._top_level)
        missing = top
        for name in rest:
            if node is None:
                break
            children = node.children if node.logical_type == "struct" else ()
            known, missing = [child.name for child in children], name
            node = next((child for child in children if child.name == name), None)
        if node is None:
            raise InvalidInputError(f"there is no column {path!r}{did_you_mean(missing, known)}")
        return node

    def to_arrow(self) -> pa.Schema:
        """Return the schema as users see it: nullability, metadata and extension types.

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

        # Straight from the messages: whoever asks for the schema of a wide table need not pay for the tree.
        described = build_tree(self._messages, make, file=self._file)
        return resolve_extensions(pa.schema(described, self.metadata or None))

    def _check(self, message: file_pb2.Field) -> None:
        if not message.nullable and message.logical_type == "null":
            raise CorruptFileError(
                "a field of nulls only may not be null", file=self._file, column=message.name
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
