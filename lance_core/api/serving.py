"""Names for a server over datasets, beside the names of the reference library.

A server holds many datasets open, signs plans as tickets, and receives rows before it commits them. The names
of the reference have no words for that. This module is the only other door: `flight_server` imports from
`lance_core`, `lance_core.errors`, `lance_core.version`, `lance_core.api` and from here, and
`tests/docs/test_server_imports.py` checks it. Every name is documented where it is defined. It is imported at
its first use: commands that need few of the names start sooner.

    storage          bytes of datasets, below a root
    versions         snapshots, and the tags and branches that name them
    reads            sessions, plans, streams, takes
    checks           damage and descriptions
    writes           versions of uploaded rows and columns
    staged writes    files first, one commit of many later
    changes          rows, columns and settings that are there
    upkeep           compaction, cleanup, clones, removal
    counts           caches and events of this process
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.api.names.late import import_late

if TYPE_CHECKING:
    from lance_core.changes.columns.add import add_columns, add_null_columns
    from lance_core.changes.columns.alter import Alteration, alter_columns
    from lance_core.changes.columns.column_sources import ExpressionColumns
    from lance_core.changes.columns.drop import drop_columns
    from lance_core.changes.compaction import (
        CompactionMetrics,
        CompactionOptions,
        CompactionTask,
        CoverageReport,
        compact,
        coverage_report_of,
    )
    from lance_core.changes.compaction import plan as plan_compaction
    from lance_core.changes.drop_index import drop_index
    from lance_core.changes.indexing.create import create_index
    from lance_core.changes.indexing.facts import index_statistics, prewarm_index
    from lance_core.changes.indexing.optimize import optimize_indices
    from lance_core.changes.indexing.segment import IndexRequest
    from lance_core.changes.rows.delete import delete as delete_rows
    from lance_core.changes.rows.merge_plan import MergePlan
    from lance_core.changes.rows.update import update as update_rows
    from lance_core.changes.settings import restore_version, update_settings
    from lance_core.changes.staged import (
        StagedChange,
        StagedWriter,
        commit_staged,
        stage_columns,
        stage_compaction,
        stage_index_segment,
        stage_rows,
    )
    from lance_core.changes.streamed import add_stream, join_stream, merge_stream
    from lance_core.changes.written import Written, find_written, written_by
    from lance_core.commit.stream_progress import StreamBatch
    from lance_core.expressions.parsing.sql import parse_type
    from lance_core.expressions.tree import Expression
    from lance_core.expressions.tree import columns as named_columns
    from lance_core.hints import did_you_mean, near_names
    from lance_core.index.text.query import columns_of, with_columns
    from lance_core.kernels import set_pool_retention
    from lance_core.maintenance.branches import create_branch, delete_branch
    from lance_core.maintenance.cleanup import CleanupPolicy, clean_up, explain_cleanup
    from lance_core.maintenance.clone import clone_table
    from lance_core.maintenance.describe_file import DataFileDescription, describe_data_file
    from lance_core.maintenance.drop import drop_table, remove_leftovers, withdraw_table
    from lance_core.maintenance.tags import create_tag, delete_tag, update_tag
    from lance_core.pool import map_ahead, set_worker_niceness
    from lance_core.process.counters import CacheUse, Observer, event_counts, observe
    from lance_core.process.deferred import DeferredError
    from lance_core.process.readers import Reader
    from lance_core.scan.changes import Changes as RowDifferences
    from lance_core.scan.changes import RowSet, compare_versions
    from lance_core.scan.explain import Explanation, PrunedPlan
    from lance_core.scan.guarded import addresses_meeting
    from lance_core.scan.history import VersionEntry, version_entries
    from lance_core.scan.plan.aggregation import Aggregation, bind_aggregation, plan_aggregation
    from lance_core.scan.plan.bind import bind_columns, bind_filter, check_filter, either, guarded
    from lance_core.scan.plan.bind_nearest import bind_nearest, bind_segments, vector_type, with_queries
    from lance_core.scan.plan.fusion import bind_fusion
    from lance_core.scan.plan.nearest import SEARCHES, NearestQuery, score_fields
    from lance_core.scan.plan.options import BLOB_HANDLINGS, DEFAULT_BATCH_BYTES, ScanOptions
    from lance_core.scan.plan.projection import (
        CREATED_AT,
        LAST_UPDATED_AT,
        ROW_ADDRESS,
        ROW_ID,
        ROW_OFFSET,
        project,
    )
    from lance_core.scan.plan.scan_plan import FragmentScan, ScanPlan, plan_scan, result_schema
    from lance_core.scan.plan.text_query import bind_text_query
    from lance_core.scan.read.columns import has_dictionaries, holds_dictionary
    from lance_core.scan.run.batch_cutter import BatchRun
    from lance_core.scan.snapshot_reads import (
        BlobStream,
        SearchReads,
        TakeReads,
        aggregate_plan,
        count_plan,
        explain_plan,
        prune_plan,
        stream_plan,
    )
    from lance_core.scan.take.keys import KEY_COLUMNS
    from lance_core.scan.text_search.columns import indexed_columns as text_columns
    from lance_core.scan.validate import DAMAGE, find_damage, validate_snapshot
    from lance_core.schema import Schema
    from lance_core.storage import Entry, LocalStorage, Storage, is_object_store, scheme_of, storage_for
    from lance_core.table.bases import BlobDirectory
    from lance_core.table.fragment import Fragment
    from lance_core.table.indices import IndexDescription
    from lance_core.table.refs import (
        Branch,
        Tag,
        branch_names,
        branch_storage,
        find_tag,
        list_branches,
        list_tags,
        read_tag,
        tag_names,
    )
    from lance_core.table.snapshot import Snapshot, open_snapshot, version_before
    from lance_core.table.snapshot_cache import SnapshotCache
    from lance_core.table.versions import latest_version
    from lance_core.write.dataset import DatasetWriter, Mode
    from lance_core.write.dataset_options import DatasetWriteOptions, file_version
    from lance_core.write.fragments import FileLimits

__all__ = [
    "BLOB_HANDLINGS",
    "CREATED_AT",
    "DAMAGE",
    "DEFAULT_BATCH_BYTES",
    "KEY_COLUMNS",
    "LAST_UPDATED_AT",
    "ROW_ADDRESS",
    "ROW_ID",
    "ROW_OFFSET",
    "SEARCHES",
    "Aggregation",
    "Alteration",
    "BatchRun",
    "BlobDirectory",
    "BlobStream",
    "Branch",
    "CacheUse",
    "CleanupPolicy",
    "CompactionMetrics",
    "CompactionOptions",
    "CompactionTask",
    "CoverageReport",
    "DataFileDescription",
    "DatasetWriteOptions",
    "DatasetWriter",
    "DeferredError",
    "Entry",
    "Explanation",
    "Expression",
    "ExpressionColumns",
    "FileLimits",
    "Fragment",
    "FragmentScan",
    "IndexDescription",
    "IndexRequest",
    "LocalStorage",
    "MergePlan",
    "Mode",
    "NearestQuery",
    "Observer",
    "PrunedPlan",
    "Reader",
    "RowDifferences",
    "RowSet",
    "ScanOptions",
    "ScanPlan",
    "Schema",
    "SearchReads",
    "Snapshot",
    "SnapshotCache",
    "StagedChange",
    "StagedWriter",
    "Storage",
    "StreamBatch",
    "Tag",
    "TakeReads",
    "VersionEntry",
    "Written",
    "add_columns",
    "add_null_columns",
    "add_stream",
    "addresses_meeting",
    "aggregate_plan",
    "alter_columns",
    "bind_aggregation",
    "bind_columns",
    "bind_filter",
    "bind_fusion",
    "bind_nearest",
    "bind_segments",
    "bind_text_query",
    "branch_names",
    "branch_storage",
    "check_filter",
    "clean_up",
    "clone_table",
    "columns_of",
    "commit_staged",
    "compact",
    "compare_versions",
    "count_plan",
    "coverage_report_of",
    "create_branch",
    "create_index",
    "create_tag",
    "delete_branch",
    "delete_rows",
    "delete_tag",
    "describe_data_file",
    "did_you_mean",
    "drop_columns",
    "drop_index",
    "drop_table",
    "either",
    "event_counts",
    "explain_cleanup",
    "explain_plan",
    "file_version",
    "find_damage",
    "find_tag",
    "find_written",
    "guarded",
    "has_dictionaries",
    "holds_dictionary",
    "index_statistics",
    "is_object_store",
    "join_stream",
    "latest_version",
    "list_branches",
    "list_tags",
    "map_ahead",
    "merge_stream",
    "named_columns",
    "near_names",
    "observe",
    "open_snapshot",
    "optimize_indices",
    "parse_type",
    "plan_aggregation",
    "plan_compaction",
    "plan_scan",
    "prewarm_index",
    "project",
    "prune_plan",
    "read_tag",
    "remove_leftovers",
    "restore_version",
    "result_schema",
    "scheme_of",
    "score_fields",
    "set_pool_retention",
    "set_worker_niceness",
    "stage_columns",
    "stage_compaction",
    "stage_index_segment",
    "stage_rows",
    "storage_for",
    "stream_plan",
    "tag_names",
    "text_columns",
    "update_rows",
    "update_settings",
    "update_tag",
    "validate_snapshot",
    "vector_type",
    "version_before",
    "version_entries",
    "with_columns",
    "with_queries",
    "withdraw_table",
    "written_by",
]

_LATE = {
    "Aggregation": "lance_core.scan.plan.aggregation",
    "Alteration": "lance_core.changes.columns.alter",
    "BLOB_HANDLINGS": "lance_core.scan.plan.options",
    "BatchRun": "lance_core.scan.run.batch_cutter",
    "BlobDirectory": "lance_core.table.bases",
    "BlobStream": "lance_core.scan.snapshot_reads",
    "Branch": "lance_core.table.refs",
    "CREATED_AT": "lance_core.scan.plan.projection",
    "CacheUse": "lance_core.process.counters",
    "CleanupPolicy": "lance_core.maintenance.cleanup",
    "CompactionMetrics": "lance_core.changes.compaction",
    "CompactionOptions": "lance_core.changes.compaction",
    "CompactionTask": "lance_core.changes.compaction",
    "CoverageReport": "lance_core.changes.compaction",
    "DAMAGE": "lance_core.scan.validate",
    "DEFAULT_BATCH_BYTES": "lance_core.scan.plan.options",
    "DataFileDescription": "lance_core.maintenance.describe_file",
    "DatasetWriteOptions": "lance_core.write.dataset_options",
    "DatasetWriter": "lance_core.write.dataset",
    "DeferredError": "lance_core.process.deferred",
    "Entry": "lance_core.storage",
    "Explanation": "lance_core.scan.explain",
    "Expression": "lance_core.expressions.tree",
    "ExpressionColumns": "lance_core.changes.columns.column_sources",
    "FileLimits": "lance_core.write.fragments",
    "Fragment": "lance_core.table.fragment",
    "FragmentScan": "lance_core.scan.plan.scan_plan",
    "IndexDescription": "lance_core.table.indices",
    "IndexRequest": "lance_core.changes.indexing.segment",
    "KEY_COLUMNS": "lance_core.scan.take.keys",
    "LAST_UPDATED_AT": "lance_core.scan.plan.projection",
    "LocalStorage": "lance_core.storage",
    "MergePlan": "lance_core.changes.rows.merge_plan",
    "Mode": "lance_core.write.dataset",
    "NearestQuery": "lance_core.scan.plan.nearest",
    "Observer": "lance_core.process.counters",
    "PrunedPlan": "lance_core.scan.explain",
    "ROW_ADDRESS": "lance_core.scan.plan.projection",
    "ROW_ID": "lance_core.scan.plan.projection",
    "ROW_OFFSET": "lance_core.scan.plan.projection",
    "Reader": "lance_core.process.readers",
    "RowDifferences": "lance_core.scan.changes:Changes",
    "RowSet": "lance_core.scan.changes",
    "SEARCHES": "lance_core.scan.plan.nearest",
    "ScanOptions": "lance_core.scan.plan.options",
    "ScanPlan": "lance_core.scan.plan.scan_plan",
    "Schema": "lance_core.schema",
    "SearchReads": "lance_core.scan.snapshot_reads",
    "Snapshot": "lance_core.table.snapshot",
    "SnapshotCache": "lance_core.table.snapshot_cache",
    "StagedChange": "lance_core.changes.staged",
    "StagedWriter": "lance_core.changes.staged",
    "Storage": "lance_core.storage",
    "StreamBatch": "lance_core.commit.stream_progress",
    "Tag": "lance_core.table.refs",
    "TakeReads": "lance_core.scan.snapshot_reads",
    "VersionEntry": "lance_core.scan.history",
    "Written": "lance_core.changes.written",
    "add_columns": "lance_core.changes.columns.add",
    "add_null_columns": "lance_core.changes.columns.add",
    "add_stream": "lance_core.changes.streamed",
    "addresses_meeting": "lance_core.scan.guarded",
    "aggregate_plan": "lance_core.scan.snapshot_reads",
    "alter_columns": "lance_core.changes.columns.alter",
    "bind_aggregation": "lance_core.scan.plan.aggregation",
    "bind_columns": "lance_core.scan.plan.bind",
    "bind_filter": "lance_core.scan.plan.bind",
    "bind_fusion": "lance_core.scan.plan.fusion",
    "bind_nearest": "lance_core.scan.plan.bind_nearest",
    "bind_segments": "lance_core.scan.plan.bind_nearest",
    "bind_text_query": "lance_core.scan.plan.text_query",
    "branch_names": "lance_core.table.refs",
    "branch_storage": "lance_core.table.refs",
    "check_filter": "lance_core.scan.plan.bind",
    "clean_up": "lance_core.maintenance.cleanup",
    "clone_table": "lance_core.maintenance.clone",
    "columns_of": "lance_core.index.text.query",
    "commit_staged": "lance_core.changes.staged",
    "compact": "lance_core.changes.compaction",
    "compare_versions": "lance_core.scan.changes",
    "count_plan": "lance_core.scan.snapshot_reads",
    "coverage_report_of": "lance_core.changes.compaction",
    "create_branch": "lance_core.maintenance.branches",
    "create_index": "lance_core.changes.indexing.create",
    "create_tag": "lance_core.maintenance.tags",
    "delete_branch": "lance_core.maintenance.branches",
    "delete_rows": "lance_core.changes.rows.delete:delete",
    "delete_tag": "lance_core.maintenance.tags",
    "describe_data_file": "lance_core.maintenance.describe_file",
    "did_you_mean": "lance_core.hints",
    "drop_columns": "lance_core.changes.columns.drop",
    "drop_index": "lance_core.changes.drop_index",
    "drop_table": "lance_core.maintenance.drop",
    "either": "lance_core.scan.plan.bind",
    "event_counts": "lance_core.process.counters",
    "explain_cleanup": "lance_core.maintenance.cleanup",
    "explain_plan": "lance_core.scan.snapshot_reads",
    "file_version": "lance_core.write.dataset_options",
    "find_damage": "lance_core.scan.validate",
    "find_tag": "lance_core.table.refs",
    "find_written": "lance_core.changes.written",
    "guarded": "lance_core.scan.plan.bind",
    "has_dictionaries": "lance_core.scan.read.columns",
    "holds_dictionary": "lance_core.scan.read.columns",
    "index_statistics": "lance_core.changes.indexing.facts",
    "is_object_store": "lance_core.storage",
    "join_stream": "lance_core.changes.streamed",
    "latest_version": "lance_core.table.versions",
    "list_branches": "lance_core.table.refs",
    "list_tags": "lance_core.table.refs",
    "map_ahead": "lance_core.pool",
    "merge_stream": "lance_core.changes.streamed",
    "named_columns": "lance_core.expressions.tree:columns",
    "near_names": "lance_core.hints",
    "observe": "lance_core.process.counters",
    "open_snapshot": "lance_core.table.snapshot",
    "optimize_indices": "lance_core.changes.indexing.optimize",
    "parse_type": "lance_core.expressions.parsing.sql",
    "plan_aggregation": "lance_core.scan.plan.aggregation",
    "plan_compaction": "lance_core.changes.compaction:plan",
    "plan_scan": "lance_core.scan.plan.scan_plan",
    "prewarm_index": "lance_core.changes.indexing.facts",
    "project": "lance_core.scan.plan.projection",
    "prune_plan": "lance_core.scan.snapshot_reads",
    "read_tag": "lance_core.table.refs",
    "remove_leftovers": "lance_core.maintenance.drop",
    "restore_version": "lance_core.changes.settings",
    "result_schema": "lance_core.scan.plan.scan_plan",
    "scheme_of": "lance_core.storage",
    "score_fields": "lance_core.scan.plan.nearest",
    "set_pool_retention": "lance_core.kernels",
    "set_worker_niceness": "lance_core.pool",
    "stage_columns": "lance_core.changes.staged",
    "stage_compaction": "lance_core.changes.staged",
    "stage_index_segment": "lance_core.changes.staged",
    "stage_rows": "lance_core.changes.staged",
    "storage_for": "lance_core.storage",
    "stream_plan": "lance_core.scan.snapshot_reads",
    "tag_names": "lance_core.table.refs",
    "text_columns": "lance_core.scan.text_search.columns:indexed_columns",
    "update_rows": "lance_core.changes.rows.update:update",
    "update_settings": "lance_core.changes.settings",
    "update_tag": "lance_core.maintenance.tags",
    "validate_snapshot": "lance_core.scan.validate",
    "vector_type": "lance_core.scan.plan.bind_nearest",
    "version_before": "lance_core.table.snapshot",
    "version_entries": "lance_core.scan.history",
    "with_columns": "lance_core.index.text.query",
    "with_queries": "lance_core.scan.plan.bind_nearest",
    "withdraw_table": "lance_core.maintenance.drop",
    "written_by": "lance_core.changes.written",
}

__getattr__ = import_late(__name__, _LATE)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
