"""Rows that indices do not cover are added to them, and segments are joined."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyroaring

from lance_core.changes.fragment_reuse import caught_up, entries_behind, has_unneeded_reuse, trimmed_reuse
from lance_core.changes.index_files import segment_files, segments_of
from lance_core.changes.indexing.column import path_of
from lance_core.changes.indexing.create import discard
from lance_core.changes.indexing.kinds import KINDS, name_of_kind
from lance_core.changes.indexing.segment import IndexRequest, build_segment, rows_to_index
from lance_core.changes.retry import with_retries
from lance_core.commit.commit import commit
from lance_core.commit.index_section import coverage, index_entries, names_rows_by_id
from lance_core.errors import (
    CommitUnknownError,
    IndexNotFoundError,
    InvalidInputError,
    LanceError,
    UnsupportedFeatureError,
)
from lance_core.index.build import RowKeys
from lance_core.index.progress import Observer, unobserved
from lance_core.proto import table_pb2
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import Snapshot
from lance_core.table.transaction import create_index as create_index_transaction
from lance_core.table.transaction import new_transaction

_FEW_ROWS = 2
"""A segment is small if it has at most this many times as many rows as all newer rows."""


@dataclass(frozen=True)
class _Task:
    """Segments of an index that become one segment, with fragments that no segment covers."""

    replaced: list[table_pb2.IndexMetadata]
    request: IndexRequest
    """Request of the new segment."""
    has_others: bool = False
    """Whether other segments of the index stay."""


def optimize_indices(
    snapshot: Snapshot,
    *,
    num_indices_to_merge: int | None = None,
    index_names: Sequence[str] | None = None,
    retrain: bool = False,
    observer: Observer = unobserved,
    transaction_id: str | None = None,
    sync: bool = True,
) -> Snapshot:
    """Make a version whose indices cover all fragments.

    After compactions with `defer_index_remap`, the files of indices are written again, with the present row
    addresses. Compactions that no index needs any more are forgotten.

    The newest segments of an index are replaced by one segment, which covers their fragments and all that no
    segment covers. An index that covers all fragments does not change, unless several segments are joined.
    If a partition of a vector index has become too small or too large, one segment with other partitions
    replaces all segments, unless `num_indices_to_merge` is given. In a table with stable row ids, one segment
    replaces all segments of a B-tree if one of them names rows by address, as the reference builds them.

    Args:
        snapshot: The opened version.
        num_indices_to_merge: Number of the newest segments that are replaced; None means 1, or for vector
            indices those that are small beside the new rows. With 0 the new segment covers only fragments
            that no segment covers.
        index_names: Names of the indices; None means all whose kind is supported.
        retrain: Replace all segments of each index, and build them from the rows again.
        observer: Is told the progress.
        transaction_id: UUID of the transaction. Repeating it gives the first result.
        sync: On local disks make everything durable before returning.

    Returns:
        The new version, or `snapshot` if there is nothing to do.

    Raises:
        IndexNotFoundError: There is no index with a name of `index_names`.
        UnsupportedFeatureError: Indices of the kind of a named index are not built here.
        InvalidInputError: `num_indices_to_merge` is negative.
        CommitConflictError: Other writers were in conflict too often.
        CommitUnknownError: The storage did not tell whether the version was made; the files stay.
        LanceError: Rows cannot be read, or files cannot be written. No files are left.
    """
    most = num_indices_to_merge
    if most is not None and most < 0:
        raise InvalidInputError("num_indices_to_merge", expected="0 or more", found=most)

    def attempt(current: Snapshot) -> Manifest:
        tasks = list(_tasks(current, most, index_names, retrain))
        removed = [segment for task in tasks for segment in task.replaced]
        behind = entries_behind(current.manifest, index_names, removed)
        if not tasks and not behind and not has_unneeded_reuse(current.manifest):
            return current.manifest
        built: list[table_pb2.IndexMetadata] = []
        syncs: list[Callable[[], None]] = []
        present = {entry.uuid.uuid for entry in index_entries(current.manifest)}
        transaction = new_transaction(current.manifest.version, uuid=transaction_id)
        try:
            for task in tasks:
                segment = build_segment(current, task.request, observer=observer, sync=sync, syncs=syncs)
                # The reference looks for the files of a segment beside others, also if it covers nothing.
                if coverage(segment) or not task.has_others:
                    built.append(segment)
            for entry in caught_up(current, behind, sync=sync):
                built.append(entry)
            removed += behind
            trimmed = trimmed_reuse(current, built, removed, sync=sync)
            built += trimmed.added
            removed += trimmed.removed
            if not built and not removed:
                return current.manifest
            message = create_index_transaction(transaction, built, removed)
            return commit(current.storage, message, read=current.manifest, writes=syncs, sync=sync)
        except CommitUnknownError:
            raise
        except LanceError:
            discard(current.storage, [entry for entry in built if entry.uuid.uuid not in present])
            raise

    return with_retries(snapshot, attempt, "create_index", transaction_id=transaction_id)


def _tasks(
    snapshot: Snapshot, most: int | None, names: Sequence[str] | None, retrain: bool
) -> Iterator[_Task]:
    manifest = snapshot.manifest
    existing = pyroaring.BitMap(manifest.fragment_by_id)
    for segments in _indices(snapshot, names):
        kind = name_of_kind(segments[0])
        assert kind is not None
        covered = pyroaring.BitMap().union(*map(coverage, segments)) & existing
        uncovered = existing - covered
        if most is None and uncovered and not retrain:
            balanced = _balanced(snapshot, segments, covered, uncovered)
            if balanced is not None:
                yield _Task(segments, balanced)
                continue
        count = _num_replaced(manifest, segments, uncovered) if most is None else most
        replaced = segments if retrain else segments[max(0, len(segments) - count) :]
        if not retrain and not uncovered and len(replaced) < 2:
            continue
        # A segment that covers nothing is replaced by the first segment that does.
        replaced += [each for each in segments if each not in replaced and not coverage(each) & existing]
        # The reference refuses an index whose segments name rows in different ways.
        by_id = KINDS[kind].row_keys is RowKeys.IDS and manifest.has_stable_row_ids
        kept = [each for each in segments if each not in replaced]
        if any(names_rows_by_id(each, manifest.has_stable_row_ids) != by_id for each in kept):
            replaced = segments
        known = pyroaring.BitMap().union(*map(coverage, replaced)) & existing
        request = _request(snapshot, segments[-1], known | uncovered, retrain=retrain)
        yield _Task(replaced, request, has_others=len(replaced) < len(segments))


def _balanced(
    snapshot: Snapshot,
    segments: Sequence[table_pb2.IndexMetadata],
    covered: pyroaring.BitMap,
    uncovered: pyroaring.BitMap,
) -> IndexRequest | None:
    """Return the request of a segment that replaces all segments, because they became uneven; None if they
    may stay.
    """
    kind = name_of_kind(segments[0])
    assert kind is not None
    balanced = KINDS[kind].balanced
    if balanced is None:
        return None
    request = _request(snapshot, segments[-1], covered | uncovered)
    _, _, rows = rows_to_index(snapshot, request, unobserved)
    _, _, new_rows = rows_to_index(snapshot, replace(request, fragment_ids=sorted(uncovered)), unobserved)
    files = [segment_files(snapshot, segment) for segment in segments]
    parameters = balanced(files, rows, new_rows)
    return None if parameters is None else replace(request, parameters=parameters)


def _indices(snapshot: Snapshot, names: Sequence[str] | None) -> Iterator[list[table_pb2.IndexMetadata]]:
    """Yield the segments of each index to optimize, oldest first."""
    groups: dict[str, list[table_pb2.IndexMetadata]] = {}
    for segment in segments_of(snapshot):
        groups.setdefault(segment.name, []).append(segment)
    for name in names or groups:
        segments = groups.get(name)
        if segments is None:
            raise IndexNotFoundError(
                "index not found", expected=", ".join(sorted(groups)) or "none", found=name
            )
        if all(name_of_kind(segment) for segment in segments):
            yield segments
        elif names:
            raise UnsupportedFeatureError(
                f"building of index {name}", found=segments[0].index_details.type_url.rpartition(".")[2]
            )


def _num_replaced(
    manifest: Manifest, segments: Sequence[table_pb2.IndexMetadata], uncovered: pyroaring.BitMap
) -> int:
    """Return how many of the newest segments are replaced if the caller does not say.

    If the kind does not say either, these are the segments with few rows beside all newer rows. So every row
    is indexed again only a few times, however often an index is optimized, and few segments are left.
    """
    kind = name_of_kind(segments[0])
    assert kind is not None
    most = KINDS[kind].merged_segments
    if most is not None:
        return most
    rows = {number: fragment.num_rows for number, fragment in manifest.fragment_by_id.items()}
    newer = sum(rows[number] for number in uncovered)
    count = 0
    for segment in reversed(segments):
        covered = sum(rows[number] for number in coverage(segment) if number in rows)
        if covered > _FEW_ROWS * newer:
            break
        newer += covered
        count += 1
    return count


def _request(
    snapshot: Snapshot, like: table_pb2.IndexMetadata, fragment_ids: Iterable[int], *, retrain: bool = False
) -> IndexRequest:
    """Return the request of a segment with the options of another segment."""
    kind = name_of_kind(like)
    assert kind is not None
    parameters = KINDS[kind].parameters_of(segment_files(snapshot, like))
    if retrain:
        parameters = {name: parameters[name] for name in parameters.keys() - KINDS[kind].trained}
    return IndexRequest(
        column=path_of(snapshot.manifest.schema, like.fields[0]),
        kind=kind,
        name=like.name,
        fragment_ids=sorted(fragment_ids),
        parameters=parameters,
    )


def merge_segments(
    snapshot: Snapshot,
    segments: Sequence[table_pb2.IndexMetadata],
    *,
    observer: Observer = unobserved,
    sync: bool = True,
) -> table_pb2.IndexMetadata:
    """Write one segment that covers the fragments of several segments, which stay as they are.

    Args:
        snapshot: The version to read.
        segments: Segments of one kind on one column; they may belong to no version yet.
        observer: Is told the progress.
        sync: On local disks make the files durable before returning.

    Returns:
        The entry for the manifest. The segment belongs to no version yet.

    Raises:
        InvalidInputError: There are no segments, or they are of different kinds or index different columns.
        UnsupportedFeatureError: Indices of this kind are not built here.
        LanceError: Rows cannot be read, or files cannot be written. No files are left.
    """
    if not segments:
        raise InvalidInputError("no segments to merge")
    first = segments[0]
    kind = name_of_kind(first)
    if kind is None:
        raise UnsupportedFeatureError(
            "merging of index segments", found=first.index_details.type_url.rpartition(".")[2]
        )
    for segment in segments:
        if list(segment.fields) != list(first.fields) or name_of_kind(segment) != kind:
            raise InvalidInputError(
                "segments of different kinds, or on different columns", found=segment.name
            )
    covered = pyroaring.BitMap().union(*map(coverage, segments))
    existing = covered & pyroaring.BitMap(snapshot.manifest.fragment_by_id)
    return build_segment(snapshot, _request(snapshot, first, existing), observer=observer, sync=sync)
