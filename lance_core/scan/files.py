"""Open data files: checked against the manifest, and kept open for the next scan within limits."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping

from lance_core.errors import CorruptFileError
from lance_core.file.columns import ColumnReader
from lance_core.file.data_file import DataFileReader, open_data_file
from lance_core.file.footer import FileVersion
from lance_core.schema.fields import Field
from lance_core.storage.base import ReadableFile
from lance_core.table.fragment import DataFile, Fragment
from lance_core.table.snapshot import Snapshot


class OpenFile:
    """One data file with its parsed metadata and the column readers made from it so far; thread-safe."""

    def __init__(self, file: ReadableFile, reader: DataFileReader) -> None:
        self.file = file
        self.reader = reader
        self._readers: dict[tuple[Field, tuple[tuple[int, int], ...]], ColumnReader] = {}
        self._lock = threading.Lock()

    def column(self, field: Field, columns: Mapping[int, int]) -> ColumnReader:
        """The reader of `field`, whose leaves lie in the columns that `columns` gives for their field ids.

        Versions of a table may give one column of a file different fields, so both are part of the key.
        """
        key = (field, tuple(columns.items()))
        with self._lock:
            reader = self._readers.get(key)
            if reader is None:
                reader = self._readers[key] = self.reader.open_column(field, columns)
            return reader


class FileCache:
    """Least recently used open files, bounded in number, since each holds a descriptor; thread-safe.

    A file that falls out is closed when the last scan that still uses it lets go of it.
    """

    def __init__(self, max_files: int = 128) -> None:
        self._max_files = max_files
        self._files: OrderedDict[tuple[str, str, str], OpenFile] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, snapshot: Snapshot, fragment: Fragment, data_file: DataFile) -> OpenFile:
        """The data file of a fragment, opened and checked against the manifest.

        Raises:
            CorruptFileError: version, size or number of rows differ from what the manifest says.
            StorageError: the storage failed, or the file is missing.
        """
        storage = snapshot.storage_of(data_file.base_id)
        file = storage.open_file(data_file.path, _known_size(data_file))
        key = (storage.uri, file.name, file.identity)
        with self._lock:
            opened = self._files.get(key)
            if opened is not None:
                self._files.move_to_end(key)
        if opened is None:
            opened = OpenFile(file, open_data_file(file, data_file.version))
            with self._lock:
                opened = self._files.setdefault(key, opened)
                while len(self._files) > self._max_files:
                    self._files.popitem(last=False)
        if opened.file is not file:
            file.close()
        _check(opened.reader, fragment, data_file)
        return opened


def _known_size(data_file: DataFile) -> int | None:
    """Size of the file by the manifest. Some releases measured 0.1 files before their end was written."""
    return data_file.size if data_file.version >= FileVersion.V2_0 else None


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
