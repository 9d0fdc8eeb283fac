"""Admission of calls: limits for all callers together and for each caller, and an orderly stop.

A lookup (rows by keys, or a few rows of a scan) has slots of its own. So full scans that take all slots for
streams keep nobody from looking up a row. An open exchange has a slot of its own kind, because it keeps a
thread and its plan; it takes the slot of a lookup only while a question is answered.
"""

import math
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple

from flight_server.errors import DrainingError, OverloadedError

_FIRST_GAP_SECONDS = 0.5
"""Time between the ends of two calls of a kind, before any has ended."""
_SHORTEST_RETRY_SECONDS = 0.1
_LONGEST_RETRY_SECONDS = 10.0
_QUESTION_SECONDS = 10.0
"""Time that a question of an exchange waits for the slot of a lookup."""
_WEIGHT = 0.2
"""Weight of the latest gap between two ends in their moving average."""


class Limit(NamedTuple):
    """Numbers of calls of one kind that may run at the same time."""

    total: int
    of_caller: int
    """Calls of one caller."""


class _Slots:
    """Slots of one kind of call. The methods are called with the lock of the admission."""

    def __init__(self, name: str, limit: Limit) -> None:
        self.name = name
        self.limit = limit
        self.used = 0
        self.of_callers: dict[str, int] = {}
        self._gap_seconds = _FIRST_GAP_SECONDS
        self._last_end: float | None = None
        self._promised = 0.0
        """Time at which the caller that was refused last may come back."""

    def has_room(self, caller: str) -> bool:
        """Return whether a slot is free for the caller."""
        return self.used < self.limit.total and self.of_callers.get(caller, 0) < self.limit.of_caller

    def enter(self, caller: str) -> None:
        """Take a slot. Raises OverloadedError if the caller or all callers together have too many."""
        if self.used >= self.limit.total:
            raise self._refusal(f"{self.limit.total} {self.name} are running, the most this server allows")
        used = self.of_callers.get(caller, 0)
        if used >= self.limit.of_caller:
            most = self.limit.of_caller
            raise self._refusal(
                f"{most} {self.name} of this caller are running, the most one caller may have"
            )
        self.used += 1
        self.of_callers[caller] = used + 1

    def leave(self, caller: str) -> None:
        self.used -= 1
        used = self.of_callers.pop(caller)
        if used > 1:
            self.of_callers[caller] = used - 1
        now = time.monotonic()
        if self._last_end is not None:
            self._gap_seconds += _WEIGHT * (now - self._last_end - self._gap_seconds)
        self._last_end = now

    def _refusal(self, reason: str) -> OverloadedError:
        """Return the error with the time at which a slot is expected to be free.

        Callers that are refused one after the other get later and later times, as slots become free.
        """
        now = time.monotonic()
        self._promised = max(self._promised, now) + self._gap_seconds
        seconds = min(max(self._promised - now, _SHORTEST_RETRY_SECONDS), _LONGEST_RETRY_SECONDS)
        self._promised = now + seconds
        return OverloadedError(reason, retry_after=seconds)


class _Slot:
    """Context of one running call, stream, exchange, lookup, upload or change. (A class is faster than a
    generator.)
    """

    __slots__ = ("_admission", "_caller", "_patience", "_slots")

    def __init__(self, admission: "Admission", slots: _Slots, caller: str, patience: float = 0.0) -> None:
        """Prepare the context. Its start waits for a slot for the seconds of `patience`."""
        self._admission = admission
        self._slots = slots
        self._caller = caller
        self._patience = patience

    def __enter__(self) -> None:
        self._admission._enter(self._slots, self._caller, self._patience)

    def __exit__(self, *_: object) -> None:
        self._admission._leave(self._slots, self._caller)


