"""Sets of small numbers as compact bitmaps, with the name and methods of the reference library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableSet
from typing import Any

import pyroaring

from lance_core.errors import InvalidInputError

__all__ = ["Bitmap"]

_BOUND = 1 << 32


class Bitmap(MutableSet[int]):
    """Set of unsigned 32-bit integers, stored as a Roaring bitmap and iterated in ascending order.

    Wherever it takes another set it takes any iterable of integers. So it equals a list with the same values.
    """

    __slots__ = ("_bits",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, values: Iterable[int] = ()) -> None:
        """Make a set of `values`.

        Raises:
            InvalidInputError: A value is negative or has more than 32 bits.
            TypeError: A value is no integer.
        """
        self._bits = _bits(values)

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int) and 0 <= value < _BOUND and value in self._bits

    def __iter__(self) -> Iterator[int]:
        return iter(self._bits)

    def __len__(self) -> int:
        return len(self._bits)

    def __repr__(self) -> str:
        return f"Bitmap({{{', '.join(map(str, self._bits))}}})"

    def __eq__(self, other: object) -> bool:
        try:
            return bool(self._bits == _bits(other))
        except (TypeError, InvalidInputError):
            return False

    def __le__(self, other: Any) -> bool:
        return bool(self._bits.issubset(_bits(other)))

    def __lt__(self, other: Any) -> bool:
        return bool(self <= other and self != other)

    def __ge__(self, other: Any) -> bool:
        return bool(self._bits.issuperset(_bits(other)))

    def __gt__(self, other: Any) -> bool:
        return bool(self >= other and self != other)

    def __and__(self, other: Any) -> Bitmap:
        return Bitmap(self._bits & _bits(other))

    def __or__(self, other: Any) -> Bitmap:
        return Bitmap(self._bits | _bits(other))

    def __sub__(self, other: Any) -> Bitmap:
        return Bitmap(self._bits - _bits(other))

    def __xor__(self, other: Any) -> Bitmap:
        return Bitmap(self._bits ^ _bits(other))

    __rand__ = __and__
    __ror__ = __or__
    __rxor__ = __xor__

    def __rsub__(self, other: Any) -> Bitmap:
        return Bitmap(_bits(other) - self._bits)

    def __ior__(self, other: Any) -> Bitmap:
        self._bits |= _bits(other)
        return self

    def __iand__(self, other: Any) -> Bitmap:
        self._bits &= _bits(other)
        return self

    def __isub__(self, other: Any) -> Bitmap:
        self._bits -= _bits(other)
        return self

    def __ixor__(self, other: Any) -> Bitmap:
        self._bits ^= _bits(other)
        return self

    def add(self, value: int) -> None:
        """Add a value."""
        self._bits |= _bits([value])

    def discard(self, value: int) -> None:
        """Remove a value, if it is there."""
        if value in self:
            self._bits.remove(value)

    def clear(self) -> None:
        """Remove all values."""
        self._bits = pyroaring.BitMap()

    def copy(self) -> Bitmap:
        """Return a set with the same values."""
        return Bitmap(self._bits)

    def union(self, other: Iterable[int]) -> Bitmap:
        """Return the values of both sets."""
        return self | other

    def intersection(self, other: Iterable[int]) -> Bitmap:
        """Return the values that are in both sets."""
        return self & other

    def difference(self, other: Iterable[int]) -> Bitmap:
        """Return the values that are not in the other set."""
        return self - other

    def symmetric_difference(self, other: Iterable[int]) -> Bitmap:
        """Return the values that are in one of the sets only."""
        return self ^ other

    def update(self, other: Iterable[int]) -> None:
        """Add the values of the other set."""
        self._bits |= _bits(other)

    def issubset(self, other: Iterable[int]) -> bool:
        """Return whether the other set has all values of this one."""
        return self <= other

    def issuperset(self, other: Iterable[int]) -> bool:
        """Return whether this set has all values of the other one."""
        return self >= other

    def isdisjoint(self, other: Iterable[int]) -> bool:
        """Return whether the sets have no value in common."""
        return not self._bits.intersect(_bits(other))


def _bits(values: Any) -> pyroaring.BitMap:
    """Return a new bitmap of the values, or the bitmap of another `Bitmap`."""
    if isinstance(values, Bitmap):
        return values._bits.copy()
    try:
        return pyroaring.BitMap(values)
    except OverflowError as error:
        raise InvalidInputError("value of a bitmap", expected="0 to 4294967295", found=error) from None
