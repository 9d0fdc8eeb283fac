"""Values of bfloat16, and the 16 bits of many of them."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from lance_core.errors import InvalidInputError

__all__ = ["BFloat16", "round_to_bfloat16", "widen"]


class BFloat16:
    """One value. It equals, and is ordered by, other values of this class only."""

    __slots__ = ("_value",)

    def __init__(self, value: float) -> None:
        """Round a number to the nearest value, to the even one of two that are equally near."""
        words = round_to_bfloat16(np.array([value], dtype=np.float64))
        self._value = float(widen(words)[0])

    @classmethod
    def from_bytes(cls, bytes: bytes) -> BFloat16:
        """Return the value of two bytes.

        Raises:
            InvalidInputError: There are more or fewer bytes.
        """
        if len(bytes) != 2:
            raise InvalidInputError(f"expected 2 bytes, got {len(bytes)}")
        return cls(*struct.unpack("<f", b"\0\0" + bytes))

    def as_float(self) -> float:
        """Return the number."""
        return self._value

    __float__ = as_float

    def __repr__(self) -> str:
        if self._value != self._value:
            return "NaN"
        return np.format_float_positional(np.float32(self._value), trim="-")

    def __hash__(self) -> int:
        return hash(self._value)

    def __eq__(self, other: object) -> bool:
        return self._value == other._value if isinstance(other, BFloat16) else NotImplemented

    def __lt__(self, other: BFloat16) -> bool:
        return self._value < other._value if isinstance(other, BFloat16) else NotImplemented

    def __le__(self, other: BFloat16) -> bool:
        return self._value <= other._value if isinstance(other, BFloat16) else NotImplemented

    def __gt__(self, other: BFloat16) -> bool:
        return self._value > other._value if isinstance(other, BFloat16) else NotImplemented

    def __ge__(self, other: BFloat16) -> bool:
        return self._value >= other._value if isinstance(other, BFloat16) else NotImplemented


def round_to_bfloat16(values: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.uint16]:
    """Return the 16 bits of the nearest values, by way of float32."""
    with np.errstate(over="ignore"):
        floats = values.astype(np.float32)
    bits = floats.view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(floats), (bits >> 16) | 0x40, rounded).astype(np.uint16)


def widen(words: npt.NDArray[np.uint16]) -> npt.NDArray[np.float32]:
    """Return the numbers of 16 bits each."""
    return (words.astype(np.uint32) << 16).view(np.float32)