class Admission:
    """Counter of the running calls, streams, exchanges, lookups, uploads and changes, with a limit for each
    kind.

    A caller is a text: the subject of an identity, or the host of an anonymous client. `close` refuses new
    calls. `end_streams` ends the running streams.
    """

    def __init__(self, streams: Limit, puts: Limit) -> None:
        self._changed = threading.Condition()
        self._calls = _Slots("calls", Limit(sys.maxsize, sys.maxsize))
        self._streams = _Slots("streams", streams)
        self._exchanges = _Slots("exchanges", streams)
        self._lookups = _Slots("lookups", streams)
        self._puts = _Slots("uploads", puts)
        self._changes = _Slots("changes", puts)
        self._running = 0
        self._closed = False
        self._ending = threading.Event()

    def call(self) -> AbstractContextManager[None]:
        """Return a context that counts one call; its start raises DrainingError after `close`."""
        return _Slot(self, self._calls, "")

    def stream(self, caller: str) -> AbstractContextManager[None]:
        """Return a context that counts one stream; its start raises OverloadedError at a limit.

        A stream lasts longer than the call that opens it.
        """
        return _Slot(self, self._streams, caller)

    def lookup(self, caller: str) -> AbstractContextManager[None]:
        """Return a context that counts one lookup. The limits are those of streams, counted separately."""
        return _Slot(self, self._lookups, caller)

    def exchange(self, caller: str) -> AbstractContextManager[None]:
        """Return a context that counts one open exchange, within one call. The limits are those of streams,
        counted separately.
        """
        return _Slot(self, self._exchanges, caller)

    def question(self, caller: str) -> AbstractContextManager[None]:
        """Return a context that counts a question of an exchange as a lookup. Its start waits for a slot; it
        raises DrainingError after `end_streams`, and OverloadedError if no slot gets free.
        """
        return _Slot(self, self._lookups, caller, _QUESTION_SECONDS)

    def put(self, caller: str) -> AbstractContextManager[None]:
        """Return a context that counts one upload; its start raises OverloadedError at a limit."""
        return _Slot(self, self._puts, caller)

    def change(self, caller: str) -> AbstractContextManager[None]:
        """Return a context that counts one action that changes datasets. The limits are those of uploads."""
        return _Slot(self, self._changes, caller)

    def _enter(self, slots: _Slots, caller: str, patience: float) -> None:
        with self._changed:
            if slots is self._calls and self._closed:
                raise DrainingError("the server is shutting down; try another one or again later")
            if patience:
                self._running += 1  # a stop waits for a question that waits
                self._changed.wait_for(lambda: slots.has_room(caller) or self._ending.is_set(), patience)
                self._running -= 1
                self.check_stream()
            slots.enter(caller)
            self._running += 1

    def _leave(self, slots: _Slots, caller: str) -> None:
        with self._changed:
            slots.leave(caller)
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
        with self._changed:
            self._ending.set()
            self._changed.notify_all()

    def wait_for_end(self, seconds: float) -> None:
        """Wait until `end_streams`, at most `seconds`."""
        self._ending.wait(seconds)

    def wait_idle(self, seconds: float) -> bool:
        """Wait until nothing runs, at most `seconds`. Return whether nothing runs. An exchange whose client
        asks nothing does not count.
        """
        deadline = time.monotonic() + seconds

        def is_idle() -> bool:
            return self._running == 2 * self._exchanges.used  # each of them is a call, too

        with self._changed:
            return self._changed.wait_for(is_idle, max(0.0, deadline - time.monotonic()))

    @property
    def is_closed(self) -> bool:
        """Whether new calls are refused."""
        return self._closed

    def use(self) -> Mapping[str, tuple[int, int]]:
        """Return by kind how many calls run, and how many may run."""
        kinds = (self._calls, self._streams, self._exchanges, self._lookups, self._puts, self._changes)
        return {slots.name: (slots.used, slots.limit.total) for slots in kinds}

    @property
    def streams(self) -> int:
        """Number of running streams."""
        return self._streams.used

    @property
    def lookups(self) -> int:
        """Number of running lookups."""
        return self._lookups.used

    @property
    def puts(self) -> int:
        """Number of running uploads."""
        return self._puts.used

    @property
    def changes(self) -> int:
        """Number of running actions that change datasets."""
        return self._changes.used


def limit_of(total: int, of_caller: int | None) -> Limit:
    """Return the limit of a kind of call. A caller may have three quarters of it if nothing else is said."""
    return Limit(total, math.ceil(total * 3 / 4) if of_caller is None else min(of_caller, total))
