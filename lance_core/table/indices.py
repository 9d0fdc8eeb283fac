"""Indices as the manifest describes them. Nothing here reads index files.

A manifest has one entry per segment. Segments with the same name form one index. The kind of an index follows
from the type URL of its details. The kind of a vector index follows from the details themselves.

Source: docs/format.md, "Dataset directory".
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyroaring
from google.protobuf.message import DecodeError

from lance_core.errors import CorruptFileError
from lance_core.proto import index_pb2, table_pb2
from lance_core.schema import Field, Schema, shown_path
from lance_core.table.fragment import Fragment
from lance_core.table.fragment_reuse import FRAGMENT_REUSE, FragmentReuse
from lance_core.table.index_details import shown_details

DIRECTORY = "_indices"
"""Directory of all index files. Each segment has a subdirectory that is named by its uuid."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MEM_WAL = "__lance_mem_wal"
"""Name of the index that stands for a write-ahead log."""
_SYSTEM_INDICES = {FRAGMENT_REUSE: "FragmentReuse", MEM_WAL: "MemWal"}
_DETAILS = "IndexDetails"
_DETAILS_BY_FILE = {
    "page_lookup.lance": "/lance.table.BTreeIndexDetails",
    "bitmap_page_lookup.lance": "/lance.table.BitmapIndexDetails",
    "ngram_postings.lance": "/lance.table.NGramIndexDetails",
    "zonemap.lance": "/lance.table.ZoneMapIndexDetails",
    "bloomfilter.lance": "/lance.index.pb.BloomFilterIndexDetails",
    "metadata.lance": "/lance.table.InvertedIndexDetails",
    "invert.lance": "/lance.table.InvertedIndexDetails",
    "index.idx": "/lance.index.pb.VectorIndexDetails",
}
"""Type URL of the details of an index that has a file of this name."""
_LABEL_LIST_DETAILS = "/lance.table.LabelListIndexDetails"


@dataclass(frozen=True)
class IndexSegmentDescription:
    """Part of an index that covers some fragments. The attribute names are those of the reference."""

    uuid: str
    dataset_version_at_last_update: int
    fragment_ids: pyroaring.FrozenBitMap
    """Ids of the covered fragments, as a bitmap. Some of these fragments may no longer exist."""
    index_version: int
    created_at: datetime | None
    size_bytes: int | None
    """Bytes of the segment's files; None in manifests of old libraries."""
    base_id: int | None
    covering_fields: tuple[int, ...]


@dataclass(frozen=True)
class IndexDescription:
    """Index with all its segments. The attribute names are those of the reference."""

    name: str
    index_type: str
    type_url: str
    """Type URL of the details; empty in manifests of old libraries."""
    fields: list[int]
    """Ids of the indexed fields."""
    field_names: list[str]
    num_rows_indexed: int
    """Number of live rows in the covered fragments."""
    segments: list[IndexSegmentDescription]
    details: dict[str, Any] = field(default_factory=dict)
    """Options of the first segment as the manifest has them. Most kinds have none."""

    @property
    def total_size_bytes(self) -> int | None:
        """Bytes of the files of all segments; None if the manifest does not say."""
        sizes = [segment.size_bytes for segment in self.segments]
        return None if None in sizes else sum(size for size in sizes if size is not None)


