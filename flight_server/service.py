"""Service behind the handlers: the operations of one server, without Flight types.

datasets     facts of datasets                      reading/datasets.py
reads        plans, tickets, streams, lookups       reading/reads.py
changes      versions of uploads and of actions     writing/changes.py
staged       uploads first, one commit later        writing/staged_writes.py
refs         tags and branches                      writing/references.py
upkeep       compaction and cleanup                 writing/upkeep.py
"""

import time
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import asdict, dataclass

import lance_core
from flight_server.catalog.local import Catalog
from flight_server.catalog.store import StoreCatalog
from flight_server.limits.admission import Admission, limit_of
from flight_server.limits.allocator import Allocator
from flight_server.limits.processors import Processors
from flight_server.limits.rate import SendRate
from flight_server.limits.turns import Turns
from flight_server.peers.servers import Servers
from flight_server.reading.datasets import Datasets
from flight_server.reading.reads import Reads
from flight_server.reading.ticket_lifetime import Tickets
from flight_server.rights.grants import Access, Right
from flight_server.security.authentication import Authenticator
from flight_server.security.authorization import Authorization
from flight_server.security.identity import Identity
from flight_server.security.server_tokens import key_id
from flight_server.security.signing_key import signing_key
from flight_server.security.transport import ways_to_authenticate
from flight_server.settings import Settings
from flight_server.telemetry.meters import Meters
from flight_server.telemetry.tracing import Tracing
from flight_server.writing.changes import Changes
from flight_server.writing.references import References
from flight_server.writing.staged_writes import StagedWrites
from flight_server.writing.targets import Targets
from flight_server.writing.upkeep import Upkeep
from lance_core import Session
from lance_core.api.serving import (
    CacheUse,
    Observer,
    observe,
    scheme_of,
    set_pool_retention,
    set_worker_niceness,
    storage_for,
)
from lance_core.api.serving import Reader as Reader  # the clients of `Service.reader`

_MOST_CALLERS = 1024
"""Callers whose services are kept for their next call. Making one takes longer than a small read."""
_MOST_MESSAGE_BYTES = (1 << 31) - 1
"""Most bytes that gRPC carries in one message, and so in one batch."""
_WORKER_NICENESS = 5
"""Niceness of the threads that decode: short calls run before them, and scans lose nothing. With more, a
thread that holds the lock of the interpreter may wait for a processor, and everybody for the thread.
"""


@dataclass(frozen=True)
class Memory:
    """Bytes of decoded rows that streams hold ahead of their clients.

    Attributes:
        peak_bytes: The largest `used_bytes` since the start.
        limit_bytes: Above this, a stream decodes nothing ahead.
    """

    used_bytes: int
    peak_bytes: int
    limit_bytes: int

    @property
    def is_exhausted(self) -> bool:
        return self.used_bytes >= self.limit_bytes


