"""Use of a cache: its size, and how often it had a requested entry."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CacheUse:
    """One cache at one moment.

    Attributes:
        entries: What it holds.
        bytes: About how much memory that takes.
        max_bytes: Beyond this it lets go of what was not used for longest.
        hits, misses: How often something was there when it was asked for, and how often not.
    """

    entries: int
    bytes: int
    max_bytes: int
    hits: int
    misses: int


class HitCounter:
    """Counts hits and misses; for use under the lock of a cache."""

    def __init__(self) -> None:
        self.hits = 0
        self.misses = 0

    def count(self, hit: bool) -> None:
        """Count one question."""
        if hit:
            self.hits += 1
        else:
            self.misses += 1
