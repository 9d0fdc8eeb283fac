"""Plan of a scan, as plain data: fragments and live row ranges. Planning reads no data pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pyarrow as pa

from lance_core.errors import InvalidInputError
from lance_core.process.derived import Derived
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.ordering import project_order
from lance_core.scan.plan.projection import ROW_ID, Projection, project
from lance_core.schema import Schema
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import Snapshot

FEW_ROWS = 256
"""Most rows of a plan that are taken one by one instead of scanned."""

LEAST_JOINED_FRAGMENTS = 5
"""Least fragments of few rows, one behind the other, that are read together."""


class FragmentScan(NamedTuple):
    """Entry of a plan: the rows `[start, end)` of one fragment, counted in live rows."""

    fragment_id: int
    start: int
    end: int


@dataclass(frozen=True)
class ScanPlan:
    """A planned scan.

    Attributes:
        options: Options of the scan. Options and fragment scans determine the batches.
        schema: Schema of the batches.
        fragment_scans: In the order of the rows of the scan; none is empty. With a filter or
            an order, they have the rows that are filtered or sorted, and the execution applies limit and
            offset.
        num_rows: Rows of all fragment scans. With a search, these are the rows that are searched.
        projected: The projection that planning found, with the options that it is of.
    """

    options: ScanOptions
    schema: pa.Schema
    fragment_scans: tuple[FragmentScan, ...]
    num_rows: int
    projected: tuple[ScanOptions, Projection] | None = field(default=None, compare=False, repr=False)

    def projection(self, schema: Schema) -> Projection:
        """Return what `options` choose of the columns of a table; errors are those of `project`."""
        if self.projected is not None and self.projected[0] is self.options:
            return self.projected[1]
        return project(schema, self.options)

    def with_fragment_scans(self, scans: Iterable[FragmentScan]) -> ScanPlan:
        """Return the plan restricted to some of its fragment scans, or to rows of them."""
        chosen = tuple(scans)
        num_rows = sum([scan.end - scan.start for scan in chosen])
        return ScanPlan(self.options, self.schema, chosen, num_rows, self.projected)


def plan_scan(snapshot: Snapshot, options: ScanOptions) -> ScanPlan:
    """Plan a scan of one table version.

    Raises:
        InvalidInputError: a column or fragment does not exist, or rows cannot be ordered by a column; the
            message names it.
        UnsupportedFeatureError: a column cannot be read; the message names it.
    """
    projected = None if options.is_search else (options, project(snapshot.manifest.schema, options))
    schema = projected[1].schema if projected else result_schema(snapshot.manifest.schema, options)
    if options.include_deleted_rows and ROW_ID not in schema.names:
        raise InvalidInputError("include_deleted_rows needs row ids, but with_row_id is false")
    if options.order_by and not options.is_search:
        project_order(snapshot.manifest.schema, options.order_by)
        if not schema.names:  # rows without columns are all the same
            options = replace(options, order_by=())
    is_cut_later = options.is_search or options.filter is not None or bool(options.order_by)
    skip, left = (0, None) if is_cut_later else (options.offset or 0, options.limit)
    if not (skip or options.include_deleted_rows) and (left, options.fragments) == (None, None):
        whole = whole_table(snapshot.manifest)
        return ScanPlan(options, schema, whole.scans, whole.num_rows, projected)
    rows = _rows_of_fragments(snapshot, options)
    if skip or left is not None:
        scans = [scan for scan in _cut(rows, skip, left) if scan.end > scan.start]
    else:
        scans = [FragmentScan(fragment_id, 0, count) for fragment_id, count in rows if count]
    num_rows = sum([scan.end - scan.start for scan in scans])
    return ScanPlan(options, schema, tuple(scans), num_rows, projected)


@dataclass(frozen=True)
class WholeTable:
    """The fragment scans of all live rows of a version.

    Attributes:
        scans: One for each fragment that has live rows.
        num_rows: Number of all live rows.
        fragment_ids: Ids of these fragments.
    """

    scans: tuple[FragmentScan, ...]
    num_rows: int
    fragment_ids: frozenset[int]


def whole_table(manifest: Manifest) -> WholeTable:
    """Return the fragment scans of all live rows. They are made once for a manifest.

    Raises:
        LanceError: An error of `Manifest.fragment_rows`.
    """
    return _whole.of(manifest)


def _whole_table(manifest: Manifest) -> WholeTable:
    pairs = zip(manifest.fragment_ids, manifest.fragment_rows, strict=True)
    scans = tuple([FragmentScan(fragment_id, 0, count) for fragment_id, count in pairs if count])
    num_rows = sum([scan.end for scan in scans])
    return WholeTable(scans, num_rows, frozenset([scan.fragment_id for scan in scans]))


_whole: Derived[Manifest, WholeTable] = Derived(_whole_table)


def result_schema(schema: Schema, options: ScanOptions) -> pa.Schema:
    """Return the schema of the rows of a scan, with or without a search; errors are those of `project`."""
    if not options.is_search:
        return project(schema, options).schema
    from lance_core.scan.plan.search_projection import project_search  # late: most scans search nothing

    return project_search(schema, options).schema


def _cut(rows: Iterable[tuple[int, int]], skip: int, left: int | None) -> Iterator[FragmentScan]:
    """Yield what an offset and a limit leave of fragments, given as pairs of id and number of live rows."""
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
    """Return the id and the number of rows of each fragment of the scan: live rows, or all stored rows."""
    manifest = snapshot.manifest
    if options.fragments is None and not options.include_deleted_rows:
        return zip(manifest.fragment_ids, manifest.fragment_rows, strict=True)
    by_id = manifest.fragment_by_id
    ids = manifest.fragment_ids if options.fragments is None else options.fragments
    for fragment_id in ids:
        if fragment_id not in by_id:
            raise InvalidInputError(f"fragment {fragment_id} does not exist in version {manifest.version}")
    if options.include_deleted_rows:
        return [(fragment_id, by_id[fragment_id].physical_rows) for fragment_id in ids]
    return [(fragment_id, by_id[fragment_id].num_rows) for fragment_id in ids]