class Service:
    """Service of one root: a catalog of datasets, and the objects that read and change the datasets."""

    def __init__(self, settings: Settings, processors: Processors | None = None) -> None:
        """Make the service. `processors` are those of the machine, unless other processes share them."""
        self.settings = settings
        self.processors = processors or Processors.of_process()
        self.servers = Servers()
        self.allocator = Allocator()
        self.meters = Meters()
        self.tracing = Tracing.of(settings)
        self.admission = Admission(
            limit_of(settings.max_streams, settings.max_caller_streams),
            limit_of(settings.max_puts, settings.max_caller_puts),
        )
        self.send_rate = SendRate(settings.max_caller_bytes_per_second, self.admission)
        self.turns = Turns(self.processors)
        set_worker_niceness(_WORKER_NICENESS)
        # Half for rows decoded ahead, a quarter each for manifests and for memory kept for reuse. Open files
        # come on top: of 10,000 fragments none stays open if the cache has room for fewer. So do indices.
        self._session = Session(
            index_cache_size_bytes=settings.memory_limit // 2,
            metadata_cache_size_bytes=settings.memory_limit // 4,
            memory_limit_bytes=settings.memory_limit // 2,
            verify_checksums=settings.verify_checksums,
            cache_directory=settings.cache_dir,
            cache_directory_bytes=settings.cache_dir_limit,
        )
        set_pool_retention(settings.memory_limit // 4)
        catalog = _catalog_of(settings, settings.memory_limit // 4, self._session)
        self.signing_key = signing_key(settings)
        self.authenticator = (
            Authenticator(settings, self.signing_key.key) if ways_to_authenticate(settings) else None
        )
        self.authorization = Authorization(settings)
        self._tickets = Tickets(self.signing_key.key, settings.ticket_lifetime)
        self._targets = Targets(catalog)
        self._of_callers: dict[tuple[str, Access | None], Service] = {}
        self._rights: dict[tuple[Right, ...], Service] = {}
        self._serve(None, None, catalog)
        self._started = time.monotonic()

    def on_behalf_of(self, identity: Identity) -> "Service":
        """Return this service for one caller. Its tickets and receipts are of no use to another subject.

        On a server with grants, it has no datasets before `needing` says which rights are needed.
        """
        if identity.subject is None:
            return self
        access = self.authorization.access_of(identity)
        service = self._of_callers.get((identity.subject, access))
        if service is None:
            service = copy(self)
            service._rights = {}
            catalog = self._catalog if access is None else self._catalog.on_behalf_of(access)
            service._serve(identity.subject, access, catalog)
            if len(self._of_callers) >= _MOST_CALLERS:
                self._of_callers.clear()
            self._of_callers[identity.subject, access] = service
        return service

    def needing(self, *rights: Right) -> "Service":
        """Return this service with the datasets to which the caller has these rights; all without grants."""
        if self._access is None:
            return self
        service = self._rights.get(rights)
        if service is None:
            service = copy(self)
            service._serve(self._subject, self._access, self._catalog.needing(*rights))
            self._rights[rights] = service
        return service

    def _serve(self, subject: str | None, access: Access | None, catalog: Catalog) -> None:
        """Make the objects that read and change datasets, for a subject and the datasets of a catalog."""
        settings = self.settings
        self._subject = subject
        self._access = access
        self._catalog = catalog
        targets = self._targets.of(catalog)
        tickets = self._tickets if subject is None else self._tickets.of(subject)
        self.datasets = Datasets(catalog, settings.root)
        self.reads = Reads(catalog, tickets, settings.max_batch_bytes, settings.max_search_rows)
        self.changes = Changes(catalog, targets)
        self.staged = StagedWrites(catalog, targets, settings.stage_expiry, subject)
        self.refs = References(catalog, targets)
        self.upkeep = Upkeep(catalog, targets, self.staged)

    def close(self) -> None:
        """Stop the uploads that wait for their clients; see `Targets.close`. Send the last traces."""
        self._targets.close()
        if self.tracing is not None:
            self.tracing.close()

    def caches(self) -> Mapping[str, CacheUse]:
        """Return the use of each cache by its name."""
        return {"manifests": self._catalog.manifests, **self._session.cache_use()}

    def memory(self) -> Memory:
        """Return the use of the memory for rows that are decoded ahead."""
        budget = self._session.budget
        return Memory(budget.used_bytes, budget.peak_bytes, budget.limit_bytes)

    def observe(self, observer: Observer | None) -> None:
        """Let an observer see the steps of the reads that this thread does from now on."""
        observe(observer)

    def reader(self, check: Callable[[], None]) -> Reader:
        """Return a client as the reader of what this thread reads; the reads end when `check` raises."""
        return Reader(check, _MOST_MESSAGE_BYTES)

    def probe_storage(self) -> None:
        """List the root. Raises StorageError if it cannot be listed."""
        self._catalog.probe()

    def health(self) -> dict[str, object]:
        """Return the status: `uptime` in seconds, and for each cache its entries, bytes, hits and misses."""
        uptime = round(time.monotonic() - self._started, 3)
        return {
            "status": "ok",
            "version": lance_core.__version__,
            "uptime": uptime,
            "locations": self.servers.own,
            "key_id": key_id(self.signing_key.key),
            "caches": {name: asdict(use) for name, use in self.caches().items()},
            "reads": self._session.settings(),
        }


def _catalog_of(settings: Settings, cache_bytes: int, session: Session) -> Catalog:
    if scheme_of(settings.root) == "file":
        return Catalog(settings.root, cache_bytes, settings.allow_base, session)
    return StoreCatalog(storage_for(settings.root, dict(settings.storage_options)), cache_bytes, session)
