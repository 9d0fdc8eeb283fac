"""Choice of the index that serves a search of nearest rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.index.segments import open_segment
from lance_core.index.vector.opened import OpenVectorSegment
from lance_core.scan.files.data_files import DataFiles
from lance_core.scan.nearest.indexed import CoveringSegment
from lance_core.scan.plan.nearest import NearestQuery
from lance_core.scan.plan.options import column_options
from lance_core.scan.plan.projection import DataColumn, project
from lance_core.scan.plan.scan_plan import FragmentScan, whole_table
from lance_core.schema import Schema
from lance_core.table.indices import IndexSegment
from lance_core.table.snapshot import Snapshot

_KINDS = ("IVF", "Vector")
"""Beginnings of the kinds of vector indices; the second is that of entries that say no more."""


@dataclass(frozen=True)
class VectorIndex:
    """The index of a column of vectors.

    Attributes:
        name: Name of the index.
        metric: The metric that it was built for.
        segments: The segments that cover some of the searched fragments.
    """

    name: str
    metric: str
    segments: tuple[CoveringSegment, ...]

    @property
    def fragment_ids(self) -> frozenset[int]:
        """The searched fragments that the index covers."""
        return frozenset[int]().union(*(each.fragment_ids for each in self.segments))


def vector_index(
    snapshot: Snapshot, query: NearestQuery, scans: Sequence[FragmentScan], files: DataFiles
) -> VectorIndex | None:
    """Return the index that serves a search of some fragments; None if all vectors have to be compared.

    The first index of the column counts, as in the reference. An index for another metric than the search
    asks for serves nothing.

    Raises:
        InvalidInputError: The search names segments that do not exist or belong to another column, segments
            of several indices, or another metric than that of the segments.
        LanceError: A file of the index is missing or contradicts the format.
    """
    if not query.use_index:
        return None
    entries = _first_index(snapshot, query) if query.segments is None else _named_segments(snapshot, query)
    if not entries:
        return None
    try:
        opened = [
            (OpenVectorSegment(open_segment(snapshot, entry, files.indices)), entry)
            for entry in entries
            if entry.description.fragment_ids
        ]
    except UnsupportedFeatureError:
        if query.segments is not None:
            raise
        return None
    if not opened:
        return None
    if query.metric is not None and query.metric != opened[0][0].metric:
        if query.segments is not None:
            raise InvalidInputError(
                "metric of a search with index_segments", expected=opened[0][0].metric, found=query.metric
            )
        return None
    whole = _whole_fragments(snapshot, scans)
    covering = [
        CoveringSegment(segment, entry.fragment_ids, entry.sorted_fragment_ids)
        if entry.fragment_ids <= whole
        else CoveringSegment.of(segment, entry.fragment_ids & whole)
        for segment, entry in opened
    ]
    return VectorIndex(
        entries[0].name, opened[0][0].metric, tuple(each for each in covering if each.fragment_ids)
    )


def _whole_fragments(snapshot: Snapshot, scans: Sequence[FragmentScan]) -> frozenset[int]:
    """Return the ids of the fragments that are searched as a whole.

    Rows of an index are not divided: a fragment that is searched in part is searched without it.
    """
    whole = whole_table(snapshot.manifest)
    if scans is whole.scans:
        return whole.fragment_ids
    fragments = snapshot.manifest.fragment_by_id
    return frozenset(
        scan.fragment_id for scan in scans if scan.end - scan.start == fragments[scan.fragment_id].num_rows
    )


def _first_index(snapshot: Snapshot, query: NearestQuery) -> list[IndexSegment]:
    """Return the segments of the first vector index of the searched column."""
    number = _field_id(snapshot.manifest.schema, query.column)
    found = [
        entry
        for entry in snapshot.searchable_segments
        if number in entry.field_ids and entry.index_type.startswith(_KINDS)
    ]
    return [entry for entry in found if entry.name == found[0].name]


def _named_segments(snapshot: Snapshot, query: NearestQuery) -> list[IndexSegment]:
    """Return the segments that a search names."""
    assert query.segments is not None
    number = _field_id(snapshot.manifest.schema, query.column)
    known = {entry.description.uuid: entry for entry in snapshot.searchable_segments}
    unknown = sorted(query.segments - known.keys())
    if unknown:
        raise InvalidInputError(
            "with_index_segments referenced unknown index segments", found=", ".join(unknown)
        )
    found = [entry for uuid, entry in known.items() if uuid in query.segments]
    for entry in found:
        if number not in entry.field_ids or not entry.index_type.startswith(_KINDS):
            raise InvalidInputError(
                f"index_segments must be those of a vector index on column {query.column!r}",
                found=entry.description.uuid,
            )
    if len({entry.name for entry in found}) > 1:
        raise InvalidInputError(
            "index_segments must be those of one index", found=", ".join(sorted({e.name for e in found}))
        )
    return found


def _field_id(schema: Schema, column: str) -> int:
    (projected,) = project(schema, column_options(column)).columns
    assert isinstance(projected, DataColumn)
    field = projected.field
    for child in projected.path:
        field = field.children[child]
    return field.id
