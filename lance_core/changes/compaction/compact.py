"""All steps of a compaction in this process."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from lance_core.changes.compaction.commit import commit
from lance_core.changes.compaction.index_coverage import CoverageReport, coverage_report
from lance_core.changes.compaction.options import CompactionOptions
from lance_core.changes.compaction.plan import plan
from lance_core.changes.compaction.results import CompactionMetrics, RewriteResult
from lance_core.changes.compaction.rewrite import discard
from lance_core.changes.compaction.tasks import CompactionTask, execute
from lance_core.changes.retry import with_retries
from lance_core.errors import CommitUnknownError, LanceError
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import Snapshot


def compact(
    snapshot: Snapshot,
    options: CompactionOptions,
    *,
    transaction_id: str | None = None,
    sync: bool = True,
) -> tuple[Snapshot, CompactionMetrics]:
    """Plan, execute and commit.

    After a conflict the compaction is planned again. Tasks whose fragments did not change are not executed
    again.

    Args:
        snapshot: The version to compact.
        options: Options of the plan and of its tasks.
        transaction_id: UUID of the transaction; a new one if None.
        sync: Make everything durable before returning.

    Returns:
        The new version, or `snapshot` if there is nothing to rewrite, and the metrics.

    Raises:
        LanceError: The errors of `plan`, `execute` and `commit`. Nothing was committed, and no files are
            left.
        CommitUnknownError: The storage did not tell whether the version was made; files are kept.
    """
    done: dict[tuple[bytes, ...], RewriteResult] = {}
    metrics = CompactionMetrics()
    is_committing = False

    def attempt(current: Snapshot) -> Manifest:
        nonlocal metrics, is_committing
        is_committing = False
        tasks = plan(current, options).tasks
        results = _execute_all(current, tasks, done, options.num_threads, sync)
        metrics = sum((result.metrics for result in results), CompactionMetrics())
        if not results:
            return current.manifest
        is_committing = True
        manifest = commit(
            current,
            results,
            defer_index_remap=options.defer_index_remap,
            transaction_id=transaction_id,
            sync=sync,
        ).manifest
        committed = {file.path for fragment in manifest.message.fragments for file in fragment.files}
        for key, result in list(done.items()):
            if any(file.path in committed for fragment in result.new for file in fragment.files):
                del done[key]
        return manifest

    try:
        made = with_retries(snapshot, attempt, "rewrite", transaction_id=transaction_id)
    except CommitUnknownError:
        raise
    except BaseException as error:
        # After an interrupt during the commit, the version may exist: its files are kept.
        if isinstance(error, LanceError) or not is_committing:
            discard(snapshot.storage, done.values())
        raise
    discard(snapshot.storage, done.values())
    report = CoverageReport()
    if metrics.fragments_removed:
        report = coverage_report(made.storage, made.manifest)
    return made, metrics.with_coverage(report.index_coverage, report.lost_coverage)


def _execute_all(
    snapshot: Snapshot,
    tasks: list[CompactionTask],
    done: dict[tuple[bytes, ...], RewriteResult],
    num_threads: int | None,
    sync: bool,
) -> list[RewriteResult]:
    """Return the results of all tasks. Tasks with a result in `done` are not executed again."""
    with ThreadPoolExecutor(max_workers=num_threads or 1) as pool:
        futures = {
            _key(task): pool.submit(execute, snapshot, task, sync=sync)
            for task in tasks
            if _key(task) not in done
        }
        try:
            for key, future in futures.items():
                done[key] = future.result()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            for key, future in futures.items():
                if not future.cancelled() and future.exception() is None:
                    done[key] = future.result()
            raise
    # A task that was planned again has the same fragments, so its older result is still right.
    return [replace(done[_key(task)], read_version=task.read_version) for task in tasks]


def _key(task: CompactionTask) -> tuple[bytes, ...]:
    """Return a key that is equal for tasks with the same fragments."""
    return tuple(message.SerializeToString(deterministic=True) for message in task.messages)
