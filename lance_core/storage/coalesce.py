"""Merging of neighbouring byte ranges before they are read. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass

ByteRange = tuple[int, int]
"""Offset and length, in bytes."""


@dataclass(frozen=True)
class MergedRange:
    """One read that covers several requested ranges."""

    offset: int
    length: int
    members: tuple[int, ...]
    """Indices of the covered ranges in the request."""


def coalesce(ranges: Sequence[ByteRange], *, max_gap: int, max_length: int) -> list[MergedRange]:
    """Merge ranges that are at most `max_gap` bytes apart. The result is in file order.

    A merged range has at most `max_length` bytes, unless a single range is longer. Empty ranges are left out.
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
