"""Deletion files: the row offsets of a fragment that are deleted.

Two kinds exist: an Arrow IPC file with one uint32 column `row_id`, and a 32-bit Roaring bitmap in the
portable serialization. Source: Lance table format, "Deletion files"; docs/format.md.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyroaring

from lance_core.errors import CorruptFileError
from lance_core.storage import Storage
from lance_core.table.fragment import MAX_ROWS, Fragment

Offsets = npt.NDArray[np.uint32]

_ARROW_SCHEMA = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])


def read_deletions(storage: Storage, fragment: Fragment) -> Offsets:
    """The deleted row offsets of a fragment, ascending and unique; empty without a deletion file.

    Raises:
        CorruptFileError: the file contradicts the format, the rows of the fragment or its manifest.
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
            "number of deleted rows",
            file=name,
            expected=f"{deletion_file.num_deleted_rows} as in the manifest",
            found=len(offsets),
        )
    return offsets


def _decode_arrow(data: bytes, num_rows: int, name: str) -> Offsets:
    try:
        with pa.ipc.open_file(pa.py_buffer(data)) as reader:
            schema, num_batches = reader.schema, reader.num_record_batches
            batch = reader.get_batch(0) if num_batches == 1 and schema.equals(_ARROW_SCHEMA) else None
            if batch is not None:
                # The first touch: reading has checked the structure only, not that buffers are long enough.
                batch.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise CorruptFileError("deletion file does not decode", file=name, found=error) from None
    if batch is None or batch.column(0).null_count:
        raise CorruptFileError(
            "deletion file has a wrong form",
            file=name,
            expected="one batch of row_id: uint32 not null",
            found=f"{num_batches} of {schema}",
        )
    offsets = np.unique(batch.column(0).to_numpy())
    if len(offsets):
        _check_last(int(offsets[-1]), num_rows, name)
    return offsets


def _decode_bitmap(data: bytes, num_rows: int, name: str) -> Offsets:
    try:
        bitmap = pyroaring.BitMap.deserialize(data)
    except (ValueError, IndexError) as error:
        raise CorruptFileError("deletion file does not decode", file=name, found=error) from None
    if bitmap:
        # Before the bitmap is spelled out: few bytes can name billions of rows.
        _check_last(bitmap.max(), num_rows, name)
    return np.frombuffer(bitmap.to_array(), dtype=np.uint32)


def _check_last(offset: int, num_rows: int, name: str) -> None:
    if offset >= num_rows:
        raise CorruptFileError(
            "deleted row is not in the fragment", file=name, expected=f"less than {num_rows}", found=offset
        )