@dataclass(frozen=True)
class IndexSegment:
    """Entry of the index section."""

    name: str
    field_ids: tuple[int, ...]
    type_url: str
    details: bytes = field(repr=False)
    description: IndexSegmentDescription
    files: Mapping[str, int] = field(default_factory=dict, repr=False, hash=False)
    """Bytes of each file of the segment by name; empty in manifests of old libraries."""

    @cached_property
    def index_type(self) -> str:
        """Kind of the index as the reference names it, such as "BTree" or "IVF_PQ"."""
        if self.name in _SYSTEM_INDICES:
            return _SYSTEM_INDICES[self.name]
        kind = self.type_url.rpartition(".")[2].removesuffix(_DETAILS)
        if kind == "Vector" and self.details:
            return vector_type(self.details)
        return kind or "Unknown"

    @cached_property
    def fragment_ids(self) -> frozenset[int]:
        """Ids of the covered fragments, some of which may no longer exist."""
        return frozenset(self.description.fragment_ids)

    @cached_property
    def sorted_fragment_ids(self) -> npt.NDArray[np.uint64]:
        """Ids of the covered fragments, ascending."""
        return np.array(sorted(self.fragment_ids), np.uint64)

    @property
    def is_of_system(self) -> bool:
        """Whether the entry is no index on columns."""
        return self.name in _SYSTEM_INDICES

    @cached_property
    def kind(self) -> str:
        """Kind of the index in lower case, such as "btree"; "" if the manifest does not say.

        The type URLs of some kinds have another package, and are compared without case.
        """
        return _kind(self.type_url)


def kind_of_files(type_url: str, details: bytes) -> str:
    """Return the kind of the files of a segment in lower case, such as "btree"; "" if the manifest does not
    say.

    A JSON index has the files of another kind of index, and that kind is returned.

    Args:
        type_url: Type URL of the details of the segment.
        details: Details of the segment.
    """
    kind = _kind(type_url)
    if kind != "json":
        return kind
    try:
        return _kind(index_pb2.JsonIndexDetails.FromString(details).target_details.type_url)
    except DecodeError:
        return kind


def _kind(type_url: str) -> str:
    return type_url.rpartition(".")[2].lower().removesuffix(_DETAILS.lower())


def segment_directory(message: table_pb2.IndexMetadata) -> str:
    """Return the directory of the files of a segment, relative to the dataset or to its base path."""
    return f"{DIRECTORY}/{UUID(bytes=message.uuid.uuid)}"


def parse_segments(section: table_pb2.IndexSection, file: str) -> tuple[IndexSegment, ...]:
    """Return the entries of an index section in the manifest `file`, as they are stored.

    Raises:
        CorruptFileError: a uuid, a bitmap of fragments or a time is invalid.
    """
    return tuple(_parse_segment(message, file) for message in section.indices)


def followed_segment(segment: IndexSegment, reuse: FragmentReuse) -> IndexSegment:
    """Return a segment with its coverage translated to present fragments, see `FragmentReuse.followed`."""
    if segment.is_of_system:
        return segment
    described = segment.description
    covered = reuse.followed(
        pyroaring.BitMap(described.fragment_ids),
        kind_of_files(segment.type_url, segment.details),
        described.dataset_version_at_last_update,
    )
    return replace(segment, description=replace(described, fragment_ids=pyroaring.FrozenBitMap(covered)))


def with_kind(segment: IndexSegment, file_names: Iterable[str], column: Field | None) -> IndexSegment:
    """Return a segment whose kind the manifest does not say, with the kind that follows from its files.

    Args:
        segment: The segment.
        file_names: Names of its files. If they tell no kind, the segment stays as it is.
        column: The indexed column; None if the schema lacks it.
    """
    found = next((_DETAILS_BY_FILE[name] for name in file_names if name in _DETAILS_BY_FILE), None)
    if found is None:
        return segment
    if column is not None and column.logical_type in ("list", "large_list"):
        found = _LABEL_LIST_DETAILS if "Bitmap" in found else found
    return replace(segment, type_url=found)


def describe_indices(
    segments: Iterable[IndexSegment], schema: Schema, fragments: Sequence[Fragment]
) -> list[IndexDescription]:
    """Return the indices that `segments` belong to, ordered by name."""
    num_rows = {fragment.id: fragment.num_rows for fragment in fragments}
    names = _field_names(schema)
    described = []
    for name, group in groupby(sorted(segments, key=attrgetter("name")), key=attrgetter("name")):
        members = list(group)
        first = members[0]
        described.append(
            IndexDescription(
                name=name,
                index_type=first.index_type,
                type_url=first.type_url,
                fields=list(first.field_ids),
                field_names=[names.get(number, "<unknown>") for number in first.field_ids],
                num_rows_indexed=sum(_covered_rows(member.description, num_rows) for member in members),
                segments=[member.description for member in members],
                details=shown_details(first.type_url, first.details),
            )
        )
    return described


