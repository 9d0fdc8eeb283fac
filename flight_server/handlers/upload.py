"""What a client sends in a DoPut. Nothing else reads from such a stream (threat T15).

Arrow's reader checks structure only: an offset or an index that lies crashes the process on first touch. So
`validate(full=True)` is the first touch of a batch, and the number of rows is looked at before.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import flight

from flight_server.decoded_size import decoded_bytes
from flight_server.json_fields import check_fields, integer, parse_object
from flight_server.names import shown
from flight_server.settings import Settings
from lance_core.errors import InvalidInputError

MAXIMUM_ROWS_PER_BATCH = 1 << 24
MAXIMUM_FIELDS = 20_000
"""Fields of a schema, those below others included."""
MAXIMUM_DEPTH = 64
MAXIMUM_FIELD_NAME_BYTES = 4096
MAXIMUM_METADATA_BYTES = 1 << 20
"""Of a schema and all its fields together."""
MAXIMUM_MESSAGE_BYTES = 4096
"""Of a metadata message."""

# Messages about progress: at most one per second, and each tells of 5 % more than the one before. A client
# that reads none of them never fills the connection with them.
_PROGRESS_SECONDS = 1.0
_PROGRESS_GROWTH = 1.05


@dataclass
class Received:
    """What came so far."""

    rows: int = 0
    batches: int = 0
    bytes: int = 0
    """Decoded."""


@contextmanager
def _readable(what: str) -> Iterator[None]:
    """What Arrow cannot read is the mistake of the client; what does not fit into memory ends the upload."""
    try:
        yield
    except MemoryError:
        raise InvalidInputError(f"{what} of the upload does not fit into memory") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{what} of the upload cannot be read", found=error) from None


class Upload:
    """The batches of one client, each checked before anybody sees it."""

    def __init__(
        self,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
        settings: Settings,
        *,
        is_cancelled: Callable[[], bool],
        check_running: Callable[[], None],
        needs_finish: bool,
    ) -> None:
        """Take over `reader` and read the schema.

        `check_running` is called before each batch and raises when the upload has to end.

        Raises:
            InvalidInputError: the schema is damaged or beyond a cap, named in the message.
        """
        self._reader = reader
        self._writer = writer
        self._settings = settings
        self._is_cancelled = is_cancelled
        self._check_running = check_running
        self._needs_finish = needs_finish
        self._finish: dict[str, int] | None = None
        self._ends = time.monotonic() + settings.max_put_seconds
        self._told = (time.monotonic(), 0)
        self.received = Received()
        with _readable("schema"):
            self.schema: pa.Schema = reader.schema
            check_schema(self.schema)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The batches; ends normally only when the client said that this was all.

        Raises:
            InvalidInputError: a batch is invalid or beyond a cap; the client went away, ended without the
                finish message, or counted differently.
        """
        while (chunk := self._next()) is not None:
            self._check_running()
            if time.monotonic() > self._ends:
                raise InvalidInputError(
                    f"the upload takes longer than {self._settings.max_put_seconds:g} seconds"
                )
            if chunk.data is not None:
                yield self._checked(chunk.data)
                self._tell_progress()
            if chunk.app_metadata is not None:
                self._finish = self._parse_finish(chunk.app_metadata.to_pybytes())
        self._check_end()

    def _next(self) -> flight.FlightStreamChunk | None:
        with _readable(f"batch {self.received.batches}"):
            try:
                return self._reader.read_chunk()
            except StopIteration:
                return None

    def _checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        number = self.received.batches
        if self._finish is not None:
            raise InvalidInputError(f"batch {number} comes after the finish message")
        if batch.num_rows > MAXIMUM_ROWS_PER_BATCH:
            raise InvalidInputError(
                f"batch {number} has too many rows",
                expected=f"at most {MAXIMUM_ROWS_PER_BATCH}",
                found=batch.num_rows,
            )
        with _readable(f"batch {number}"):
            batch.validate(full=True)
            # Buffers may be larger than their values need.
            size = max(sum(map(decoded_bytes, batch.columns)), batch.get_total_buffer_size())
        if size > self._settings.max_batch_bytes:
            raise InvalidInputError(
                f"batch {number} is too large, send smaller ones",
                expected=f"at most {self._settings.max_batch_bytes} bytes",
                found=size,
            )
        self.received.rows += batch.num_rows
        self.received.bytes += size
        self.received.batches += 1
        if self.received.bytes > self._settings.max_put_bytes:
            raise InvalidInputError(
                "the upload is too large",
                expected=f"at most {self._settings.max_put_bytes} bytes",
                found=self.received.bytes,
            )
        return batch

    def _parse_finish(self, message: bytes) -> dict[str, int]:
        if self._finish is not None:
            raise InvalidInputError("a second finish message")
        if len(message) > MAXIMUM_MESSAGE_BYTES:
            raise InvalidInputError(
                f"metadata message of {len(message)} bytes; at most {MAXIMUM_MESSAGE_BYTES}"
            )
        fields = check_fields("metadata", parse_object(message), {"finish": _counts}, required=("finish",))
        counts: dict[str, int] = fields["finish"]
        return counts

    def _check_end(self) -> None:
        """A client that died looks like one that ended: only what it said tells (threat T27)."""
        if self._is_cancelled():
            raise InvalidInputError("the client went away before its upload was complete")
        if self._finish is None:
            if self._needs_finish:
                raise InvalidInputError(
                    "the upload ended without the message "
                    f'{{"finish": {{"rows": {self.received.rows}, "batches": {self.received.batches}}}}}; '
                    "nothing was written"
                )
            return
        found = {"rows": self.received.rows, "batches": self.received.batches}
        if self._finish != found:
            raise InvalidInputError("the finish message counts otherwise", expected=self._finish, found=found)

    def _tell_progress(self) -> None:
        told_at, told_bytes = self._told
        now = time.monotonic()
        if now - told_at >= _PROGRESS_SECONDS and self.received.bytes >= told_bytes * _PROGRESS_GROWTH:
            self._told = (now, self.received.bytes)
            self.tell({"progress": {"rows": self.received.rows, "bytes": self.received.bytes}})

    def tell(self, message: dict[str, object]) -> None:
        """Send a metadata message. That nobody is there to read it changes nothing about what was done."""
        with suppress(pa.ArrowException, OSError):
            self._writer.write(json.dumps(message).encode())


