"""Search in Bloom filters: one filter per zone, which knows the values that are certainly not in the zone.

A filter is a list of blocks of eight 32-bit words. The upper half of the hash of a value chooses the block,
the lower half one bit in each word.

Source: docs/format.md, "Index files".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from lance_core.errors import CorruptFileError
from lance_core.index.scalar.answers import Answer
from lance_core.index.scalar.questions import IsNull, OneOf, Question
from lance_core.index.scalar.sorted_keys import is_bytes, strings_of
from lance_core.index.scalar.zones import Zones, read_zones
from lance_core.index.segments import OpenSegment
from lance_core.kernels import hash_strings
from lance_core.process.counters import note
from lance_core.schema.arrow_values import numbers_of, scalar_of

Hashes = npt.NDArray[np.uint64]

FILE = "bloomfilter.lance"
BLOCK_BYTES = 32
SALTS = np.array(
    [
        0x47B6137B,
        0x44974D91,
        0x8824AD5B,
        0xA2B7289D,
        0x705495C7,
        0x2DF1424B,
        0x9EFC4947,
        0x5C6BFB31,
    ],
    np.uint64,
)
"""Multipliers of the hash, one per word of a block."""
_MOST_PROBES = 1 << 22
"""Most values times zones of one answer; with more, a scan is cheaper."""


def search(segment: OpenSegment, question: Question, most_rows: int) -> Answer | None:
    """Return the rows that answer a question; None if Bloom filters do not answer it.

    Errors are those of the search in a B-tree.
    """
    if not isinstance(question, OneOf | IsNull):
        return None
    known = _filters(segment)
    if isinstance(question, IsNull):
        return known.zones.nulls(known.has_null, most_rows)
    hashes = hashes_of(question.values)
    if hashes is None or len(hashes) * len(known.has_null) > _MOST_PROBES:
        return None
    note("index_comparisons", len(known.has_null))
    return known.zones.answer(known.may_have(hashes), most_rows)


def warm(segment: OpenSegment) -> Iterator[None]:
    """Read the segment into the cache, step by step; errors are those of the search in a B-tree."""
    _filters(segment)
    yield


def _filters(segment: OpenSegment) -> _Filters:
    return segment.kept("zones", partial(_read, segment), lambda found: found.nbytes)


def hashes_of(values: pa.Array) -> Hashes | None:
    """Return the hashes that a zone with one of the values has at least one of.

    Return None for types without a filter, and for NaN: a filter knows only its bits, which may vary.
    """
    if types.is_floating(values.type):
        numbers = numbers_of(values)
        if np.isnan(numbers).any():
            return None
        if (numbers == 0).any():
            values = pa.array(np.concatenate((numbers, np.array([0.0, -0.0], numbers.dtype))))
    return value_hashes(values)


def value_hashes(values: pa.Array) -> Hashes | None:
    """Return the hash of the bytes of each value; None for types that have no filter. No value may be
    null.
    """
    kind = values.type
    if is_bytes(kind):
        return _hashes(*strings_of(values))
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_temporal(kind)):
        return None
    width = kind.bit_width // 8
    start = values.offset * width
    data = memoryview(values.buffers()[1] or b"")[start : start + len(values) * width]
    offsets = width * np.arange(len(values) + 1, dtype=np.int64)
    return _hashes(offsets.data, data, 64)


def _hashes(offsets: memoryview, data: pa.Buffer | memoryview | None, bits: int) -> Hashes:
    found: Hashes = np.frombuffer(memoryview(hash_strings(offsets, data, bits)), np.uint64)
    return found


@dataclass(frozen=True)
class _Filters:
    """Filters of all zones, one after the other, as 32-bit words."""

    zones: Zones
    has_null: npt.NDArray[np.bool_]
    words: npt.NDArray[np.uint32]
    first_block: npt.NDArray[np.int64]
    """Number of the first block of each zone."""
    num_blocks: npt.NDArray[np.uint64]

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.zones.nbytes + self.words.nbytes

    def may_have(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Return whether each zone may have a value with one of the hashes."""
        bits = np.uint32(1) << ((hashes[:, None] & 0xFFFFFFFF) * SALTS >> 27 & 31).astype(np.uint32)
        upper = hashes >> np.uint64(32)
        found = np.zeros(len(self.has_null), np.bool_)
        for number, wanted in zip(upper, bits, strict=True):
            blocks = self.first_block + (number * self.num_blocks >> np.uint64(32)).astype(np.int64)
            found |= ((self.words[blocks] & wanted) == wanted).all(axis=1)
        return found


def _read(segment: OpenSegment) -> _Filters:
    file = segment.open_file(FILE)
    zones = read_zones(file)
    batch = file.read(0, file.num_rows, ["has_null", "bloom_filter_data"])
    has_null = numbers_of(pc.fill_null(batch.column(0).cast(pa.bool_()), scalar_of(True)))
    filters = batch.column(1)
    sizes = numbers_of(pc.fill_null(pc.binary_length(filters).cast(pa.int64()), scalar_of(0)))
    if (sizes < BLOCK_BYTES).any() or (sizes % BLOCK_BYTES).any():
        raise CorruptFileError(
            "size of a Bloom filter",
            file=file.name,
            expected=f"a multiple of {BLOCK_BYTES}",
            found=sizes.min(),
        )
    offsets, data, bits = strings_of(filters)
    start = int(np.frombuffer(offsets, f"i{bits // 8}")[0])
    words = np.frombuffer(data or b"", "<u4", int(sizes.sum()) // 4, start).reshape(-1, 8)
    num_blocks = sizes // BLOCK_BYTES
    return _Filters(zones, has_null, words, np.cumsum(num_blocks) - num_blocks, num_blocks.astype(np.uint64))
