"""Cache of row takers, so that takes of the same columns find their files open."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from lance_core.forks import begin_anew_after_fork
from lance_core.scan.files.cache import FileCache
from lance_core.scan.plan.projection import project_taken
from lance_core.scan.take.row_taker import RowTaker
from lance_core.table.snapshot import Snapshot

_MOST_TAKERS = 8


class TakerCache:
    """The takers that were used last, with their open fragments; thread-safe."""

    def __init__(self, files: FileCache) -> None:
        self._files = files
        self.begin()
        begin_anew_after_fork(self)

    def begin(self) -> None:
        """Begin without takers, in this process or in a forked process."""
        self._takers: OrderedDict[tuple[int, tuple[str, ...] | None, str], RowTaker] = OrderedDict()
        self._lock = Lock()

    def get(
        self,
        snapshot: Snapshot,
        columns: tuple[str, ...] | None,
        blob_handling: str = "blobs_descriptions",
    ) -> RowTaker:
        """Return the taker of columns of a snapshot; arguments and errors are those of `project_taken`."""
        # Each opened dataset has its own snapshot. The taker keeps the manifest alive, so its `id` is unique.
        key = (id(snapshot.manifest), columns, blob_handling)
        with self._lock:
            taker = self._takers.get(key)
            if taker is not None:
                self._takers.move_to_end(key)
                return taker
        projection = project_taken(snapshot.manifest.schema, columns, blob_handling)
        taker = RowTaker(snapshot, projection, self._files)
        with self._lock:
            self._takers[key] = taker
            while len(self._takers) > _MOST_TAKERS:
                self._takers.popitem(last=False)
        return taker
