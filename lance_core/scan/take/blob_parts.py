"""Streams of the bytes of chosen blobs: batches of parts of blobs, each batch within a byte limit.

A batch has one row per part: the key of the blob's row, the position of the part in the blob, and its bytes.
So blobs of any size pass in bounded memory.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from lance_core.errors import InvalidInputError
from lance_core.pool import num_workers
from lance_core.process.deferred import Lookahead
from lance_core.scan.plan.options import DEFAULT_BATCH_BYTES
from lance_core.scan.plan.projection import ROW_ADDRESS
from lance_core.scan.read.blobs import BlobPlace, large_binary, read_places
from lance_core.scan.run.batch_cutter import BatchRun
from lance_core.scan.run.budget import MemoryBudget
from lance_core.scan.run.readahead import Source, run_ahead
from lance_core.scan.take.blobs import BlobTaker
from lance_core.scan.take.keys import Keys

Ranges = Sequence[tuple[int, int | None]]
"""Start and length of a range of each blob. The length None means all bytes from the start to the end."""

_KEYS_AT_ONCE = 64
"""Blobs that are located together. Each may have a file of its own, and these files are open at once."""
_ROW_BYTES = 64
"""Most bytes of a row of a batch, beside the bytes of the blob."""
_ALONE = 2
"""Jobs that the thread of a stream does itself, so that the first batches come soon."""


def part_schema(*, with_size: bool, with_row_address: bool) -> pa.Schema:
    """Return the schema of the batches of `blob_runs`; the arguments are those of `blob_runs`."""
    fields = [("key", pa.uint64()), ("position", pa.uint64()), ("bytes", pa.large_binary())]
    fields += [("size", pa.uint64())] * with_size + [(ROW_ADDRESS, pa.uint64())] * with_row_address
    return pa.schema(fields)


def blob_runs(
    taker: BlobTaker,
    keys: Keys,
    addresses: Keys,
    ranges: Ranges | None,
    budget: MemoryBudget,
    *,
    with_size: bool = False,
    with_row_address: bool = False,
    batch_bytes: int = DEFAULT_BATCH_BYTES,
) -> Generator[BatchRun, None, None]:
    """Yield the bytes of blobs in batches of at most `batch_bytes`, in the order of the keys.

    The same arguments give the same batches. Every key has at least one row. A null has one row whose bytes
    are null, whatever its range is. Bytes that are read ahead belong to `budget` until they are asked for.

    Args:
        taker: Finder of the blobs.
        keys: Key of each blob, which becomes the column `key`.
        addresses: Address of the row of each blob. A row may be repeated.
        ranges: Range of each blob that is read; None for whole blobs.
        budget: Memory of the stream.
        with_size: Add the column `size`: the bytes of the whole blob, null for a null.
        with_row_address: Add the column `_rowaddr`.
        batch_bytes: Most bytes of a batch.

    Raises:
        InvalidInputError: A range leaves its blob, or there is not one range per key.
        LanceError: The errors of `BlobTaker`, or something cannot be read.
    """
    if ranges is not None and len(ranges) != len(keys):
        raise InvalidInputError("ranges of blobs", expected=f"one per key, {len(keys)}", found=len(ranges))
    schema = part_schema(with_size=with_size, with_row_address=with_row_address)
    found = _located(taker, keys, addresses, ranges)
    source = _Batches(_BatchRead(parts, schema) for parts in _batches(found, batch_bytes))
    is_remote = taker.is_remote
    most_jobs = (2 if is_remote else 1) + num_workers(is_remote)
    with closing(run_ahead(source, budget, most_jobs, is_remote, num_alone=_ALONE)) as jobs:
        for job in jobs:
            for batch in job.results():
                yield BatchRun(batch, batch.num_rows)
                del batch  # `run_ahead` releases the reservation next


class _Blob(NamedTuple):
    """Range of a blob that is read."""

    key: int
    address: int
    size: int | None
    """Bytes of the whole blob; None for a null."""
    start: int
    """Position of the range in the blob."""
    place: BlobPlace | None
    """Location of the range; None for a null."""


def _located(
    taker: BlobTaker, keys: Keys, addresses: Keys, ranges: Ranges | None
) -> Generator[_Blob, None, None]:
    for first in range(0, len(keys), _KEYS_AT_ONCE):
        found = taker.at(addresses[first : first + _KEYS_AT_ONCE])
        for number, (address, place) in enumerate(zip(found.addresses, found.places, strict=True), first):
            key = int(keys[number])
            start, length = (0, None) if ranges is None else ranges[number]
            if place is None:
                yield _Blob(key, address, None, start, None)
                continue
            try:
                part = place.part(start, place.size - start if length is None else length)
            except InvalidInputError as error:
                raise InvalidInputError(
                    f"request {number} for row {key}: {error}", column=taker.column
                ) from None
            yield _Blob(key, address, place.size, start, part)


class _Part(NamedTuple):
    """Row of a batch: some bytes of a blob."""

    blob: _Blob
    offset: int
    """Position in the range of the blob."""
    place: BlobPlace | None


def _batches(blobs: Iterator[_Blob], batch_bytes: int) -> Generator[list[_Part], None, None]:
    """Yield the parts of each batch."""
    batch: list[_Part] = []
    room = batch_bytes
    for blob in blobs:
        done, size = 0, 0 if blob.place is None else blob.place.size
        while True:
            if batch and room <= _ROW_BYTES:
                yield batch
                batch, room = [], batch_bytes
            length = max(0, min(size - done, max(room - _ROW_BYTES, 1)))
            batch.append(_Part(blob, done, blob.place and blob.place.part(done, length)))
            room -= _ROW_BYTES + length
            done += length
            if done == size:
                break
    if batch:
        yield batch


@dataclass(frozen=True)
class _BatchRead:
    """Read of the parts of one batch."""

    parts: list[_Part]
    schema: pa.Schema

    @property
    def num_bytes(self) -> int:
        return sum(_ROW_BYTES + (part.place.size if part.place else 0) for part in self.parts)

    def run(self) -> pa.RecordBatch:
        columns = {
            "key": [part.blob.key for part in self.parts],
            "position": [part.blob.start + part.offset for part in self.parts],
            "bytes": large_binary(read_places([part.place for part in self.parts])),
            "size": [part.blob.size for part in self.parts],
            ROW_ADDRESS: [part.blob.address for part in self.parts],
        }
        return pa.RecordBatch.from_arrays(
            [pa.array(columns[field.name], field.type) for field in self.schema], schema=self.schema
        )


@dataclass(frozen=True)
class _Job:
    reads: tuple[_BatchRead, ...]


class _Batches(Source[_Job]):
    """The batches of a stream, in order."""

    def __init__(self, batches: Iterator[_BatchRead]) -> None:
        self._batches = Lookahead(batches)

    def take(self, num_bytes: int) -> _Job | None:
        reads: list[_BatchRead] = []
        while num_bytes > 0 and (batch := self._batches.peek(in_turn=not reads)) is not None:
            self._batches.take()
            reads.append(batch)
            num_bytes -= batch.num_bytes
        return _Job(tuple(reads)) if reads else None
