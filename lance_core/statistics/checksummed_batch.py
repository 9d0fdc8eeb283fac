"""Sealed record batches: an Arrow IPC stream, followed by its CRC-32C."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pyarrow as pa

from lance_core import kernels
from lance_core.schema.arrow_values import scalar_of

_CRC = struct.Struct("<I")
_END = b"\xff\xff\xff\xff" + bytes(4)
"""Bytes at the end of an Arrow IPC stream."""
_PREFIX = 8
"""Number of bytes before a message: a marker and the length."""
_ALIGNMENT = 8
"""Alignment of the buffers of a batch, in bytes."""


class DamagedBatch(ValueError):  # noqa: N818
    """Error for bytes that are not a sealed batch. The caller adds the name of the file."""


def seal(batch: pa.RecordBatch) -> bytes:
    """Return the sealed bytes of a batch."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return _sealed(sink.getvalue())


def _sealed(*parts: bytes | pa.Buffer) -> bytes:
    written = b"".join(parts)
    return written + _CRC.pack(kernels.crc32c(written))


class BatchForm:
    """Template for IPC messages of batches with one schema, filled with raw buffers instead of Arrow arrays.

    The numbers in the message of a batch have fixed positions. The template is the message of a batch with
    one row, because the message of an empty batch leaves some numbers out. For the few rows of a data file,
    this takes a fraction of the time of Arrow's arrays and writer.
    """

    def __init__(self, schema: pa.Schema) -> None:
        """Make the template for `schema`, which may have columns of numbers and binaries only."""
        self._schema = bytes(schema.serialize())
        values = [scalar_of(b"" if pa.types.is_binary(field.type) else 0, field.type) for field in schema]
        arrays = [pa.repeat(value, 1) for value in values]
        whole = bytes(pa.RecordBatch.from_arrays(arrays, schema=schema).serialize())
        (size,) = struct.unpack_from("<I", whole, _PREFIX - 4)
        self._message = whole[: _PREFIX + size]
        data = memoryview(self._message)[_PREFIX:]
        root, batch = _header(data)
        self._body_bytes = _PREFIX + root + _field(data, root, 3)
        self._num_rows = _PREFIX + batch + _field(data, batch, 0)
        self._nodes, self._buffers = (
            _PREFIX + _target(data, batch + _field(data, batch, number)) + 4 for number in (1, 2)
        )

    def seal(self, num_rows: int, columns: Sequence[tuple[int, Sequence[bytes]]]) -> bytes:
        """Return the sealed bytes of a batch.

        Args:
            num_rows: number of rows.
            columns: for each column the number of nulls and the Arrow buffers, validity first.
        """
        places, body, position = [], [], 0
        for buffer in (buffer for _, buffers in columns for buffer in buffers):
            places += [position, len(buffer)]
            padding = -len(buffer) % _ALIGNMENT
            body += [buffer, bytes(padding)]
            position += len(buffer) + padding
        message = bytearray(self._message)
        nodes = [number for num_nulls, _ in columns for number in (num_rows, num_nulls)]
        struct.pack_into("<q", message, self._body_bytes, position)
        struct.pack_into("<q", message, self._num_rows, num_rows)
        struct.pack_into(f"<{len(nodes)}q", message, self._nodes, *nodes)
        struct.pack_into(f"<{len(places)}q", message, self._buffers, *places)
        return _sealed(self._schema, message, *body, _END)


def unseal(data: pa.Buffer, schema: pa.Schema) -> pa.RecordBatch:
    """Return the sealed batch with the given schema as a view of `data`, fully checked.

    Raises:
        DamagedBatch: the checksum or the form is wrong.
    """
    if data.size < _CRC.size:
        raise DamagedBatch(f"{data.size} bytes")
    written = data.slice(0, data.size - _CRC.size)
    (expected,) = _CRC.unpack(data.slice(written.size))
    found = kernels.crc32c(written)
    if found != expected:
        raise DamagedBatch(f"checksum {found:08x} instead of {expected:08x}")
    try:
        batch = _read_batch(written, schema)
    except (pa.ArrowException, OSError, struct.error, ValueError) as error:
        raise DamagedBatch(str(error)) from None
    if batch is None or any(
        column.null_count for column, field in zip(batch.columns, schema, strict=True) if not field.nullable
    ):
        raise DamagedBatch("not a batch of the right form")
    return batch


def _read_batch(data: pa.Buffer, schema: pa.Schema) -> pa.RecordBatch | None:
    """Return the only batch of the stream; None if the stream has another form."""
    messages = pa.ipc.MessageReader.open_stream(data)
    try:
        first, message = messages.read_next_message(), messages.read_next_message()
    except StopIteration:
        return None
    # Arrow does not check the type of the message that it gets for a schema.
    if (first.type, message.type) != ("schema", "record batch") or _is_compressed(message.metadata):
        return None
    if not pa.ipc.read_schema(first).equals(schema):
        return None
    batch = pa.ipc.read_record_batch(message, schema)
    batch.validate(full=True)  # reading checks the structure only
    return batch


def _is_compressed(message: pa.Buffer) -> bool:
    """Return whether a message holds a compressed batch, whose decompressed size is not bounded.

    A FlatBuffers table begins with the distance back to its layout. The layout has the u16 size of the
    layout, the u16 size of the table, and for each field a u16 offset in the table, which is 0 for a missing
    field. The header is the third field of a message, and the compression is the fourth field of a record
    batch (Arrow columnar format, Message.fbs).
    """
    data = memoryview(message)
    _, batch = _header(data)
    return _field(data, batch, 3) != 0


def _header(data: memoryview) -> tuple[int, int]:
    """Return the positions of the two tables of a message of Arrow IPC: the message, and the batch in it."""
    root = _target(data, 0)
    return root, _target(data, root + _field(data, root, 2))


def _target(data: memoryview, at: int) -> int:
    """Return the position to which the distance at `at` points."""
    (distance,) = struct.unpack_from("<I", data, at)
    return int(at + distance)


def _field(data: memoryview, table: int, number: int) -> int:
    (back,) = struct.unpack_from("<i", data, table)
    layout = table - back
    if layout < 0:
        raise ValueError("a layout before the message")
    (size,) = struct.unpack_from("<H", data, layout)
    if 4 + 2 * number >= size:
        return 0
    (offset,) = struct.unpack_from("<H", data, layout + 4 + 2 * number)
    return int(offset)
