"""Blobs of chosen rows: as files that read ranges on demand, or as bytes."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import pyarrow as pa
from pyarrow import flight

from flight_client.errors import InternalError, InvalidInputError, LanceError
from flight_client.network.connection import Connection, to_json
from flight_client.network.connections import Connections
from flight_client.reading.lookup import keys_of
from flight_client.reading.scanner import Target

Selector = Literal["ids", "addresses", "indices"]
Range = tuple[int, int | None]
"""Start and length of a range of a blob. The length None means all bytes to the end."""

DEFAULT_BUFFER_SIZE = 512 << 10
"""Bytes that the first short read of a `BlobFile` requests."""
_MOST_GROWTH = 16
"""Reads in sequence request more and more bytes, up to this many times the buffer size."""
_MAX_KEYS = 16_000
"""Largest number of keys in a command: it has at most 1 MiB, and a key with its range up to 60 digits."""
_KINDS = {"ids": "row_ids", "addresses": "row_addresses", "indices": "offsets"}


class Part(NamedTuple):
    """Some bytes of a requested blob."""

    number: int
    """Number of the request."""
    data: pa.Buffer | None
    """None for a null."""
    size: int | None
    """Bytes of the whole blob; None for a null."""
    address: int
    """Address of the row."""


@dataclass(frozen=True)
class BlobColumn:
    """Blob column of one version of a dataset."""

    connections: Connections
    target: Target
    column: str

    def find(self, keys: tuple[Selector, list[int]], buffer_size: int) -> list[BlobFile | None]:
        """Return the blobs as files, None for a null. No bytes of blobs are transferred."""
        parts = self._parts(*keys, [(0, 0)] * len(keys[1]))
        return [
            None if part.size is None else BlobFile(self, part.address, part.size, buffer_size)
            for part in parts
        ]

    def read(
        self, keys: tuple[Selector, list[int]], ranges: Sequence[Range] | None = None
    ) -> list[tuple[int, bytes | None]]:
        """Return the row address and the bytes of each request; None for a null.

        Args:
            keys: kind of the keys, and the key of each request.
            ranges: range of each request; None for whole blobs.
        """
        found: list[tuple[int, bytes | None]] = []
        chunks: list[pa.Buffer] = []
        last: Part | None = None
        for part in self._parts(*keys, ranges):
            if last is not None and part.number != last.number:
                found.append((last.address, _joined(last, chunks)))
                chunks = []
            if part.data is not None:
                chunks.append(part.data)
            last = part
        if last is not None:
            found.append((last.address, _joined(last, chunks)))
        return found

    def chunks(self, address: int, start: int, length: int) -> Iterator[memoryview]:
        """Yield the bytes of a range of one blob as they arrive."""
        for part in self._parts("addresses", [address], [(start, length)]):
            if part.data is not None:  # a file is never of a null
                yield memoryview(part.data).cast("B")

    def _parts(
        self, selector: Selector, keys: Sequence[int], ranges: Sequence[Range] | None = None
    ) -> Iterator[Part]:
        """Yield the parts of all requests, in order. Every request has at least one part.

        Raises:
            LanceError: the server reported an error that a repetition cannot solve, or all attempts since the
                last part failed.
        """
        whole: Range = (0, None)
        wanted = [whole] * len(keys) if ranges is None else list(ranges)
        for first in range(0, max(len(keys), 1), _MAX_KEYS):
            end = first + _MAX_KEYS
            for part in self._resumed(_KINDS[selector], keys[first:end], wanted[first:end]):
                yield part._replace(number=first + part.number)

    def _resumed(self, kind: str, keys: Sequence[int], wanted: list[Range]) -> Iterator[Part]:
        """Yield the parts of one command. After an error, another command continues behind the last part.

        `wanted` shrinks to what has not arrived.
        """
        turns = self.connections.turns()
        complete = 0
        while True:
            command = {
                **self.target.fields(),
                "column": self.column,
                kind: keys[complete:],
                "ranges": wanted[complete:],
                "with_size": True,
                "with_row_address": True,
            }
            ticket = flight.Ticket(to_json({"blobs": command}))
            try:
                for position, part in _received(turns.next(), ticket, complete):
                    # A row belongs to the first request that is not complete.
                    part = part._replace(number=complete)
                    rest = _rest(wanted[complete], position, part)
                    if rest is None:
                        complete += 1
                    else:
                        wanted[complete] = rest
                    turns.succeed()
                    yield part
                if complete < len(keys):
                    raise InternalError(f"the server sent {complete} of {len(keys)} blobs")
                return
            except LanceError as error:
                turns.after(error)


def keys_of_one_kind(**given: Any) -> tuple[Selector, list[int]]:
    """Return the kind and the keys of the only argument that is not None.

    Raises:
        InvalidInputError: not exactly one of them is given, or a key is null, negative or no integer.
    """
    found = {name: values for name, values in given.items() if values is not None}
    if len(found) != 1:
        raise InvalidInputError(
            f"Exactly one of ids, indices, or addresses must be specified, found {sorted(found) or 'none'}"
        )
    ((name, values),) = found.items()
    return name, keys_of(values).to_pylist()  # type: ignore[return-value]  # the names of the arguments


def _received(connection: Connection, ticket: flight.Ticket, number: int) -> Iterator[tuple[int, Part]]:
    """Yield the rows of a stream: the position of the bytes in their blob, and the part."""
    stream = connection.stream(ticket)
    try:
        while (batch := stream.read()) is not None:
            positions, sizes, addresses = (
                batch.column(name).to_pylist() for name in ("position", "size", "_rowaddr")
            )
            for position, data, size, address in zip(
                positions, batch.column("bytes"), sizes, addresses, strict=True
            ):
                yield position, Part(number, data.as_buffer() if data.is_valid else None, size, address)
    finally:
        stream.cancel()


def _rest(wanted: Range, position: int, part: Part) -> Range | None:
    """Return the range that is left of a request after a part; None if the request is complete."""
    if part.data is None or part.size is None:
        return None
    start, length = wanted
    end = part.size if length is None else start + length
    arrived = position + part.data.size
    return None if arrived >= end else (arrived, end - arrived)


def _joined(last: Part, chunks: Sequence[pa.Buffer]) -> bytes | None:
    return None if last.size is None else b"".join(chunks)


class BlobFile(io.BufferedIOBase):
    """Blob on a server as a file; positions count from the start of the blob. For one thread.

    Bytes are transferred when they are read. Short reads request more than they need: first the buffer size,
    and up to 16 times as much if they follow one another. Long reads request what they need.
    """

    def __init__(self, blobs: BlobColumn, address: int, size: int, buffer_size: int) -> None:
        """Use `RemoteDataset.take_blobs`."""
        self._blobs = blobs
        self._address = address
        self._size = size
        self._position = 0
        self._buffer_size = self._window = buffer_size
        self._ahead = memoryview(b"")
        self._ahead_from = -1
        """Position of the bytes that were read ahead, -1 before the first read."""

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def size(self) -> int:
        """Return the size of the blob in bytes."""
        return self._size

    def tell(self) -> int:
        """Return the position of the next read."""
        self._check_open()
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the position, and return it. A position behind the end is allowed.

        Raises:
            ValueError: the position is negative, `whence` is unknown, or the file is closed.
        """
        self._check_open()
        starts = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}
        if whence not in starts:
            raise ValueError(f"invalid whence ({whence}, should be 0, 1 or 2)")
        if starts[whence] + offset < 0:
            raise ValueError(f"negative seek position {starts[whence] + offset}")
        self._position = starts[whence] + offset
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        """Return the next `size` bytes, or all that are left; fewer at the end of the blob.

        Raises:
            LanceError: the server reported an error. The position stays.
        """
        data = b"".join(self._next(self._size if size is None or size < 0 else size))
        self._position += len(data)
        return data

    def read1(self, size: int = -1) -> bytes:
        """Return at most `size` of the next bytes, 8192 if it is negative; errors are those of `read`."""
        return self.read(io.DEFAULT_BUFFER_SIZE if size < 0 else size)

    def readall(self) -> bytes:
        """Return all bytes from the position to the end; errors are those of `read`."""
        return self.read()

    def readinto(self, buffer: Any) -> int:
        """Fill a writable buffer with the next bytes. Return their number, which is less at the end.

        Errors are those of `read`.
        """
        view = memoryview(buffer).cast("B")
        if view.readonly:
            raise TypeError(f"readinto() needs a writable buffer, got {type(buffer).__name__}")
        done = 0
        for chunk in self._next(len(view)):
            view[done : done + len(chunk)] = chunk
            done += len(chunk)
        self._position += done
        return done

    def read_range(self, offset: int, length: int) -> bytes:
        """Return the bytes `[offset, offset + length)`; the position stays.

        Raises:
            InvalidInputError: the range leaves the blob.
        """
        return self.read_ranges([(offset, length)])[0]

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return the bytes of several (offset, length) ranges, with one request.

        Errors are those of `read_range`.
        """
        self._check_open()
        addresses = [self._address] * len(ranges)
        return [data or b"" for _, data in self._blobs.read(("addresses", addresses), ranges)]

    def __repr__(self) -> str:
        return f"<BlobFile size={self._size}>"

    def _next(self, length: int) -> Iterator[memoryview]:
        """Yield the next bytes, at most `length`. The caller moves the position."""
        self._check_open()
        position = self._position
        end = min(position + length, self._size)
        start = position - self._ahead_from
        if 0 <= start < len(self._ahead) and position < end:
            chunk = self._ahead[start : start + end - position]
            position += len(chunk)
            yield chunk
        if position >= end:
            return
        follows = position == self._ahead_from + len(self._ahead)
        self._window = (
            min(2 * self._window, _MOST_GROWTH * self._buffer_size) if follows else self._buffer_size
        )
        if end - position >= self._window:
            yield from self._blobs.chunks(self._address, position, end - position)
            self._ahead, self._ahead_from = memoryview(b""), end
            return
        read = min(self._window, self._size - position)
        self._ahead = memoryview(b"".join(self._blobs.chunks(self._address, position, read)))
        self._ahead_from = position
        yield self._ahead[: end - position]

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("blob file is closed")
