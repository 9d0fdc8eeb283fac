"""Messages of a client in a DoPut: batches, and the finish message."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pyarrow as pa
from pyarrow import flight

from flight_server.handlers.incoming import Incoming
from flight_server.requests.json_fields import check_fields, integer, parse_object
from lance_core.errors import InvalidInputError

MAXIMUM_MESSAGE_BYTES = 4096
"""Largest size of a metadata message."""

# Messages about progress, unless the client says when it wants one: at most one per second, and each tells of
# 5 % more than the one before. A client that reads none of them never fills the connection with them.
_PROGRESS_SECONDS = 1.0
_PROGRESS_GROWTH = 1.05


class Upload:
    """Upload of one client. It is complete only if the client sends the message `finish` at the end."""

    def __init__(
        self,
        incoming: Incoming,
        writer: flight.FlightMetadataWriter,
        *,
        is_cancelled: Callable[[], bool],
        needs_finish: bool,
        report_bytes: int | None = None,
    ) -> None:
        """Take over the incoming messages; report progress after every `report_bytes` received, if given."""
        self._incoming = incoming
        self._writer = writer
        self._is_cancelled = is_cancelled
        self._needs_finish = needs_finish
        self._report_bytes = report_bytes
        self._finish: dict[str, int] | None = None
        self._told = (time.monotonic(), 0)
        self.received = incoming.received
        self.schema = incoming.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches; ends normally only when the client said that this was all.

        Raises:
            InvalidInputError: a batch is invalid or beyond a cap; the client went away, ended without the
                finish message, or counted differently.
        """
        for batch, metadata in self._incoming.messages():
            if batch is not None:
                if self._finish is not None:
                    raise InvalidInputError(
                        f"batch {self.received.batches - 1} comes after the finish message"
                    )
                yield batch
                self._tell_progress()
            if metadata is not None:
                self._finish = self._parse_finish(metadata)
        self._check_end()

    def _parse_finish(self, message: bytes) -> dict[str, int]:
        if self._finish is not None:
            raise InvalidInputError("the upload has a second finish message")
        if len(message) > MAXIMUM_MESSAGE_BYTES:
            raise InvalidInputError(
                f"metadata message of {len(message)} bytes; at most {MAXIMUM_MESSAGE_BYTES}"
            )
        fields = check_fields("metadata", parse_object(message), {"finish": _counts}, required=("finish",))
        counts: dict[str, int] = fields["finish"]
        return counts

    def _check_end(self) -> None:
        """Raise unless the client confirmed the end: a dead client looks like one that ended (threat T27)."""
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
            raise InvalidInputError(
                "the upload does not have the rows and batches of its finish message",
                expected=self._finish,
                found=found,
            )

    def _tell_progress(self) -> None:
        told_at, told_bytes = self._told
        now = time.monotonic()
        if self._report_bytes is not None:
            is_due = self.received.bytes - told_bytes >= self._report_bytes
        else:
            is_due = (
                now - told_at >= _PROGRESS_SECONDS and self.received.bytes >= told_bytes * _PROGRESS_GROWTH
            )
        if is_due:
            self._told = (now, self.received.bytes)
            self.tell_progress()

    def tell_progress(self) -> None:
        """Send the numbers of received rows and bytes."""
        self.tell({"progress": {"rows": self.received.rows, "bytes": self.received.bytes}})

    def tell(self, message: dict[str, object]) -> None:
        """Send a metadata message. If the client has left, nothing happens: the work is done."""
        with suppress(pa.ArrowException, OSError):
            self._writer.write(json.dumps(message).encode())


def _counts(field: str, value: object) -> dict[str, int]:
    return check_fields(field, value, dict.fromkeys(("rows", "batches"), integer()), ("rows", "batches"))
