"""Statistics of the columns of a fragment: found for pruning, and gathered from rows that a filter decoded.

A 0.1 file has statistics of its pages. A 2.x file that this package wrote has them in a global buffer.
Earlier scans may have gathered statistics of any file; they describe fewer rows at a time, so they are
preferred. A column that no file of the fragment has is null in all rows. No data page is read here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Literal
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc

from lance_core.expressions.tree import Path
from lance_core.file.data_file import DataFileReader, ModernFile
from lance_core.file.v0_1.reader import LegacyFile
from lance_core.pool import map_ahead
from lance_core.scan.files.data_files import DataFiles, FragmentFiles
from lance_core.schema import Schema
from lance_core.schema.arrow_types import EXTENSION_NAME
from lance_core.schema.fields import Field
from lance_core.schema.physical_columns import owns_column
from lance_core.statistics.cache import ColumnKey
from lance_core.statistics.collect import bounds_type, has_bounds
from lance_core.statistics.column_facts import ColumnFacts
from lance_core.statistics.column_statistics import all_null
from lance_core.statistics.file_buffer import FilePageStatistics, buffer_of, from_buffer
from lance_core.statistics.prune import KnownColumns
from lance_core.statistics.v0_1 import page_statistics
from lance_core.statistics.zone_statistics import ZONE_ROWS
from lance_core.table.fragment import DataFile, Fragment, HeldFields
from lance_core.table.snapshot import Snapshot

Source = Literal["file", "cache", "none"]


@dataclass(frozen=True)
class FragmentStatistics:
    """Known statistics of some columns of a fragment.

    Attributes:
        facts: Statistics by path, for the columns that have some.
        sources: Where those of each column come from: the data files, or what scans gathered.
        are_complete: Whether scans can learn nothing more of these columns.
    """

    facts: Mapping[Path, ColumnFacts]
    sources: Mapping[Path, Source]
    are_complete: bool

    @cached_property
    def source(self) -> Source:
        """Origin of all statistics: "cache" if any are gathered, else "file", or "none" without
        statistics.
        """
        return max(self.sources.values(), key=("none", "file", "cache").index, default="none")


@dataclass(frozen=True)
class TableStatistics:
    """Known statistics of some columns of several fragments of one version of a table.

    Attributes:
        sources: Origin of the statistics of each fragment.
        are_complete: Whether scans can learn nothing more of each fragment.
        columns: The columns, with the rows of all fragments one after the other.
        starts: The first row of each fragment there, and the number of all rows.
        num_changes: `StatisticsCache.num_changes` before they were looked up.
    """

    sources: tuple[Source, ...]
    are_complete: tuple[bool, ...]
    columns: KnownColumns
    starts: tuple[int, ...]
    num_changes: int


class KnownStatistics:
    """Known statistics of some columns of the fragments of one snapshot.

    Small fragments with one local file, of which scans cannot learn more, are looked up as a whole: tables
    that change by key have many of them.
    """

    def __init__(self, snapshot: Snapshot, paths: Sequence[Path], files: DataFiles) -> None:
        self._snapshot = snapshot
        self._paths = paths
        self._files = files
        self._is_checked = files.checks
        self._columns: dict[HeldFields, tuple[str, ...]] = {}

    def of_all(
        self, fragments: Sequence[Fragment], files_of: Callable[[Fragment], FragmentFiles], is_remote: bool
    ) -> TableStatistics:
        """Return the known statistics of fragments, whose files `files_of` returns; see `of`.

        A table is asked again and again for the same fragments and columns. So the answer is kept until a
        scan has added statistics.
        """
        manifest, cache = self._snapshot.manifest, self._files.statistics
        numbers = tuple([fragment.id for fragment in fragments])
        version = self._snapshot.storage.uri, manifest.version, manifest.identity
        key = *version, numbers, tuple(self._paths), self._is_checked
        num_changes = cache.num_changes
        kept = cache.whole(key, TableStatistics)
        if kept is not None and kept.num_changes == num_changes:
            return kept
        found = map_ahead(lambda fragment: self.of(fragment, files_of(fragment)), fragments, is_remote)
        known = list(found)
        starts = (0, *accumulate(fragment.physical_rows for fragment in fragments))
        columns = KnownColumns(self._paths, [each.facts for each in known], starts)
        sources = tuple([each.source for each in known])
        are_complete = tuple([each.are_complete for each in known])
        whole = TableStatistics(sources, are_complete, columns, starts, num_changes)
        cache.keep_whole(key, whole, columns.num_bytes)
        return whole

    def of(self, fragment: Fragment, opened: FragmentFiles) -> FragmentStatistics:
        """Return the known statistics of a fragment with the files `opened`; errors are those of `Gatherer`
        and `Gatherer.known`.
        """
        key = self._key(fragment, opened)
        whole = None if key is None else self._files.statistics.whole(key, FragmentStatistics)
        if whole is None:
            gatherer = Gatherer(self._snapshot, fragment, self._paths, self._files, opened)
            whole = gatherer.known()
            if key is not None and gatherer.is_complete:
                num_bytes = sum(facts.num_bytes for facts in whole.facts.values())
                self._files.statistics.keep_whole(key, whole, num_bytes)
        return whole

    def _key(self, fragment: Fragment, opened: FragmentFiles) -> Hashable | None:
        """Return the key of a fragment in the cache; None if it has no whole entry."""
        if opened.num_rows > ZONE_ROWS or len(opened.data_files) != 1:
            return None
        (file,) = opened.data_files
        storage = self._snapshot.storage_of(file.base_id)
        identity = storage.identify(file.path)
        if identity is None:
            return None
        columns = self._columns.get(file.held)
        if columns is None:
            columns = self._columns[file.held] = tuple(
                f"{path} {_described(leaf[0], file)}"
                for path in self._paths
                if (leaf := _leaf(self._snapshot.manifest.schema, path)) is not None
            )
        return storage.uri, file.path, identity, file.size, opened.num_rows, columns, self._is_checked


class Gatherer:
    """Statistics of columns of one fragment: those that are known, and more from rows that a filter decodes.

    Paths to unknown columns, and to columns without an order, are left out.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        fragment: Fragment,
        paths: Iterable[Path],
        files: DataFiles,
        opened: FragmentFiles | None = None,
    ) -> None:
        """Open the files of the columns at `paths`. `opened` has the files of the fragment, if the caller
        opens them, too.

        Raises:
            LanceError: a data file cannot be opened.
        """
        self._columns: dict[str, list[tuple[Path, _StoredColumn]]] = {}
        self._missing: dict[Path, pa.Table] = {}
        opened = opened or FragmentFiles(snapshot, fragment, files)
        for path in paths:
            leaf = _leaf(snapshot.manifest.schema, path)
            if leaf is None:
                continue
            data_file = _holder(leaf[0], fragment)
            if data_file is None:
                self._missing[path] = all_null(leaf[1], fragment.physical_rows)
                continue
            column = _StoredColumn(snapshot, fragment, data_file, *leaf, files, opened)
            self._columns.setdefault(path[0], []).append((path[1:], column))

    def known(self) -> FragmentStatistics:
        """Return the known statistics, about physical rows, deleted rows included.

        Raises:
            LanceError: the statistics in a data file are damaged.
        """
        facts = {path: ColumnFacts(table) for path, table in self._missing.items()}
        sources: dict[Path, Source] = dict.fromkeys(self._missing, "file")
        for name, columns in self._columns.items():
            for below, column in columns:
                found = column.known()
                if found is not None:
                    facts[name, *below], sources[name, *below] = found
        stored = [column for columns in self._columns.values() for _, column in columns]
        return FragmentStatistics(facts, sources, all(column.is_complete for column in stored))

    @property
    def is_complete(self) -> bool:
        """Whether `add` would never learn anything, whatever scans have gathered so far."""
        return all(column.is_one_zone for columns in self._columns.values() for _, column in columns)

    def wants(self, name: str, start: int, end: int) -> bool:
        """Return whether `add` would learn from the physical rows `[start, end)` of a top-level column."""
        return any(column.wants(start, end) for _, column in self._columns.get(name, ()))

    def add(self, name: str, first_row: int, arrays: Sequence[pa.Array]) -> None:
        """Add consecutive rows of the top-level column `name`.

        Args:
            first_row: Physical row number of the first row.
            arrays: All rows, deleted rows included; structs may have fewer children than the column.
        """
        for below, column in self._columns.get(name, ()):
            column.gather(first_row, [_child(array, below) for array in arrays])


