"""Projected columns of many small local fragments, which are decoded together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from lance_core.encodings.picking import Int64s
from lance_core.encodings.values import concat_arrays
from lance_core.errors import LanceError, UnsupportedFeatureError
from lance_core.file.footer import FileVersion
from lance_core.file.joined_files import JoinedFiles
from lance_core.file.row_runs import Rows
from lance_core.file.v2_1 import joined_files as v2_1
from lance_core.kernels import CorruptData, OffsetOverflow
from lance_core.process.counters import PAGE_READS
from lance_core.scan.files.data_files import DataFiles
from lance_core.scan.plan.projection import ComputedColumn, DataColumn, RowColumn
from lance_core.scan.read.columns import DENSE_SHARE, ExpressionColumn, find_parts, present
from lance_core.scan.read.live_rows import LiveRows
from lance_core.scan.read.row_columns import RowColumns
from lance_core.scan.read.row_selection import select_rows
from lance_core.schema.blobs import describe_blobs
from lance_core.table.deletions import Offsets as Deleted
from lance_core.table.fragment import DataFile, Fragment, HeldFields
from lance_core.table.snapshot import Snapshot

_VERSIONS = (FileVersion.V2_0, FileVersion.V2_1, FileVersion.V2_2)

_Shape = tuple[tuple[HeldFields, FileVersion, int | None, str], ...]


def shape_of(fragment: Fragment) -> _Shape | None:
    """Return the fields, versions and directories of the files of a fragment; None if its rows cannot be
    joined with others.

    Fragments of equal shapes can be joined.
    """
    files = fragment.files
    if not files or any(file.version not in _VERSIONS for file in files):
        return None
    return tuple((file.held, file.version, file.base_id, file.path.rpartition("/")[0]) for file in files)


class JoinedFragments:
    """Small local fragments of equal shapes, with the bytes of their files. For one thread."""

    def __init__(
        self,
        snapshot: Snapshot,
        files: DataFiles,
        fragments: Sequence[Fragment],
        joined: Sequence[JoinedFiles | None] = (),
    ) -> None:
        """Join fragments. `joined` has the files that were read, for each file of a fragment."""
        self._snapshot = snapshot
        self._data_files = files
        self._fragments = fragments
        self._files = list(joined or [None] * len(fragments[0].files))
        self._num_rows = np.array([fragment.physical_rows for fragment in fragments], np.int64)
        self._total = int(self._num_rows.sum())
        self._row_columns = RowColumns(snapshot, files)

    def some(self, numbers: Int64s) -> JoinedFragments:
        """Return the fragments with these numbers."""
        if len(numbers) == len(self._fragments):
            return self
        joined = [None if files is None else files.some(numbers) for files in self._files]
        fragments = [self._fragments[number] for number in numbers]
        return JoinedFragments(self._snapshot, self._data_files, fragments, joined)

    def read(self, column: DataColumn | RowColumn | ComputedColumn, most_bytes: int) -> list[pa.Array] | None:
        """Return the live rows of a column; None if it has to be read from one fragment after the other.

        Then a file may be damaged, and the reader of its fragment says how.

        Raises:
            TooManyBytes: the column takes more than about `most_bytes`.
        """
        try:
            return self._live.drop_deleted(self._column(column, most_bytes), 0)
        except (CorruptData, LanceError, OffsetOverflow, pa.ArrowCapacityError):
            return None

    @cached_property
    def _deleted(self) -> list[Deleted]:
        """The deleted rows of each fragment."""
        return [self._data_files.deletions(self._snapshot, fragment) for fragment in self._fragments]

    @cached_property
    def _live(self) -> LiveRows:
        """The live rows of all fragments, whose physical rows are counted from the first fragment on."""
        firsts = np.cumsum(self._num_rows) - self._num_rows
        deleted = [rows + np.uint32(first) for rows, first in zip(self._deleted, firsts, strict=True)]
        return LiveRows(self._total, np.concatenate(deleted))

    def _column(self, column: DataColumn | RowColumn | ComputedColumn, most_bytes: int) -> list[pa.Array]:
        """Return the values of a column at all physical rows."""
        if isinstance(column, DataColumn):
            return [self._stored(column, most_bytes)]
        if isinstance(column, RowColumn):
            return [concat_arrays(self._row_numbers(column.output.name))]
        inputs = {each.output.name: _Decoded(self._column(each, most_bytes)) for each in column.inputs}
        return ExpressionColumn(column, self._total, inputs).read(0, self._total)

    def _row_numbers(self, name: str) -> list[pa.Array]:
        """Return a row column of each fragment."""
        arrays = []
        for fragment, rows in zip(self._fragments, self._deleted, strict=True):
            opened = self._row_columns.open(name, fragment, LiveRows(fragment.physical_rows, rows))
            arrays += opened.read(0, fragment.physical_rows)
        return arrays

    def _stored(self, column: DataColumn, most_bytes: int) -> pa.Array:
        """Return the values of a column of data files."""
        whole = self._snapshot.manifest.schema.field_by_id[column.field.id]
        held = [file.held for file in self._fragments[0].files]
        parts = find_parts(column, describe_blobs(whole), held)
        if not parts.files:
            return pa.nulls(self._total, column.output.type)
        if len(parts.files) > 1 or parts.is_widened or column.described is not None:
            raise UnsupportedFeatureError("a column of several files", column=column.output.name)
        ((place, stored),) = parts.files
        array = self._joined(place).read(column.field, stored, most_bytes)
        PAGE_READS.add(amount=len(self._fragments))
        return present(array, column)

    def _joined(self, place: int) -> JoinedFiles:
        """Return the files at one place of the fragments."""
        joined = self._files[place]
        if joined is None:
            contents = self._read([each.files[place] for each in self._fragments])
            version = self._fragments[0].files[place].version
            joined = self._files[place] = _join(contents, self._num_rows, version)
        return joined

    def _read(self, files: Sequence[DataFile]) -> list[bytes]:
        """Return the bytes of data files of one directory."""
        directory = files[0].path.rpartition("/")[0]
        storage = self._snapshot.storage_of(files[0].base_id)
        names = [file.path.rpartition("/")[2] for file in files]
        contents = storage.read_files(directory, names, [file.size for file in files])
        found = [content for content in contents if content is not None]
        if len(found) < len(contents):
            raise CorruptData("a file that is missing, or of another size")
        return found


def _join(contents: Sequence[bytes], num_rows: Int64s, version: FileVersion) -> JoinedFiles:
    """Return files of one version as joined files."""
    if version == FileVersion.V2_0:
        from lance_core.file.v2_0 import joined_files as v2_0  # late: most processes do not need it

        return v2_0.JoinedFiles(contents, num_rows, version)
    return v2_1.JoinedFiles(contents, num_rows, version)


class _Decoded:
    """A column that is in memory."""

    bytes_per_row = 8.0  # no reads are divided by it
    dense_share = DENSE_SHARE

    def __init__(self, arrays: Sequence[pa.Array]) -> None:
        self._arrays = arrays
        self.page_rows = (0, sum(map(len, arrays)))

    def read(self, start: int, end: int) -> list[pa.Array]:
        return select_rows(self._arrays, np.arange(start, end))

    def take(self, rows: Rows) -> list[pa.Array]:
        return select_rows(self._arrays, rows)
