"""One record batch as bytes that are known to be whole: an Arrow IPC stream and a CRC-32C behind its end."""

from __future__ import annotations

import struct

import pyarrow as pa

from lance_core import kernels

_CRC = struct.Struct("<I")


class DamagedBatch(ValueError):  # noqa: N818
    """The bytes are no such batch; whoever read them knows from where."""


def seal(batch: pa.RecordBatch) -> bytes:
    """The bytes of a batch."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    written = sink.getvalue()
    return b"".join((written, _CRC.pack(kernels.crc32c(written))))


def unseal(data: pa.Buffer, schema: pa.Schema) -> pa.RecordBatch:
    """The batch of `schema` that was sealed; a view of `data`, checked in full.

    Raises:
        DamagedBatch: the checksum is wrong, or the form.
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
    """The one batch of the stream; None where it has another form."""
    messages = pa.ipc.MessageReader.open_stream(data)
    try:
        first, message = messages.read_next_message(), messages.read_next_message()
    except StopIteration:
        return None
    # Arrow takes what it is given for a schema, whatever it is.
    if (first.type, message.type) != ("schema", "record batch") or _is_compressed(message.metadata):
        return None
    if not pa.ipc.read_schema(first).equals(schema):
        return None
    batch = pa.ipc.read_record_batch(message, schema)
    batch.validate(full=True)  # the first touch: reading has checked the structure only
    return batch


def _is_compressed(message: pa.Buffer) -> bool:
    """Whether a message holds a compressed batch, which could be of any size when it is read.

    A FlatBuffers table begins with the distance back to its layout: u16 size of that, u16 size of the table,
    and for each field a u16 offset in the table, 0 where it is left out. The header of a message is its
    third field and the compression of a record batch its fourth (Arrow columnar format, Message.fbs).
    """
    data = memoryview(message)
    (root,) = struct.unpack_from("<I", data)
    header = root + _field(data, root, 2)
    (distance,) = struct.unpack_from("<I", data, header)
    return _field(data, header + distance, 3) != 0


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
