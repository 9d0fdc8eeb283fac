"""Errors of work that runs ahead of its consumer, raised when the consumer gets to them.

A consumer must see every result from before an error, and then the error. A future does this for one call.
The classes here do it for a sequence of results, whether a thread, a kernel or a generator makes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Generic, TypeVar

T = TypeVar("T")


class DeferredError:
    """The first error of some work, kept until the consumer has all results from before it.

    As a context manager it keeps the error that ends the block. An interrupt is not kept, but raised at once.
    """

    __slots__ = ("_error", "_kind")

    def __init__(self, kind: type[BaseException] = Exception) -> None:
        """Keep errors of class `kind`; other errors are raised at once."""
        self._kind = kind
        self._error: BaseException | None = None

    @property
    def error(self) -> BaseException | None:
        """The kept error; None if all went well so far."""
        return self._error

    def raise_kept(self) -> None:
        """Raise the kept error. Return if there is none."""
        if self._error is not None:
            raise self._error

    def __enter__(self) -> DeferredError:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None or not isinstance(error, self._kind):
            return False
        self._error = self._error or error
        return True


class Results(Generic[T]):
    """Results of finished work, in order, up to the first error, which iteration raises after them."""

    def __init__(self, values: list[T] | None = None) -> None:
        self.values = [] if values is None else values
        self.error = DeferredError()

    def __iter__(self) -> Iterator[T]:
        yield from self.values
        self.error.raise_kept()


class Lookahead(Generic[T]):
    """Reader of an iterator. A consumer can look at the next item before it decides to take it."""

    def __init__(self, items: Iterator[T]) -> None:
        self._items = items
        self._error: Exception | None = None
        self._item: T | None = None
        self.is_known = False
        """Whether `peek` answers without asking for another item."""

    def peek(self, *, in_turn: bool) -> T | None:
        """Return the next item without taking it; None at the end.

        An error that ended the items is the end, too, until the consumer has nothing left from before it and
        says so with `in_turn`: then the error is raised.
        """
        if not self.is_known:
            self.is_known = True
            try:
                self._item = next(self._items, None)
            except Exception as error:  # an interrupt is raised at once
                self._error = error
        if in_turn and self._error is not None:
            raise self._error
        return self._item

    def take(self) -> None:
        """Take the item that `peek` returned, so that the next `peek` asks for another one."""
        self._item = None
        self.is_known = False
