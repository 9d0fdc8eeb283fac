"""Indices of a compacted table: files that name rows by address are rewritten with the new addresses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID

import pyroaring

from lance_core.changes.compaction.results import RewriteResult
from lance_core.changes.index_files import is_movable, moved_segment
from lance_core.commit.index_section import (
    coverage,
    index_entries,
    names_rows_by_id,
)
from lance_core.errors import (
    CommitConflictError,
    CorruptFileError,
    FileMissingError,
    InvalidInputError,
    StorageError,
    UnsupportedFeatureError,
)
from lance_core.index.moving.moved_rows import (
    FragmentGroup,
    MovedRows,
    Moves,
    MovesInTurn,
    NewFragment,
    OldFragment,
)
from lance_core.index.moving.reused_fragments import moves_of
from lance_core.proto import table_pb2
from lance_core.proto.transaction_pb2 import Transaction
from lance_core.storage import Storage
from lance_core.table.indices import DIRECTORY, MEM_WAL
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import Snapshot


def check_indices(manifest: Manifest, defer_index_remap: bool = False) -> None:
    """Refuse a table whose fragments cannot be replaced.

    Raises:
        InvalidInputError: The table has stable row ids, and `defer_index_remap` is given.
        UnsupportedFeatureError: The table has a write-ahead log.
    """
    if any(segment.name == MEM_WAL for segment in manifest.stored_index_segments):
        raise UnsupportedFeatureError("compaction beside an index", file=manifest.name, found=MEM_WAL)
    if defer_index_remap and manifest.has_stable_row_ids:
        raise InvalidInputError(
            "defer_index_remap=true is not supported on datasets with stable row IDs: "
            "their indices name rows by id, which a compaction does not change"
        )


def segments_to_move(
    snapshot: Snapshot, results: Iterable[RewriteResult]
) -> list[tuple[table_pb2.IndexMetadata, pyroaring.BitMap]]:
    """Return the segments that name rows by address and cover all old fragments of at least one result.

    Each segment comes with the old fragments that it covers. Index kinds that cannot be rewritten are left
    out.
    """
    groups = [pyroaring.BitMap([message.id for message in result.original]) for result in results]
    stable = snapshot.manifest.has_stable_row_ids
    found = []
    for segment in index_entries(snapshot.manifest):
        if names_rows_by_id(segment, stable) or not is_movable(segment):
            continue
        covered = coverage(segment)
        known = pyroaring.BitMap().union(*(group for group in groups if group <= covered))
        if known:
            found.append((segment, known))
    return found


@dataclass
class MovedIndices:
    """Index files that were written for a compaction. They belong to no version yet."""

    rewritten: list[Transaction.Rewrite.RewrittenIndex] = field(default_factory=list)

    def discard(self, storage: Storage) -> None:
        """Remove the files. If one cannot be removed, a cleanup removes it later."""
        for each in self.rewritten:
            with suppress(StorageError):
                storage.delete_directory(_directory(each.new_id.uuid))


def move_indices(
    snapshot: Snapshot,
    segments: Sequence[tuple[table_pb2.IndexMetadata, pyroaring.BitMap]],
    results: Iterable[RewriteResult],
    *,
    sync: bool,
) -> MovedIndices:
    """Write the files of segments again, with the addresses that rows have after a compaction.

    Memory: a few MiB of rows at a time, eight bytes per deleted row, and whole partitions of vector indices
    that do not store codes row by row.

    Args:
        snapshot: The version that has the segments.
        segments: Segments and fragments from `segments_to_move`.
        results: Results of tasks. Their new fragments have their final ids.
        sync: Make the files durable.

    Raises:
        CommitConflictError: Fragments were changed since the plan.
        StorageError: The storage failed; no files are left.
    """
    rows = MovedRows.of([moved_group(snapshot, result) for result in results])
    reuse = snapshot.manifest.fragment_reuse
    before = () if reuse is None else (moves_of(reuse),)
    moved = MovedIndices()
    try:
        for segment, known in segments:
            # An index that cannot be read covers less from now on. `coverage_report` tells it.
            # Arrow raises ValueError if values of an index contradict each other.
            with suppress(CorruptFileError, UnsupportedFeatureError, FileMissingError, ValueError):
                moved.rewritten.append(
                    _move(snapshot, segment, MovesInTurn((*before, rows.known_to(known))), sync)
                )
    except BaseException:
        moved.discard(snapshot.storage)
        raise
    return moved


def moved_group(snapshot: Snapshot, result: RewriteResult) -> FragmentGroup:
    """Return the fragments of a result, with the rows that were deleted before the task.

    Raises:
        CommitConflictError: The old fragments were changed since the plan; retryable.
        LanceError: Deletions cannot be read.
    """
    known = {fragment.id: fragment for fragment in snapshot.manifest.fragments}
    if any(message.id not in known or known[message.id].message != message for message in result.original):
        raise CommitConflictError("fragments of a compaction were changed meanwhile", retryable=True)
    old = [known[message.id] for message in result.original]
    return FragmentGroup(
        [OldFragment(each.id, each.physical_rows, snapshot.read_deletions(each)) for each in old],
        [NewFragment(message.id, message.physical_rows) for message in result.new],
    )


def _move(
    snapshot: Snapshot, segment: table_pb2.IndexMetadata, moves: Moves, sync: bool
) -> Transaction.Rewrite.RewrittenIndex:
    moved = moved_segment(snapshot, segment, moves, sync=sync)
    return Transaction.Rewrite.RewrittenIndex(
        old_id=segment.uuid,
        new_id=moved.uuid,
        new_index_details=moved.index_details,
        new_index_version=moved.index_version,
        new_index_files=moved.files,
    )


def _directory(uuid: bytes) -> str:
    return f"{DIRECTORY}/{UUID(bytes=uuid)}"
