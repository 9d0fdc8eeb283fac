"""Building of one segment of an index. Its files are complete, but belong to no version yet."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

import pyroaring

from lance_core.changes.index_files import segment_files
from lance_core.changes.indexing.column import IndexedColumn, indexed_rows
from lance_core.changes.indexing.kinds import KINDS, kind_named, name_of_kind
from lance_core.errors import ColumnTypeError, InvalidInputError, UnsupportedFeatureError
from lance_core.index.build import BuiltSegment, IndexedRows
from lance_core.index.progress import Observer, unobserved
from lance_core.index.segment_writer import SegmentWriter
from lance_core.proto import table_pb2
from lance_core.table.snapshot import Snapshot


@dataclass(frozen=True)
class IndexRequest:
    """Request to index a column.

    Attributes:
        column: Dotted path of the column. It matches without case if no column matches as written.
        kind: Kind of the index; one of `lance_core.changes.indexing.kinds.KINDS`.
        name: Name of the index; None for `<column>_idx`.
        train: Index the rows. False makes an index that covers no fragment.
        fragment_ids: Ids of the fragments to index; None for all.
        uuid: Uuid of the segment; None for a new one.
        parameters: Options of the kind by name.
        is_model: Write only what training on the rows finds, for segments that `with_model` describes.
    """

    column: str
    kind: str
    name: str | None = None
    train: bool = True
    fragment_ids: Sequence[int] | None = None
    uuid: UUID | None = None
    parameters: Mapping[str, object] = field(default_factory=dict)
    is_model: bool = False


def with_model(snapshot: Snapshot, request: IndexRequest, model: table_pb2.IndexMetadata) -> IndexRequest:
    """Return the request of a segment that uses the training of a model, so that nothing is trained again.

    Args:
        snapshot: A version of the table of the model.
        request: The request; it must not have parameters.
        model: The segment that was built for a request with `is_model`.

    Raises:
        InvalidInputError: The request has parameters, or the model is of another kind or on another column.
        LanceError: The files of the model cannot be read.
    """
    kind = name_of_kind(model)
    column = IndexedColumn.resolve(snapshot.manifest.schema, request.column)
    if kind != request.kind.upper() or list(model.fields) != [column.field.id]:
        raise InvalidInputError("the model is of another kind of index, or of another column", found=kind)
    if request.parameters:
        raise InvalidInputError("parameters: a segment with a model has those of the model")
    parameters = dict(KINDS[kind].parameters_of(segment_files(snapshot, model)))
    parameters.pop("may_retrain", None)
    return replace(request, parameters=parameters)


def build_segment(
    snapshot: Snapshot,
    request: IndexRequest,
    *,
    observer: Observer = unobserved,
    sync: bool = True,
    syncs: list[Callable[[], None]] | None = None,
) -> table_pb2.IndexMetadata:
    """Write the files of a new segment. Memory is bounded, unless the kind says otherwise.

    Args:
        snapshot: The version to read.
        request: What to index.
        observer: Is told the progress.
        sync: On local disks make the files durable before returning.
        syncs: Gets the calls that make files durable instead, see `Storage.syncing_later`.

    Returns:
        The entry for the manifest. If the name of the request is None, the entry has the default name.

    Raises:
        UnknownColumnError: There is no such column.
        ColumnTypeError: The kind does not index columns of this type.
        UnsupportedFeatureError: There is no such kind, or a model of a kind without training.
        InvalidInputError: A parameter or a fragment id is wrong.
        LanceError: Rows cannot be read, or files cannot be written. No files are left.
    """
    kind = kind_named(request.kind)
    build = kind.train if request.is_model else kind.build
    if build is None:
        raise UnsupportedFeatureError("an index without training has no model", found=request.kind)
    column, fragments, rows = rows_to_index(snapshot, request, observer)
    storage = snapshot.storage if syncs is None else snapshot.storage.syncing_later(syncs)
    writer = SegmentWriter(storage, request.uuid, sync=sync)
    try:
        built = build(rows, request.parameters, writer)
        files = writer.finish()
    except BaseException:
        writer.discard()
        raise
    is_empty = built.is_empty or request.is_model
    covered = pyroaring.BitMap([] if is_empty else fragments)
    return segment_entry(snapshot, column, kind.type_url, built, covered, files, writer.uuid, request.name)


def segment_entry(
    snapshot: Snapshot,
    column: IndexedColumn,
    type_url: str,
    built: BuiltSegment,
    covered: pyroaring.BitMap,
    files: Sequence[table_pb2.IndexFile],
    uuid: UUID,
    name: str | None = None,
) -> table_pb2.IndexMetadata:
    """Return the entry for the manifest of a segment whose files are written.

    Args:
        snapshot: The version whose rows are indexed.
        column, type_url, built: What is indexed, the details message of the kind, and what the builder tells.
        covered: Ids of the fragments that the segment has.
        files, uuid: Files of the segment, and the name of their directory.
        name: Name of the index; None for the default name.
    """
    message = table_pb2.IndexMetadata(
        uuid=table_pb2.UUID(uuid=uuid.bytes),
        fields=[column.field.id],
        name=name or column.default_index_name,
        dataset_version=snapshot.manifest.version,
        fragment_bitmap=bytes(covered.serialize()),
        index_version=built.version,
        created_at=time.time_ns() // 1_000_000,
        files=files,
    )
    message.index_details.type_url, message.index_details.value = type_url, built.details
    return message


def rows_to_index(
    snapshot: Snapshot, request: IndexRequest, observer: Observer
) -> tuple[IndexedColumn, list[int], IndexedRows]:
    """Return the column, the ids of the fragments, ascending, and the rows of a request; errors are those of
    `build_segment`.
    """
    kind = kind_named(request.kind)
    column = IndexedColumn.resolve(snapshot.manifest.schema, request.column)
    try:
        kind.check(column.stored_field)
    except TypeError as error:
        raise ColumnTypeError(
            f"{request.kind.upper()} index of column {request.column}: {error}", found=column.field.arrow_type
        ) from None
    fragments = _fragments(snapshot, request)
    return column, fragments, indexed_rows(snapshot, column, fragments, kind.row_keys, observer)


def _fragments(snapshot: Snapshot, request: IndexRequest) -> list[int]:
    """Return the ids of the fragments to index, ascending."""
    known = snapshot.manifest.fragment_by_id
    if not request.train or not any(fragment.num_rows for fragment in snapshot.manifest.fragments):
        return []
    if request.fragment_ids is None:
        return sorted(known)
    for number in request.fragment_ids:
        if number not in known:
            raise InvalidInputError("fragment_ids", expected="ids of fragments", found=number)
    return sorted(set(request.fragment_ids))