def check_schema(schema: pa.Schema) -> None:
    """Refuse what is beyond a cap (threat T18), and text that is none; errors are `InvalidInputError`."""
    try:
        _check_schema(schema)
    except UnicodeDecodeError:
        raise InvalidInputError("a name, time zone or metadata of the schema is not UTF-8") from None


def _check_schema(schema: pa.Schema) -> None:
    num_fields = 0
    metadata_bytes = _metadata_bytes(schema.metadata)
    level = list(schema)
    for _ in range(MAXIMUM_DEPTH):
        num_fields += len(level)
        if num_fields > MAXIMUM_FIELDS:
            raise InvalidInputError(f"the schema has more than {MAXIMUM_FIELDS} fields")
        for field in level:
            if len(field.name.encode()) > MAXIMUM_FIELD_NAME_BYTES:
                raise InvalidInputError(
                    f"name of a field is longer than {MAXIMUM_FIELD_NAME_BYTES} bytes",
                    found=shown(field.name[:64]),
                )
            if pa.types.is_null(field.type) and not field.nullable:
                raise InvalidInputError(f"column {shown(field.name)} has only nulls and allows none")
            if pa.types.is_fixed_size_list(field.type) and field.type.list_size < 0:
                raise InvalidInputError(f"lists of column {shown(field.name)} have a negative size")
            if pa.types.is_timestamp(field.type):
                _ = field.type.tz  # decoded here for the first time
            metadata_bytes += _metadata_bytes(field.metadata)
        if metadata_bytes > MAXIMUM_METADATA_BYTES:
            raise InvalidInputError(f"the schema has more than {MAXIMUM_METADATA_BYTES} bytes of metadata")
        level = [child for field in level for child in _child_fields(field.type)]
        if not level:
            return
    raise InvalidInputError(f"the schema is nested deeper than {MAXIMUM_DEPTH}")


def _child_fields(data_type: pa.DataType) -> list[pa.Field]:
    if isinstance(data_type, pa.BaseExtensionType):
        return [pa.field("", data_type.storage_type)]
    if pa.types.is_dictionary(data_type):
        return [pa.field("", data_type.value_type)]
    return [data_type.field(index) for index in range(data_type.num_fields)]


def _metadata_bytes(metadata: dict[bytes, bytes] | None) -> int:
    """Bytes of metadata; raises UnicodeDecodeError where it is not text, which is all that tables keep."""
    for text in (part for pair in (metadata or {}).items() for part in pair):
        text.decode()
    return sum(len(key) + len(value) for key, value in (metadata or {}).items())


def _counts(field: str, value: object) -> dict[str, int]:
    return check_fields(field, value, dict.fromkeys(("rows", "batches"), integer()), ("rows", "batches"))
