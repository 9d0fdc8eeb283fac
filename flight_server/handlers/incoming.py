"""Batches that a client sends in a DoPut or a DoExchange. No other code reads from a client (threat T15).

Arrow's reader checks structure only: an offset or an index that lies crashes the process on first touch. So
`validate(full=True)` is the first touch of a batch, and the number of rows is looked at before.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import flight

from flight_server.limits.decoded_size import decoded_bytes
from flight_server.requests.schemas import check_schema
from flight_server.service import Service
from lance_core.errors import InvalidInputError, LanceError

MAXIMUM_ROWS_PER_BATCH = 1 << 24
_RETURN_BYTES = 64 << 20
"""Bytes that are received between two checks of the memory that the allocator keeps."""


Message = tuple[pa.RecordBatch | None, bytes | None]
"""Batch and metadata of one message."""


@dataclass
class Received:
    """Counts of the received rows, batches and bytes."""

    rows: int = 0
    batches: int = 0
    bytes: int = 0
    """Decoded."""


@contextmanager
def _readable(what: str) -> Iterator[None]:
    """Turn errors of Arrow, and a lack of memory, into InvalidInputError."""
    try:
        yield
    except MemoryError:
        raise InvalidInputError(f"{what} of the upload does not fit into memory") from None
    except LanceError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{what} of the upload cannot be read", found=error) from None


class Incoming:
    """Stream of batches from one client. Each batch is checked before it is returned."""

    def __init__(
        self,
        reader: flight.MetadataRecordBatchReader,
        service: Service,
        count: Callable[[int, int], None],
    ) -> None:
        """Take over `reader` and read the schema.

        `count` is called with the rows and bytes of each batch.

        Raises:
            InvalidInputError: the schema is damaged or beyond a cap, named in the message.
        """
        self._reader = reader
        self._settings = service.settings
        self._check_running = service.admission.check_stream
        self._allocator = service.allocator
        self._count = count
        self._bytes_returned_at = 0
        self._ends = time.monotonic() + self._settings.max_put_seconds
        self.received = Received()
        with _readable("schema"):
            self.schema: pa.Schema = reader.schema
            check_schema(self.schema)

    @property
    def is_half_used(self) -> bool:
        """Whether half of the time or of the bytes is over that one call may take."""
        settings = self._settings
        seconds_left = self._ends - time.monotonic()
        return seconds_left < settings.max_put_seconds / 2 or self.received.bytes > settings.max_put_bytes / 2

    def messages(self, *, are_questions: bool = False) -> Iterator[Message]:
        """Yield messages, each with a batch, with metadata, or with both. Also ends if the client dies.

        If they `are_questions`, one that comes too late ends the messages: its client asks again on another
        stream.

        Raises:
            InvalidInputError: a batch is invalid or beyond a cap, or all of them take too long.
        """
        while (chunk := self._next()) is not None:
            self._check_running()
            if time.monotonic() > self._ends:
                if are_questions:
                    return
                raise InvalidInputError(
                    f"the upload takes longer than {self._settings.max_put_seconds:g} seconds"
                )
            yield (
                None if chunk.data is None else self._checked(chunk.data),
                None if chunk.app_metadata is None else chunk.app_metadata.to_pybytes(),
            )

    def _next(self) -> flight.FlightStreamChunk | None:
        with _readable(f"batch {self.received.batches}"):
            try:
                return self._reader.read_chunk()
            except StopIteration:
                return None

    def _checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        number = self.received.batches
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
        self._count(batch.num_rows, size)
        if self.received.bytes - self._bytes_returned_at >= _RETURN_BYTES:
            self._bytes_returned_at = self.received.bytes
            self._allocator.return_freed()
        if self.received.bytes > self._settings.max_put_bytes:
            raise InvalidInputError(
                "the upload is too large",
                expected=f"at most {self._settings.max_put_bytes} bytes",
                found=self.received.bytes,
            )
        return batch
