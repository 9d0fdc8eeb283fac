"""Compaction with the names, arguments and results of the reference library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from lance_core.changes import compaction
from lance_core.changes.compaction import (
    CompactionMetrics,
    CompactionOptions,
    CompactionPlan,
    CompactionTask,
    LostCoverage,
    RewriteResult,
)

if TYPE_CHECKING:
    from lance_core.api.dataset import LanceDataset

__all__ = [
    "Compaction",
    "CompactionMetrics",
    "CompactionOptions",
    "CompactionPlan",
    "CompactionTask",
    "DatasetOptimizer",
    "LostCoverage",
    "RewriteResult",
]


class Compaction:
    """Compaction in three steps, of which the second can run on many machines."""

    @staticmethod
    def plan(dataset: LanceDataset, options: Mapping[str, Any] | None = None) -> CompactionPlan:
        """Plan which fragments become which.

        Args:
            dataset: the version to compact.
            options: by name, see `CompactionOptions`; those not given come from the settings of the table
                (`lance.compaction.*`).

        Raises:
            InvalidInputError: an option that does not exist.
            UnsupportedFeatureError: an option that is not supported, or an index that says where rows are.
        """
        return compaction.plan(dataset.snapshot, _options(dataset, options))

    @staticmethod
    def commit(
        dataset: LanceDataset, rewrites: Sequence[RewriteResult], options: Mapping[str, Any] | None = None
    ) -> CompactionMetrics:
        """Make one version out of the results of tasks, all or some, and move `dataset` to it.

        Raises:
            CommitConflictError: fragments were changed since; the files of the results stay.
        """
        _options(dataset, options)
        made = compaction.commit(dataset.snapshot, rewrites)
        dataset.move_to(made)
        metrics = sum((result.metrics for result in rewrites), CompactionMetrics())
        return replace(metrics, lost_coverage=compaction.lost_coverage(made.storage, made.manifest))

    @staticmethod
    def execute(dataset: LanceDataset, options: Mapping[str, Any] | None = None) -> CompactionMetrics:
        """All three steps; see `DatasetOptimizer.compact_files`."""
        snapshot, metrics = compaction.compact(dataset.snapshot, _options(dataset, options))
        dataset.move_to(snapshot)
        return metrics


class DatasetOptimizer:
    """Operations that make a dataset faster to read: `LanceDataset.optimize`."""

    def __init__(self, dataset: LanceDataset) -> None:
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
        """Join small fragments, and leave out deleted rows and dropped columns; the order of rows stays.

        Arguments are the options of `CompactionOptions`. Memory is bounded whatever the size of the dataset.
        The dataset moves to the new version, unless nothing is to be gained.

        Raises:
            InvalidInputError: an option that makes no sense.
            UnsupportedFeatureError: an option or a column that is not supported, or an index that says where
                rows are.
            CommitConflictError: other writers changed the same fragments again and again.
        """
        options = {name: value for name, value in locals().items() if name != "self"}
        return Compaction.execute(self._dataset, options)


def _options(dataset: LanceDataset, given: Mapping[str, Any] | None) -> CompactionOptions:
    return CompactionOptions.parse(given or {}, dataset.snapshot.manifest.config)
