"""Cache of recently opened snapshots."""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, Protocol, TypeVar

from lance_core.process.counters import CacheUse, HitCounter
from lance_core.process.forks import begin_anew_after_fork
from lance_core.storage import Storage
from lance_core.table.manifest import Manifest
from lance_core.table.versions import manifest_identity

_MEMORY_PER_MANIFEST_BYTE = 8
"""Estimated memory of a parsed manifest, per byte of its file."""


class HasManifest(Protocol):
    """The opened version of a table, as far as a cache looks into it."""

    @property
    def manifest(self) -> Manifest:
        """The manifest of the version."""


S = TypeVar("S", bound=HasManifest)


class SnapshotCache(Generic[S]):
    """Least recently used snapshots, bounded in bytes; thread-safe.

    If the manifest file of a snapshot was replaced, as after a table was dropped and made again, it is read
    again.
    """

    def __init__(self, max_bytes: int, open_version: Callable[[Storage, int], S]) -> None:
        """Create an empty cache.

        Args:
            max_bytes: bound of the estimated memory of all snapshots.
            open_version: opens a version of the table in a storage.
        """
        self._max_bytes = max_bytes
        self._open_version = open_version
        self.begin()
        begin_anew_after_fork(self)

    def begin(self) -> None:
        """Start with an empty cache, in this process or in a forked one."""
        self._num_bytes = 0
        self._snapshots: OrderedDict[tuple[str, int], tuple[str, S]] = OrderedDict()
        self._counter = HitCounter()
        self._lock = Lock()

    def use(self) -> CacheUse:
        """Return the memory in use, and the numbers of hits and misses."""
        with self._lock:
            counter = self._counter
            return CacheUse(
                len(self._snapshots), self._num_bytes, self._max_bytes, counter.hits, counter.misses
            )

    def open(self, storage: Storage, version: int) -> S:
        """Return a version of the table in `storage`; errors are those of `open_version`."""
        key = (storage.uri, version)
        identity = manifest_identity(storage, version)
        with self._lock:
            known = self._snapshots.get(key)
            hit = known is not None and known[0] == identity
            self._counter.count(hit)
            if known is not None and hit:
                self._snapshots.move_to_end(key)
                return known[1]
        snapshot = self._open_version(storage, version)
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


def _memory_bytes(snapshot: HasManifest) -> int:
    return _MEMORY_PER_MANIFEST_BYTE * snapshot.manifest.size
