"""Building of a whole index, and its commit. Segments that were built elsewhere are committed here, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from uuid import UUID

import pyroaring

from lance_core.changes.indexing.column import IndexedColumn
from lance_core.changes.indexing.segment import IndexRequest, build_segment
from lance_core.changes.indexing.staged import merge_partitions
from lance_core.changes.retry import with_retries
from lance_core.commit.commit import commit
from lance_core.commit.index_section import (
    coverage,
    index_entries,
    kind_of,
    names_rows_by_id,
)
from lance_core.errors import CommitUnknownError, InvalidInputError, LanceError, StorageError
from lance_core.index.progress import Observer, unobserved
from lance_core.index.text.staged import STAGING
from lance_core.proto import table_pb2
from lance_core.storage import Storage
from lance_core.table.fragment_reuse import FRAGMENT_REUSE
from lance_core.table.indices import DIRECTORY, MEM_WAL
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import Snapshot
from lance_core.table.transaction import create_index as create_index_transaction
from lance_core.table.transaction import new_transaction


def create_index(
    snapshot: Snapshot,
    request: IndexRequest,
    *,
    replace_existing: bool = True,
    observer: Observer = unobserved,
    transaction_id: str | None = None,
    sync: bool = True,
) -> Snapshot:
    """Build an index and make a version with it.

    Rows that other writers append meanwhile are not covered. If another writer compacts the indexed
    fragments, the index is built again.

    Args:
        snapshot: The opened version.
        request: What to index.
        replace_existing: Replace the index that has the name. False refuses to.
        observer: Is told the progress.
        transaction_id: UUID of the transaction. Repeating it gives the first result.
        sync: On local disks make everything durable before returning.

    Raises:
        InvalidInputError: The name is in use by an index on another column, or without `replace_existing` by
            any index; or an error of `build_segment`.
        CommitConflictError: Other writers were in conflict too often.
        CommitUnknownError: The storage did not tell whether the version was made; the files stay.
        LanceError: Another error of `build_segment`. Nothing was committed, and no files are left.
    """

    def attempt(current: Snapshot) -> Manifest:
        column = IndexedColumn.resolve(current.manifest.schema, request.column)
        name = _name(current.manifest, column, request.name)
        removed = _segments_named(current.manifest, name)
        _check_name(removed, name, column, replace_existing)
        syncs: list[Callable[[], None]] = []
        segment = build_segment(
            current, replace(request, name=name), observer=observer, sync=sync, syncs=syncs
        )
        transaction = new_transaction(current.manifest.version, uuid=transaction_id)
        message = create_index_transaction(transaction, [segment], removed)
        try:
            return commit(current.storage, message, read=current.manifest, writes=syncs, sync=sync)
        except CommitUnknownError:
            raise
        except LanceError:
            discard(current.storage, [segment])
            raise

    return with_retries(snapshot, attempt, "create_index", transaction_id=transaction_id)


def commit_segments(
    snapshot: Snapshot,
    name: str,
    column: str,
    segments: Sequence[table_pb2.IndexMetadata],
    *,
    transaction_id: str | None = None,
    sync: bool = True,
) -> Snapshot:
    """Make a version in which an index consists of segments that were built before.

    Segments of the index that cover no other fragments are replaced. Segments without a shared fragment stay.
    New segments that cover nothing are left out if others cover something.

    Args:
        snapshot: The opened version.
        name: Name of the index.
        column: Dotted path of the indexed column.
        segments: Entries of `build_segment`, without shared fragments.
        transaction_id: UUID of the transaction. Repeating it gives the first result.
        sync: On local disks make the version durable before returning.

    Raises:
        InvalidInputError: There are no segments, two segments share a fragment, are of different kinds or on
            other columns, or name rows in different ways, the name is in use by another index, or a segment
            of the index would have to go although it covers further fragments.
        CommitConflictError: Fragments were rewritten since the segments were built. Their files stay.
        CommitUnknownError: The storage did not tell whether the version was made.
    """
    field_id = IndexedColumn.resolve(snapshot.manifest.schema, column).field.id
    _check_segments(segments, field_id)
    named = []
    # The reference looks for the files of a segment beside others, also if it covers nothing and has none.
    for segment in [each for each in segments if coverage(each)] or segments[:1]:
        copy = table_pb2.IndexMetadata()
        copy.CopyFrom(segment)
        copy.name = name
        if any(file.path.startswith(f"{STAGING}/") for file in copy.files):  # as the reference builds texts
            files = merge_partitions(snapshot, "INVERTED", UUID(bytes=copy.uuid.uuid), sync=sync)
            del copy.files[:]
            copy.files.extend(files)
        named.append(copy)
    built_on = min(segment.dataset_version for segment in segments)
    covered = pyroaring.BitMap().union(*map(coverage, segments))

    def attempt(current: Snapshot) -> Manifest:
        existing = _segments_named(current.manifest, name)
        _check_name(existing, name, IndexedColumn.resolve(current.manifest.schema, column), True)
        removed = _replaced_segments(current.manifest, existing, segments[0], covered)
        kept = [segment for segment in existing if segment not in removed]
        stable = current.manifest.has_stable_row_ids
        if len({names_rows_by_id(segment, stable) for segment in [*named, *kept]}) > 1:
            raise InvalidInputError(
                f"segments of index {name} would name rows by id and by address, which the reference "
                "refuses; build a segment of all fragments"
            )
        transaction = new_transaction(built_on, uuid=transaction_id)
        return commit(current.storage, create_index_transaction(transaction, named, removed), sync=sync)

    return with_retries(snapshot, attempt, "create_index", transaction_id=transaction_id, conflict_retries=0)


def _replaced_segments(
    manifest: Manifest,
    existing: Sequence[table_pb2.IndexMetadata],
    first: table_pb2.IndexMetadata,
    covered: pyroaring.BitMap,
) -> list[table_pb2.IndexMetadata]:
    """Return the segments of an index that new segments, which cover `covered`, replace."""
    fragments = pyroaring.BitMap(manifest.fragment_by_id)
    removed = []
    for segment in existing:
        if kind_of(segment) != kind_of(first):
            raise InvalidInputError(f"index {segment.name} is of another kind", found=kind_of(segment))
        known = coverage(segment) & fragments
        if not known:
            removed.append(segment)
        elif known & covered:
            if known - covered:
                raise InvalidInputError(
                    f"a segment of index {segment.name} covers fragments that the new segments lack",
                    found=sorted(known - covered),
                )
            removed.append(segment)
    return removed


def discard(storage: Storage, segments: Sequence[table_pb2.IndexMetadata]) -> None:
    """Remove the files of segments that no version has. Files that cannot be removed stay for a cleanup."""
    for segment in segments:
        with suppress(StorageError):
            storage.delete_directory(f"{DIRECTORY}/{UUID(bytes=segment.uuid.uuid)}")


def _segments_named(manifest: Manifest, name: str) -> list[table_pb2.IndexMetadata]:
    return [segment for segment in index_entries(manifest) if segment.name == name]


def _name(manifest: Manifest, column: IndexedColumn, given: str | None) -> str:
    """Return the name of a new index: the given name, or a name that no index on another column has."""
    if given is not None:
        return given
    base = column.default_index_name
    taken = {segment.name for segment in index_entries(manifest) if list(segment.fields) != [column.field.id]}
    number, name = 1, base
    while name in taken:
        number += 1
        name = f"{base}_{number}"
    return name


def _check_name(
    existing: Sequence[table_pb2.IndexMetadata], name: str, column: IndexedColumn, may_replace: bool
) -> None:
    if not name or name in (FRAGMENT_REUSE, MEM_WAL):
        raise InvalidInputError("name of an index", found=repr(name))
    if any(list(segment.fields) != [column.field.id] for segment in existing):
        raise InvalidInputError(
            f"Index name '{name}' already exists with different fields", expected="another name"
        )
    if existing and not may_replace:
        raise InvalidInputError(
            f"Index name '{name}' already exists", expected="another name, or replace=True"
        )


def _check_segments(segments: Sequence[table_pb2.IndexMetadata], field_id: int) -> None:
    if not segments:
        raise InvalidInputError("no segments to commit")
    if len({segment.uuid.uuid for segment in segments}) != len(segments):
        raise InvalidInputError("two segments have the same uuid")
    covered = pyroaring.BitMap()
    for segment in segments:
        if list(segment.fields) != [field_id]:
            raise InvalidInputError("segment indexes another column", found=list(segment.fields))
        if segment.index_details.type_url != segments[0].index_details.type_url:
            raise InvalidInputError("segments of different kinds", found=segment.index_details.type_url)
        shared = covered & coverage(segment)
        if shared:
            raise InvalidInputError("segments with overlapping fragment coverage", found=min(shared))
        covered |= coverage(segment)
