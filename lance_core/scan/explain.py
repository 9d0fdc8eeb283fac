"""Explanation of a scan: the number of pages per fragment and column, and how many of them are pruned.

As text, the steps have the names that the plans of the reference give them, where both have the same step.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lance_core.process.counters import PLANNED_PAGES, PRUNED_PAGES
from lance_core.scan.files.data_files import DataFiles
from lance_core.scan.plan.indices import IndexUse
from lance_core.scan.plan.options import ColumnOrdering, ScanOptions
from lance_core.scan.plan.ordering import project_order
from lance_core.scan.plan.projection import ROW_COLUMNS, Projection, project, project_filtered
from lance_core.scan.plan.pruning import CandidateRange, Kept, Pruner
from lance_core.scan.plan.scan_plan import FragmentScan, ScanPlan
from lance_core.scan.plan.search_projection import divided_filter
from lance_core.scan.read.columns import Column
from lance_core.scan.read.fragments import FragmentOpener
from lance_core.scan.read.page_trace import Trace
from lance_core.scan.rows import plan_batches
from lance_core.scan.run.budget import MemoryBudget
from lance_core.scan.run.execute import count_matching
from lance_core.scan.run.filtering.index_masks import count_found, index_masks
from lance_core.scan.run.strategy import Strategy
from lance_core.schema import Schema
from lance_core.table.snapshot import Snapshot

if TYPE_CHECKING:
    from lance_core.scan.nearest.search import NearestUse
    from lance_core.scan.plan.fusion import Fusion


@dataclass(frozen=True)
class ColumnPages:
    """The pages of one column of one fragment with rows of the plan.

    Attributes:
        use: One or more of "filter", "order" and "output", with commas between them.
        planned: Pages that may have a matching row. Of columns that only the output needs, a scan reads the
            pages with matching rows.
        pruned: The other pages.
        read: Pages that were read; None unless the scan was run.
    """

    name: str
    use: str
    total: int
    planned: int
    pruned: int
    read: int | None


@dataclass(frozen=True)
class FragmentPages:
    """One fragment of a plan.

    Attributes:
        rows: Live rows of the plan.
        rows_planned: Physical rows that may match according to indices and statistics.
        statistics: Origin of the statistics: "file", "cache" or "none".
    """

    fragment: int
    rows: int
    rows_planned: int
    statistics: str
    columns: tuple[ColumnPages, ...]


@dataclass(frozen=True)
class Explanation:
    """A plan and the facts about it that are known before it runs.

    Attributes:
        filter: Whether rows are filtered.
        rows_returned: Rows of the result; None if that is known only after a run.
        fragments: The fragments that are read.
        indices: The indices that answer parts of the filter.
        fragments_counted: Number of fragments whose rows indices count, so that nothing of them is read.
        rows_counted: Number of matching rows of these fragments.
        nearest: The ways in which a search finds the nearest rows; None for other scans.
        text_query: The full text query of a search, in its JSON form; None for other scans.
        fusion: The way in which the rows of both searches are joined; None without both.
        search_filter: The search that is a filter of the other one: "vector" or "text"; None without one.
        is_search_filtered_later: Whether this filter applies to the rows that the other search found.
        is_filtered_later: Whether the caller's filter applies to the rows that a search found, and so prunes
            none.
    """

    columns: tuple[str, ...]
    filter: bool
    limit: int | None
    offset: int | None
    rows_returned: int | None
    fragments: tuple[FragmentPages, ...]
    indices: tuple[IndexUse, ...] = ()
    fragments_counted: int = 0
    rows_counted: int = 0
    nearest: NearestUse | None = None
    text_query: Mapping[str, Any] | None = None
    fusion: Fusion | None = None
    search_filter: str | None = None
    is_search_filtered_later: bool = False
    is_filtered_later: bool = False

    @property
    def statistics(self) -> str:
        """Return the origin of statistics: "file" or "cache" if any fragment has them from there, else
        "none".
        """
        return _source({fragment.statistics for fragment in self.fragments})

    @property
    def pages_total(self) -> int:
        return sum(column.total for fragment in self.fragments for column in fragment.columns)

    @property
    def pages_pruned(self) -> int:
        return sum(column.pruned for fragment in self.fragments for column in fragment.columns)

    def as_data(self) -> dict[str, Any]:
        """Return the explanation as plain values, totals included."""
        totals = {
            "statistics": self.statistics,
            "pages_total": self.pages_total,
            "pages_pruned": self.pages_pruned,
        }
        return asdict(self) | totals


def explain(
    snapshot: Snapshot, plan: ScanPlan, files: DataFiles, budget: MemoryBudget, *, analyze: bool = False
) -> Explanation:
    """Explain what a plan reads; with `analyze` run it, and add the pages that were read.

    Raises:
        LanceError: a file cannot be opened or, with `analyze`, not be read.
    """
    schema, options = snapshot.manifest.schema, plan.options
    before, after = divided_filter(options)
    is_count = not (plan.schema.names or options.order_by)
    masks = index_masks(snapshot, options, files, counts=is_count)
    pruner = None
    if before is not None:
        pruner = Pruner(snapshot, before, files, masks=masks, only_indexed=options.fast_search)
    projection, uses = _read_columns(schema, options)
    trace, returned = None, None
    if analyze:
        trace = Trace()
        with closing(plan_batches(snapshot, plan, budget, files, Strategy(trace=trace))) as batches:
            returned = sum(batch.num_rows for batch in batches)
    elif options.filter is None and not options.is_search:
        returned = count_matching(snapshot, plan, budget, files)
    rows_counted, read = (
        count_found(snapshot, plan, masks, files) if is_count and masks is not None else (0, plan)
    )
    opener = FragmentOpener(snapshot, projection, files, deleted=options.include_deleted_rows)
    fragments = []
    for scan in read.fragment_scans:
        everything = CandidateRange(0, opener.fragment(scan).physical_rows, ())
        kept = Kept((everything,)) if pruner is None else pruner.keep(opener.fragment(scan))
        fragments.append(_fragment(scan, opener, projection, kept, uses, trace))
    nearest = None
    if options.nearest is not None:
        from lance_core.scan.nearest.search import nearest_use  # late: most scans search nothing

        nearest = nearest_use(snapshot, plan, files)
    text_query = None
    if options.text_query is not None:
        from lance_core.index.text.query import query_json  # late, as above

        text_query = query_json(options.text_query)
    return Explanation(
        columns=tuple(plan.schema.names),
        filter=options.filter is not None,
        limit=options.limit,
        offset=options.offset,
        rows_returned=returned,
        fragments=tuple(fragments),
        indices=() if masks is None else masks.uses,
        fragments_counted=len(plan.fragment_scans) - len(read.fragment_scans),
        rows_counted=rows_counted,
        nearest=nearest,
        text_query=text_query,
        fusion=options.fusion,
        search_filter=options.search_filter,
        is_search_filtered_later=options.search_filter is not None and not options.prefilter,
        is_filtered_later=after is not None,
    )


def _read_columns(schema: Schema, options: ScanOptions) -> tuple[Projection, list[str]]:
    """Return the columns that a scan reads, and what each of them is read for: "filter, output", say."""
    output = project(schema, options)
    projection, filter_columns = output, frozenset[int]()
    if options.filter is not None:
        projection = filtered = project_filtered(schema, options, options.filter)
        filter_columns = frozenset(filtered.inputs.values())
    order = project_order(schema, options.order_by).columns
    columns = [*projection.columns, *(column for column in order if column not in projection.columns)]
    uses = [
        ", ".join(
            ["filter"] * (number in filter_columns)
            + ["order"] * (column in order)
            + ["output"] * (number < len(output.columns))
        )
        for number, column in enumerate(columns)
    ]
    return replace(projection, columns=tuple(columns)), uses


@dataclass(frozen=True)
class FileReads:
    """Number of reads of files by a process while a scan ran, and their bytes."""

    num_reads: int
    num_bytes: int


def explain_text(
    explanation: Explanation,
    *,
    verbose: bool,
    order_by: Sequence[ColumnOrdering] = (),
    reads: FileReads | None = None,
) -> str:
    """Return an explanation as text.

    Args:
        explanation: The explanation.
        verbose: Add a line for each fragment, and below it one for each of its columns.
        order_by: The columns that the rows are sorted by.
        reads: What was read from files, if the scan was run.
    """
    fragments, counted = explanation.fragments, explanation.fragments_counted
    lines = [f"CountFromMask: fragments={counted}, rows={explanation.rows_counted}"] if counted else []
    if fragments or not counted:
        lines.append(_read_text(explanation, reads))
    if (nearest := explanation.nearest) is not None:
        if nearest.fragments_indexed:
            metric = _INDEX_METRICS.get(nearest.metric, nearest.metric)
            lines.append(
                f"  ANNSubIndex: name={nearest.index}, metric={metric}, k={nearest.k}, "
                f"fragments={nearest.fragments_indexed}{_index_arguments(nearest)}"
            )
        if nearest.fragments_compared:
            lines.append(
                f"  KNNVectorDistance: metric={nearest.metric}, k={nearest.k}, "
                f"fragments={nearest.fragments_compared}"
            )
    if explanation.text_query is not None:
        lines.append(f"  TextQuery: query={json.dumps(explanation.text_query)}")
    if (fusion := explanation.fusion) is not None:
        lines.append(f"  Fusion: method={fusion.method}, k={fusion.k}, depth={fusion.depth}")
    if explanation.search_filter is not None:
        when = "after" if explanation.is_search_filtered_later else "before"
        lines.append(f"  SearchFilter: search={explanation.search_filter}, applied={when} the search")
    if explanation.is_filtered_later:
        lines.append("  Filter: applied=after the search")
    elif explanation.filter and fragments:
        pruned = sum(not fragment.rows_planned for fragment in fragments)
        lines.append(
            f"  Filter: statistics={explanation.statistics}, fragments pruned={pruned}, "
            f"pages pruned={explanation.pages_pruned} of {explanation.pages_total}"
        )
    for use in explanation.indices:
        lines.append(
            f"  ScalarIndexQuery: query=[{use.query}]@{use.index}, kind={use.kind}, rows={use.rows}, "
            f"exact={'yes' if use.is_exact else 'no'}, fragments={use.fragments}"
        )
    if order_by:
        lines.append(f"  Order: {', '.join(map(_order_text, order_by))}")
    for fragment in fragments if verbose else ():
        lines.append(
            f"  Fragment {fragment.fragment}: rows={fragment.rows}, planned={fragment.rows_planned}, "
            f"statistics={fragment.statistics}"
        )
        for column in fragment.columns:
            read = "" if column.read is None else f", read={column.read}"
            lines.append(
                f"    {column.name} ({column.use}): pages={column.total}, planned={column.planned}, "
                f"pruned={column.pruned}{read}"
            )
    if explanation.rows_returned is not None:
        lines.append(f"  Rows: {explanation.rows_returned}")
    return "\n".join(lines) + "\n"


_INDEX_METRICS = {"l2": "L2", "cosine": "Cosine", "dot": "Dot", "hamming": "Hamming"}
"""Metrics as the plans of the reference spell those of an index. Exact searches spell them in lower case."""


def _index_arguments(nearest: NearestUse) -> str:
    """Return the arguments of the search of an index that the caller gave, as the reference spells them."""
    given: dict[str, object] = {}
    if (least := nearest.minimum_probes) is not None:
        given |= {"minimum_nprobes": least, "maximum_nprobes": "None"}
    if (most := nearest.maximum_probes) is not None:
        given["maximum_nprobes"] = f"Some({most})"
    given |= {
        "search_effort": nearest.search_effort,
        "refine_factor": nearest.refine_factor,
        "ef": nearest.candidates,
    }
    return "".join(f", {name}={value}" for name, value in given.items() if value is not None)


def _read_text(explanation: Explanation, reads: FileReads | None) -> str:
    """Return the line about what is read. A run adds rows, bytes, reads of files, and pages (`requests`)."""
    fragments = explanation.fragments
    columns = [
        column for fragment in fragments for column in fragment.columns if column.name not in ROW_COLUMNS
    ]
    facts: dict[str, object] = {
        "columns": _names(explanation.columns),
        "projection": _names(dict.fromkeys(column.name for column in columns)),
        "fragments": len(fragments),
    }
    if explanation.limit is not None or explanation.offset is not None:
        facts |= {"limit": explanation.limit, "offset": explanation.offset}
    if reads is not None:
        facts |= {
            "output_rows": explanation.rows_returned,
            "rows_scanned": sum(fragment.rows_planned for fragment in fragments),
            "bytes_read": reads.num_bytes,
            "iops": reads.num_reads,
            "requests": sum(column.read or 0 for column in columns),
        }
    return "LanceRead: " + ", ".join(f"{name}={value}" for name, value in facts.items())


def _names(names: Iterable[str]) -> str:
    return f"[{', '.join(names)}]"


def _order_text(ordering: ColumnOrdering) -> str:
    way = "ascending" if ordering.ascending else "descending"
    return f"{ordering.column_name} {way}, nulls {'first' if ordering.nulls_first else 'last'}"


@dataclass(frozen=True)
class PrunedPlan:
    """A plan without the fragments in which no row matches.

    Attributes:
        statistics: Origin of the statistics: "file", "cache" or "none".
        pages_total: Pages of the columns that the filter names; None without statistics.
        pages_pruned: Number of these pages that are not read.
    """

    plan: ScanPlan
    statistics: str = "none"
    pages_total: int | None = None
    pages_pruned: int = 0


def prune_plan(snapshot: Snapshot, plan: ScanPlan, files: DataFiles) -> PrunedPlan:
    """Leave out the fragments in which no row matches the filter of a plan. This reads no data page.

    Raises:
        LanceError: a file cannot be opened, or its statistics contradict the format.
    """
    condition, _ = divided_filter(plan.options)
    if condition is None:
        return PrunedPlan(plan)
    masks = index_masks(snapshot, replace(plan.options, filter=condition), files)
    only_indexed = plan.options.fast_search and plan.options.nearest is None
    pruner = Pruner(snapshot, condition, files, masks=masks, only_indexed=only_indexed)
    options = replace(plan.options, columns=(), computed=None, with_row_id=False, with_row_address=False)
    projection = project_filtered(snapshot.manifest.schema, options, condition)
    opener = FragmentOpener(snapshot, projection, files, deleted=plan.options.include_deleted_rows)
    fragments = [opener.fragment(scan) for scan in plan.fragment_scans]
    found = list(zip(plan.fragment_scans, pruner.keep_all(fragments, opener.is_remote), strict=True))
    sources = {kept.source for _, kept in found}
    left = plan.with_fragment_scans(scan for scan, kept in found if kept.candidates)
    if not sources - {"none"}:
        return PrunedPlan(left)
    uses = ["filter"] * len(projection.columns)
    pages = [
        column
        for scan, kept in found
        for column in _fragment(scan, opener, projection, kept, uses, None).columns
    ]
    total, pruned = sum(column.total for column in pages), sum(column.pruned for column in pages)
    PLANNED_PAGES.add(amount=total)
    PRUNED_PAGES.add(amount=pruned)
    return PrunedPlan(left, _source(sources), total, pruned)


def _source(sources: Collection[str]) -> str:
    """Return the origin of statistics of several fragments: "file", "cache" or "none"."""
    return next((source for source in ("file", "cache") if source in sources), "none")


def _fragment(
    scan: FragmentScan,
    opener: FragmentOpener,
    projection: Projection,
    kept: Kept,
    uses: Sequence[str],
    trace: Trace | None,
) -> FragmentPages:
    reader = opener.open(scan)
    candidates = kept.between(reader.start, reader.end)
    columns = []
    for column, read, use in zip(projection.columns, reader.columns, uses, strict=True):
        total, planned = _count_pages(read, reader.start, reader.end, candidates)
        name = column.output.name
        pages_read = None if trace is None else trace.pages_read(scan.fragment_id, name)
        columns.append(ColumnPages(name, use, total, planned, total - planned, pages_read))
    planned_rows = sum(candidate.num_rows for candidate in candidates)
    return FragmentPages(scan.fragment_id, scan.end - scan.start, planned_rows, kept.source, tuple(columns))


def _count_pages(
    column: Column, start: int, end: int, candidates: Sequence[CandidateRange]
) -> tuple[int, int]:
    """Return the number of pages with rows of `[start, end)`, and of those with rows of the candidates."""
    edges = np.asarray(column.page_rows)
    begins, ends = edges[:-1], edges[1:]
    total = int(np.count_nonzero((begins < end) & (ends > start) & (begins < ends)))
    planned = np.zeros(len(begins), dtype=bool)
    for candidate in candidates:
        if candidate.rows is None:
            planned |= (begins < candidate.end) & (ends > candidate.start)
        else:
            planned |= np.diff(np.searchsorted(candidate.rows, edges)) > 0
    return total, int(np.count_nonzero(planned & (begins < ends)))
