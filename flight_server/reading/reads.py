"""Plans and streams: what clients ask to read, from one version each. Free of Flight types."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from flight_server.catalog.local import Catalog
from flight_server.catalog.views import View
from flight_server.peers.rendezvous import Affinity
from flight_server.reading.differences import difference_commands
from flight_server.reading.endpoints import affinities, affinity_of_keys, split_for_servers, split_scans
from flight_server.reading.fresh_rows import check_fresh, fresh_runs
from flight_server.reading.lookups import Lookup
from flight_server.reading.scan_options import bind_condition, plan_of, plan_view, scan_options
from flight_server.reading.searches import Searches
from flight_server.reading.ticket_lifetime import Tickets
from flight_server.requests.commands import (
    AggregateCommand,
    BlobsCommand,
    Columns,
    CountCommand,
    ExchangeCommand,
    LookupCommand,
    ReadCommand,
    RepeatedSearch,
    RowKeys,
    ScanCommand,
    TakeCommand,
    parse_command,
)
from flight_server.requests.names import DatasetReference
from flight_server.requests.tickets import Ticket, is_ticket
from lance_core.api.serving import (
    ROW_ADDRESS,
    ROW_ID,
    ROW_OFFSET,
    Aggregation,
    BlobStream,
    Explanation,
    FragmentScan,
    NearestQuery,
    PrunedPlan,
    ScanOptions,
    ScanPlan,
    Snapshot,
    TakeReads,
    aggregate_plan,
    bind_aggregation,
    bind_columns,
    count_plan,
    explain_plan,
    guarded,
    has_dictionaries,
    plan_aggregation,
    plan_scan,
    project,
    prune_plan,
    result_schema,
    stream_plan,
)
from lance_core.api.serving import BatchRun as BatchRun  # the batches of a `ScanStream`
from lance_core.errors import InvalidInputError

Asked: TypeAlias = ReadCommand | Ticket

_SHORT_SEARCH_ROWS = 100_000
"""Most rows that a short search compares without an index."""
_FEW_ROWS = 1000
"""Most rows of a scan that counts as a lookup."""
_KEY_COLUMNS = {"offsets": ROW_OFFSET, "row_ids": ROW_ID, "row_addresses": ROW_ADDRESS}


@dataclass(frozen=True)
class PlannedScan:
    """Planned scan: the tickets of its endpoints in dataset order."""

    schema: pa.Schema
    tickets: tuple[bytes, ...]
    affinities: tuple[Affinity, ...]
    """One per ticket."""
    expires: int
    """Seconds since the epoch at which the tickets expire."""
    num_rows: int
    """-1 if the number is unknown until a filter is evaluated."""
    ordered: bool
    dataset: str
    version: int
    num_fragments: int
    """-1 if the caller may not know the number."""
    num_fragments_pruned: int
    num_pages: int | None = None
    """Pages of the columns that the filter names; None if no statistics are known."""
    num_pages_pruned: int = 0
    statistics: str = "none"


@dataclass(frozen=True)
class PlannedDifferences:
    """Planned scans of the rows that differ between two versions."""

    inserted: PlannedScan
    updated: PlannedScan
    deleted: tuple[PlannedScan, ...]


@dataclass(frozen=True)
class ScanStream:
    """Batches of one endpoint or of a whole scan; nothing is read before the first one is requested."""

    schema: pa.Schema
    runs: Generator[BatchRun, None, None]
    """Runs of batches. Closing the iterator stops the decoding."""
    has_dictionaries: bool
    """Whether a type of the schema, or a type below it, is a dictionary."""
    compression: str = "none"
    is_lookup: bool = False
    """Whether these are rows of keys, or few rows that no filter has to be evaluated for."""
    is_brief: bool = False
    """Whether the rows are found in milliseconds and all at once: those of a lookup or of a short search."""


class Reads:
    """Reads of the datasets of one catalog. Thread-safe.

    Every read is of a view: what the caller of the catalog may read.
    """

    def __init__(
        self, catalog: Catalog, tickets: Tickets, max_answer_bytes: int, max_search_rows: int
    ) -> None:
        """Answer one batch of keys of a lookup with at most `max_answer_bytes` of rows, and refuse searches
        that gather more than `max_search_rows`.
        """
        self._catalog = catalog
        self._tickets = tickets
        self._max_answer_bytes = max_answer_bytes
        self._max_search_rows = max_search_rows

    def plan(self, command: ReadCommand, *, num_servers: int = 1) -> PlannedScan:
        """Plan a command, on the version that it names or on the latest one.

        Fragments that are large for a share of `num_servers` are split, unless the command says how.
        """
        pinned = self._catalog.pin(command.dataset)
        view = self._catalog.view(pinned)
        if isinstance(command, TakeCommand):
            return self._plan_take(command, pinned, view)
        if isinstance(command, BlobsCommand):
            return self._plan_blobs(command, pinned, view)
        if isinstance(command, AggregateCommand):
            return self._plan_aggregate(command, pinned, view)
        return self._plan_scan(command, pinned, view, num_servers)

    def _plan_scan(
        self, command: ScanCommand, pinned: DatasetReference, view: View, num_servers: int
    ) -> PlannedScan:
        """Plan a scan or a search: prune the plan, divide it into endpoints, and write a ticket for each."""
        pruned = _pruned(view, plan_view(view, self._options(command, view)))
        plan = pruned.plan
        is_one_stream = _is_one_stream(command, plan.options)
        endpoints = _endpoints(command, plan, view, num_servers, is_one_stream)
        ticket = replace(
            self._scan_ticket(command, pinned, view, plan.options),
            limit=command.limit if is_one_stream else None,
            offset=command.offset if is_one_stream else None,
        )
        tickets = [replace(ticket, fragment_scans=_told(view, scans)) for scans in endpoints]
        if plan.options.fusion is not None and len(endpoints) > 1:
            # Scores depend on all texts: one more endpoint, of all fragments, has the ranking by scores.
            everything = tuple(plan.fragment_scans)
            endpoints.append(everything)
            tickets = [replace(each, ranking="vector") for each in tickets]
            tickets.append(replace(ticket, fragment_scans=_told(view, everything), ranking="text"))
        manifest = view.snapshot.manifest
        return self._planned(
            view,
            plan.schema,
            tickets,
            affinities(
                pinned.name,
                endpoints,
                manifest.fragment_by_id,
                are_stable=command.rows_per_endpoint is not None,
            ),
            num_rows=_num_rows(view.snapshot, plan),
            ordered=is_one_stream or (command.ordered and not plan.options.is_search),
            num_fragments_pruned=len(manifest.fragments) - len(plan.fragment_scans),
            pruned=pruned,
        )

    def _scan_ticket(
        self, command: ScanCommand, pinned: DatasetReference, view: View, options: ScanOptions
    ) -> Ticket:
        """Return the ticket of a whole scan, without limit and offset."""
        return replace(
            self._ticket(pinned, view, command.columns),
            filter=command.filter,
            substrait_filter=command.substrait_filter,
            with_row_id=command.with_row_id,
            with_row_address=command.with_row_address,
            batch_rows=command.batch_rows,
            batch_bytes=command.batch_bytes,
            compression=command.compression,
            verify_checksums=command.verify_checksums,
            blob_handling=command.blob_handling,
            order_by=options.order_by,  # none for rows without columns
            nearest=command.nearest,
            full_text_query=command.full_text_query,
            hybrid=command.hybrid,
            search_filter=command.search_filter,
            prefilter=command.prefilter,
            index_segments=command.index_segments,
            fast_search=options.fast_search,
            use_scalar_index=command.use_scalar_index,
        )

    def differences(self, reference: DatasetReference, begin: int, end: int) -> PlannedDifferences:
        """Plan reads of the rows that were inserted, updated and deleted between two versions.

        Errors are those of `difference_commands`.
        """
        commands = difference_commands(reference, begin, end, self._catalog.view)
        return PlannedDifferences(
            self.plan(commands.inserted),
            self.plan(commands.updated),
            tuple(map(self.plan, commands.deleted)),
        )

    def schema(self, command: ReadCommand) -> pa.Schema:
        """Return the schema of the batches of a command."""
        view = self._catalog.view(command.dataset)
        if isinstance(command, TakeCommand):
            return _takes(view, command).schema
        if isinstance(command, BlobsCommand):
            return _blob_stream(view, command.column, command).schema
        if isinstance(command, AggregateCommand):
            return _aggregation(view, command.aggregates, command.group_by).schema
        return result_schema(view.schema, self._options(command, view))

    def redeem(self, ticket: bytes) -> Asked:
        """Return the ticket or the command in the bytes of a ticket. This opens no dataset."""
        return self._tickets.redeem(ticket) if is_ticket(ticket) else parse_command(ticket)

    def stream(self, asked: Asked, check: Callable[[], None] = lambda: None) -> ScanStream:
        """Return the batches that a ticket or command asks for.

        An aggregation, which has its first batch late, calls `check` meanwhile, which raises to end it.
        """
        if isinstance(asked, Ticket):
            view = self._pinned(asked)
            if asked.aggregates is not None:
                return self._aggregate(view, asked.aggregates, asked, check)
            if asked.keys is not None and asked.column is not None:
                return self._blobs(view, asked.column, asked.keys, asked)
            if asked.keys is not None:
                return self._take(view, asked.keys, asked)
            plan = plan_of(asked, view)
            self._check_search(plan.options.nearest)
            return self._stream(view, plan, asked.compression)
        view = self._catalog.view(asked.dataset)
        if isinstance(asked, TakeCommand):
            return self._take(view, asked.keys, asked)
        if isinstance(asked, BlobsCommand):
            return self._blobs(view, asked.column, asked.keys, asked)
        if isinstance(asked, AggregateCommand):
            return self._aggregate(view, asked.aggregates, asked, check)
        return self._stream(view, plan_view(view, self._options(asked, view)), asked.compression)

    def renew(self, ticket: bytes) -> tuple[bytes, int]:
        """Return a ticket for the same rows that expires later, and when: seconds since the epoch."""
        redeemed = self._tickets.redeem(ticket)
        self._pinned(redeemed)
        return self._tickets.renew(redeemed)

    def cancel(self, tickets: Sequence[bytes]) -> bool:
        """Cancel tickets; see `Tickets.cancel`. Their running streams go on."""
        return self._tickets.cancel(tickets)

    def exchange(self, command: ExchangeCommand, asked: pa.Schema) -> Lookup | Searches:
        """Return what answers batches of the schema `asked`, keys or queries, from one version."""
        view = self._catalog.view(command.dataset)
        if isinstance(command, RepeatedSearch):
            return Searches(view, command, asked, self._check_gathered, self._max_answer_bytes)
        reads = _takes(view, command)
        return Lookup(reads, asked, self._max_answer_bytes, is_fresh=view.hides_rows)

    def count(self, command: CountCommand) -> int:
        """Return the number of matching rows."""
        view = self._catalog.view(command.dataset)
        condition, guards = bind_condition(command, view)
        options = ScanOptions(columns=(), filter=condition, guards=guards)
        return count_plan(view.snapshot, plan_view(view, options))

    def explain(self, command: ScanCommand, *, analyze: bool) -> Explanation:
        """Return the pages that a scan reads of each fragment and column; with `analyze` the scan is run.

        Raises:
            DatasetNotFoundError: rows are hidden from the caller. The pages would tell about them.
        """
        view = self._catalog.view(command.dataset)
        if view.hides_rows:
            raise self._catalog.missing(command.dataset.name, " as a whole")
        return explain_plan(view.snapshot, plan_view(view, self._options(command, view)), analyze=analyze)

    def _options(self, command: ScanCommand, view: View) -> ScanOptions:
        """Return the options of a command; errors are those of `scan_options` and `_check_search`."""
        options = scan_options(command, view)
        self._check_search(options.nearest)
        return options

    def _check_search(self, nearest: NearestQuery | None) -> None:
        """Refuse a search of vectors that would gather too many rows; see `_check_gathered`."""
        if nearest is not None:
            self._check_gathered(nearest.most_gathered)

    def _check_gathered(self, num_rows: int) -> None:
        """Refuse to gather too many rows of a search of vectors in memory.

        Raises:
            InvalidInputError: The rows for all queries are more than the setting allows.
        """
        if num_rows > self._max_search_rows:
            raise InvalidInputError(
                "nearest: k times refine_factor times the number of queries is too large for this server",
                expected=f"at most {self._max_search_rows} (setting max_search_rows)",
                found=num_rows,
            )

    def _plan_take(self, command: TakeCommand, pinned: DatasetReference, view: View) -> PlannedScan:
        """Plan a take as one endpoint, whose ticket holds the keys."""
        ticket = self._ticket(pinned, view, command.columns)
        return self._planned(
            view,
            _takes(view, command).schema,
            [replace(ticket, keys=command.keys, blob_handling=command.blob_handling)],
            [affinity_of_keys(pinned.name, command.keys)],
            # Only offsets are sure to be rows; ids and addresses may be of rows that were deleted.
            num_rows=len(command.keys.values) if command.keys.kind == "offsets" else -1,
        )

    def _plan_blobs(self, command: BlobsCommand, pinned: DatasetReference, view: View) -> PlannedScan:
        """Plan a stream of blobs as one endpoint, whose ticket holds the keys."""
        ticket = replace(
            self._ticket(pinned, view, None),
            column=command.column,
            keys=command.keys,
            ranges=command.ranges,
            with_size=command.with_size,
            with_row_address=command.with_row_address,
        )
        schema = _blob_stream(view, command.column, command).schema
        affinity = affinity_of_keys(pinned.name, command.keys)
        return self._planned(view, schema, [ticket], [affinity], num_rows=-1)

    def _plan_aggregate(self, command: AggregateCommand, pinned: DatasetReference, view: View) -> PlannedScan:
        """Plan an aggregation as one endpoint."""
        aggregation = _aggregation(view, command.aggregates, command.group_by)
        ticket = replace(
            self._ticket(pinned, view, None),
            filter=command.filter,
            substrait_filter=command.substrait_filter,
            aggregates=command.aggregates,
            group_by=command.group_by,
        )
        bind_condition(command, view, repeatable=True)  # refuses a filter that is none
        plan = plan_scan(view.snapshot, ScanOptions(columns=()))
        whole = affinities(
            pinned.name,
            [plan.fragment_scans],
            view.snapshot.manifest.fragment_by_id,
            are_stable=True,
        )
        num_rows = -1 if aggregation.keys else 1
        return self._planned(view, aggregation.schema, [ticket], whole, num_rows=num_rows)

    def _ticket(self, pinned: DatasetReference, view: View, columns: Columns) -> Ticket:
        """Return a ticket for columns of a view, without any rows. The caller adds the rows."""
        manifest = view.snapshot.manifest
        return Ticket(
            dataset=pinned.name,
            version=manifest.version,
            branch=pinned.branch,
            identity=manifest.identity,
            limits=view.limits,
            expires=self._tickets.expiry(),
            fragment_scans=(),
            columns=columns,
        )

    def _planned(
        self,
        view: View,
        schema: pa.Schema,
        tickets: Sequence[Ticket],
        affinities: Sequence[Affinity],
        *,
        num_rows: int,
        ordered: bool = True,
        num_fragments_pruned: int = 0,
        pruned: PrunedPlan | None = None,
    ) -> PlannedScan:
        manifest = view.snapshot.manifest
        if view.hides_rows:
            check_fresh(schema)
            pruned = None
        return PlannedScan(
            schema=schema,
            tickets=tuple(map(self._tickets.sign, tickets)),
            affinities=tuple(affinities),
            expires=tickets[0].expires,
            num_rows=num_rows,
            ordered=ordered,
            dataset=tickets[0].dataset,
            version=manifest.version,
            num_fragments=-1 if view.hides_rows else len(manifest.fragments),
            num_fragments_pruned=0 if view.hides_rows else num_fragments_pruned,
            num_pages=pruned.pages_total if pruned else None,
            num_pages_pruned=pruned.pages_pruned if pruned else 0,
            statistics=pruned.statistics if pruned else "none",
        )

    def _pinned(self, ticket: Ticket) -> View:
        """Return what a ticket is about.

        Raises:
            DatasetNotFoundError: the caller may not read the dataset any more, or another one has its name.
            InvalidInputError: the caller may read another part of the dataset than when the ticket was made.
        """
        view = self._catalog.view(
            DatasetReference(ticket.dataset, ticket.version, branch=ticket.branch, identity=ticket.identity)
        )
        if view.limits != ticket.limits:
            raise InvalidInputError("the rights to the dataset have changed; plan the scan again")
        return view

    def _stream(self, view: View, plan: ScanPlan, compression: str) -> ScanStream:
        options = plan.options
        is_lookup = options.filter is None and not options.order_by and plan.num_rows <= _FEW_ROWS
        runs = stream_plan(view.snapshot, plan)
        is_brief = is_lookup or (options.is_search and _is_short_search(view, plan))
        return _sent(view, plan.schema, runs, compression, is_lookup, is_brief)

    def _aggregate(
        self,
        view: View,
        aggregates: Mapping[str, str],
        asked: AggregateCommand | Ticket,
        check: Callable[[], None],
    ) -> ScanStream:
        aggregation = _aggregation(view, aggregates, asked.group_by)
        condition, guards = bind_condition(asked, view, repeatable=True)
        options = ScanOptions(columns=(), filter=condition, guards=guards)
        plan = plan_aggregation(view.snapshot, aggregation, options)
        runs = aggregate_plan(view.snapshot, plan, aggregation, max_bytes=self._max_answer_bytes, check=check)
        return _sent(view, aggregation.schema, runs)

    def _take(self, view: View, keys: RowKeys, asked: TakeCommand | Ticket) -> ScanStream:
        reads = _takes(view, asked)
        numbers = np.array(keys.values, np.uint64)  # of integers that the parser of the command checked
        runs = reads.batch_runs(_KEY_COLUMNS[keys.kind], numbers)
        is_lookup = not view.hides_rows or keys.kind != "offsets"
        return _sent(view, reads.schema, runs, is_lookup=is_lookup, is_brief=is_lookup)

    def _blobs(self, view: View, column: str, keys: RowKeys, asked: BlobsCommand | Ticket) -> ScanStream:
        stream = _blob_stream(view, column, asked)
        numbers = np.array(keys.values, np.uint64)
        runs = stream.batch_runs(_KEY_COLUMNS[keys.kind], numbers, asked.ranges)
        return _sent(view, stream.schema, runs)


def _aggregation(view: View, aggregates: Mapping[str, str], group_by: Columns) -> Aggregation:
    """Bind an aggregation to what the caller may read; errors are those of `bind_aggregation`."""
    aggregation = bind_aggregation(view.schema, aggregates, group_by, repeatable=True)
    for value in aggregation.inputs:
        view.check_expression(value)
    return aggregation


def _blob_stream(view: View, column: str, asked: BlobsCommand | Ticket) -> BlobStream:
    """Return a stream of blobs of a view; errors are those of `BlobStream`."""
    if not view.is_whole:
        project(view.schema, ScanOptions(columns=(column,)))  # refuses a column that is hidden
    return BlobStream(
        view.snapshot,
        column,
        with_size=asked.with_size,
        with_row_address=asked.with_row_address,
        guard=view.guard,
    )


def _sent(
    view: View,
    schema: pa.Schema,
    runs: Generator[BatchRun, None, None],
    compression: str = "none",
    is_lookup: bool = False,
    is_brief: bool = False,
) -> ScanStream:
    """Return runs of batches as a stream."""
    if view.hides_rows:
        check_fresh(schema)
        runs = fresh_runs(runs)
    return ScanStream(schema, runs, has_dictionaries(schema), compression, is_lookup, is_brief)


def _is_short_search(view: View, plan: ScanPlan) -> bool:
    """Return whether a search takes milliseconds, so that its schema may wait for its rows.

    Some clients cannot cancel a call before its schema comes.
    """
    return plan.num_rows <= _SHORT_SEARCH_ROWS or bool(view.snapshot.manifest.searchable_segments)


def _takes(view: View, asked: TakeCommand | LookupCommand | Ticket) -> TakeReads:
    """Return the takes of rows of a view; errors are those of a scan."""
    columns = asked.columns
    if not isinstance(columns, Mapping):
        view.check(columns or ())
    elif view.hides_rows:
        for _, value in bind_columns(view.schema, columns):
            view.check_expression(value)
    return TakeReads(view.snapshot, columns, asked.blob_handling, visible=view.narrowed, guard=view.guard)


def _pruned(view: View, plan: ScanPlan) -> PrunedPlan:
    """Leave out the fragments in which no row matches. The choice tells nothing about hidden rows."""
    if view.guard is None:
        return prune_plan(view.snapshot, plan)
    condition, guards = guarded(view.guard, None)
    only_guards = replace(plan, options=replace(plan.options, filter=condition, guards=guards))
    pruned = prune_plan(view.snapshot, only_guards)
    return replace(pruned, plan=replace(pruned.plan, options=plan.options))


def _is_one_stream(command: ScanCommand, options: ScanOptions) -> bool:
    """Return whether one endpoint has the whole result, because its rows depend on all rows of the plan."""
    # A filter has to see the earlier rows before it is known which rows an offset skips or a limit ends.
    is_cut_later = (options.filter is not None or options.is_search) and (
        command.limit is not None or bool(command.offset)
    )
    return is_cut_later or bool(options.order_by) or (options.is_search and not command.split_search)


def _endpoints(
    command: ScanCommand, plan: ScanPlan, view: View, num_servers: int, is_one_stream: bool
) -> list[tuple[FragmentScan, ...]]:
    """Return the fragment scans of each endpoint."""
    is_search = plan.options.is_search
    # An index is asked for whole fragments. Where rows are hidden, cuts would tell how many.
    may_cut = not (is_one_stream or is_search or view.hides_rows)
    most_endpoints = command.max_endpoints
    if is_one_stream:
        most_endpoints = 1
    elif is_search:
        most_endpoints = min(num_servers, most_endpoints)
    scans: Sequence[FragmentScan] = plan.fragment_scans
    if may_cut and command.rows_per_endpoint is None:
        most_shares = min(num_servers, command.max_endpoints)
        scans = split_for_servers(scans, view.snapshot.manifest.fragment_by_id, most_shares)
    rows_per_endpoint = command.rows_per_endpoint if may_cut else None
    return list(split_scans(scans, rows_per_endpoint=rows_per_endpoint, max_endpoints=most_endpoints))


def _num_rows(snapshot: Snapshot, plan: ScanPlan) -> int:
    """Return the number of rows of a plan; -1 if only its filter or its search tells."""
    if plan.options.filter is None and not plan.options.is_search:
        return count_plan(snapshot, plan)
    return -1 if plan.fragment_scans else 0


def _told(view: View, scans: tuple[FragmentScan, ...]) -> tuple[FragmentScan, ...]:
    """Return the fragment scans as a ticket has them, which everybody can read: no count of hidden rows."""
    return tuple(scan._replace(start=0, end=1) for scan in scans) if view.hides_rows else scans