class _StoredColumn:
    """A leaf column of one data file."""

    def __init__(
        self,
        snapshot: Snapshot,
        fragment: Fragment,
        data_file: DataFile,
        leaf: Field,
        bounds: pa.DataType,
        files: DataFiles,
        fragment_files: FragmentFiles,
    ) -> None:
        opened = fragment_files.open(data_file)
        self._reader: DataFileReader = opened.reader
        self._leaf = leaf
        self._type = bounds
        self._number = data_file.columns[leaf.id]
        self._num_rows = fragment.physical_rows
        self._cache = files.statistics
        how = _described(leaf, data_file)
        if opened.checksums is not None:
            how += " verified"  # kept apart from statistics of unchecked pages
        storage = snapshot.storage_of(data_file.base_id)
        self._key = ColumnKey(storage.uri, opened.file.name, opened.file.identity, how)

    def known(self) -> tuple[ColumnFacts, Source] | None:
        """Return all known statistics, and where they come from; None without any."""
        gathered = None
        if not self.is_one_zone:  # otherwise gathering adds nothing to the statistics of the file
            gathered = self._cache.gathered(self._key, self._type, self._num_rows)
        facts = self._cache.facts(self._key, self._stored, gathered, self._num_rows)
        return None if facts is None else (facts, "file" if gathered is None else "cache")

    def gather(self, first_row: int, arrays: Sequence[pa.Array]) -> None:
        if not self.is_one_zone:
            self._cache.gather(self._key, self._type, self._num_rows, first_row, arrays)

    def wants(self, start: int, end: int) -> bool:
        if self.is_one_zone:
            return False
        return self._cache.wants(self._key, self._type, self._num_rows, start, end)

    @property
    def is_complete(self) -> bool:
        """Whether the statistics of the file, and those that scans have gathered, leave no row out."""
        return not self.wants(0, self._num_rows)

    @cached_property
    def _stored(self) -> pa.Table | None:
        """Statistics that the file contains."""
        return self._cache.stored(self._key, self._read)

    @cached_property
    def is_one_zone(self) -> bool:
        """Whether the statistics of the file are as fine and as complete as gathered ones."""
        if self._num_rows > ZONE_ROWS or isinstance(self._reader, LegacyFile):
            return False
        stored = self._stored
        return stored is not None and len(stored) == 1 and not stored["null_count"].null_count

    def _read(self) -> pa.Table | None:
        if isinstance(self._reader, LegacyFile):
            return page_statistics(self._reader, [self._leaf.id]).get(self._leaf.id)
        assert isinstance(self._reader, ModernFile)
        statistics = read_page_statistics(self._reader)
        return None if statistics is None else statistics.column(self._number, self._type)


