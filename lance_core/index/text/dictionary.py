"""Terms of a partition and their numbers.

An index file has the terms as a map in the format of the Rust crate `fst`, or as columns. The number of a
term is the row of its posting list. Source: docs/format.md, "Index files".
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.index.text.arrays import int64s, uint32s
from lance_core.kernels import Block, build_map, expand_map, find_key, similar_terms
from lance_core.schema.arrow_values import numbers_of

_MOST_BYTES = 1 << 40


class SortedTerms(NamedTuple):
    """All terms, in the order of their bytes."""

    offsets: Block | memoryview
    """Start of each term in `data`, int64, and the end of the last."""
    data: Block | memoryview
    numbers: npt.NDArray[np.uint32]


class Dictionary:
    """Terms of a partition; thread-safe."""

    def __init__(self, terms: bytes | SortedTerms) -> None:
        """Take a map, or sorted terms."""
        self._map = terms if isinstance(terms, bytes) else None
        self._given = terms if isinstance(terms, SortedTerms) else None

    @property
    def num_bytes(self) -> int:
        """Memory of the terms."""
        if self._map is not None:
            return len(self._map) * (4 if "sorted_terms" in self.__dict__ else 1)
        terms = self.sorted_terms
        return len(memoryview(terms.offsets)) + len(memoryview(terms.data)) + terms.numbers.nbytes

    def find(self, term: str) -> int | None:
        """Return the number of a term, None without such a term. Raise `ValueError` if the map is bad."""
        key = term.encode()
        if self._map is not None:
            return find_key(self._map, key)
        terms = self.sorted_terms
        offsets, data = int64s(terms.offsets), memoryview(terms.data)
        low, high = 0, len(terms.numbers)
        while low < high:
            middle = (low + high) // 2
            if bytes(data[offsets[middle] : offsets[middle + 1]]) < key:
                low = middle + 1
            else:
                high = middle
        if low < len(terms.numbers) and bytes(data[offsets[low] : offsets[low + 1]]) == key:
            return int(terms.numbers[low])
        return None

    def similar(self, term: str, distance: int, prefix_bytes: int, limit: int) -> list[str]:
        """Return the first `limit` terms, in the order of their bytes, that become `term` by at most
        `distance` insertions, deletions or replacements of characters, and have its first `prefix_bytes`
        bytes.
        """
        terms = self.sorted_terms
        found = similar_terms(terms.offsets, terms.data, term.encode(), distance, prefix_bytes, limit)
        offsets, data = int64s(terms.offsets), memoryview(terms.data)
        return [bytes(data[offsets[place] : offsets[place + 1]]).decode(errors="replace") for place in found]

    @cached_property
    def sorted_terms(self) -> SortedTerms:
        """All terms. Raises `ValueError` if the map is bad."""
        if self._given is not None:
            return self._given
        offsets, data, numbers = expand_map(self._map or b"", _MOST_BYTES)
        return SortedTerms(offsets, data, uint32s(numbers))


def dictionary_of_columns(terms: pa.Array, numbers: pa.Array) -> Dictionary:
    """Return the dictionary of a file that has terms and their numbers as columns, in any order."""
    binary = terms.cast(pa.large_string()).cast(pa.large_binary())
    order = pc.sort_indices(binary)
    ordered = pa.concat_arrays([binary.take(order)])
    _, offsets, data = ordered.buffers()
    return Dictionary(
        SortedTerms(
            memoryview(offsets)[: 8 * (len(ordered) + 1)] if len(ordered) else memoryview(bytes(8)),
            memoryview(data) if data is not None else memoryview(b""),
            numbers_of(numbers.take(order)).astype(np.uint32),
        )
    )


def map_of(terms: list[str]) -> tuple[bytes, npt.NDArray[np.uint32], int]:
    """Return the map of terms whose number is their rank, the rank of each term, and the bytes of all
    terms.
    """
    keys = [term.encode() for term in terms]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    ranks = np.empty(len(keys), np.uint32)
    ranks[order] = np.arange(len(keys), dtype=np.uint32)
    ends = np.zeros(len(keys) + 1, np.int64)
    np.cumsum([len(keys[place]) for place in order], out=ends[1:])
    data = b"".join(keys[place] for place in order)
    numbers = np.arange(len(keys), dtype=np.uint32)
    return bytes(build_map(ends.data, data, numbers.data)), ranks, len(data)
