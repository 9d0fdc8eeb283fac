"""Statistics of a cache: its size, and how often it had a requested entry."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CacheUse:
    """State of a cache at one moment.

    Attributes:
        entries: Number of entries.
        bytes: Estimated memory of the entries.
        max_bytes: Limit of this memory. Above it, the least recently used entries are removed.
        hits: Requests for an entry that was in the cache.
        misses: Requests for an entry that was not.
    """

    entries: int
    bytes: int
    max_bytes: int
    hits: int
    misses: int


class HitCounter:
    """Counter of hits and misses. The caller holds the lock of the cache."""

    def __init__(self) -> None:
        self.hits = 0
        self.misses = 0

    def count(self, hit: bool) -> None:
        """Count one request."""
        if hit:
            self.hits += 1
        else:
            self.misses += 1
