"""Plan of a compaction, from metadata alone: groups of fragments that are rewritten together.

A fragment is a candidate if it has fewer rows than the target, or too many deleted rows. Neighbouring
candidates that the same indices cover form a run. A run is cut into groups with at least the target number of
rows.
Source: docs/format.md, "Operations".
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace

from lance_core.changes.compaction.indices import check_indices
from lance_core.changes.compaction.options import CompactionOptions
from lance_core.changes.compaction.tasks import CompactionPlan, CompactionTask
from lance_core.errors import UnsupportedFeatureError
from lance_core.file.footer import FileVersion
from lance_core.table.fragment import Fragment
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import Snapshot
from lance_core.write.dataset_options import file_version


@dataclass(frozen=True)
class _Candidate:
    """Fragment that a compaction may rewrite."""

    fragment: Fragment
    covered_by: Hashable
    """UUIDs of the index segments that cover the fragment."""
    is_worth_alone: bool
    """Whether the fragment is rewritten even without a neighbour to join."""


def plan(snapshot: Snapshot, options: CompactionOptions) -> CompactionPlan:
    """Return the tasks of a compaction. There are none if no fragment is worth rewriting.

    Raises:
        InvalidInputError: `defer_index_remap` is given for a table with stable row ids.
        UnsupportedFeatureError: The table has an index of the system that forbids rewriting, or data files of
            another version than its own.
    """
    manifest = snapshot.manifest
    check_indices(manifest, options.defer_index_remap)
    version = _target_version(manifest, options)
    options = replace(options, data_storage_version=version.name)
    tasks = [
        CompactionTask(manifest.version, tuple(each.fragment.message for each in group), options)
        for run in _runs(manifest, options)
        for group in _groups(run, options.target_rows_per_fragment)
        if len(group) > 1 or group[0].is_worth_alone
    ]
    return CompactionPlan(manifest.version, list(_limited(tasks, options)))


def _target_version(manifest: Manifest, options: CompactionOptions) -> FileVersion:
    own = FileVersion.from_name(manifest.data_storage_version)
    wanted = file_version(options.data_storage_version) or own
    if wanted != own:
        raise UnsupportedFeatureError("compaction to another file version", expected=own, found=wanted)
    if own == FileVersion.V0_1:
        # Releases around 0.16 wrote 2.0 files into tables that say 0.1. The two versions cannot be joined.
        versions = {file.version for fragment in manifest.fragments for file in fragment.files}
        if versions - {own}:
            raise UnsupportedFeatureError(
                "compaction of other files than the table says", expected=own, found=max(versions)
            )
    return own


def _runs(manifest: Manifest, options: CompactionOptions) -> Iterator[list[_Candidate]]:
    """Yield runs of neighbouring candidates that the same indices cover."""
    run: list[_Candidate] = []
    excluded = frozenset(options.excluded_fragment_ids)
    for fragment in manifest.fragments:
        candidate = None if fragment.id in excluded else _candidate(manifest, fragment, options)
        if run and (candidate is None or candidate.covered_by != run[-1].covered_by):
            yield run
            run = []
        if candidate is not None:
            run.append(candidate)
    if run:
        yield run


def _candidate(manifest: Manifest, fragment: Fragment, options: CompactionOptions) -> _Candidate | None:
    num_rows = fragment.num_rows
    deleted_share = (fragment.physical_rows - num_rows) / max(fragment.physical_rows, 1)
    is_worth_alone = options.materialize_deletions and deleted_share > options.materialize_deletions_threshold
    if not is_worth_alone and fragment.physical_rows >= options.target_rows_per_fragment:
        return None
    covering = frozenset(
        segment.description.uuid
        for segment in manifest.index_segments
        if not segment.is_of_system and fragment.id in segment.description.fragment_ids
    )
    return _Candidate(fragment, covering, is_worth_alone)


def _groups(run: list[_Candidate], target_rows: int) -> list[list[_Candidate]]:
    """Cut a run into groups of at least `target_rows` rows. A smaller rest joins the last group."""
    groups: list[list[_Candidate]] = []
    group: list[_Candidate] = []
    num_rows = 0
    for candidate in run:
        group.append(candidate)
        num_rows += candidate.fragment.num_rows
        if num_rows >= target_rows:
            groups.append(group)
            group, num_rows = [], 0
    if group and groups:
        groups[-1] += group
    elif group:
        groups.append(group)
    return groups


def _limited(tasks: list[CompactionTask], options: CompactionOptions) -> Iterator[CompactionTask]:
    """Yield the first tasks, up to the limits of the options."""
    fragments = rows = num_bytes = 0
    for task in tasks:
        fragments += len(task.messages)
        rows += sum(fragment.num_rows for fragment in task.fragments)
        num_bytes += sum(file.file_size_bytes for message in task.messages for file in message.files)
        limits = (
            (fragments, options.max_source_fragments),
            (rows, options.max_source_rows),
            (num_bytes, options.max_source_bytes),
        )
        if any(most is not None and number > most for number, most in limits):
            return
        yield task
