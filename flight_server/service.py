"""Service behind the handlers: datasets, plans and streams, free of Flight types."""

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from typing import TypeAlias

import numpy as np
import pyarrow as pa

import lance_core
from flight_server.catalog.local import Catalog
from flight_server.catalog.store import StoreCatalog
from flight_server.errors import report_error
from flight_server.limits.admission import Admission
from flight_server.limits.allocator import Allocator
from flight_server.reading.endpoints import split_tasks
from flight_server.reading.lookups import Lookup
from flight_server.reading.scans import plan_of, scan_options
from flight_server.requests.commands import (
    Columns,
    CountCommand,
    LookupCommand,
    RowKeys,
    ScanCommand,
    TakeCommand,
    parse_command,
)
from flight_server.requests.names import DatasetReference
from flight_server.requests.tickets import CancelledTickets, Ticket, decode_ticket, encode_ticket, is_ticket
from flight_server.settings import Settings
from flight_server.writing.changes import Mutations
from flight_server.writing.staged_writes import StagedWrites
from lance_core.errors import InvalidInputError, LanceError
from lance_core.kernels import set_pool_retention
from lance_core.pool import map_ahead
from lance_core.scan.explain import Explanation, PrunedPlan, explain, prune_plan
from lance_core.scan.plan.bind import bind_columns, bind_filter
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.projection import ROW_ADDRESS, ROW_ID, ROW_OFFSET, project
from lance_core.scan.plan.scan_plan import ScanPlan, plan_scan
from lance_core.scan.read.columns import holds_dictionary
from lance_core.scan.run.batch_cutter import BatchRun
from lance_core.scan.run.execute import count_matching, scan_batch_runs
from lance_core.scan.session import Session
from lance_core.scan.take.row_taker import RowTaker
from lance_core.storage import scheme_of, storage_for
from lance_core.table.indices import IndexDescription
from lance_core.table.snapshot import Snapshot

_EMPTY_SCHEMA = pa.schema([])

Asked: TypeAlias = ScanCommand | TakeCommand | Ticket

_KEY_COLUMNS = {"offsets": ROW_OFFSET, "row_ids": ROW_ID, "row_addresses": ROW_ADDRESS}


@dataclass(frozen=True)
class DatasetSummary:
    """One dataset as its latest manifest describes it; with `error` set nothing else is known."""

    name: str
    schema: pa.Schema = _EMPTY_SCHEMA
    version: int | None = None
    num_rows: int = -1
    num_bytes: int = -1
    """Bytes of the data files, -1 where the manifest does not give all of them."""
    error: str | None = None


@dataclass(frozen=True)
class DatasetDescription:
    """One version of a dataset as its manifest describes it."""

    summary: DatasetSummary
    branch: str | None
    """None is the main one."""
    identity: str
    """Tells it from a version of the same number in a dataset that was dropped and made again."""
    fragment_ids: frozenset[int]
    data_storage_version: str
    indices: tuple[IndexDescription, ...]
    config: dict[str, str]
    metadata: dict[str, str]
    """Metadata that users set on the table."""
    tags: tuple[str, ...]
    branches: tuple[str, ...]
    """Without the main one."""


@dataclass(frozen=True)
class PlannedScan:
    """A planned scan: the tickets of its endpoints in dataset order."""

    schema: pa.Schema
    tickets: tuple[bytes, ...]
    expires: int
    """Seconds since the epoch at which the tickets expire."""
    num_rows: int
    """-1 where nobody knows before a filter was asked of the rows."""
    ordered: bool
    dataset: str
    version: int
    num_fragments: int
    num_fragments_pruned: int
    num_pages: int | None = None
    """Pages of the columns that the filter names; None if no statistics are known."""
    num_pages_pruned: int = 0
    statistics: str = "none"


@dataclass(frozen=True)
class ScanStream:
    """The batches of one endpoint or of a whole scan; nothing is read before the first one is asked for."""

    schema: pa.Schema
    runs: Generator[BatchRun, None, None]
    """To be closed by the reader; that stops the decoding."""
    has_dictionaries: bool
    """Whether one stands anywhere in the schema."""
    compression: str = "none"


