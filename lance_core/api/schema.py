"""Schemas with the ids of their fields, and schemas as JSON, with the names of the reference library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import pyarrow as pa

from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.proto import file_pb2
from lance_core.schema import Field, Schema, schema_from_arrow
from lance_core.schema.json_form import json_of, schema_of_json
from lance_core.schema.paths import split_path

__all__ = ["LanceField", "LanceSchema", "json_to_schema", "schema_to_json"]


class LanceField:
    """A field of a `LanceSchema`."""

    def __init__(self, field: Field, messages: Mapping[int, file_pb2.Field]) -> None:
        self._field = field
        self._messages = messages

    def name(self) -> str:
        """Return the name of the field."""
        return self._field.name

    def id(self) -> int:
        """Return the id of the field. It stays the same when the field is renamed or moved."""
        return self._field.id

    def children(self) -> list[LanceField]:
        """Return the fields of a struct, the item of a list or the entries of a map."""
        return [LanceField(child, self._messages) for child in self._field.children]

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata of the field."""
        return dict(self._field.metadata)

    def to_arrow(self) -> pa.Field:
        """Return the Arrow field."""
        return self._field.to_arrow()

    def is_unenforced_primary_key(self) -> bool:
        """Return whether the field is part of the primary key."""
        return self._message.unenforced_primary_key

    def unenforced_primary_key_position(self) -> int | None:
        """Return the position in the primary key, from 1 on. 0: without a position. None: not in the key."""
        message = self._message
        return message.unenforced_primary_key_position if message.unenforced_primary_key else None

    def is_unenforced_clustering_key(self) -> bool:
        """Return whether the field is part of the clustering key."""
        return self._message.unenforced_clustering_key

    def unenforced_clustering_key_position(self) -> int | None:
        """Return the position in the clustering key, from 1 on; None: not in the key."""
        message = self._message
        return message.unenforced_clustering_key_position if message.unenforced_clustering_key else None

    @property
    def _message(self) -> file_pb2.Field:
        return self._messages[self._field.id]

    def __repr__(self) -> str:
        field = self._field
        return (
            f'Field {{ name: "{field.name}", id: {field.id}, parent_id: {field.parent_id}, '
            f'logical_type: "{field.logical_type}", nullable: {str(field.nullable).lower()}, '
            f"metadata: {dict(field.metadata)}, children: {self.children()} }}"
        )


class LanceSchema:
    """The fields of a dataset with their ids, for operations; see `LanceDataset.lance_schema`."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        """The schema in the form in which manifests and data files store it."""

    @staticmethod
    def from_pyarrow(schema: pa.Schema) -> LanceSchema:
        """Give the fields of an Arrow schema ids: 0, 1, 2 ... depth first, parents before their children.

        Raises:
            InvalidInputError: A name or metadata is not valid.
            UnsupportedFeatureError: The schema has a type that no data file can hold.
        """
        return LanceSchema(schema_from_arrow(schema))

    def to_pyarrow(self) -> pa.Schema:
        """Return the Arrow schema, with the metadata."""
        return self.schema.to_arrow()

    def fields(self) -> list[LanceField]:
        """Return the top-level fields."""
        return [LanceField(field, self._messages) for field in self.schema.fields]

    def field(self, name: str) -> LanceField | None:
        """Return the field at a name or a dotted path; None if there is none."""
        try:
            return LanceField(self.schema.resolve(name), self._messages)
        except InvalidInputError:
            return None

    def field_case_insensitive(self, name: str) -> LanceField | None:
        """Return the field like `field`. Without an exact match, letter case does not matter."""
        exact = self.field(name)
        if exact is not None:
            return exact
        fields: list[LanceField] = self.fields()
        found: LanceField | None = None
        for part in split_path(name):
            found = next((field for field in fields if field.name().lower() == part.lower()), None)
            if found is None:
                return None
            fields = found.children()
        return found

    def unenforced_primary_key(self) -> list[LanceField]:
        """Return the fields of the primary key: by position, then those without a position by id."""
        key = [field for field in self._walk() if field.is_unenforced_primary_key()]
        return sorted(key, key=lambda field: (field.unenforced_primary_key_position() or 1 << 32, field.id()))

    def unenforced_clustering_key(self) -> list[LanceField]:
        """Return the fields of the clustering key by position."""
        key = [field for field in self._walk() if field.is_unenforced_clustering_key()]
        return sorted(key, key=lambda field: field.unenforced_clustering_key_position() or 0)

    def _walk(self) -> Iterator[LanceField]:
        for top in self.schema.fields:
            for field in top.walk():
                yield LanceField(field, self._messages)

    @cached_property
    def _messages(self) -> Mapping[int, file_pb2.Field]:
        return {message.id: message for message in self.schema.messages}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LanceSchema):
            return NotImplemented
        return self.schema.fields == other.schema.fields and self.schema.metadata == other.schema.metadata

    def __reduce__(self) -> tuple[type[LanceSchema], tuple[Schema]]:
        return LanceSchema, (self.schema,)

    def __repr__(self) -> str:
        return f"Schema {{ fields: {self.fields()}, metadata: {dict(self.schema.metadata)} }}"


def schema_to_json(schema: pa.Schema) -> dict[str, Any]:
    """Return an Arrow schema as data for JSON.

    Raises:
        InvalidInputError: A type that the JSON form lacks, such as a map or a view.
    """
    try:
        return json_of(schema)
    except UnsupportedFeatureError as error:
        raise InvalidInputError(f"schema has no JSON form: {error}") from None


def json_to_schema(schema_json: dict[str, Any]) -> pa.Schema:
    """Return the Arrow schema of the data that `schema_to_json` returned.

    Raises:
        InvalidInputError: The data is no schema.
    """
    try:
        return schema_of_json(schema_json)
    except (UnsupportedFeatureError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInputError("JSON is not a schema", found=f"{type(error).__name__}: {error}") from None
