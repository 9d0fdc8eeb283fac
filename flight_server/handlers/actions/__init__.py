"""The actions of DoAction: one JSON object in, one out, but for those of Flight itself, which are protobuf.

The registry is what ListActions tells.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flight_server.handlers.actions import (
    columns,
    compaction,
    config,
    datasets,
    indices,
    refs,
    rows,
    server,
    staging,
    table,
    tickets,
    versions,
)
from flight_server.handlers.actions.bodies import Done
from flight_server.rights.grants import Right
from flight_server.service import Service


@dataclass(frozen=True)
class Action:
    """One action: its description for ListActions, and the function that runs it."""

    description: str
    run: Callable[[Service, bytes], dict[str, Any] | bytes | Done]
    needs: tuple[Right, ...] = field(kw_only=True)
    """The rights to the dataset that callers need. The function may ask for more; without any, it can open no
    dataset on a server with grants.
    """
    changes: bool = True
    """Whether the action changes something: then it counts against the limit of changes, and the log has a
    line.
    """
    reads_rows: bool = False
    """Whether the action may read all rows of a dataset: then it counts against the limit of streams."""
    is_probe: bool = False
    """Whether monitors call the action so often that the log leaves it out."""


ACTIONS: Mapping[str, Action] = {
    "health": Action(
        "{} -> {status, version, uptime, caches}: whether the server answers",
        server.health,
        needs=(),
        changes=False,
        is_probe=True,
    ),
    "describe": Action(
        "{dataset, version | tag | asof, branch} -> {dataset, version, branch, identity, schema, rows, "
        "bytes, fragments, data_storage_version, indices, config, metadata, tags, branches}: one version "
        "of a dataset; schema is a base64 IPC message; identity pins it, beside version, in what reads",
        table.describe,
        needs=("read",),
        changes=False,
    ),
    "list_fragments": Action(
        "{dataset, version | tag | asof, branch} -> {version, fragments: [{id, rows, physical_rows, "
        "bytes}]}: in dataset order; physical rows are those of the data files, deleted ones included",
        table.list_fragments,
        needs=("read",),
        changes=False,
    ),
    "count_rows": Action(
        "{dataset, version | tag | asof, branch, filter | substrait_filter} -> {count}: rows of one version "
        "that pass the filter, all of them without one",
        table.count_rows,
        needs=("read",),
        changes=False,
        reads_rows=True,
    ),
    "validate": Action(
        "{dataset, version | tag | asof, branch} -> {version}: check every file of a version; an error "
        "names the first thing that is wrong",
        table.validate,
        needs=("read",),
        changes=False,
        reads_rows=True,
    ),
    "explain_scan": Action(
        "{scan, analyze} -> {columns, filter, limit, offset, rows_returned, statistics, pages_total, "
        "pages_pruned, fragments}: for each fragment and column how many pages a scan reads and how many "
        "statistics rule out; analyze runs it",
        table.explain_scan,
        needs=("read",),
        changes=False,
        reads_rows=True,
    ),
    "create_dataset": Action(
        "{dataset, schema, data_storage_version, enable_stable_row_ids, transaction_id, properties} -> "
        "{version}: make a dataset without rows; schema is a base64 IPC message",
        datasets.create_dataset,
        needs=("write",),
    ),
    "drop_dataset": Action(
        "{dataset} -> {dataset}: remove a dataset with all its versions, tags and branches",
        datasets.drop_dataset,
        needs=("manage",),
    ),
    "shallow_clone": Action(
        "{dataset, target, version | tag, branch, transaction_id} -> {dataset, version}: begin the dataset "
        "`target` with a version of another one, the latest if none is given; no data is copied",
        datasets.shallow_clone,
        needs=("write",),
    ),
    "delete": Action(
        "{dataset, branch, predicate, transaction_id} -> {version, rows}: delete the rows for which "
        "SQL is true",
        rows.delete,
        needs=("read", "write"),
    ),
    "update": Action(
        "{dataset, branch, updates: {column: sql}, where, transaction_id} -> {version, rows}: give columns "
        "new values in the rows for which `where` is true, in all without it",
        rows.update,
        needs=("read", "write"),
    ),
    "commit": Action(
        "{dataset, branch, operation: append | overwrite | merge_insert | add_columns | replace_columns | "
        "rewrite, staged: [receipt], read_version, transaction_id, properties, "
        "stream: {name, query, batch}} -> {version}: make one version of what was staged, all of it or none",
        staging.commit,
        needs=("write",),
    ),
    "abort": Action(
        "{dataset, branch, staged: [receipt]} -> {removed}: remove what was staged; receipts that are not "
        "there are no error",
        staging.abort,
        needs=("write",),
    ),
    "add_columns": Action(
        "{dataset, branch, columns: {name: sql} | schema, transaction_id} -> {version}: add columns computed "
        "from others, or columns of nulls; schema is a base64 IPC message. Values come by DoPut, with the "
        "modes add_columns and replace_columns",
        columns.add_columns,
        needs=("read", "write"),
    ),
    "drop_columns": Action(
        "{dataset, branch, columns: [path], transaction_id} -> {version}: remove columns",
        columns.drop_columns,
        needs=("write",),
    ),
    "alter_columns": Action(
        "{dataset, branch, columns: [{path, name, nullable, data_type | schema}], transaction_id} -> "
        "{version}: change names, types (as in a CAST, or that of a field) and nullability",
        columns.alter_columns,
        needs=("read", "write"),
    ),
    "create_index": Action(
        "{dataset, branch, columns: [path], index_type, name, replace, train, parameters, fragment_ids, "
        "model, transaction_id} -> {version} | {receipt}: build an index on a column; replace is true if it "
        "is left out, parameters are the options of the kind by name; with fragment_ids only a segment, for "
        "commit_index, perhaps with a model of train_index",
        indices.create_index,
        needs=("manage",),
    ),
    "train_index": Action(
        "{dataset, branch, columns: [path], index_type, parameters, fragment_ids} -> {receipt}: train a "
        "vector index once, for segments that create_index builds with this model",
        indices.train_index,
        needs=("manage",),
    ),
    "commit_index": Action(
        "{dataset, branch, receipts: [receipt], transaction_id} -> {version}: make one index of segments "
        "that create_index built",
        indices.commit_index,
        needs=("manage",),
    ),
    "drop_index": Action(
        "{dataset, branch, name, transaction_id} -> {version}: drop an index by its name",
        indices.drop_index,
        needs=("manage",),
    ),
    "optimize_indices": Action(
        "{dataset, branch, num_indices_to_merge, index_names, retrain, transaction_id} -> {version}: let "
        "indices cover the rows that they do not cover yet",
        indices.optimize_indices,
        needs=("manage",),
    ),
    "index_statistics": Action(
        "{dataset, name} -> {index_type, name, num_segments, segments, num_indexed_rows, "
        "num_unindexed_rows, ...}: what an index covers, and facts from its files",
        indices.index_statistics,
        needs=("read",),
        changes=False,
    ),
    "prewarm_index": Action(
        "{dataset, name} -> {version}: read the files of an index ahead of queries",
        indices.prewarm_index,
        needs=("read",),
        changes=False,
    ),
    "compact": Action(
        "{dataset, branch, options, transaction_id} -> {version, fragments_removed, fragments_added, "
        "files_removed, files_added, index_coverage: [{index, index_type, num_rows_before, "
        "num_rows_after}], lost_coverage: [{index, index_type, fragment_ids, num_rows}]}: join small "
        "fragments and leave out deleted rows; lost_coverage names indices that cover less than before",
        compaction.compact,
        needs=("write",),
    ),
    "compact_plan": Action(
        "{dataset, branch, options} -> {read_version, tasks: [task]}: what a compaction would do, in tasks "
        "that any server can execute",
        compaction.compact_plan,
        needs=("write",),
        changes=False,
    ),
    "compact_execute": Action(
        "{dataset, branch, task} -> {receipt, fragments_removed, fragments_added, files_removed, "
        "files_added}: write what a task makes; nobody sees it before the commit",
        compaction.compact_execute,
        needs=("write",),
    ),
    "compact_commit": Action(
        "{dataset, branch, receipts: [receipt], transaction_id} -> {version, index_coverage, lost_coverage}: "
        "make one version of executed tasks; the coverage is as in compact",
        compaction.compact_commit,
        needs=("write",),
    ),
    "cleanup": Action(
        "{dataset, branch, older_than_seconds, retain_versions, versions, delete_unverified, "
        "error_if_tagged_old_versions, dry_run} -> {bytes_removed, old_versions, data_files_removed, ...}: "
        "remove old versions, without limits those older than two weeks, and files that no version needs",
        versions.cleanup,
        needs=("manage",),
    ),
    "list_versions": Action(
        "{dataset, branch, limit, from_version, to_version, rows} -> {versions: [{version, timestamp, "
        "identity, metadata}]}: oldest first; with a limit only the newest; rows tells what each did to rows",
        versions.list_versions,
        needs=("read",),
        changes=False,
    ),
    "find_transaction": Action(
        "{dataset, branch, transaction_id} -> {version, rows, bytes, fragments}: the version that a "
        "transaction made and what it added, version null where it made none",
        versions.find_transaction,
        needs=("write",),
        changes=False,
    ),
    "restore": Action(
        "{dataset, branch, version, transaction_id} -> {version}: make an older version the latest one again",
        versions.restore,
        needs=("write",),
    ),
    "changes": Action(
        "{dataset, branch, from_version, to_version} -> {from_version, to_version, inserted, updated, "
        "deleted}: lists of {ticket, expires, rows}; tickets are base64 and go to DoGet",
        versions.changes,
        needs=("read",),
        changes=False,
    ),
    "list_tags": Action(
        "{dataset} -> {tags: {name: {branch, version, ...}}}",
        refs.list_tags,
        needs=("read",),
        changes=False,
    ),
    "create_tag": Action(
        "{dataset, tag, version, branch} -> {version}: name a version, the latest if none is given",
        refs.create_tag,
        needs=("write",),
    ),
    "update_tag": Action(
        "{dataset, tag, version, branch} -> {version}: let a tag name another version",
        refs.update_tag,
        needs=("write",),
    ),
    "delete_tag": Action(
        "{dataset, tag} -> {version}: remove a tag; the version that it named stays",
        refs.delete_tag,
        needs=("manage",),
    ),
    "list_branches": Action(
        "{dataset} -> {branches: {name: {parent_branch, parent_version, ...}}}",
        refs.list_branches,
        needs=("read",),
        changes=False,
    ),
    "create_branch": Action(
        "{dataset, branch, version | tag} -> {version}: begin a branch with a version; the name of the "
        "dataset may end in another branch and version to begin with",
        refs.create_branch,
        needs=("write",),
    ),
    "delete_branch": Action(
        "{dataset, branch} -> {version}: remove a branch with all its versions",
        refs.delete_branch,
        needs=("manage",),
    ),
    "get_config": Action(
        "{dataset, version | tag | asof, branch} -> {version, config, table_metadata, schema_metadata}",
        config.get_config,
        needs=("read",),
        changes=False,
    ),
    "update_config": Action(
        "{dataset, branch, config, table_metadata, schema_metadata, field_metadata, replace, transaction_id} "
        "-> {version}: texts by name, null removes one; replace drops names that are not given",
        config.update_config,
        needs=("manage",),
    ),
    "CancelFlightInfo": Action(
        "{info: FlightInfo} -> {status}: Flight's own, in protobuf: this server redeems the tickets no more; "
        "streams that run go on until their clients end them",
        tickets.cancel_flight_info,
        needs=(),
        changes=False,
    ),
    "RenewFlightEndpoint": Action(
        "{endpoint: FlightEndpoint} -> {ticket, locations, expiration_time, app_metadata}: Flight's own, in "
        "protobuf: the same endpoint with a ticket that expires later",
        tickets.renew_flight_endpoint,
        needs=("read",),
        changes=False,
    ),
}
