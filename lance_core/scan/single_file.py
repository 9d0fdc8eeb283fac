"""Reads of one data file without a table: scans and takes of a table with one fragment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.file.data_file import ModernFile
from lance_core.file.footer import FileVersion, read_version
from lance_core.file.metadata import FileMetadata
from lance_core.file.side_files import CHECKSUMS_KEY
from lance_core.index.cache import IndexCache
from lance_core.proto import file_pb2, table_pb2
from lance_core.scan.files.opened import OpenedFile, OpenFile
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.projection import project
from lance_core.scan.plan.scan_plan import plan_scan
from lance_core.scan.run.execute import scan_batches
from lance_core.scan.session import default_session
from lance_core.scan.take.keys import as_keys
from lance_core.scan.take.row_taker import RowTaker
from lance_core.schema import Field, Schema
from lance_core.statistics.cache import StatisticsCache
from lance_core.statistics.file_buffer import METADATA_KEY
from lance_core.storage import ReadableFile, Storage
from lance_core.table.bases import DatasetBasePath
from lance_core.table.deletions import Offsets
from lance_core.table.fragment import DataFile, Fragment
from lance_core.table.manifest import Manifest, describe_rows
from lance_core.table.snapshot import Snapshot

_DIRECTORY = 1
"""Id of the base path that is the directory of the file."""
_BATCH_BYTES = 128 << 20
"""Batches have the number of rows that the caller asks for, unless they are larger than this."""


class SingleFile:
    """The rows of one data file, with some of its columns. Thread-safe.

    The file stays open as long as this object exists. Blobs are returned as values.
    """

    def __init__(self, storage: Storage, name: str, columns: Sequence[str] | None = None) -> None:
        """Open the file `name` of a storage.

        Args:
            storage: The directory of the file.
            name: Path of the file.
            columns: Names or dotted paths; None for all. A path narrows its column to the fields that paths
                lead to.

        Raises:
            InvalidInputError: A column is missing, or there are no columns.
            UnsupportedFeatureError: The file has version 0.1, or an unknown version.
            CorruptFileError: The bytes contradict the format.
            StorageError: The file is missing, or the storage failed.
        """
        if columns is not None and not columns:
            raise InvalidInputError("columns of a file", expected="at least one", found="none")
        self._file = storage.open_file(name)
        try:
            _refuse_legacy(self._file)
            reader = ModernFile(self._file)
            self.metadata: FileMetadata = reader.metadata
            self._snapshot = Snapshot(storage, _manifest(self.metadata, columns), _same_storage)
        except BaseException:
            self._file.close()
            raise
        self._files = _OneFile(OpenFile(self._file, reader))

    @property
    def schema(self) -> pa.Schema:
        """The schema of the whole file as users see it, without what the writer keeps for itself."""
        schema = self.metadata.schema
        return Schema(schema.messages, _user_metadata(schema)).to_arrow()

    def batches(
        self, start: int = 0, num_rows: int | None = None, batch_rows: int | None = None
    ) -> pa.RecordBatchReader:
        """Return the rows `[start, start + num_rows)` in batches of `batch_rows`; None for all rows.

        Raises:
            InvalidInputError: The range exceeds the file, or a number is not valid.
        """
        total = self.metadata.num_rows
        num_rows = total - start if num_rows is None else num_rows
        if start < 0 or num_rows < 0 or start + num_rows > total:
            found = f"[{start}, {start + num_rows})"
            raise InvalidInputError("range of rows", expected=f"within [0, {total})", found=found)
        options = ScanOptions(
            offset=start,
            limit=num_rows,
            batch_rows=batch_rows,
            batch_bytes=_BATCH_BYTES,
            blob_handling="all_binary",
        )
        plan = plan_scan(self._snapshot, options)
        rows = scan_batches(self._snapshot, plan, default_session.budget, self._files)
        return pa.RecordBatchReader.from_batches(plan.schema, rows)

    def take(self, rows: Any, batch_rows: int | None = None) -> pa.RecordBatchReader:
        """Return the rows with strictly ascending numbers, in batches of `batch_rows`.

        Raises:
            InvalidInputError: The numbers do not ascend, or a number is out of range.
            TypeError: `rows` has no integers.
        """
        keys = as_keys(rows, "indices")
        if (keys[1:] <= keys[:-1]).any():
            raise InvalidInputError("indices of rows", expected="strictly ascending numbers")
        if len(keys) and keys[-1] >= self.metadata.num_rows:
            raise InvalidInputError(
                "index of a row", expected=f"below {self.metadata.num_rows}", found=keys[-1]
            )
        step = len(keys) if batch_rows is None else batch_rows

        def batches() -> Iterator[pa.RecordBatch]:
            for start in range(0, len(keys), step or 1):
                yield self._taker.by_offset(keys[start : start + step])

        return pa.RecordBatchReader.from_batches(self._taker.schema, batches())

    def global_buffer(self, index: int) -> bytes:
        """Return a global buffer.

        Raises:
            InvalidInputError: There is no such buffer.
            StorageError: The storage failed.
        """
        ranges = self.metadata.global_buffers
        if not 0 <= index < len(ranges):
            raise InvalidInputError("index of a global buffer", expected=f"below {len(ranges)}", found=index)
        return bytes(memoryview(self._file.read(*ranges[index])))

    @cached_property
    def _taker(self) -> RowTaker:
        options = ScanOptions(blob_handling="all_binary")
        return RowTaker(self._snapshot, project(self._snapshot.manifest.schema, options), self._files)


class _OneFile:
    """One open file in place of the files of a session; see `DataFiles`."""

    checks = False

    def __init__(self, opened: OpenFile) -> None:
        self._opened = opened
        self.statistics = StatisticsCache()
        self.indices = IndexCache(0)

    def open(self, snapshot: Snapshot, fragment: Fragment, data_file: DataFile) -> OpenedFile:
        """Return the file."""
        return self._opened

    def deletions(self, snapshot: Snapshot, fragment: Fragment) -> Offsets:
        """Return no rows: a file without a dataset has no deletions."""
        return snapshot.read_deletions(fragment)


def _refuse_legacy(file: ReadableFile) -> None:
    if read_version(file) == FileVersion.V0_1:
        raise UnsupportedFeatureError(
            "a file of version 0.1 without its dataset", file=file.name, expected="2.0, 2.1 or 2.2"
        )


def _manifest(metadata: FileMetadata, columns: Sequence[str] | None) -> Manifest:
    """Return the description of the rows of a file: one fragment, whose only data file is this one."""
    schema = metadata.schema
    major, minor = metadata.version.in_manifest
    owners = metadata.column_fields()
    fragment = table_pb2.DataFragment(physical_rows=metadata.num_rows)
    fragment.files.add(
        path=metadata.name,
        fields=[field.id for field in owners],
        column_indices=range(len(owners)),
        file_major_version=major,
        file_minor_version=minor,
        base_id=_DIRECTORY,
    )
    return describe_rows(
        schema.messages if columns is None else _chosen(schema, columns),
        _user_metadata(schema),
        [fragment] if metadata.num_rows else [],
        name=metadata.name,
        base_paths=[table_pb2.BasePath(id=_DIRECTORY)],
    )


def _same_storage(base: DatasetBasePath, storage: Storage) -> Storage:
    return storage


def _user_metadata(schema: Schema) -> dict[str, bytes]:
    """Return the metadata of a file without the keys of our own global buffers."""
    ours = (METADATA_KEY, CHECKSUMS_KEY)
    return {key: value for key, value in schema.raw_metadata.items() if key not in ours}


def _chosen(schema: Schema, columns: Sequence[str]) -> list[file_pb2.Field]:
    """Return the messages of columns and of the fields above and below them, in the order of `columns`."""
    by_id = {message.id: message for message in schema.messages}
    parents: dict[int, dict[int, None]] = {}
    for name in columns:
        parent = -1
        path = _path(schema, name)
        for field in path:
            parents.setdefault(parent, {})[field.id] = None
            parent = field.id
        for field in path[-1].walk():
            for child in field.children:
                parents.setdefault(field.id, {})[child.id] = None
    messages: list[file_pb2.Field] = []

    def append(parent: int) -> None:
        for field_id in parents.get(parent, ()):
            messages.append(by_id[field_id])
            append(field_id)

    append(-1)
    return messages


def _path(schema: Schema, name: str) -> list[Field]:
    """Return the fields from the top-level column to the field with a name."""
    wanted = schema.resolve(name)
    path = [wanted]
    while path[0].parent_id != -1:
        path.insert(0, schema.field_by_id[path[0].parent_id])
    return path
