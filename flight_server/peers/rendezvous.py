"""Rendezvous hashing: which of several servers reads what, without a word between the servers.

Every pair of a location and a key has a score, and the location with the highest score is the first choice
for the key. So all servers that know the same locations choose alike. If a location goes, only the keys whose
first choice it was move; if one comes, it takes its share from all others.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_SHIFTS_AND_FACTORS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
"""Constants of the finalizer of SplitMix64, a bijection that spreads every bit of its input."""


@dataclass(frozen=True)
class Affinity:
    """Key of an endpoint, which decides which server reads it."""

    key: bytes
    """Names the rows by the data file that holds them: data files never change, and caches are keyed by
    them.
    """
    rotation: int = 0
    """Number of places by which the ranking of the key is rotated. If a fragment was split for the servers,
    its ranges have the rotations 0, 1, 2, ..., so that each goes to another server.
    """


class Ranking:
    """Ranking of locations by key. Immutable."""

    def __init__(self, locations: Iterable[str]) -> None:
        """Take `locations`; the order in which they are given does not matter, nor do repetitions."""
        self.locations = tuple(sorted(set(locations)))
        self._hashes = np.array([_hash(each.encode()) for each in self.locations], np.uint64)

    def rank(self, affinities: Sequence[Affinity], most: int) -> npt.NDArray[np.intp]:
        """Return positions in `locations`, shape (len(affinities), min(most, number of locations)).

        Each row has the first choice of an affinity, then the second, and so on.
        """
        count = len(self.locations)
        keys = np.array([_hash(each.key) for each in affinities], np.uint64)
        scores = _mixed(keys[:, None] ^ self._hashes[None, :])
        order = np.argsort(scores, axis=1, kind="stable")
        rotations = np.array([each.rotation for each in affinities], np.intp)
        places = (rotations[:, None] + np.arange(min(most, count))[None, :]) % max(count, 1)
        return np.take_along_axis(order, places, axis=1)


def _hash(data: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    for shift, factor in _SHIFTS_AND_FACTORS:
        values = (values ^ (values >> np.uint64(shift))) * np.uint64(factor)
    return values ^ (values >> np.uint64(31))
