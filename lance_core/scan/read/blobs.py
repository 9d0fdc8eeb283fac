"""The values of blobs, found through their descriptors.

A descriptor says where a value is: in the data file, in a side file beside it, or outside the dataset. Side
files are in a directory with the name of the data file. A side file is named by the 32 bits of its number,
lowest bit first.
Source: docs/format.md, "Blobs".
"""

from __future__ import annotations

import io
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lance_core.encodings.values import flatten_lists
from lance_core.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError
from lance_core.file.side_files import side_directory, side_file_name
from lance_core.scan.files.data_files import FragmentFiles
from lance_core.schema import Field
from lance_core.storage import ReadableFile
from lance_core.table.bases import BlobDirectory
from lance_core.table.fragment import DataFile
from lance_core.table.snapshot import Snapshot

if TYPE_CHECKING:
    from lance_core.statistics.file_checksums import FileChecksums


_MOST_OTHER_FILES = 32
"""Files with blobs that stay open beside a data file. Every large blob has a file of its own."""
DEFAULT_BLOB_BUFFER_SIZE = 512 << 10
"""Bytes that short reads of a `BlobFile` read at a time."""


@dataclass(frozen=True, slots=True)
class BlobPlace:
    """Location of the bytes of a value."""

    file: ReadableFile
    position: int
    size: int

    def part(self, offset: int, length: int) -> BlobPlace:
        """Return the location of the bytes `[offset, offset + length)` of the value.

        Raises:
            InvalidInputError: the range leaves the value.
        """
        if offset < 0 or length < 0 or offset + length > self.size:
            raise InvalidInputError(
                "range leaves the blob",
                expected=f"within {self.size} bytes",
                found=f"[{offset}, {offset + length})",
            )
        return BlobPlace(self.file, self.position + offset, length)


class BlobSource:
    """The blobs that one data file describes."""

    def __init__(
        self,
        snapshot: Snapshot,
        data_file: DataFile,
        file: ReadableFile,
        column: str,
        checksums: FileChecksums | None = None,
    ) -> None:
        """Read blobs that `file`, the open data file, describes.

        `column` is the name of the column for messages. With the `checksums` of the data file, a side file is
        checked when it is opened. Blobs outside the dataset have no checksums.
        """
        self._snapshot = snapshot
        self._data_file = data_file
        self._file = file
        self._column = column
        self._checksums = checksums
        self._lock = Lock()
        self._other_files: OrderedDict[tuple[str, str], ReadableFile] = OrderedDict()

    @classmethod
    def open(cls, files: FragmentFiles, data_file: DataFile, column: str) -> BlobSource:
        """Return the blobs that a column of one of the files of a fragment describes.

        Errors are those of `DataFiles.open`.
        """
        opened = files.open(data_file)
        return cls(files.snapshot, data_file, opened.file, column, opened.checksums)

    def read(self, descriptors: pa.StructArray) -> pa.Array:
        """Return the values of descriptors as large binaries; null for null descriptors.

        Raises:
            CorruptFileError: a descriptor points outside its file.
            UnsupportedFeatureError: a kind of blob is unknown, or a blob is outside and may not be read.
        """
        return large_binary(read_places(self.locate(descriptors)))

    def locate(self, descriptors: pa.StructArray) -> list[BlobPlace | None]:
        """Return the place of each value, None for nulls; errors are those of `read`."""
        columns = [child.to_pylist() for child in descriptors.flatten()]
        find = self._place if len(columns) == 2 else self._place_by_kind
        places = [None if row[0] is None else find(*row) for row in zip(*columns, strict=True)]
        for place in places:
            if place is not None and place.position + place.size > place.file.size:
                raise CorruptFileError(
                    "a blob lies outside its file",
                    file=place.file.name,
                    column=self._column,
                    expected=f"a range within {place.file.size} bytes",
                    found=f"[{place.position}, {place.position + place.size})",
                )
        return places

    def _place(self, position: int, size: int) -> BlobPlace | None:
        """Find a blob of the first form. In 2.0 files, a position without a size means null."""
        return BlobPlace(self._file, position, size) if size or not position else None

    def _place_by_kind(self, kind: int, position: int, size: int, blob_id: int, uri: str) -> BlobPlace:
        match kind:
            case 0:  # in the data file
                return BlobPlace(self._file, position, size)
            case 1:  # in a side file that several values share
                return BlobPlace(self._side_file(blob_id), position, size)
            case 2:  # in a side file of its own
                return BlobPlace(self._side_file(blob_id), 0, size)
            case 3:  # outside; no size means the rest of the file
                file = self._external_file(blob_id, uri)
                return BlobPlace(file, position, size or max(0, file.size - position))
        raise UnsupportedFeatureError(
            "kind of blob", file=self._data_file.path, column=self._column, found=kind
        )

    def _side_file(self, blob_id: int) -> ReadableFile:
        path = f"{side_directory(self._data_file.path)}/{side_file_name(blob_id)}"

        def opened() -> ReadableFile:
            file = self._snapshot.storage_of(self._data_file.base_id).open_file(path)
            if self._checksums is not None:
                self._checksums.verify_side_file(blob_id, file)
            return file

        return self._other_file(("", path), opened)

    def _external_file(self, base_id: int, uri: str) -> ReadableFile:
        """Open a file below a base path of the table, or at a URI that the opener of base paths follows."""
        directory, _, name = uri.rpartition("/")

        def opened() -> ReadableFile:
            if base_id:
                return self._snapshot.storage_of(base_id).open_file(uri)
            base = BlobDirectory(directory)
            return self._snapshot.open_base(base, self._snapshot.storage).open_file(name)

        return self._other_file((directory, name), opened)

    def _other_file(self, key: tuple[str, str], opened: Callable[[], ReadableFile]) -> ReadableFile:
        """Return a file that is not the data file. The files that were used last stay open.

        A file that leaves them is closed when nobody uses it any more.
        """
        with self._lock:
            file = self._other_files.get(key)
            if file is not None:
                self._other_files.move_to_end(key)
                return file
        file = opened()
        with self._lock:
            self._other_files[key] = file
            if len(self._other_files) > _MOST_OTHER_FILES:
                self._other_files.popitem(last=False)
        return file


