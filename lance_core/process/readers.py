"""Readers: callers that wait for a read, and may leave before it ends.

A read that takes long looks at its reader now and then. So work that nobody waits for ends soon, also on
worker threads, and rows that a caller cannot take are not read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

from lance_core.errors import InvalidInputError

P = ParamSpec("P")
R = TypeVar("R")

_reader: ContextVar[Reader | None] = ContextVar("reader", default=None)


class ReaderLeftError(Exception):
    """Nobody waits for the read of a worker thread any more."""


class Reader:
    """Caller that waits for reads."""

    def __init__(self, check: Callable[[], None], most_bytes: int) -> None:
        """Use `check` to look whether the caller has left: it then raises an error, which ends the read.

        Only the thread that makes this object calls `check`. The caller can take `most_bytes` at a time.
        """
        self._check = check
        self.most_bytes = most_bytes
        self._thread = threading.get_ident()
        self._has_left = False

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Let the reads of this thread in a block, and of worker threads that it asks inside, look here."""
        token = _reader.set(self)
        try:
            yield
        finally:
            _reader.reset(token)

    def close(self) -> None:
        """End the reads that worker threads do for this reader."""
        self._has_left = True

    def look(self) -> None:
        """Raise an error if the caller has left: that of `check`, on a worker thread ReaderLeftError."""
        if threading.get_ident() != self._thread:
            if self._has_left:
                raise ReaderLeftError
            return
        try:
            self._check()
        except BaseException:
            self.close()
            raise


def look_at_reader() -> None:
    """Raise an error if this thread reads for somebody who has left; see `Reader.look`."""
    reader = _reader.get()
    if reader is not None:
        reader.look()


def check_fits_reader(num_bytes: float) -> None:
    """Refuse rows that are to be read together if the caller cannot take so many bytes at a time.

    Raises:
        InvalidInputError: the caller of this thread cannot.
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
