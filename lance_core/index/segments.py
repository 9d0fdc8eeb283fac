"""Segments of indices, opened for searches: their files, and what the session's cache keeps of them.

A search asks `OpenSegment` for a file, for a whole column, or keeps what it derived from a file with
`OpenSegment.kept`. Everything is read when it is first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import pyarrow as pa

from lance_core.index.cache import IndexCache
from lance_core.index.index_file import IndexFile
from lance_core.index.moving.moved_rows import Addresses, MovesInTurn
from lance_core.index.moving.reused_fragments import moves_of
from lance_core.pool import run_each
from lance_core.process.counters import note_item
from lance_core.storage import Storage
from lance_core.table.indices import IndexSegment
from lance_core.table.snapshot import Snapshot

T = TypeVar("T")

# Memory of an open file besides its metadata: the descriptor, the memory map, the readers of its columns.
_FILE_BYTES = 16 << 10


@dataclass(frozen=True)
class ReuseMoves:
    """Moves of rows since index files were written.

    Attributes:
        uuid: Uuid of the fragment reuse index that describes them.
        moves: The translation of row addresses.
    """

    uuid: str
    moves: MovesInTurn

    @property
    def num_bytes(self) -> int:
        """Estimated bytes in memory."""
        return self.moves.num_bytes


class OpenSegment:
    """One segment of an index. Thread-safe.

    Attributes:
        entry: The segment as the manifest describes it.
        storage: Storage of its files.
        directory: Directory of its files in the storage.
        cache: Cache of what is read from them.
    """

    def __init__(
        self,
        entry: IndexSegment,
        storage: Storage,
        directory: str,
        cache: IndexCache,
        moves: ReuseMoves | None = None,
    ) -> None:
        """Open a segment.

        Args:
            entry: The segment as the manifest describes it.
            storage: Storage of its files.
            directory: Directory of its files in the storage.
            cache: Cache of what is read from them.
            moves: Moves of rows since index files were written; None if there are none.
        """
        self.entry = entry
        self.storage = storage
        self.directory = directory
        self.cache = cache
        self._moves = moves
        # Values derived from files have translated row addresses.
        self._key = (storage.uri, directory, None if moves is None else moves.uuid)

    def __repr__(self) -> str:
        return f"OpenSegment({self.entry.name!r}, {self.directory!r})"

    def present(self, addresses: Addresses) -> Addresses:
        """Return the present row addresses for row addresses in the files.

        The address of a removed row is that of a fragment that the table does not have any more.
        """
        return addresses if self._moves is None else self._moves.moves.translate(addresses)[0]

    @property
    def has_moved_rows(self) -> bool:
        """Whether `present` changes addresses."""
        return self._moves is not None

    def path(self, name: str) -> str:
        """Return the path of a file of the segment in the storage."""
        return f"{self.directory}/{name}"

    def has_file(self, name: str) -> bool:
        """Return whether the segment has a file of this name, without a request if the manifest says so."""
        if self.entry.files:
            return name in self.entry.files
        return bool(self.kept(("exists", name), lambda: [self.storage.exists(self.path(name))])[0])

    def list_files(self) -> list[str]:
        """Return the names of the files of the segment."""
        return list(self.entry.files) or self.storage.list_names(self.directory)

    def open_file(self, name: str) -> IndexFile:
        """Return a file of the segment, open. The cache keeps it.

        Raises:
            CorruptFileError: The file contradicts the format, or its size differs from the manifest.
            FileMissingError: There is no such file.
            UnsupportedFeatureError: A file version or a type that is not supported.
            StorageError: The storage failed.
        """
        key = (*self._key, "file", name)
        found = self.cache.find(key)
        if isinstance(found, IndexFile):
            return found
        note_item("indices_loaded", self._key)
        file = self.storage.open_file(self.path(name), self.entry.files.get(name))
        try:
            opened = IndexFile(file)
        except BaseException:
            file.close()
            raise
        return self.cache.keep(key, opened, _FILE_BYTES + opened.known_bytes)

    def open_files(self, names: Iterable[str]) -> list[IndexFile]:
        """Return files like `open_file`. Requests for those that are not open yet run side by side."""
        calls = [partial(self.open_file, name) for name in names]
        return run_each(calls, self.storage.is_remote)

    def column(self, file: str, name: str) -> pa.Array:
        """Return all rows of a column of a file. The cache keeps them. Errors are those of `open_file`."""

        def read() -> pa.Array:
            opened = self.open_file(file)
            return opened.read(0, opened.num_rows, [name]).column(0)

        return self.kept(("column", file, name), read, lambda array: int(array.get_total_buffer_size()))

    def kept(
        self, what: Hashable, load: Callable[[], T], num_bytes: Callable[[T], int] = lambda value: 0
    ) -> T:
        """Return a value that is derived from files of the segment, from the cache if it is there.

        Args:
            what: Name of the value; different for all values of a segment.
            load: Makes the value, which must not be None. Its errors are raised.
            num_bytes: Returns the memory of a value, in bytes.
        """
        return self.cache.get((*self._key, what), load, num_bytes)

    def has(self, what: Hashable) -> bool:
        """Return whether the cache has a value that is derived from files of the segment."""
        return self.cache.has((*self._key, what))

    def find(self, what: Hashable) -> object | None:
        """Return a value that `keep` kept; None if it is not in the cache."""
        return self.cache.find((*self._key, what))

    def find_each(self, whats: Sequence[Hashable]) -> list[object | None]:
        """Return what `find` returns for each name. All are found under one lock."""
        key = self._key
        return self.cache.find_each([(*key, what) for what in whats])

    def keep(self, what: Hashable, value: T, num_bytes: int) -> T:
        """Keep a value that is derived from files of the segment; see `IndexCache.keep`."""
        return self.cache.keep((*self._key, what), value, num_bytes)


def reuse_moves(snapshot: Snapshot, cache: IndexCache) -> ReuseMoves | None:
    """Return the moves of rows that index files do not know; None if there are none. The cache keeps them.

    Raises:
        CorruptFileError: The fragment reuse index contradicts itself.
        UnsupportedFeatureError: The fragment reuse index is too large.
        LanceError: The fragment reuse index cannot be read.
    """
    reuse = snapshot.manifest.fragment_reuse
    if reuse is None:
        return None
    return cache.get(
        ("moves", snapshot.storage.uri, reuse.uuid),
        lambda: ReuseMoves(reuse.uuid, moves_of(reuse)),
        lambda moves: moves.num_bytes,
    )


def open_segment(snapshot: Snapshot, entry: IndexSegment, cache: IndexCache) -> OpenSegment:
    """Return a segment of an index of a snapshot. Nothing is read yet.

    Raises:
        CorruptFileError: The segment is in a base path that the manifest lacks; or an error of
            `reuse_moves`.
        LanceError: The base path of the segment cannot be opened.
    """
    storage, directory = snapshot.index_directory(entry)
    return OpenSegment(entry, storage, directory, cache, reuse_moves(snapshot, cache))
