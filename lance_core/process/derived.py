"""Values that are derived from objects, each kept as long as its object."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
V = TypeVar("V")


class Derived(Generic[T, V]):
    """Values that a function derives from objects that never change. Thread-safe.

    Objects are told apart by identity: the hash of a large object takes as long as the value. An object must
    allow weak references.
    """

    def __init__(self, derive: Callable[[T], V]) -> None:
        self._derive = derive
        self._known: dict[int, tuple[weakref.ref[T], V]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, thing: T) -> V:
        """Return the value of an object. Two threads that ask for it first both derive it."""
        number = id(thing)
        known = self._known.get(number)
        if known is None or known[0]() is not thing:
            # The entry goes with the object, before another object can be at its address.
            known = weakref.ref(thing, lambda _: self._known.pop(number, None)), self._derive(thing)
            self._known[number] = known
        return known[1]
