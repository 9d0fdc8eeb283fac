"""Cache of recently opened snapshots."""

from collections import OrderedDict
from dataclasses import replace
from threading import Lock

from lance_core.cache_use import CacheUse, HitCounter
from lance_core.errors import VersionNotFoundError
from lance_core.forks import begin_anew_after_fork
from lance_core.storage import Storage
from lance_core.table.bases import BaseOpener, open_base
from lance_core.table.snapshot import Snapshot, open_snapshot
from lance_core.table.versions import latest_version, manifest_identity

_MEMORY_PER_MANIFEST_BYTE = 8
"""Estimated memory of a parsed manifest, per byte of its file."""


class SnapshotCache:
    """Least recently used snapshots, bounded in bytes; thread-safe.

    If the manifest file of a snapshot was replaced, as after a table was dropped and made again, it is read
    again.
    """

    def __init__(
        self, max_bytes: int, open_base: BaseOpener = open_base, session: object | None = None
    ) -> None:
        """Create an empty cache.

        Args:
            max_bytes: bound of the estimated memory of all snapshots.
            open_base: opens the base paths of tables, and may refuse to.
            session: session of the snapshots' reads; None means the default session of the process.
        """
        self._max_bytes = max_bytes
        self._open_base = open_base
        self._session = session
        self.begin()
        begin_anew_after_fork(self)

    def begin(self) -> None:
        """Start with an empty cache, in this process or in a forked one."""
        self._num_bytes = 0
        self._snapshots: OrderedDict[tuple[str, int], tuple[str, Snapshot]] = OrderedDict()
        self._counter = HitCounter()
        self._lock = Lock()

    def use(self) -> CacheUse:
        """Return the memory in use, and the numbers of hits and misses."""
        with self._lock:
            counter = self._counter
            return CacheUse(
                len(self._snapshots), self._num_bytes, self._max_bytes, counter.hits, counter.misses
            )

    def open(self, storage: Storage, version: int) -> Snapshot:
        """Return a version of the table in `storage`; errors are those of `open_snapshot`."""
        key = (storage.uri, version)
        identity = manifest_identity(storage, version)
        with self._lock:
            known = self._snapshots.get(key)
            hit = known is not None and known[0] == identity
            self._counter.count(hit)
            if known is not None and hit:
                self._snapshots.move_to_end(key)
                return known[1]
        snapshot = replace(open_snapshot(storage, version, self._open_base), session=self._session)
        with self._lock:
            self._forget(key)
            self._snapshots[key] = (identity, snapshot)
            self._num_bytes += _memory_bytes(snapshot)
            while self._num_bytes > self._max_bytes:
                self._forget(next(iter(self._snapshots)))
        return snapshot

    def _forget(self, key: tuple[str, int]) -> None:
        forgotten = self._snapshots.pop(key, None)
        if forgotten is not None:
            self._num_bytes -= _memory_bytes(forgotten[1])


def _memory_bytes(snapshot: Snapshot) -> int:
    return _MEMORY_PER_MANIFEST_BYTE * snapshot.manifest.size


kept_snapshots = SnapshotCache(64 << 20)
"""Snapshots of local tables that this process opened by path."""


def open_kept(storage: Storage, version: int | None = None) -> Snapshot:
    """Open a version like `open_snapshot`, but reuse a local manifest that was read before.

    Remote manifests are not cached: asking whether a manifest changed takes as long as reading it.
    """
    if storage.is_remote:
        return open_snapshot(storage, version)
    return kept_snapshots.open(storage, latest_version(storage) if version is None else version)


def reopen(storage: Storage, version: int, identity: str, opener: BaseOpener) -> Snapshot:
    """Open the version of a pickled snapshot.

    Args:
        storage: storage of the table.
        version: number of the version.
        identity: `Manifest.identity` of the version.
        opener: opens the base paths of the table.

    Raises:
        VersionNotFoundError: the version was removed, or the table was dropped and made again.
        LanceError: another error of `open_snapshot`.
    """
    snapshot = open_kept(storage, version) if opener is open_base else open_snapshot(storage, version, opener)
    if snapshot.manifest.identity != identity:
        raise VersionNotFoundError(
            f"version {version} belongs to a dataset that was dropped and made again after the pickle"
        )
    return snapshot
