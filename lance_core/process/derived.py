"""Values that are derived from objects, each kept as long as its object."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
V = TypeVar("V")


class Derived(Generic[T, V]):
    """Results of a function for objects that never change. Thread-safe.

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
        known = self._known.get(id(thing))
        if known is not None and known[0]() is thing:
            return known[1]
        value = self._derive(thing)
        self.keep(thing, value)
        return value

    def keep(self, thing: T, value: V) -> None:
        """Keep the value of an object that the caller knows."""
        number = id(thing)
        # The entry goes with the object, before another object can be at its address.
        self._known[number] = weakref.ref(thing, lambda _: self._known.pop(number, None)), value
