"""Cache of row takers, so that takes of the same columns find their files open."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from weakref import WeakValueDictionary

from lance_core.process.forks import begin_anew_after_fork
from lance_core.scan.files.cache import FileCache
from lance_core.scan.files.data_files import DataFiles
from lance_core.scan.plan.projection import ComputedColumn, Projection, project_taken
from lance_core.scan.take.row_taker import RowTaker
from lance_core.table.snapshot import Snapshot

_MOST_TAKERS = 16


class TakerCache:
    """The takers that were used last, with their open fragments; thread-safe."""

    def __init__(self, files: FileCache) -> None:
        self._files = files
        _caches[id(files)] = self
        self.begin()
        begin_anew_after_fork(self)

    def begin(self) -> None:
        """Begin without takers, in this process or in a forked process."""
        self._takers: OrderedDict[Hashable, RowTaker] = OrderedDict()
        self._lock = Lock()

    def get(
        self,
        snapshot: Snapshot,
        columns: tuple[str, ...] | None,
        blob_handling: str = "blobs_descriptions",
    ) -> RowTaker:
        """Return the taker of columns of a snapshot; arguments and errors are those of `project_taken`."""
        return self.kept(
            snapshot,
            (columns, blob_handling),
            lambda: project_taken(snapshot.manifest.schema, columns, blob_handling),
        )

    def kept(self, snapshot: Snapshot, what: Hashable, project: Callable[[], Projection]) -> RowTaker:
        """Return the taker that is kept under a name, else make one for the columns of a projection."""
        # Each opened dataset has its own snapshot. The taker keeps the manifest alive, so its `id` is unique.
        key = (id(snapshot.manifest), what)
        with self._lock:
            taker = self._takers.get(key)
            if taker is not None:
                self._takers.move_to_end(key)
                return taker
        taker = RowTaker(snapshot, project(), self._files)
        with self._lock:
            self._takers[key] = taker
            while len(self._takers) > _MOST_TAKERS:
                self._takers.popitem(last=False)
        return taker


def taker_of(snapshot: Snapshot, projection: Projection, files: DataFiles) -> RowTaker:
    """Return a taker of the columns of a projection, which reads from `files`.

    If `files` are those of a session, the session keeps the taker, unless it computes columns.
    """
    cache = _caches.get(id(files))
    is_computed = any(isinstance(column, ComputedColumn) for column in projection.columns)
    if cache is None or cache._files is not files or is_computed:
        return RowTaker(snapshot, projection, files)
    return cache.kept(snapshot, projection.columns, lambda: projection)


_caches: WeakValueDictionary[int, TakerCache] = WeakValueDictionary()
"""The cache of the session with certain files, by the `id` of the files."""
