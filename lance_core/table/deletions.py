"""Deletion files: the row offsets of a fragment that are deleted.

Two kinds exist: an Arrow IPC file with one uint32 column `row_id`, and a 32-bit Roaring bitmap in the
portable serialization. A deletion file never changes. To delete more rows, a writer puts a new file that
names all deleted rows of the fragment.

Source: docs/format.md, "Deletions".
"""

from random import SystemRandom

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyroaring

from lance_core.errors import CorruptFileError, InvalidInputError
from lance_core.number_sets import bitmap_of, distinct
from lance_core.proto import table_pb2
from lance_core.schema.arrow_values import array_of, numbers_of
from lance_core.storage import Storage
from lance_core.table.fragment import MAX_ROWS, Fragment, deletion_file_name

Offsets = npt.NDArray[np.uint32]

DIRECTORY = "_deletions"

_MIN_BITMAP_ROWS = 5000
"""Number of deleted rows from which a file is a bitmap, as in the reference."""
# Handing one column to another thread takes longer than the codec.
_READ_OPTIONS = pa.ipc.IpcReadOptions(use_threads=False)
_WRITE_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
_ARROW_SCHEMA = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])


def read_deletions(storage: Storage, fragment: Fragment) -> Offsets:
    """Return the deleted row offsets of a fragment, ascending and unique.

    The offsets count physical rows. The result is empty if the fragment has no deletion file.

    Raises:
        CorruptFileError: the file does not decode, names a row beyond the fragment, or has another number of
            rows than the manifest says.
        StorageError: the storage failed, or the file is missing.
    """
    deletion_file = fragment.deletion_file
    if deletion_file is None:
        return np.empty(0, dtype=np.uint32)
    name = deletion_file.path
    data = storage.read_file(name)
    decode = _decode_bitmap if deletion_file.is_bitmap else _decode_arrow
    offsets = decode(data, fragment.physical_rows or MAX_ROWS, name)
    if deletion_file.num_deleted_rows not in (None, len(offsets)):
        raise CorruptFileError(
            "deletion file has another number of deleted rows than the manifest says",
            file=name,
            expected=deletion_file.num_deleted_rows,
            found=len(offsets),
        )
    return offsets


def new_deletion_file(
    read_version: int, offsets: Offsets, *, as_bitmap: bool | None = None
) -> table_pb2.DeletionFile:
    """Return the entry of a new deletion file for the manifest; `store_deletions` writes the file.

    Args:
        read_version: version in which the rows were found.
        offsets: all deleted rows of the fragment, unique, including the rows of the file that this file
            replaces.
        as_bitmap: kind of the file. None: chosen by the number of rows. A file that replaces a bitmap should
            be a bitmap.

    Raises:
        InvalidInputError: `offsets` is empty.
    """
    if not len(offsets):
        raise InvalidInputError("deleted rows", expected="one or more", found="none")
    if as_bitmap is None:
        as_bitmap = len(offsets) >= _MIN_BITMAP_ROWS
    kind = table_pb2.DeletionFile.BITMAP if as_bitmap else table_pb2.DeletionFile.ARROW_ARRAY
    return table_pb2.DeletionFile(
        file_type=kind,
        read_version=read_version,
        id=SystemRandom().getrandbits(64),
        num_deleted_rows=len(offsets),
    )


def store_deletions(
    storage: Storage, path: str, entry: table_pb2.DeletionFile, offsets: Offsets, *, sync: bool = True
) -> None:
    """Write the deletion file of an entry.

    The name of the file is not durable yet: call `sync_deletions` once after all files are written.

    Args:
        storage: storage of the table.
        path: path of the file, see `path_of`.
        entry: entry for the manifest, see `new_deletion_file`.
        offsets: all deleted rows of the fragment, ascending and unique.
        sync: make the content of the file durable before returning.

    Raises:
        StorageError: the storage failed.
    """
    is_bitmap = entry.file_type == table_pb2.DeletionFile.BITMAP
    data = _encode_bitmap(offsets) if is_bitmap else _encode_arrow(offsets)
    with storage.create_file(path, sync=sync) as file:
        file.write(data)


def write_deletions(
    storage: Storage,
    fragment_id: int,
    read_version: int,
    offsets: Offsets,
    *,
    as_bitmap: bool | None = None,
    sync: bool = True,
) -> table_pb2.DeletionFile:
    """Write a new deletion file, and return its entry for the manifest.

    `offsets` may be in any order. The other arguments and the errors are those of `new_deletion_file` and
    `store_deletions`. The file is at `path_of(fragment_id, entry)`.
    """
    unique = distinct(offsets).astype(np.uint32, casting="same_kind")
    entry = new_deletion_file(read_version, unique, as_bitmap=as_bitmap)
    store_deletions(storage, path_of(fragment_id, entry), entry, unique, sync=sync)
    return entry


def sync_deletions(storage: Storage) -> None:
    """Make the names in the directory of deletion files durable; `store_deletions` does it for contents."""
    storage.sync_directory(DIRECTORY)


def path_of(fragment_id: int, message: table_pb2.DeletionFile) -> str:
    """Return the path of a deletion file, relative to the dataset."""
    return f"{DIRECTORY}/{deletion_file_name(fragment_id, message)}"


def _encode_arrow(offsets: Offsets) -> bytes:
    batch = pa.record_batch([array_of(offsets)], schema=_ARROW_SCHEMA)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, _ARROW_SCHEMA, options=_WRITE_OPTIONS) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _encode_bitmap(offsets: Offsets) -> bytes:
    bitmap = bitmap_of(offsets)
    bitmap.run_optimize()
    return bytes(bitmap.serialize())


def _decode_arrow(data: bytes, num_rows: int, name: str) -> Offsets:
    try:
        with pa.ipc.open_file(pa.py_buffer(data), options=_READ_OPTIONS) as reader:
            schema, num_batches = reader.schema, reader.num_record_batches
            batch = reader.get_batch(0) if num_batches == 1 and schema.equals(_ARROW_SCHEMA) else None
            if batch is not None:
                # Reading checks the structure only, so check that the buffers are long enough.
                batch.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise CorruptFileError("deletion file does not decode", file=name, found=error) from None
    if batch is None or batch.column(0).null_count:
        raise CorruptFileError(
            "deletion file has another content than deleted rows",
            file=name,
            expected="one batch of row_id: uint32 not null",
            found=f"{num_batches} batches of {schema}",
        )
    offsets = distinct(numbers_of(batch.column(0)))
    if len(offsets):
        _check_last(int(offsets[-1]), num_rows, name)
    return offsets


def _decode_bitmap(data: bytes, num_rows: int, name: str) -> Offsets:
    try:
        bitmap = pyroaring.BitMap.deserialize(data)
    except (ValueError, IndexError) as error:
        raise CorruptFileError("deletion file does not decode", file=name, found=error) from None
    if bitmap:
        # Check before the bitmap is expanded: a few bytes can name billions of rows.
        _check_last(bitmap.max(), num_rows, name)
    return np.frombuffer(bitmap.to_array(), dtype=np.uint32)


def _check_last(offset: int, num_rows: int, name: str) -> None:
    if offset >= num_rows:
        raise CorruptFileError(
            "deleted row is not in the fragment", file=name, expected=f"less than {num_rows}", found=offset
        )
