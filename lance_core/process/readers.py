"""Readers: callers that wait for a read, and may leave before it ends.

A long read checks from time to time whether its reader is still there. So a read ends soon after its caller
has left, also on worker threads. Rows that are too large for the caller are refused before they are read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

from lance_core.errors import InvalidInputError

P = ParamSpec("P")
R = TypeVar("R")

_reader: ContextVar[Reader | None] = ContextVar("reader", default=None)


class ReaderLeftError(Exception):
    """The caller has left for whom a worker thread reads."""


class Reader:
    """Caller that waits for reads."""

    def __init__(self, check: Callable[[], None], most_bytes: int) -> None:
        """Use `check` to find out whether the caller has left: it then raises an error, which ends the read.

        Only the thread that makes this object calls `check`. `most_bytes` is the most bytes that the caller
        can take at a time.
        """
        self._check = check
        self.most_bytes = most_bytes
        self._thread = threading.get_ident()
        self._has_left = False

    def waiting(self) -> AbstractContextManager[None]:
        """Make this the reader of all reads in a block: those of this thread, and those that it gives to
        worker threads.
        """
        return _Waiting(self)

    def close(self) -> None:
        """End the reads that worker threads do for this reader."""
        self._has_left = True

    def look(self) -> None:
        """Raise an error if the caller has left: that of `check`, or ReaderLeftError on a worker thread."""
        if threading.get_ident() != self._thread:
            if self._has_left:
                raise ReaderLeftError
            return
        try:
            self._check()
        except BaseException:
            self.close()
            raise


class _Waiting:
    """Context of `Reader.waiting`. A class is faster than a generator, and every batch needs it."""

    __slots__ = ("_of", "_token")

    def __init__(self, reader: Reader) -> None:
        self._of = reader

    def __enter__(self) -> None:
        self._token = _reader.set(self._of)

    def __exit__(self, *_: object) -> None:
        _reader.reset(self._token)


def has_reader() -> bool:
    """Return whether this thread reads for a `Reader`, which shares the memory of a process with others."""
    return _reader.get() is not None


def look_at_reader() -> None:
    """Raise an error if the reader of this thread has left; see `Reader.look`."""
    reader = _reader.get()
    if reader is not None:
        reader.look()


def check_fits_reader(num_bytes: float) -> None:
    """Refuse rows of `num_bytes` that are to be read together, if the reader of this thread cannot take them.

    Raises:
        InvalidInputError: the rows have more bytes than the reader can take at a time.
    """
    reader = _reader.get()
    if reader is not None and num_bytes > reader.most_bytes:
        raise InvalidInputError(
            "a row is too large to be sent, ask for fewer columns",
            expected=f"at most {reader.most_bytes} bytes",
            found=f"about {num_bytes:.0f}",
        )


def for_reader(run: Callable[P, R]) -> Callable[P, R]:
    """Return a function that a worker thread runs for the reader of this thread."""
    reader = _reader.get()
    if reader is None:
        return run

    def run_for(*arguments: P.args, **named: P.kwargs) -> R:
        with reader.waiting():
            reader.look()
            return run(*arguments, **named)

    return run_for
