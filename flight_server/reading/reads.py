"""Plans and streams: what clients ask to read, from one version each. Free of Flight types."""

from collections.abc import Generator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Self, TypeAlias

import numpy as np
import pyarrow as pa

from flight_server.catalog.local import Catalog
from flight_server.peers.rendezvous import Affinity
from flight_server.reading.differences import difference_commands
from flight_server.reading.endpoints import affinities, affinity_of_keys, split_for_servers, split_scans
from flight_server.reading.lookups import Lookup
from flight_server.reading.scan_options import plan_of, scan_options
from flight_server.reading.ticket_lifetime import Tickets
from flight_server.requests.commands import (
    BlobsCommand,
    Columns,
    CountCommand,
    LookupCommand,
    ReadCommand,
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
    BlobStream,
    Explanation,
    FragmentScan,
    PrunedPlan,
    ScanOptions,
    ScanPlan,
    Snapshot,
    TakeReads,
    bind_filter,
    count_plan,
    explain_plan,
    holds_dictionary,
    plan_scan,
    project,
    prune_plan,
    stream_plan,
)
from lance_core.api.serving import BatchRun as BatchRun  # the batches of a `ScanStream`

Asked: TypeAlias = ReadCommand | Ticket

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


class Reads:
    """Reads of the datasets of one catalog. Thread-safe."""

    def __init__(self, catalog: Catalog, tickets: Tickets, max_answer_bytes: int) -> None:
        """Answer one batch of keys of a lookup with at most `max_answer_bytes` of rows."""
        self._catalog = catalog
        self._tickets = tickets
        self._max_answer_bytes = max_answer_bytes

    def on_behalf_of(self, subject: str) -> Self:
        """Return these reads, with tickets that only the subject can redeem."""
        reads = copy(self)
        reads._tickets = self._tickets.of(subject)
        return reads

    def plan(self, command: ReadCommand, *, num_servers: int = 1) -> PlannedScan:
        """Plan a command, on the version that it names or on the latest one.

        Fragments that are large for a share of `num_servers` are split, unless the command says how.
        """
        pinned = self._catalog.pin(command.dataset)
        snapshot = self._catalog.open(pinned)
        if isinstance(command, TakeCommand):
            return self._plan_take(command, pinned, snapshot)
        if isinstance(command, BlobsCommand):
            return self._plan_blobs(command, pinned, snapshot)
        options = scan_options(command, snapshot)
        pruned = prune_plan(snapshot, plan_scan(snapshot, options))
        plan = pruned.plan
        is_filtered = plan.options.filter is not None
        # A filter has to see the earlier rows before it is known which rows an offset skips or a limit ends.
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
            blob_handling=command.blob_handling,
        )
        scans: Sequence[FragmentScan] = plan.fragment_scans
        if not is_one_stream and command.rows_per_endpoint is None:
            most = min(num_servers, command.max_endpoints)
            scans = split_for_servers(scans, snapshot.manifest.fragment_by_id, most)
        endpoints = list(
            split_scans(
                scans,
                rows_per_endpoint=None if is_one_stream else command.rows_per_endpoint,
                max_endpoints=1 if is_one_stream else command.max_endpoints,
            )
        )
        return self._planned(
            snapshot,
            plan.schema,
            [replace(whole, fragment_scans=scans) for scans in endpoints],
            affinities(
                pinned.name,
                endpoints,
                snapshot.manifest.fragment_by_id,
                are_stable=command.rows_per_endpoint is not None,
            ),
            num_rows=-1 if is_filtered and plan.fragment_scans else plan.num_rows,
            ordered=is_one_stream or command.ordered,
            num_fragments_pruned=len(snapshot.manifest.fragments) - len(plan.fragment_scans),
            pruned=pruned,
        )

    def differences(self, reference: DatasetReference, begin: int, end: int) -> PlannedDifferences:
        """Plan reads of the rows that were inserted, updated and deleted between two versions.

        Errors are those of `difference_commands`.
        """
        commands = difference_commands(reference, begin, end, self._catalog.open)
        return PlannedDifferences(
            self.plan(commands.inserted),
            self.plan(commands.updated),
            tuple(map(self.plan, commands.deleted)),
        )

    def schema(self, command: ReadCommand) -> pa.Schema:
        """Return the schema of the batches of a command."""
        snapshot = self._catalog.open(command.dataset)
        if isinstance(command, TakeCommand):
            return TakeReads(snapshot, command.columns, command.blob_handling).schema
        if isinstance(command, BlobsCommand):
            return _blob_stream(snapshot, command.column, command).schema
        return project(snapshot.manifest.schema, scan_options(command, snapshot)).schema

    def redeem(self, ticket: bytes) -> Asked:
        """Return the ticket or the command in the bytes of a ticket. This opens no dataset."""
        return self._tickets.redeem(ticket) if is_ticket(ticket) else parse_command(ticket)

    def stream(self, asked: Asked) -> ScanStream:
        """Return the batches that a ticket or command asks for."""
        if isinstance(asked, Ticket):
            snapshot = self._pinned(asked)
            if asked.keys is not None and asked.column is not None:
                return self._blobs(snapshot, asked.column, asked.keys, asked)
            if asked.keys is not None:
                return self._take(snapshot, asked.keys, asked)
            return self._stream(snapshot, plan_of(asked, snapshot), asked.compression)
        snapshot = self._catalog.open(asked.dataset)
        if isinstance(asked, TakeCommand):
            return self._take(snapshot, asked.keys, asked)
        if isinstance(asked, BlobsCommand):
            return self._blobs(snapshot, asked.column, asked.keys, asked)
        plan = plan_scan(snapshot, scan_options(asked, snapshot))
        return self._stream(snapshot, plan, asked.compression)

    def renew(self, ticket: bytes) -> tuple[bytes, int]:
        """Return a ticket for the same rows that expires later, and when: seconds since the epoch."""
        redeemed = self._tickets.redeem(ticket)
        self._pinned(redeemed)
        return self._tickets.renew(redeemed)

    def cancel(self, tickets: Sequence[bytes]) -> bool:
        """Cancel tickets; see `Tickets.cancel`. Their running streams go on."""
        return self._tickets.cancel(tickets)

    def lookup(self, command: LookupCommand, keys: pa.Schema) -> Lookup:
        """Return a lookup that answers batches of keys of the schema `keys`, from one version."""
        reads = TakeReads(self._catalog.open(command.dataset), command.columns, command.blob_handling)
        return Lookup(reads, keys, self._max_answer_bytes)

    def count(self, command: CountCommand) -> int:
        """Return the number of matching rows."""
        snapshot = self._catalog.open(command.dataset)
        condition = bind_filter(snapshot.manifest.schema, command.filter, command.substrait_filter)
        return count_plan(snapshot, plan_scan(snapshot, ScanOptions(columns=(), filter=condition)))

    def explain(self, command: ScanCommand, *, analyze: bool) -> Explanation:
        """Return the pages that a scan reads of each fragment and column; with `analyze` the scan is run."""
        snapshot = self._catalog.open(command.dataset)
        plan = plan_scan(snapshot, scan_options(command, snapshot))
        return explain_plan(snapshot, plan, analyze=analyze)

    def _plan_take(self, command: TakeCommand, pinned: DatasetReference, snapshot: Snapshot) -> PlannedScan:
        """Plan a take as one endpoint, whose ticket holds the keys."""
        ticket = self._ticket(pinned, snapshot, command.columns)
        return self._planned(
            snapshot,
            TakeReads(snapshot, command.columns, command.blob_handling).schema,
            [replace(ticket, keys=command.keys, blob_handling=command.blob_handling)],
            [affinity_of_keys(pinned.name, command.keys)],
            # Only offsets are sure to be rows; ids and addresses may be of rows that were deleted.
            num_rows=len(command.keys.values) if command.keys.kind == "offsets" else -1,
        )

    def _plan_blobs(self, command: BlobsCommand, pinned: DatasetReference, snapshot: Snapshot) -> PlannedScan:
        """Plan a stream of blobs as one endpoint, whose ticket holds the keys."""
        ticket = replace(
            self._ticket(pinned, snapshot, None),
            column=command.column,
            keys=command.keys,
            ranges=command.ranges,
            with_size=command.with_size,
            with_row_address=command.with_row_address,
        )
        schema = _blob_stream(snapshot, command.column, command).schema
        affinity = affinity_of_keys(pinned.name, command.keys)
        return self._planned(snapshot, schema, [ticket], [affinity], num_rows=-1)

    def _ticket(self, pinned: DatasetReference, snapshot: Snapshot, columns: Columns) -> Ticket:
        """Return a ticket for columns of a snapshot, without any rows. The caller adds the rows."""
        return Ticket(
            dataset=pinned.name,
            version=snapshot.manifest.version,
            branch=pinned.branch,
            identity=snapshot.manifest.identity,
            expires=self._tickets.expiry(),
            fragment_scans=(),
            columns=columns,
        )

    def _planned(
        self,
        snapshot: Snapshot,
        schema: pa.Schema,
        tickets: Sequence[Ticket],
        affinities: Sequence[Affinity],
        *,
        num_rows: int,
        ordered: bool = True,
        num_fragments_pruned: int = 0,
        pruned: PrunedPlan | None = None,
    ) -> PlannedScan:
        return PlannedScan(
            schema=schema,
            tickets=tuple(map(self._tickets.sign, tickets)),
            affinities=tuple(affinities),
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

    def _pinned(self, ticket: Ticket) -> Snapshot:
        """Return the snapshot of a ticket; DatasetNotFoundError if another dataset has its name now."""
        return self._catalog.open(
            DatasetReference(ticket.dataset, ticket.version, branch=ticket.branch, identity=ticket.identity)
        )

    def _stream(self, snapshot: Snapshot, plan: ScanPlan, compression: str) -> ScanStream:
        runs = stream_plan(snapshot, plan)
        has_dictionaries = any(holds_dictionary(field.type) for field in plan.schema)
        is_lookup = plan.options.filter is None and plan.num_rows <= _FEW_ROWS
        return ScanStream(plan.schema, runs, has_dictionaries, compression, is_lookup)

    def _take(self, snapshot: Snapshot, keys: RowKeys, asked: TakeCommand | Ticket) -> ScanStream:
        reads = TakeReads(snapshot, asked.columns, asked.blob_handling)
        numbers = np.array(keys.values, np.uint64)  # of integers that the parser of the command checked
        runs = reads.batch_runs(_KEY_COLUMNS[keys.kind], numbers)
        return ScanStream(reads.schema, runs, reads.has_dictionaries, is_lookup=True)

    def _blobs(
        self, snapshot: Snapshot, column: str, keys: RowKeys, asked: BlobsCommand | Ticket
    ) -> ScanStream:
        stream = _blob_stream(snapshot, column, asked)
        numbers = np.array(keys.values, np.uint64)
        runs = stream.batch_runs(_KEY_COLUMNS[keys.kind], numbers, asked.ranges)
        return ScanStream(stream.schema, runs, has_dictionaries=False)


def _blob_stream(snapshot: Snapshot, column: str, asked: BlobsCommand | Ticket) -> BlobStream:
    return BlobStream(snapshot, column, with_size=asked.with_size, with_row_address=asked.with_row_address)