def read_places(places: Sequence[BlobPlace | None]) -> list[pa.Buffer | None]:
    """Return the bytes at each place, None for None. Neighbouring ranges of a file are read together.

    Raises:
        StorageError: a file cannot be read.
    """
    by_file: dict[ReadableFile, list[tuple[int, BlobPlace]]] = {}
    for row, place in enumerate(places):
        if place is not None:
            by_file.setdefault(place.file, []).append((row, place))
    values: list[pa.Buffer | None] = [None] * len(places)
    for file, wanted in by_file.items():
        read = file.read_ranges([(place.position, place.size) for _, place in wanted])
        for (row, _), value in zip(wanted, read, strict=True):
            values[row] = value
    return values


def described_bytes(field: Field, array: pa.Array) -> int:
    """Return the total size in bytes of the blobs that an array describes, at any depth."""
    import pyarrow.compute as pc  # late: it takes long to load

    return sum(int(pc.sum(found.field("size")).as_py() or 0) for found in blob_descriptors(field, array))


def blob_descriptors(field: Field, array: pa.Array) -> Iterator[pa.StructArray]:
    """Yield the descriptors of each blob field, at any depth of structs and lists."""
    if field.is_blob_descriptor or field.is_blob_v2 or field.is_blob:
        yield array
    elif any(inner.is_blob_descriptor or inner.is_blob_v2 or inner.is_blob for inner in field.walk()):
        for child, values in zip(field.children, values_below(array), strict=True):
            yield from blob_descriptors(child, values)


def read_blobs(field: Field, array: pa.Array, source: BlobSource) -> pa.Array:
    """Return an array with the values of blobs instead of descriptors, at any depth of structs and lists."""
    if field.is_blob_descriptor:
        return source.read(array)
    if not any(inner.is_blob_descriptor for inner in field.walk()):
        return array
    pairs = zip(field.children, values_below(array), strict=True)
    children = [read_blobs(child, values, source) for child, values in pairs]
    fields = [
        child.with_type(values.type) for child, values in zip(fields_below(array.type), children, strict=True)
    ]
    return with_children(array, children, fields)


def values_below(array: pa.Array) -> list[pa.Array]:
    """Return the arrays directly below a struct or a list."""
    if pa.types.is_struct(array.type):
        return list(array.flatten())
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        return [flatten_lists(array)]
    raise UnsupportedFeatureError("blobs in columns of this type", found=array.type)


