"""Compaction with the names, arguments and results of the reference library."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from lance_core.api.dataset.methods.opened import OpenedDataset
from lance_core.api.names.late import refuse_missing
from lance_core.arguments import named_arguments
from lance_core.changes import compaction
from lance_core.changes.compaction import (
    CompactionMetrics,
    CompactionOptions,
    CompactionPlan,
    CompactionTask,
    IndexCoverage,
    LostCoverage,
    RewriteResult,
)
from lance_core.changes.settings import update_settings
from lance_core.index.progress import IndexProgress
from lance_core.maintenance.auto_cleanup import SETTINGS, AutoCleanupConfig, cleanup_settings

__all__ = [
    "AutoCleanupConfig",
    "Compaction",
    "CompactionMetrics",
    "CompactionOptions",
    "CompactionPlan",
    "CompactionTask",
    "DatasetOptimizer",
    "IndexCoverage",
    "LostCoverage",
    "RewriteResult",
]


@named_arguments
class Compaction:
    """Compaction in three steps: plan, execute the tasks (on many machines if needed), commit."""

    @staticmethod
    def plan(dataset: OpenedDataset, options: Mapping[str, Any] | None = None) -> CompactionPlan:
        """Plan which fragments are rewritten together.

        Args:
            dataset: The version to compact.
            options: Options by name, see `CompactionOptions`. Options that are left out come from the
                settings of the table (`lance.compaction.*`).

        Raises:
            InvalidInputError: An option does not exist.
            UnsupportedFeatureError: An option is not supported, or an index of the system forbids rewriting.
        """
        return compaction.plan(dataset.snapshot, _options(dataset, options))

    @staticmethod
    def commit(
        dataset: OpenedDataset, rewrites: Sequence[RewriteResult], options: Mapping[str, Any] | None = None
    ) -> CompactionMetrics:
        """Commit results of tasks as one version, and move `dataset` to it.

        Args:
            dataset: The dataset at any version.
            rewrites: Results of all tasks of a plan, or of some.
            options: Options by name. Only `defer_index_remap` counts; the tasks carry the others.

        Raises:
            CommitConflictError: Fragments were changed since the plan; the files of the results stay.
        """
        deferred = _options(dataset, options).defer_index_remap
        made = compaction.commit(dataset.snapshot, rewrites, defer_index_remap=deferred)
        dataset.move_to(made)
        metrics = sum((result.metrics for result in rewrites), CompactionMetrics())
        report = compaction.coverage_report(made.storage, made.manifest)
        return metrics.with_coverage(report.index_coverage, report.lost_coverage)

    @staticmethod
    def execute(dataset: OpenedDataset, options: Mapping[str, Any] | None = None) -> CompactionMetrics:
        """Run all three steps; see `DatasetOptimizer.compact_files`."""
        snapshot, metrics = compaction.compact(dataset.snapshot, _options(dataset, options))
        dataset.move_to(snapshot)
        return metrics


@named_arguments
class DatasetOptimizer:
    """Operations that make a dataset faster to read: `LanceDataset.optimize`."""

    if not TYPE_CHECKING:  # a type checker would believe that every name exists
        __getattr__ = refuse_missing("DatasetOptimizer")

    def __init__(self, dataset: OpenedDataset) -> None:
        self._dataset = dataset

    def compact_files(
        self,
        *,
        target_rows_per_fragment: int | None = None,
        max_rows_per_group: int | None = None,
        max_bytes_per_file: int | None = None,
        materialize_deletions: bool | None = None,
        materialize_deletions_threshold: float | None = None,
        defer_index_remap: bool | None = None,
        num_threads: int | None = None,
        batch_size: int | None = None,
        compaction_mode: Literal["reencode", "try_binary_copy", "force_binary_copy"] | None = None,
        binary_copy_read_batch_bytes: int | None = None,
        max_source_fragments: int | None = None,
        max_source_rows: int | None = None,
        max_source_bytes: int | None = None,
        excluded_fragment_ids: list[int] | None = None,
        data_storage_version: str | None = None,
    ) -> CompactionMetrics:
        """Rewrite small fragments as larger ones, without deleted rows and dropped columns.

        The order of rows stays. The arguments are those of `CompactionOptions`. Memory is bounded whatever
        the size of the dataset. If there is something to rewrite, the dataset moves to the new version.

        Raises:
            InvalidInputError: An option is out of range.
            UnsupportedFeatureError: An option or a column is not supported, or an index of the system forbids
                rewriting.
            CommitConflictError: Other writers changed the same fragments too often.
        """
        options = {name: value for name, value in locals().items() if name != "self"}
        return Compaction.execute(self._dataset, options)

    def optimize_indices(
        self,
        *,
        num_indices_to_merge: int | None = None,
        index_names: Sequence[str] | None = None,
        retrain: bool = False,
        progress_callback: Callable[[IndexProgress], None] | None = None,
        transaction_id: str | None = None,
        sync: bool = True,
    ) -> None:
        """Let indices cover the rows that they do not cover yet, and move the dataset to the new version.

        Args:
            num_indices_to_merge: Number of the newest segments of each index that become one segment together
                with the new rows; 1 if None. With 0 the new rows get a segment of their own.
            index_names: Names of the indices; None means all whose kind is supported.
            retrain: Build all segments of each index as one segment from the rows again.
            progress_callback: Is called with the progress.
            transaction_id: UUID of the transaction. Repeating it gives the first result.
            sync: On local disks make everything durable before returning.

        Raises:
            IndexNotFoundError: There is no index with one of the names.
            UnsupportedFeatureError: Indices of the kind of a named index are not built here.
            CommitConflictError: Other writers were in conflict too often.
        """
        from lance_core.changes.indexing.optimize import optimize_indices  # late: it is rarely needed
        from lance_core.index.progress import unobserved

        self._dataset.move_to(
            optimize_indices(
                self._dataset.snapshot,
                num_indices_to_merge=num_indices_to_merge,
                index_names=index_names,
                retrain=retrain,
                observer=progress_callback or unobserved,
                transaction_id=transaction_id,
                sync=sync,
            )
        )

    def enable_auto_cleanup(self, auto_cleanup_config: AutoCleanupConfig) -> None:
        """Let commits of all writers clean up old versions, and move the dataset to the new version.

        Raises:
            InvalidInputError: An option is missing, unknown or out of range.
            CommitConflictError: Another commit changed the same settings.
        """
        self._dataset.move_to(
            update_settings(self._dataset.snapshot, config=cleanup_settings(auto_cleanup_config))
        )

    def disable_auto_cleanup(self) -> None:
        """Let commits keep old versions, and move the dataset to the new version.

        Raises:
            CommitConflictError: Another commit changed the same settings.
        """
        self._dataset.move_to(update_settings(self._dataset.snapshot, config=dict.fromkeys(SETTINGS)))


def _options(dataset: OpenedDataset, given: Mapping[str, Any] | None) -> CompactionOptions:
    return CompactionOptions.parse(given or {}, dataset.snapshot.manifest.config)