def index_statistics(index: IndexDescription, fragments: Sequence[Fragment]) -> dict[str, object]:
    """Return the statistics of an index that follow from the manifest, with the keys of the reference."""
    num_rows = {fragment.id: fragment.num_rows for fragment in fragments}
    covered = pyroaring.BitMap().union(*(segment.fragment_ids for segment in index.segments))
    indexed = [number for number in num_rows if number in covered]
    per_segment = [_covered_rows(segment, num_rows) for segment in index.segments]
    times = [segment.created_at for segment in index.segments if segment.created_at is not None]
    return {
        "index_type": index.index_type,
        "name": index.name,
        "num_indices": len(index.segments),
        "num_segments": len(index.segments),
        "num_indexed_fragments": len(indexed),
        "num_indexed_rows": sum(per_segment),
        "num_unindexed_fragments": len(num_rows) - len(indexed),
        "num_unindexed_rows": sum(num_rows.values()) - sum(num_rows[number] for number in indexed),
        "num_indexed_rows_per_delta": per_segment,
        "updated_at_timestamp_ms": (max(times) - _EPOCH) // timedelta(milliseconds=1) if times else None,
    }


def _covered_rows(segment: IndexSegmentDescription, num_rows: Mapping[int, int]) -> int:
    return sum(rows for number, rows in num_rows.items() if number in segment.fragment_ids)


def _field_names(schema: Schema) -> dict[int, str]:
    """Return the dotted path of every field by field id."""
    paths: dict[int, list[str]] = {}
    for top in schema.fields:
        for node in top.walk():
            paths[node.id] = [*paths.get(node.parent_id, ()), node.name]
    return {number: shown_path(path) for number, path in paths.items()}


def _parse_segment(message: table_pb2.IndexMetadata, file: str) -> IndexSegment:
    try:
        uuid = str(UUID(bytes=message.uuid.uuid))
    except ValueError:
        raise CorruptFileError("index uuid does not have 16 bytes", file=file) from None
    try:
        covered = pyroaring.FrozenBitMap.deserialize(message.fragment_bitmap or _NO_FRAGMENTS)
    except (ValueError, IndexError) as error:
        raise CorruptFileError(
            "fragments of an index do not decode", file=file, found=f"{message.name}: {error}"
        ) from None
    try:
        time = _EPOCH + timedelta(milliseconds=message.created_at)
    except OverflowError:
        raise CorruptFileError("time of an index out of range", file=file, found=message.created_at) from None
    return IndexSegment(
        name=message.name,
        field_ids=tuple(message.fields),
        type_url=message.index_details.type_url,
        details=message.index_details.value,
        description=IndexSegmentDescription(
            uuid=uuid,
            dataset_version_at_last_update=message.dataset_version,
            fragment_ids=covered,
            index_version=message.index_version,
            created_at=time if message.HasField("created_at") else None,
            size_bytes=sum(part.size_bytes for part in message.files) if message.files else None,
            base_id=message.base_id if message.HasField("base_id") else None,
            covering_fields=tuple(message.covering_fields),
        ),
        files={part.path: part.size_bytes for part in message.files},
    )


def vector_type(details: bytes) -> str:
    """Return the kind of a vector index, such as "IVF_PQ"; "Vector" if the details do not decode."""
    try:
        message = index_pb2.VectorIndexDetails.FromString(details)
    except DecodeError:
        return "Vector"
    compression = message.WhichOneof("compression") or "flat"
    return f"IVF_{'HNSW_' if message.HasField('hnsw_index_config') else ''}{compression.upper()}"


_NO_FRAGMENTS = pyroaring.BitMap().serialize()
