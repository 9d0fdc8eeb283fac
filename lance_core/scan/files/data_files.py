"""The interface through which scans, takes and changes open data files."""

from __future__ import annotations

from typing import Protocol

from lance_core.index.cache import IndexCache
from lance_core.scan.files.opened import OpenedFile
from lance_core.statistics.cache import StatisticsCache
from lance_core.table.deletions import Offsets
from lance_core.table.fragment import DataFile, Fragment
from lance_core.table.snapshot import Snapshot


class DataFiles(Protocol):
    """Opener of data files for scans, takes and changes; thread-safe."""

    @property
    def checks(self) -> bool:
        """Whether pages are compared with their checksums."""

    @property
    def statistics(self) -> StatisticsCache:
        """Known statistics of the values in the files."""

    @property
    def indices(self) -> IndexCache:
        """Parts of the files of indices that searches read last."""

    def open(self, snapshot: Snapshot, fragment: Fragment, data_file: DataFile) -> OpenedFile:
        """Open a data file of a fragment, and compare it with the manifest.

        Raises:
            CorruptFileError: version, size or number of rows differ from what the manifest says.
            StorageError: the storage failed, or the file is missing.
        """

    def deletions(self, snapshot: Snapshot, fragment: Fragment) -> Offsets:
        """Return the deleted rows of a fragment as `Snapshot.read_deletions` does. The array is not writable.

        Errors are those of `lance_core.table.deletions.read_deletions`.
        """


class FragmentFiles:
    """The data files of one fragment. Each is opened once, when it is first needed.

    Attributes:
        num_rows: Physical rows of the fragment.
        data_files: All data files, open or not.
        opened: The open files.
    """

    def __init__(self, snapshot: Snapshot, fragment: Fragment, files: DataFiles) -> None:
        self.num_rows = fragment.physical_rows
        self.data_files = fragment.files
        self.snapshot = snapshot
        self._fragment = fragment
        self._files = files
        self.opened: dict[DataFile, OpenedFile] = {}

    def open(self, data_file: DataFile) -> OpenedFile:
        """Return one of the files, open; errors are those of `DataFiles.open`."""
        opened = self.opened.get(data_file)
        if opened is None:
            opened = self._files.open(self.snapshot, self._fragment, data_file)
            self.opened[data_file] = opened
        return opened
