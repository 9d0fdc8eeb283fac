"""Cache of open data files, limited in bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TypeVar
from weakref import WeakValueDictionary

import numpy as np

from lance_core.errors import CorruptFileError
from lance_core.file.data_file import DataFileReader, open_data_file
from lance_core.index.cache import IndexCache
from lance_core.process.counters import CacheUse, HitCounter
from lance_core.process.forks import begin_anew_after_fork
from lance_core.scan.files.data_files import DataFiles
from lance_core.scan.files.opened import OpenedFile, OpenFile
from lance_core.statistics.cache import StatisticsCache
from lance_core.storage.base import Storage
from lance_core.table.deletions import Offsets
from lance_core.table.fragment import DataFile, Fragment
from lance_core.table.snapshot import Snapshot

# A file is measured when the number of its uses has doubled, and after every 256 uses.
_MEASURED_USES = 256
_NO_ROWS = np.empty(0, np.uint32)
_NO_ROWS.setflags(write=False)
_DELETIONS_BYTES = 512
"""Estimated memory of the objects that keep a deletion file, besides its rows."""


class _Deletions:
    """The deleted rows of a fragment, from one deletion file."""

    def __init__(self, offsets: Offsets) -> None:
        self.offsets = offsets
        self.num_uses = 0
        self.known_bytes = _DELETIONS_BYTES + offsets.nbytes
        self.kept_bytes = 0


_Kept = TypeVar("_Kept", OpenFile, _Deletions)


class VerifiedFiles:
    """The files of a cache for one scan or change that compares pages with their checksums.

    Pages that an earlier scan checked are checked again, since the bytes may have changed.
    """

    checks = True

    def __init__(self, files: FileCache) -> None:
        self._files = files
        # By the `id` of the file of the cache. Without a use they end, so that a scan of many keeps few open.
        self._verified: WeakValueDictionary[int, OpenedFile] = WeakValueDictionary()

    @property
    def statistics(self) -> StatisticsCache:
        return self._files.statistics

    @property
    def indices(self) -> IndexCache:
        return self._files.indices

    def open(self, snapshot: Snapshot, fragment: Fragment, data_file: DataFile) -> OpenedFile:
        """Open a data file; see `DataFiles.open`.

        Raises CorruptFileError also if the metadata of the file differs from its checksum.
        """
        opened = self._files.opened(snapshot, fragment, data_file)
        verified = self._verified.get(id(opened.file))
        if verified is None or verified.file is not opened.file:
            verified = self._verified[id(opened.file)] = opened.verified()
        return verified

    def deletions(self, snapshot: Snapshot, fragment: Fragment) -> Offsets:
        """Return the deleted rows of a fragment; see `DataFiles.deletions`."""
        return self._files.deletions(snapshot, fragment)


class FileCache:
    """Cache of the data files and deletion files that were used last; thread-safe.

    The bytes of metadata and of deleted rows are limited. A file that leaves the cache is closed when no scan
    uses it any more. How many descriptors are open is another matter: see `kernels/files/descriptor.hpp`.

    Attributes:
        checks: Whether a page is compared with its checksum when it is read first.
        statistics: Statistics of the values in these files, and in files that were used earlier.
        indices: What searches read last from the files of indices.
    """

    def __init__(
        self,
        max_bytes: int = 256 << 20,
        statistics: StatisticsCache | None = None,
        indices: IndexCache | None = None,
        *,
        verify_checksums: bool = False,
    ) -> None:
        """Make an empty cache.

        Args:
            max_bytes: Most bytes of metadata of these files; 0 keeps no file.
            statistics: Statistics of values; a new cache of them if not given.
            indices: Parts of index files; a new cache of them if not given.
            verify_checksums: Whether a page is compared with its checksum when it is read first. Files
                without checksums are read unchecked.
        """
        self.checks = verify_checksums
        self.statistics = StatisticsCache() if statistics is None else statistics
        self.indices = IndexCache() if indices is None else indices
        self._max_bytes = max_bytes
        self.begin()
        begin_anew_after_fork(self)

    def begin(self) -> None:
        """Begin without files, in this process or in a forked process."""
        self._num_bytes = 0
        self._files: OrderedDict[tuple[str, str, str], OpenFile | _Deletions] = OrderedDict()
        self._counter = HitCounter()
        self._lock = threading.Lock()

    def use(self) -> CacheUse:
        """Return the memory in use, and the numbers of hits and misses."""
        with self._lock:
            for opened in self._files.values():
                opened.kept_bytes = opened.known_bytes
            self._num_bytes = sum(opened.kept_bytes for opened in self._files.values())
            counter = self._counter
            return CacheUse(len(self._files), self._num_bytes, self._max_bytes, counter.hits, counter.misses)

    def __len__(self) -> int:
        return len(self._files)

    def open(self, snapshot: Snapshot, fragment: Fragment, data_file: DataFile) -> OpenedFile:
        """Open a data file of a fragment; see `DataFiles`."""
        opened = self.opened(snapshot, fragment, data_file)
        return opened.kept_verified() if self.checks else opened

    def verified(self) -> DataFiles:
        """Return the same files for one scan or change that compares pages with their checksums."""
        return VerifiedFiles(self)

    def opened(self, snapshot: Snapshot, fragment: Fragment, data_file: DataFile) -> OpenFile:
        """Open a data file for reads without checksums; errors are those of `DataFiles.open`."""
        storage = snapshot.storage_of(data_file.base_id)
        size = data_file.known_size
        identity = storage.identify(data_file.path)
        opened = None
        if identity is not None:
            opened = _sized(self._find((storage.uri, data_file.path, identity), OpenFile), size)
        if opened is None:
            opened = self._open(storage, data_file, size)
        _check(opened.reader, fragment, data_file)
        return opened

    def deletions(self, snapshot: Snapshot, fragment: Fragment) -> Offsets:
        """Return the deleted rows of a fragment; see `DataFiles`."""
        file = fragment.deletion_file
        if file is None:
            return _NO_ROWS
        storage = snapshot.storage_of(file.base_id)
        identity = storage.identify(file.path)
        if identity is None:  # asking a remote storage takes as long as reading the file
            return snapshot.read_deletions(fragment)
        key = storage.uri, file.path, identity
        known = self._find(key, _Deletions)
        if known is None:
            offsets = snapshot.read_deletions(fragment)
            offsets.setflags(write=False)
            known = self._keep(key, _Deletions(offsets))
        return known.offsets

    def keep_deletions(self, storage: Storage, path: str, offsets: Offsets) -> None:
        """Keep the rows of a deletion file that this process wrote, because the next change reads them."""
        identity = storage.identify(path)
        if identity is not None:
            offsets.setflags(write=False)
            self._keep((storage.uri, path, identity), _Deletions(offsets))

    def _open(self, storage: Storage, data_file: DataFile, size: int | None) -> OpenFile:
        """Open a file, or return it from the cache if its name and identity are there."""
        file = storage.open_file(data_file.path, size)
        key = (storage.uri, file.name, file.identity)
        opened = _sized(self._find(key, OpenFile), size)
        if opened is None:
            with self._lock:
                self._counter.count(hit=False)
            reader = open_data_file(file, data_file.version)
            opened = self._keep(key, OpenFile(file, reader))
        if opened.file is not file:
            file.close()
        return opened

    def _find(self, key: tuple[str, str, str], kind: type[_Kept]) -> _Kept | None:
        """Return a file of the cache; None if it is not there."""
        with self._lock:
            opened = self._files.get(key)
            if not isinstance(opened, kind):
                return None
            self._counter.count(hit=True)
            self._files.move_to_end(key)
            opened.num_uses += 1
            if opened.num_uses % _MEASURED_USES == 0 or opened.num_uses.bit_count() == 1:
                self._measure(opened)
            return opened

    def _keep(self, key: tuple[str, str, str], opened: _Kept) -> _Kept:
        with self._lock:
            known = self._files.get(key)
            if isinstance(known, type(opened)):  # another thread was faster
                return known
            self._files[key] = opened
            self._measure(opened)
            return opened

    def _measure(self, opened: OpenFile | _Deletions) -> None:
        """Measure a file again, and drop files if all are too large. Call under the lock."""
        num_bytes = opened.known_bytes
        self._num_bytes += num_bytes - opened.kept_bytes
        opened.kept_bytes = num_bytes
        kept = 1 if self._max_bytes else 0  # one file is kept even if it is larger than the limit
        while self._num_bytes > self._max_bytes and len(self._files) > kept:
            _, dropped = self._files.popitem(last=False)
            self._num_bytes -= dropped.kept_bytes
            dropped.kept_bytes = 0


def _sized(opened: OpenFile | None, size: int | None) -> OpenFile | None:
    """Return an open file if it has the size."""
    return None if opened is None or (size and size != opened.file.size) else opened


def _check(reader: DataFileReader, fragment: Fragment, data_file: DataFile) -> None:
    if reader.version != data_file.version:
        raise CorruptFileError(
            "the file version differs from the one in the manifest",
            file=data_file.path,
            expected=data_file.version,
            found=reader.version,
        )
    if reader.num_rows != fragment.physical_rows:
        raise CorruptFileError(
            f"the number of rows differs from that of fragment {fragment.id}",
            file=data_file.path,
            expected=fragment.physical_rows,
            found=reader.num_rows,
        )
