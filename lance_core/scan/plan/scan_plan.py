"""Plan of a scan, as plain data: fragments and live row ranges. Planning reads no data pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa

from lance_core.errors import InvalidInputError
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.projection import project
from lance_core.table.snapshot import Snapshot


class FragmentScan(NamedTuple):
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
        """Return the scan restricted to some of its tasks, or to parts of them."""
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
    rows = _rows_of_fragments(snapshot, options)
    if skip or left is not None:
        tasks = [task for task in _cut(rows, skip, left) if task.end > task.start]
    else:
        tasks = [FragmentScan(fragment_id, 0, count) for fragment_id, count in rows if count]
    return ScanPlan(options, schema, (), 0).with_tasks(tasks)


def _cut(rows: Iterable[tuple[int, int]], skip: int, left: int | None) -> Iterator[FragmentScan]:
    """Yield the rows that an offset and a limit leave of fragments with so many rows."""
    for fragment_id, count in rows:
        if left == 0:
            return
        start = min(skip, count)
        skip -= start
        end = count if left is None else min(count, start + left)
        if left is not None:
            left -= end - start
        yield FragmentScan(fragment_id, start, end)


def _rows_of_fragments(snapshot: Snapshot, options: ScanOptions) -> Iterable[tuple[int, int]]:
    """Return the number of each fragment of the scan, and how many rows it has."""
    manifest = snapshot.manifest
    if options.fragments is None:
        return zip(manifest.fragment_ids, manifest.fragment_rows, strict=True)
    by_id = manifest.fragment_by_id
    for fragment_id in options.fragments:
        if fragment_id not in by_id:
            raise InvalidInputError(f"fragment {fragment_id} does not exist in version {manifest.version}")
    return [(fragment_id, by_id[fragment_id].num_rows) for fragment_id in options.fragments]
