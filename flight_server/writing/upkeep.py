"""Upkeep of datasets: compaction, and removal of old versions. Free of Flight types."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from flight_server.catalog.local import Catalog
from flight_server.requests.names import DatasetReference
from flight_server.requests.write_command import CommitCommand
from flight_server.writing.staged_writes import StagedWrites
from flight_server.writing.staging import Staging
from flight_server.writing.targets import Targets
from lance_core.api.serving import (
    CleanupPolicy,
    CompactionMetrics,
    CompactionOptions,
    CoverageReport,
    clean_up,
    compact,
    coverage_report_of,
    explain_cleanup,
    plan_compaction,
)
from lance_core.errors import InvalidInputError

_MAXIMUM_NAMED_FILES = 10_000


@dataclass(frozen=True)
class PlannedCompaction:
    """Plan of a compaction, in tasks that any server of the root can execute."""

    read_version: int
    tasks: tuple[str, ...]
    """Texts for `StagedWrites.execute`."""


class Upkeep:
    """Upkeep of the datasets of one catalog. Thread-safe.

    Errors of `Targets.target` apply to every method.
    """

    def __init__(self, catalog: Catalog, targets: Targets, staged: StagedWrites) -> None:
        self._catalog = catalog
        self._targets = targets
        self._staged = staged

    def compact(
        self,
        reference: DatasetReference,
        options: Mapping[str, Any],
        *,
        transaction_id: str | None = None,
    ) -> tuple[int, CompactionMetrics]:
        """Compact a branch; return its version and the metrics. Errors are those of `compact` of the core."""
        with self._targets.opened(reference) as opened:
            parsed = CompactionOptions.parse(options, opened.snapshot.manifest.config)
            made, metrics = compact(opened.snapshot, parsed, transaction_id=transaction_id)
        return made.manifest.version, metrics

    def plan_compaction(self, reference: DatasetReference, options: Mapping[str, Any]) -> PlannedCompaction:
        """Plan a compaction, from metadata alone; errors are those of `plan_compaction` of the core."""
        snapshot = self._catalog.open(reference)
        plan = plan_compaction(snapshot, CompactionOptions.parse(options, snapshot.manifest.config))
        return PlannedCompaction(plan.read_version, tuple(task.json() for task in plan.tasks))

    def commit_compaction(
        self, reference: DatasetReference, receipts: Sequence[str], *, transaction_id: str | None = None
    ) -> tuple[int, CoverageReport]:
        """Commit executed tasks; return the version, and what indices cover before and after.

        Errors are those of `StagedWrites.commit`.
        """
        command = CommitCommand(reference, "rewrite", tuple(receipts), transaction_id=transaction_id)
        version = self._staged.commit(command).version
        with self._targets.opened(reference) as opened:
            return version, coverage_report_of(opened.snapshot.storage, version)

    def clean_up(
        self, reference: DatasetReference, limits: Mapping[str, Any], *, dry_run: bool
    ) -> dict[str, Any]:
        """Remove old versions, and files that no version needs; return counts, in a dry run with the files.

        Args:
            reference: the dataset and branch.
            limits: fields of `CleanupPolicy`.
            dry_run: remove nothing.

        Raises:
            InvalidInputError: `delete_unverified` while there are staged writes, whose files would go.
            LanceError: as `clean_up` of the core raises.
        """
        policy = CleanupPolicy(**limits)
        with self._targets.opened(reference) as opened:
            if policy.delete_unverified and Staging(opened.root).has_any():
                raise InvalidInputError(
                    "cleanup: delete_unverified would remove the files of staged writes; commit or abort "
                    "them first"
                )
            if not dry_run:
                return asdict(clean_up(opened.snapshot, opened.root, policy))
            explained = explain_cleanup(
                opened.snapshot, opened.root, policy, include_files=True, max_files=_MAXIMUM_NAMED_FILES
            )
        return asdict(explained.stats) | {
            "files": [file.path for file in explained.candidate_files],
            "files_truncated": explained.candidate_files_truncated,
        }