def _catalog_of(settings: Settings, cache_bytes: int, session: Session) -> Catalog:
    if scheme_of(settings.root) == "file":
        return Catalog(settings.root, cache_bytes, settings.allow_base, session)
    return StoreCatalog(storage_for(settings.root, dict(settings.storage_options)), cache_bytes, session)


class Service:
    """Everything a server of one root does."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.allocator = Allocator()
        self.admission = Admission(settings.max_streams, settings.max_puts)
        # Half for rows decoded ahead, a quarter each for metadata and for memory kept for reuse.
        self._session = Session(
            memory_limit_bytes=settings.memory_limit // 2,
            verify_checksums=settings.verify_checksums,
            cache_directory=settings.cache_dir,
            cache_directory_bytes=settings.cache_dir_limit,
        )
        self._catalog = _catalog_of(settings, settings.memory_limit // 4, self._session)
        self.mutations = Mutations(self._catalog)
        self.staged = StagedWrites(self._catalog, self.mutations, settings.stage_expiry)
        set_pool_retention(settings.memory_limit // 4)
        self._cancelled = CancelledTickets()
        self._started = time.monotonic()

    def open(self, reference: DatasetReference) -> Snapshot:
        """Return the version that a reference names; errors are those of `Catalog.open`."""
        return self._catalog.open(reference)

    def list_datasets(self, pattern: str) -> Iterator[DatasetSummary]:
        """Return the datasets whose names match the glob `pattern` (empty: all), each from its manifest
        alone.
        """
        names = (name for name in self._catalog.names() if not pattern or fnmatchcase(name, pattern))
        return map_ahead(self._summary, names, self._catalog.is_remote)

    def plan(self, command: ScanCommand | TakeCommand) -> PlannedScan:
        """Plan what a command asks for, in the version that is the latest now or that it names."""
        pinned = self._catalog.pin(command.dataset)
        snapshot = self._catalog.open(pinned)
        if isinstance(command, TakeCommand):
            return self._plan_take(command, pinned, snapshot)
        options = scan_options(command, snapshot)
        pruned = prune_plan(snapshot, plan_scan(snapshot, options), self._session.files_for(options))
        plan = pruned.plan
        is_filtered = plan.options.filter is not None
        # What a filter leaves to skip, or where to stop, is known only from the rows before.
        is_one_stream = is_filtered and (command.limit is not None or bool(command.offset))
        whole = replace(
            self._ticket(pinned, snapshot, command.columns),
            filter=command.filter,
            substrait_filter=command.substrait_filter,
            limit=command.limit if is_one_stream else None,
            offset=command.offset if is_one_stream else None,
            with_row_id=command.with_row_id,
            with_row_address=command.with_row_address,
            batch_rows=command.batch_rows,
            batch_bytes=command.batch_bytes,
            compression=command.compression,
            verify_checksums=command.verify_checksums,
        )
        endpoints = split_tasks(
            plan.tasks,
            rows_per_endpoint=None if is_one_stream else command.rows_per_endpoint,
            max_endpoints=1 if is_one_stream else command.max_endpoints,
        )
        return self._planned(
            snapshot,
            plan.schema,
            [replace(whole, tasks=tasks) for tasks in endpoints],
            num_rows=-1 if is_filtered and plan.tasks else plan.num_rows,
            ordered=is_one_stream or command.ordered,
            num_fragments_pruned=len(snapshot.manifest.fragments) - len(plan.tasks),
            pruned=pruned,
        )

    def _plan_take(self, command: TakeCommand, pinned: DatasetReference, snapshot: Snapshot) -> PlannedScan:
        """One endpoint, whose ticket holds the keys."""
        return self._planned(
            snapshot,
            self._taker(snapshot, command.columns).schema,
            [replace(self._ticket(pinned, snapshot, command.columns), keys=command.keys)],
            # Only offsets are sure to be rows; ids and addresses may be of rows that were deleted.
            num_rows=len(command.keys.values) if command.keys.kind == "offsets" else -1,
        )

    def _ticket(self, pinned: DatasetReference, snapshot: Snapshot, columns: Columns) -> Ticket:
        """Return a ticket for columns of a snapshot, still without rows."""
        return Ticket(
            dataset=pinned.name,
            version=snapshot.manifest.version,
            branch=pinned.branch,
            identity=snapshot.manifest.identity,
            expires=self._expiry(),
            tasks=(),
            columns=columns,
        )

    def _planned(
        self,
        snapshot: Snapshot,
        schema: pa.Schema,
        tickets: Sequence[Ticket],
        *,
        num_rows: int,
        ordered: bool = True,
        num_fragments_pruned: int = 0,
        pruned: PrunedPlan | None = None,
    ) -> PlannedScan:
        return PlannedScan(
            schema=schema,
            tickets=tuple(encode_ticket(ticket, self.settings.ticket_key) for ticket in tickets),
            expires=tickets[0].expires,
            num_rows=num_rows,
            ordered=ordered,
            dataset=tickets[0].dataset,
            version=snapshot.manifest.version,
            num_fragments=len(snapshot.manifest.fragments),
            num_fragments_pruned=num_fragments_pruned,
            num_pages=pruned.pages_total if pruned else None,
            num_pages_pruned=pruned.pages_pruned if pruned else 0,
            statistics=pruned.statistics if pruned else "none",
        )

    def count_rows(self, command: CountCommand) -> int:
        """Return the number of rows that pass a filter."""
        snapshot = self._catalog.open(command.dataset)
        condition = bind_filter(snapshot.manifest.schema, command.filter, command.substrait_filter)
        plan = plan_scan(snapshot, ScanOptions(columns=(), filter=condition))
        return count_matching(snapshot, plan, self._session.budget, self._session.files)

    def explain(self, command: ScanCommand, *, analyze: bool) -> Explanation:
        """Return the pages that a scan reads of each fragment and column; with `analyze` the scan is run."""
        snapshot = self._catalog.open(command.dataset)
        plan = plan_scan(snapshot, scan_options(command, snapshot))
        return explain(
            snapshot, plan, self._session.files_for(plan.options), self._session.budget, analyze=analyze
        )

    def schema(self, command: ScanCommand | TakeCommand) -> pa.Schema:
        """Schema of the batches that `command` gives."""
        snapshot = self._catalog.open(command.dataset)
        if isinstance(command, TakeCommand):
            return self._taker(snapshot, command.columns).schema
        return project(snapshot.manifest.schema, scan_options(command, snapshot)).schema

    def redeemed(self, ticket: bytes) -> Asked:
        """Return what a ticket of this server, or a command used as one, asks for; nothing is opened."""
        return self._redeemed(ticket) if is_ticket(ticket) else parse_command(ticket)

    def stream(self, asked: Asked) -> ScanStream:
        """Return the batches that a ticket or command asks for."""
        if isinstance(asked, Ticket):
            snapshot = self._pinned(asked)
            if asked.keys is not None:
                return self._take(snapshot, asked.keys, asked.columns)
            return self._stream(snapshot, plan_of(asked, snapshot), asked.compression)
        snapshot = self._catalog.open(asked.dataset)
        if isinstance(asked, TakeCommand):
            return self._take(snapshot, asked.keys, asked.columns)
        plan = plan_scan(snapshot, scan_options(asked, snapshot))
        return self._stream(snapshot, plan, asked.compression)

    def renew(self, ticket: bytes) -> tuple[bytes, int]:
        """Return a ticket for the same rows that expires later, and when: seconds since the epoch."""
        redeemed = self._redeemed(ticket)
        self._pinned(redeemed)
        renewed = replace(redeemed, expires=self._expiry())
        return encode_ticket(renewed, self.settings.ticket_key), renewed.expires

    def cancel(self, tickets: Sequence[bytes]) -> bool:
        """Redeem tickets no more; False where too many are remembered already. Their streams go on."""
        now = time.time()
        return self._cancelled.add(
            {data: decode_ticket(data, self.settings.ticket_key, now) for data in tickets}, now
        )

    def _redeemed(self, data: bytes) -> Ticket:
        ticket = decode_ticket(data, self.settings.ticket_key, time.time())
        if data in self._cancelled:
            raise InvalidInputError("the ticket was cancelled; plan the scan again")
        return ticket

    def _expiry(self) -> int:
        return int(time.time() + self.settings.ticket_lifetime)

    def lookup(self, command: LookupCommand, keys: pa.Schema) -> Lookup:
        """Return a lookup that answers batches of keys of the schema `keys`, from one version."""
        taker = self._taker(self._catalog.open(command.dataset), command.columns)
        return Lookup(taker, keys, self._session.budget, self.settings.max_batch_bytes)

    def describe(self, reference: DatasetReference) -> DatasetDescription:
        """Return the facts in the manifest of one version."""
        snapshot = self._catalog.open(reference)
        manifest = snapshot.manifest
        tags, branches = self._catalog.refs(reference.name)
        return DatasetDescription(
            summary=_summarize(reference.name, snapshot),
            branch=manifest.branch,
            identity=manifest.identity,
            data_storage_version=manifest.data_storage_version,
            indices=tuple(manifest.describe_indices()),
            fragment_ids=frozenset(fragment.id for fragment in manifest.fragments),
            config=dict(manifest.config),
            metadata=dict(manifest.table_metadata),
            tags=tuple(tags),
            branches=tuple(branches),
        )

    def health(self) -> dict[str, object]:
        """`uptime` is in seconds; `caches` says what each holds and how often that was of use."""
        uptime = round(time.monotonic() - self._started, 3)
        caches = {
            "manifests": self._catalog.manifests,
            **self._session.cache_use(),
        }
        return {
            "status": "ok",
            "version": lance_core.__version__,
            "uptime": uptime,
            "caches": {name: asdict(use) for name, use in caches.items()},
            "reads": self._session.settings(),
        }

    def _summary(self, name: str) -> DatasetSummary:
        try:
            return _summarize(name, self._catalog.open(DatasetReference(name)))
        except LanceError as error:
            report = report_error(error, self.settings.root)
            return DatasetSummary(name, error=f"[{report.name}] {report.message}")

    def _pinned(self, ticket: Ticket) -> Snapshot:
        """Return the snapshot a ticket was made for; DatasetNotFoundError when another dataset took its
        name.
        """
        return self._catalog.open(
            DatasetReference(ticket.dataset, ticket.version, branch=ticket.branch, identity=ticket.identity)
        )

    def _stream(self, snapshot: Snapshot, plan: ScanPlan, compression: str) -> ScanStream:
        runs = scan_batch_runs(snapshot, plan, self._session.budget, self._session.files_for(plan.options))
        has_dictionaries = any(holds_dictionary(field.type) for field in plan.schema)
        return ScanStream(plan.schema, runs, has_dictionaries, compression)

    def _taker(self, snapshot: Snapshot, columns: Columns) -> RowTaker:
        if isinstance(columns, Mapping):
            return self._session.taker(snapshot, None, bind_columns(snapshot.manifest.schema, columns))
        return self._session.taker(snapshot, columns)

    def _take(self, snapshot: Snapshot, keys: RowKeys, columns: Columns) -> ScanStream:
        taker = self._taker(snapshot, columns)
        return ScanStream(taker.schema, self._taken(taker, keys), taker.has_dictionaries)

    def _taken(self, taker: RowTaker, keys: RowKeys) -> Generator[BatchRun, None, None]:
        """Yield the rows of the keys. Nothing is read before the first batch is asked for."""
        find = taker.addresses.by(_KEY_COLUMNS[keys.kind])
        addresses = find(np.array(keys.values, np.uint64))  # of integers that were checked when they came
        yield from taker.batch_runs(addresses, self._session.budget)


def _summarize(name: str, snapshot: Snapshot) -> DatasetSummary:
    manifest = snapshot.manifest
    sizes = [file.size for fragment in manifest.fragments for file in fragment.files]
    rows = [fragment.num_rows for fragment in manifest.fragments]
    return DatasetSummary(
        name=name,
        schema=manifest.schema.to_arrow(),
        version=manifest.version,
        num_rows=sum(rows),
        num_bytes=sum(sizes) if all(sizes) else -1,
    )
