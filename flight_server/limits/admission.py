"""Admission of calls: a cap on streams, and an orderly stop."""

import sys
import threading
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass

from flight_server.errors import DrainingError, OverloadedError


@dataclass
class _Slots:
    """Number and limit of the running calls of one kind."""

    name: str
    limit: int
    used: int = 0


class _Slot:
    """Context of one running call, stream, upload or change. (A class is faster than a generator.)"""

    __slots__ = ("_admission", "_slots")

    def __init__(self, admission: "Admission", slots: _Slots) -> None:
        self._admission = admission
        self._slots = slots

    def __enter__(self) -> None:
        self._admission._enter(self._slots)

    def __exit__(self, *_: object) -> None:
        self._admission._leave(self._slots)


class Admission:
    """Counter of the running calls, streams, uploads and changes, with a limit for each kind.

    `close` refuses new calls. `end_streams` ends the running streams."""

    def __init__(self, max_streams: int, max_puts: int) -> None:
        self._changed = threading.Condition()
        self._calls = _Slots("calls", sys.maxsize)
        self._streams = _Slots("streams", max_streams)
        self._puts = _Slots("uploads", max_puts)
        self._changes = _Slots("changes", max_puts)
        self._running = 0
        self._closed = False
        self._ending = threading.Event()

    def call(self) -> AbstractContextManager[None]:
        """Return a context that counts one call; its start raises DrainingError after `close`."""
        return _Slot(self, self._calls)

    def stream(self) -> AbstractContextManager[None]:
        """Return a context that counts one stream; its start raises OverloadedError at the limit.

        A stream lasts longer than the call that opens it.
        """
        return _Slot(self, self._streams)

    def put(self) -> AbstractContextManager[None]:
        """Return a context that counts one upload; its start raises OverloadedError at the limit."""
        return _Slot(self, self._puts)

    def change(self) -> AbstractContextManager[None]:
        """Return a context that counts one action that changes datasets. The limit is that of uploads."""
        return _Slot(self, self._changes)

    def _enter(self, slots: _Slots) -> None:
        with self._changed:
            if slots is self._calls and self._closed:
                raise DrainingError("the server is shutting down; try another one or again later")
            if slots.used >= slots.limit:
                raise OverloadedError(
                    f"{slots.limit} {slots.name} are running, the most this server allows; try again later"
                )
            slots.used += 1
            self._running += 1

    def _leave(self, slots: _Slots) -> None:
        with self._changed:
            slots.used -= 1
            self._running -= 1
            self._changed.notify_all()

    def check_stream(self) -> None:
        """Raise DrainingError after `end_streams`. Streams call this between their batches."""
        if self._ending.is_set():
            raise DrainingError(
                "the server stopped before the stream ended; read the rest from another one or later"
            )

    def close(self) -> None:
        with self._changed:
            self._closed = True

    def end_streams(self) -> None:
        self._ending.set()

    def wait_idle(self, seconds: float) -> bool:
        """Wait until nothing runs, at most `seconds`. Return whether nothing runs."""
        deadline = time.monotonic() + seconds
        with self._changed:
            return self._changed.wait_for(lambda: self._running == 0, max(0.0, deadline - time.monotonic()))

    @property
    def streams(self) -> int:
        """Number of running streams."""
        return self._streams.used

    @property
    def puts(self) -> int:
        """Number of running uploads."""
        return self._puts.used
