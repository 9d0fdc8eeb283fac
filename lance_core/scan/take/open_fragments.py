"""Fragments that a taker keeps open: their live rows and their columns."""

from __future__ import annotations

from collections import OrderedDict
from functools import cached_property
from threading import Lock

from lance_core.scan.files.data_files import DataFiles, FragmentFiles
from lance_core.scan.files.opened import OpenedFile
from lance_core.scan.read.columns import Column
from lance_core.scan.read.fragments import FragmentOpener
from lance_core.scan.read.live_rows import LiveRows
from lance_core.table.fragment import DataFile, Fragment
from lance_core.table.snapshot import Snapshot

_MOST_FRAGMENTS = 32


class OpenFragments:
    """The fragments of one snapshot that were used last, at most 32; thread-safe."""

    def __init__(self, snapshot: Snapshot, files: DataFiles) -> None:
        self._snapshot = snapshot
        self._files = files
        self._open: OrderedDict[int, OpenFragment] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._open)

    def get(self, fragment: Fragment) -> OpenFragment:
        """Return the open fragment, and keep it for later calls."""
        with self._lock:
            opened = self._open.get(fragment.id)
            if opened is None:
                opened = self._open[fragment.id] = OpenFragment(fragment, self._snapshot, self._files)
                if len(self._open) > _MOST_FRAGMENTS:
                    self._open.popitem(last=False)
            else:
                self._open.move_to_end(fragment.id)
        return opened


class OpenFragment:
    """The live rows of a fragment, and its columns for as long as its data files stay the same."""

    def __init__(self, fragment: Fragment, snapshot: Snapshot, files: DataFiles) -> None:
        self._fragment = fragment
        self._snapshot = snapshot
        self._files = files
        self._columns: tuple[tuple[Column, ...], dict[DataFile, OpenedFile]] | None = None

    @cached_property
    def live(self) -> LiveRows:
        """Live rows of the fragment. Raises LanceError if its deletions cannot be read."""
        return LiveRows(self._fragment.physical_rows, self._files.deletions(self._snapshot, self._fragment))

    def columns(self, opener: FragmentOpener) -> tuple[Column, ...]:
        """Return the projected columns; errors are those of `FragmentOpener.open_columns`."""
        if self._columns is not None:
            columns, files = self._columns
            if all(
                self._files.open(self._snapshot, self._fragment, data_file) is file
                for data_file, file in files.items()
            ):
                return columns
        fragment_files = FragmentFiles(self._snapshot, self._fragment, self._files)
        columns = tuple(opener.open_columns(self._fragment.id, self.live, fragment_files))
        self._columns = columns, fragment_files.opened
        return columns

    def bytes_per_row(self, opener: FragmentOpener) -> float:
        """Return about how many bytes a row of the projected columns has; errors are those of `columns`.

        Columns that were opened before are not compared with their files once more: whoever reads does that.
        """
        columns = self.columns(opener) if self._columns is None else self._columns[0]
        return sum([column.bytes_per_row for column in columns])
