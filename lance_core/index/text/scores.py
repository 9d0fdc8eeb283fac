"""Statistics of a collection of documents, and weights of terms by BM25.

All numbers are 32-bit floats, as in the reference, so that scores agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_K1 = np.float32(1.2)
_B = np.float32(0.75)
_HALF = np.float32(0.5)
_ONE = np.float32(1)


@dataclass(frozen=True)
class Collection:
    """Statistics of documents: their number, the number of their terms, and documents per term."""

    num_documents: int = 0
    num_tokens: int = 0
    documents_with: Mapping[str, int] | None = None
    """Number of documents that have a term, for the terms of a query."""

    def __add__(self, other: Collection) -> Collection:
        mine, others = self.documents_with or {}, other.documents_with or {}
        return Collection(
            self.num_documents + other.num_documents,
            self.num_tokens + other.num_tokens,
            {term: mine.get(term, 0) + others.get(term, 0) for term in {*mine, *others}},
        )

    @property
    def average_length(self) -> np.float32:
        """Terms per document."""
        return np.float32(self.num_tokens) / np.float32(max(self.num_documents, 1))

    def weight(self, term: str) -> float:
        """Return the weight of a term: rare terms have a greater one."""
        found = np.float32((self.documents_with or {}).get(term, 0))
        if not found:
            return 0.0
        return float(
            np.log(
                (np.float32(self.num_documents) - found + _HALF) / (found + _HALF) + _ONE, dtype=np.float32
            )
        )

    def norms(self, lengths: npt.NDArray[np.uint32]) -> npt.NDArray[np.float32]:
        """Return what documents of these lengths add to the divisor of a score: see `best_documents`."""
        share = _B * lengths.astype(np.float32) / (self.average_length or _ONE)
        return np.asarray(_K1 * ((_ONE - _B) + share), np.float32)


def scores(
    weight: float, frequencies: npt.NDArray[np.uint32], norms: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """Return what a term of some weight adds to the scores of documents: see `best_documents`."""
    found = frequencies.astype(np.float32)
    return np.asarray(np.float32(weight) * ((_K1 + _ONE) * found / (found + norms)), np.float32)
