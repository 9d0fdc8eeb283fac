"""Merging neighbouring byte ranges before they are read: ranges in, merged ranges out, no I/O."""

from collections.abc import Sequence
from dataclasses import dataclass

ByteRange = tuple[int, int]
"""(offset, length) in bytes."""


@dataclass(frozen=True)
class MergedRange:
    """One read that serves several requested ranges."""

    offset: int
    length: int
    members: tuple[int, ...]
    """Positions of the served ranges in the request."""


def coalesce(ranges: Sequence[ByteRange], *, max_gap: int, max_length: int) -> list[MergedRange]:
    """Merge ranges that lie at most `max_gap` bytes apart, in file order.

    A merged read is not extended beyond `max_length` bytes; a single longer range stays one read.
    Empty ranges are left out: there is nothing to read for them.
    """
    merged: list[MergedRange] = []
    members: list[int] = []
    start = end = 0
    for index in sorted((i for i, (_, length) in enumerate(ranges) if length), key=lambda i: ranges[i]):
        offset, length = ranges[index]
        if members and offset - end <= max_gap and max(end, offset + length) - start <= max_length:
            members.append(index)
            end = max(end, offset + length)
            continue
        if members:
            merged.append(MergedRange(start, end - start, tuple(members)))
        members = [index]
        start, end = offset, offset + length
    if members:
        merged.append(MergedRange(start, end - start, tuple(members)))
    return merged