def _described(leaf: Field, file: DataFile) -> str:
    """Return the column of a leaf in a file, and the parts of the schema that decide how it is read."""
    return f"{file.columns.get(leaf.id)} {leaf.id} {leaf.logical_type} {leaf.nullable}"


def read_page_statistics(file: ModernFile) -> FilePageStatistics | None:
    """Return the statistics and checksums in a 2.x file; None if the file has none.

    Raises:
        CorruptFileError: the statistics are damaged.
        StorageError: the storage failed.
    """
    metadata = file.metadata
    place = buffer_of(metadata.schema.metadata, metadata.global_buffers, metadata.name)
    return None if place is None else from_buffer(file.file.read(*place), metadata.name)


def _leaf(schema: Schema, path: Path) -> tuple[Field, pa.DataType] | None:
    """Return the field at `path` and the type of its bounds, if its values have an order and are read as
    stored.
    """
    known = _leaves.setdefault(schema, {})
    if path not in known:
        field = _ordered(schema, path)
        known[path] = None if field is None else (field, bounds_type(field.arrow_type))
    return known[path]


# Fields by path: every fragment of a filtered scan needs the same ones.
_leaves: WeakKeyDictionary[Schema, dict[Path, tuple[Field, pa.DataType] | None]] = WeakKeyDictionary()


def _ordered(schema: Schema, path: Path) -> Field | None:
    field = next((field for field in schema.fields if field.name == path[0]), None)
    for name in path[1:]:
        if field is None or field.logical_type != "struct" or owns_column(field):
            return None  # fields below have no column: the children of a blob are not those of its descriptor
        field = next((child for child in field.children if child.name == name), None)
    if (
        field is None
        or not owns_column(field)
        or field.is_json
        or field.is_blob
        or field.is_blob_v2
        or field.extension_name
        or EXTENSION_NAME in field.metadata
        or not has_bounds(field.arrow_type)
    ):
        return None
    return field


def _holder(leaf: Field, fragment: Fragment) -> DataFile | None:
    return next((file for file in fragment.files if leaf.id in file.columns), None)


def _child(array: pa.Array, path: Path) -> pa.Array:
    """Return the values inside structs, null if a struct is."""
    return pc.struct_field(array, list(path)) if path else array
