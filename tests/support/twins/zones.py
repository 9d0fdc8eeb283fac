"""Bounds and counts of values, and CRC-32C, the slow way."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any


def crc32c(data: bytes, initial: int = 0) -> int:
    """Bit by bit, from the polynomial."""
    crc = initial ^ 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def zones(
    values: Sequence[Any], rows_per_zone: int, bounds: Callable[[list[Any]], tuple[Any, Any]]
) -> list[tuple[int, int, Any, Any]]:
    """(nulls, NaNs, least, most) of each zone; `bounds` sees values that are neither null nor NaN."""
    found = []
    for start in range(0, len(values), rows_per_zone):
        zone = values[start : start + rows_per_zone]
        valid = [value for value in zone if value is not None]
        numbers = [value for value in valid if not (isinstance(value, float) and math.isnan(value))]
        least, most = bounds(numbers) if numbers else (None, None)
        found.append((len(zone) - len(valid), len(valid) - len(numbers), least, most))
    return found


def float_bounds(numbers: list[float]) -> tuple[float, float]:
    """The sign of zero is such that both zeros are within."""
    least, most = min(numbers), max(numbers)
    return (-0.0 if least == 0 else least, 0.0 if most == 0 else most)


def text_bounds(limit: int) -> Callable[[list[bytes]], tuple[bytes, bytes | None]]:
    """Bounds of binary values, cut to `limit` bytes; the upper one raised where it was cut."""

    def bounds(values: list[bytes]) -> tuple[bytes, bytes | None]:
        least, most = min(values)[:limit], max(values)
        if len(most) <= limit:
            return least, most
        kept = most[:limit].rstrip(b"\xff")
        return least, kept[:-1] + bytes([kept[-1] + 1]) if kept else None

    return bounds
