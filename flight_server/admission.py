"""Which calls may run: a cap on streams, and the way to an orderly stop."""

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from flight_server.errors import DrainingError, OverloadedError


@dataclass
class _Slots:
    name: str
    limit: int
    used: int = 0


class Admission:
    """Counts what runs. Open at first; `close` refuses new calls, `end_streams` ends the running ones."""

    def __init__(self, max_streams: int, max_puts: int) -> None:
        self._changed = threading.Condition()
        self._running = 0
        self._streams = _Slots("streams", max_streams)
        self._puts = _Slots("uploads", max_puts)
        self._changes = _Slots("changes", max_puts)
        self._closed = False
        self._ending = threading.Event()

    @contextmanager
    def call(self) -> Iterator[None]:
        """The duration of one call; raises DrainingError once the server is closed."""
        with self._changed:
            if self._closed:
                raise DrainingError("the server is shutting down; try another one or again later")
            self._running += 1
        try:
            yield
        finally:
            self._left()

    def stream(self) -> AbstractContextManager[None]:
        """The duration of one stream, which outlives the call that opened it; raises OverloadedError at the
        cap.
        """
        return self._slot(self._streams)

    def put(self) -> AbstractContextManager[None]:
        """The duration of one upload; raises OverloadedError at the cap."""
        return self._slot(self._puts)

    def change(self) -> AbstractContextManager[None]:
        """The duration of an action that changes datasets; there may be as many as uploads."""
        return self._slot(self._changes)

    @contextmanager
    def _slot(self, slots: "_Slots") -> Iterator[None]:
        with self._changed:
            if slots.used >= slots.limit:
                raise OverloadedError(
                    f"{slots.limit} {slots.name} are running, the most this server allows; try again later"
                )
            slots.used += 1
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                slots.used -= 1
            self._left()

    def check_stream(self) -> None:
        """Called between the batches of a stream: raises DrainingError when the time to finish is over."""
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
        """Wait until nothing runs, `seconds` at most; whether that came true."""
        deadline = time.monotonic() + seconds
        with self._changed:
            return self._changed.wait_for(lambda: self._running == 0, max(0.0, deadline - time.monotonic()))

    @property
    def streams(self) -> int:
        """Streams running now."""
        return self._streams.used

    @property
    def puts(self) -> int:
        """Uploads running now."""
        return self._puts.used

    def _left(self) -> None:
        with self._changed:
            self._running -= 1
            self._changed.notify_all()
