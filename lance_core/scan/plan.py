"""What a scan will read, as plain data: fragments and live row ranges. Reads no data pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from lance_core.errors import InvalidInputError
from lance_core.scan.options import ScanOptions
from lance_core.scan.projection import project
from lance_core.table.fragment import Fragment
from lance_core.table.snapshot import Snapshot


@dataclass(frozen=True)
class FragmentScan:
    """One unit of work: the rows `[start, end)` of one fragment, deleted rows not counted."""

    fragment_id: int
    start: int
    end: int


@dataclass(frozen=True)
class ScanPlan:
    """A planned scan.

    Attributes:
        options: What was asked; together with the tasks it determines the batches.
        schema: Schema of the batches.
        tasks: In the order of the rows of the scan; none is empty. With a filter they hold the rows that
            it is asked of, and limit and offset are left to the executor.
        num_rows: Rows of all tasks.
    """

    options: ScanOptions
    schema: pa.Schema
    tasks: tuple[FragmentScan, ...]
    num_rows: int

    def with_tasks(self, tasks: Iterable[FragmentScan]) -> ScanPlan:
        """The same scan cut down to some of its tasks, or to parts of them."""
        chosen = tuple(tasks)
        return replace(self, tasks=chosen, num_rows=sum(task.end - task.start for task in chosen))


def plan_scan(snapshot: Snapshot, options: ScanOptions) -> ScanPlan:
    """Plan a scan of one table version.

    Raises:
        InvalidInputError: a column or fragment does not exist; names it.
        UnsupportedFeatureError: a column cannot be read; names it.
    """
    schema = project(snapshot.manifest.schema, options).schema
    skip, left = (options.offset or 0, options.limit) if options.filter is None else (0, None)
    tasks = []
    for fragment in _chosen(snapshot, options):
        if left == 0:
            break
        rows = fragment.num_rows
        start = min(skip, rows)
        skip -= start
        end = rows if left is None else min(rows, start + left)
        if left is not None:
            left -= end - start
        if end > start:
            tasks.append(FragmentScan(fragment.id, start, end))
    return ScanPlan(options, schema, (), 0).with_tasks(tasks)


def _chosen(snapshot: Snapshot, options: ScanOptions) -> Iterator[Fragment]:
    fragments = snapshot.manifest.fragments
    if options.fragments is None:
        yield from fragments
        return
    by_id = {fragment.id: fragment for fragment in fragments}
    for fragment_id in options.fragments:
        if fragment_id not in by_id:
            raise InvalidInputError(
                f"fragment {fragment_id} does not exist in version {snapshot.manifest.version}"
            )
        yield by_id[fragment_id]