def fields_below(arrow_type: pa.DataType) -> list[pa.Field]:
    """Return the fields of the arrays of `values_below`."""
    return list(arrow_type) if pa.types.is_struct(arrow_type) else [arrow_type.value_field]


def with_children(array: pa.Array, children: Sequence[pa.Array], fields: Sequence[pa.Field]) -> pa.Array:
    """Return a struct or a list with other children: members, or the items in the form of `flatten`."""
    mask = array.is_null() if array.null_count else None
    if pa.types.is_struct(array.type):
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    lengths = np.diff(np.asarray(array.offsets))
    if mask is not None:
        lengths[np.asarray(mask)] = 0
    kind = pa.large_list if pa.types.is_large_list(array.type) else pa.list_
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.asarray(array.offsets).dtype)
    made = pa.ListArray if kind is pa.list_ else pa.LargeListArray
    return made.from_arrays(pa.array(offsets), children[0], type=kind(fields[0]), mask=mask)


def large_binary(values: Sequence[pa.Buffer | None]) -> pa.Array:
    """Return the values as one array, None as null. A single value is not copied."""
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum([0 if value is None else value.size for value in values], out=offsets[1:])
    valid = np.array([value is not None for value in values], bool)
    validity = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    parts = [value for value in values if value is not None]
    data = parts[0] if len(parts) == 1 else pa.py_buffer(b"".join(parts))
    return pa.Array.from_buffers(pa.large_binary(), len(values), [validity, pa.py_buffer(offsets), data])


class BlobFile(io.BufferedIOBase):
    """One blob as a file that is read on demand; positions count from the start of the blob."""

    def __init__(self, place: BlobPlace, buffer_size: int = DEFAULT_BLOB_BUFFER_SIZE) -> None:
        """Open the blob at a place. Short reads read `buffer_size` bytes ahead."""
        self._place = place
        self._position = 0
        self._buffer_size = buffer_size
        self._ahead = memoryview(b"")
        self._ahead_from = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def size(self) -> int:
        """Return the size of the blob in bytes."""
        return self._place.size

    def tell(self) -> int:
        self._check_open()
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._check_open()
        starts = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size()}
        if whence not in starts:
            raise ValueError(f"invalid whence ({whence}, should be 0, 1 or 2)")
        if starts[whence] + offset < 0:
            raise ValueError(f"negative seek position {starts[whence] + offset}")
        self._position = starts[whence] + offset
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        """Return the next `size` bytes, or all that are left; fewer at the end of the blob."""
        return bytes(self._next(self.size() if size is None or size < 0 else size))

    def read1(self, size: int = -1) -> bytes:
        """Return at most `size` of the next bytes, from one read of the storage."""
        return bytes(self._next(io.DEFAULT_BUFFER_SIZE if size < 0 else size))

    def readall(self) -> bytes:
        """Return all bytes from the position to the end."""
        return self.read()

    def readinto(self, buffer: Any) -> int:
        """Fill a writable buffer with the next bytes. Return their number, which is less at the end."""
        view = memoryview(buffer).cast("B")
        if view.readonly:
            raise TypeError(f"readinto() needs a writable buffer, got {type(buffer).__name__}")
        data = self._next(len(view))
        view[: len(data)] = data
        return len(data)

    def read_range(self, offset: int, length: int) -> bytes:
        """Return the bytes `[offset, offset + length)`; the position stays.

        Raises:
            InvalidInputError: the range leaves the blob.
        """
        return self.read_ranges([(offset, length)])[0]

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return the bytes of several (offset, length) ranges; errors are those of `read_range`."""
        self._check_open()
        read = read_places([self._place.part(offset, length) for offset, length in ranges])
        return [bytes(memoryview(part)) for part in read if part is not None]

    def __repr__(self) -> str:
        return f"<BlobFile size={self.size()}>"

    def _next(self, length: int) -> memoryview:
        """Return the next bytes, at most `length`, and move the position behind them."""
        self._check_open()
        length = max(0, min(length, self.size() - self._position))
        start, data = self._position - self._ahead_from, self._ahead
        if length and (start < 0 or start + length > len(data)):
            read = min(max(length, self._buffer_size), self.size() - self._position)
            data = memoryview(self._place.file.read(self._place.position + self._position, read)).cast("B")
            start = 0
            if read > length:
                self._ahead, self._ahead_from = data, self._position
        self._position += length
        return data[start : start + length]

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("blob file is closed")
