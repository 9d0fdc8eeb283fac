"""Rewriting fragments: their live rows, in the same order, go to new data files."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

import numpy as np

from lance_core.changes.checked_reads import scan_for_change, stored_for_change
from lance_core.changes.columns.column_file import delete_files
from lance_core.changes.compaction.indices import check_indices
from lance_core.changes.compaction.options import CompactionOptions
from lance_core.changes.compaction.results import Messages, RewriteResult
from lance_core.changes.stored_rows import refuse_external_blobs
from lance_core.commit.lineage_encoding import encode_row_ids, encode_versions
from lance_core.errors import CommitConflictError
from lance_core.file.footer import FileVersion
from lance_core.file.v0_1.dictionaries import Dictionaries
from lance_core.file.writer_options import WriteOptions
from lance_core.proto import table_pb2
from lance_core.scan.arguments import scan_options
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.projection import CREATED_AT, LAST_UPDATED_AT, ROW_ID
from lance_core.storage import Storage
from lance_core.table.manifest_dictionaries import dictionaries_of
from lance_core.table.snapshot import Snapshot
from lance_core.write.fragments import FileLimits, FragmentWriter


def rewrite_fragments(
    snapshot: Snapshot,
    read_version: int,
    messages: Messages,
    options: CompactionOptions,
    *,
    sync: bool = True,
) -> RewriteResult:
    """Write the live rows of neighbouring fragments to new fragments. They become visible with the commit.

    Args:
        snapshot: Any version of the table.
        read_version: The version that has the fragments.
        messages: The fragments, as the manifest of that version describes them.
        options: Sizes of the new fragments and files.
        sync: Make the files durable before returning.

    Raises:
        VersionNotFoundError: The version was cleaned up.
        CommitConflictError: The version does not have these fragments, so it belongs to another table.
        UnsupportedFeatureError: A column cannot be written, or the table has an index that forbids rewriting.
        LanceError: Something cannot be read or written; no files are left.
    """
    if snapshot.manifest.version != read_version:
        snapshot = snapshot.open_version(read_version)
    manifest = snapshot.manifest
    check_indices(manifest)
    known = {message.id: message for message in manifest.message.fragments}
    if any(known.get(message.id) != message for message in messages):
        raise CommitConflictError("the task was planned on another table", retryable=False)
    ids = [message.id for message in messages]
    names = [field.name for field in manifest.schema.fields]
    refuse_external_blobs(snapshot, ScanOptions(fragments=tuple(ids)), names)
    writers: list[FragmentWriter] = []
    try:
        fragments = _write(snapshot, ids, options, writers, sync)
        if manifest.has_stable_row_ids:
            _add_lineage(snapshot, ids, fragments)
    except BaseException:
        for writer in writers:
            with suppress(Exception):  # the first error is the one to report
                writer.abort()
        raise
    return RewriteResult(read_version, messages, fragments)


def discard(storage: Storage, results: Iterable[RewriteResult]) -> None:
    """Remove the files of results that were not committed."""
    delete_files(storage, (file.path for each in results for new in each.new for file in new.files))


def _write(
    snapshot: Snapshot, ids: list[int], options: CompactionOptions, writers: list[FragmentWriter], sync: bool
) -> Messages:
    """Write the new fragments, and append each writer to `writers` before it writes anything."""
    manifest = snapshot.manifest
    version = FileVersion.from_name(manifest.data_storage_version)
    files = WriteOptions(batch_rows=options.max_rows_per_group)
    batches = stored_for_change(snapshot, ids, manifest.schema.fields, batch_rows=options.batch_size)
    fragments: list[table_pb2.DataFragment] = []
    batch = next(batches, None)
    for size in _sizes(sum(manifest.fragment_by_id[each].num_rows for each in ids), options):
        limits = replace(FileLimits(), max_rows=size)
        if options.max_bytes_per_file is not None:
            limits = replace(limits, max_bytes=options.max_bytes_per_file)
        writer = FragmentWriter(
            snapshot.storage,
            manifest.schema,
            version,
            limits=limits,
            options=files,
            sync=sync,
            dictionaries=Dictionaries(dictionaries_of(manifest), grow=False),
        )
        writers.append(writer)
        while batch is not None and writer.num_rows < size:
            part = batch.slice(0, size - writer.num_rows)
            writer.write(part)
            batch = batch.slice(part.num_rows) if part.num_rows < batch.num_rows else next(batches, None)
        fragments += writer.finish()
    return tuple(fragments)


def _sizes(num_rows: int, options: CompactionOptions) -> list[int]:
    """Return the numbers of rows of the new files; they differ by at most one."""
    num_files = max(1, num_rows // max(1, options.target_rows_per_fragment)) if num_rows else 0
    return [num_rows // num_files + (number < num_rows % num_files) for number in range(num_files)]


def _add_lineage(snapshot: Snapshot, ids: list[int], fragments: Iterable[table_pb2.DataFragment]) -> None:
    """Set the row ids and row versions of the new fragments."""
    columns = [ROW_ID, CREATED_AT, LAST_UPDATED_AT]
    options = scan_options(snapshot.manifest.schema, columns, fragments=tuple(ids))
    rows = scan_for_change(snapshot, options).to_table()
    row_ids, created, updated = (rows.column(name).to_numpy().astype(np.uint64) for name in columns)
    start = 0
    for fragment in fragments:
        part = slice(start, start + fragment.physical_rows)
        fragment.inline_row_ids = encode_row_ids(row_ids[part])
        fragment.inline_created_at_versions = encode_versions(created[part])
        fragment.inline_last_updated_at_versions = encode_versions(updated[part])
        start = part.stop
