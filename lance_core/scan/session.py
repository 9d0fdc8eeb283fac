"""Sessions: the open files, row takers, statistics, memory and settings that reads share.

A snapshot has the session that its reads use (`Snapshot.session`). So a scan, a take and a change of one
dataset share caches, and a setting applies to all of them. A server has one session. Datasets that are opened
without a session share the default session of the process.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from lance_core.arguments import named_arguments
from lance_core.errors import InvalidInputError
from lance_core.expressions.tree import Expression
from lance_core.index.cache import IndexCache
from lance_core.process.counters import CacheUse
from lance_core.scan.files.cache import FileCache
from lance_core.scan.files.data_files import DataFiles
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.projection import project
from lance_core.scan.run.budget import MemoryBudget
from lance_core.scan.take.row_taker import RowTaker
from lance_core.scan.take.taker_cache import TakerCache
from lance_core.table.snapshot import Snapshot

_FILE_CACHE_BYTES = 256 << 20
_INDEX_CACHE_BYTES = 256 << 20
_MEMORY_LIMIT_BYTES = 256 << 20


@named_arguments
class Session:
    """Caches, memory and settings of the datasets that are opened with it; thread-safe.

    Attributes:
        budget: Bytes of decoded rows that all streams may hold ahead of their readers.
        files: The data files that were used last, and the statistics of their values.
        indices: What searches read last from the files of indices.
        takers: The row takers that were used last.
        verify_checksums: Whether reads compare pages with their checksums, each page once while its file
            stays open. Changes always compare the pages that they read.
    """

    def __init__(
        self,
        index_cache_size_bytes: int | None = None,
        metadata_cache_size_bytes: int | None = None,
        *,
        memory_limit_bytes: int = _MEMORY_LIMIT_BYTES,
        verify_checksums: bool = False,
        cache_directory: str | os.PathLike[str] | None = None,
        cache_directory_bytes: int = 256 << 20,
    ) -> None:
        """Make a session. The first two arguments are those of the reference.

        Args:
            index_cache_size_bytes: Memory for what searches read from indices, 256 MiB if not given. With 0
                every search reads it again.
            metadata_cache_size_bytes: Memory for the metadata of data files, 256 MiB if not given. With 0 no
                file stays open.
            memory_limit_bytes: See `budget`. Each stream may hold one window of rows beyond it.
            verify_checksums: See the attribute.
            cache_directory: Directory of the statistics that filters gather; see `set_cache_directory`. None
                keeps them in memory.
            cache_directory_bytes: About how many bytes this directory may have.

        Raises:
            InvalidInputError: A size is negative.
        """
        for name, size in (
            ("index_cache_size_bytes", index_cache_size_bytes),
            ("metadata_cache_size_bytes", metadata_cache_size_bytes),
            ("memory_limit_bytes", memory_limit_bytes),
            ("cache_directory_bytes", cache_directory_bytes),
        ):
            if size is not None and size < 0:
                raise InvalidInputError(name, expected="0 or more", found=size)
        self.verify_checksums = verify_checksums
        self.budget = MemoryBudget(memory_limit_bytes)
        file_bytes = _FILE_CACHE_BYTES if metadata_cache_size_bytes is None else metadata_cache_size_bytes
        index_bytes = _INDEX_CACHE_BYTES if index_cache_size_bytes is None else index_cache_size_bytes
        self.indices = IndexCache(index_bytes)
        self.files = FileCache(max_bytes=file_bytes, indices=self.indices, verify_checksums=verify_checksums)
        self.takers = TakerCache(self.files)
        if cache_directory is not None:
            self.files.statistics.use_directory(cache_directory, cache_directory_bytes)

    def files_for(self, options: ScanOptions) -> DataFiles:
        """Return the files for one scan, which checks pages if the options or the session say so."""
        return self.files.verified() if options.verify_checksums else self.files

    def taker(
        self,
        snapshot: Snapshot,
        columns: tuple[str, ...] | None,
        computed: tuple[tuple[str, Expression], ...] | None = None,
        blob_handling: str = "blobs_descriptions",
    ) -> RowTaker:
        """Return the taker of rows of a snapshot, with columns or with `computed` columns; see `RowTaker`.

        `blob_handling` is that of `ScanOptions`.
        """
        if computed is not None:
            options = ScanOptions(computed=computed, blob_handling=blob_handling)
            return RowTaker(snapshot, project(snapshot.manifest.schema, options), self.files)
        return self.takers.get(snapshot, columns, blob_handling)

    def cache_use(self) -> Mapping[str, CacheUse]:
        """Return the size and the numbers of hits and misses of each cache."""
        return {
            "files": self.files.use(),
            "statistics": self.files.statistics.use(),
            "indices": self.indices.use(),
        }

    def settings(self) -> Mapping[str, object]:
        """Return the settings of reads, and the bytes that their decoded rows take."""
        directory = self.files.statistics.directory
        return {
            "verify_checksums": self.verify_checksums,
            "memory_limit_bytes": self.budget.limit_bytes,
            "memory_used_bytes": self.budget.used_bytes,
            "memory_peak_bytes": self.budget.peak_bytes,
            "keeps_statistics": directory is not None,
        }

    def size_bytes(self) -> int:
        """Return about how much memory the caches take."""
        return sum(use.bytes for use in self.cache_use().values())

    def index_cache_size_bytes(self) -> int:
        """Return about how much memory the cached parts of indices take."""
        return self.indices.use().bytes

    def __repr__(self) -> str:
        return f"Session({self.size_bytes()} bytes)"

    def is_same_as(self, other: Session) -> bool:
        """Return whether both are the same session."""
        return self is other


default_session = Session()
"""The session of datasets that are opened without a session."""


def session_of(snapshot: Snapshot) -> Session:
    """Return the session that reads of a snapshot use."""
    session = snapshot.session
    return session if isinstance(session, Session) else default_session
