"""Columns that can be searched for words, and their indices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lance_core.scan.plan.text_query import text_field
from lance_core.schema import Field
from lance_core.table.indices import IndexSegment
from lance_core.table.snapshot import Snapshot

_KIND = "Inverted"
_NEWEST_VERSION = 3
"""Version of the newest index files that can be searched. A segment with newer files is ignored."""


@dataclass(frozen=True)
class TextColumn:
    """A column of texts, or of lists of texts.

    Attributes:
        path: Dotted path of the column, as the query names it.
        field: The field that the path leads to.
        segments: Segments of its index; none if it has no index.
    """

    path: str
    field: Field
    segments: tuple[IndexSegment, ...]


def text_column(snapshot: Snapshot, path: str) -> TextColumn:
    """Return a column by its name or its dotted path.

    Raises:
        InvalidInputError: There is no such column, or it has no texts.
    """
    field = text_field(snapshot.manifest.schema, path)
    return TextColumn(path, field, _segments_on(snapshot, field.id))


def indexed_columns(snapshot: Snapshot) -> list[str]:
    """Return the paths of the columns with a full text index, in the order of the indices."""
    paths = {node.id: path for path, node in _paths(snapshot.manifest.schema.fields, "")}
    found = dict.fromkeys(
        segment.field_ids[0]
        for segment in snapshot.searchable_segments
        if _is_usable(segment) and segment.field_ids and segment.field_ids[0] in paths
    )
    return [paths[number] for number in found]


def _segments_on(snapshot: Snapshot, field_id: int) -> tuple[IndexSegment, ...]:
    """Return the segments of the first index on a field."""
    found = [
        segment
        for segment in snapshot.searchable_segments
        if segment.field_ids == (field_id,) and _is_usable(segment)
    ]
    return tuple(segment for segment in found if segment.name == found[0].name)


def _is_usable(segment: IndexSegment) -> bool:
    return segment.index_type == _KIND and segment.description.index_version <= _NEWEST_VERSION


def _paths(fields: Sequence[Field], prefix: str) -> list[tuple[str, Field]]:
    found = []
    for field in fields:
        name = (
            field.name
            if field.name.replace("_", "a").isalnum()
            else "`" + field.name.replace("`", "``") + "`"
        )
        found.append((prefix + name, field))
        if field.logical_type == "struct":
            found += _paths(field.children, f"{prefix}{name}.")
    return found
