"""Memory budget: the bytes of decoded rows that the streams of a process may hold ahead of their readers."""

from __future__ import annotations

import os
import threading
import time
from types import TracebackType
from typing import Protocol
from weakref import WeakSet

from lance_core.process.forks import begin_anew_after_fork

_TAKE_BACK_SECONDS = 0.1
"""Shortest time between two calls of borrowers."""


class Borrower(Protocol):
    """Holder of reservations that can release some of them."""

    def give_back(self) -> None:
        """Release the reservations that are not needed now."""


class MemoryBudget:
    """Bytes shared by all streams of a process or server; thread-safe.

    No stream ever waits for a budget, so no stream can deadlock on it. A stream without a reservation
    reserves the bytes of one window even beyond the limit. It reserves more, to read ahead, only while the
    limit allows it. So all streams together hold at most `limit_bytes` plus one window each. A stream whose
    reader does not read releases the rows that it has decoded ahead when other streams need the memory.
    """

    def __init__(self, limit_bytes: int, whole: MemoryBudget | None = None) -> None:
        """Make a budget of `limit_bytes`. Its reservations also count in `whole`, of which it is a part."""
        self.limit_bytes = limit_bytes
        self._whole = whole
        self.begin()
        begin_anew_after_fork(self)

    def begin(self) -> None:
        """Begin without reservations, in this process or in a forked process."""
        self.process = os.getpid()
        self._lock = threading.Lock()
        self._used = 0
        self._peak = 0
        self._borrowers: WeakSet[Borrower] = WeakSet()
        self._taken_back = 0.0
        self._of_whole = None if self._whole is None else self._whole.require(0)

    def lend(self, borrower: Borrower) -> None:
        """Ask this borrower in `take_back`, as long as it lives."""
        if self._whole is not None:
            self._whole.lend(borrower)
            return
        with self._lock:
            self._borrowers.add(borrower)

    def take_back(self) -> None:
        """Ask all borrowers to release reservations, at most once in `_TAKE_BACK_SECONDS`.

        A part of a budget asks the borrowers of the whole, but only if the whole has less room than the part.
        Otherwise the releases of others would not help.
        """
        if self._whole is not None:
            if self._whole.share_bytes <= self.share_bytes:
                self._whole.take_back()
            return
        now = time.monotonic()
        with self._lock:
            if now - self._taken_back < _TAKE_BACK_SECONDS:
                return
            self._taken_back = now
            borrowers = list(self._borrowers)
        for borrower in borrowers:
            borrower.give_back()

    @property
    def used_bytes(self) -> int:
        """Sum of all reservations."""
        return self._used

    @property
    def share_bytes(self) -> int:
        """Bytes that a stream should request at once: an eighth of the room, so that other streams find
        some.
        """
        share = max(0, self.limit_bytes - self._used) // 8
        return share if self._whole is None else min(share, self._whole.share_bytes)

    @property
    def peak_bytes(self) -> int:
        """Largest `used_bytes` so far."""
        return self._peak

    def reserve(self, num_bytes: int, *, required: bool) -> Reservation | None:
        """Reserve `num_bytes`. Return None if they do not fit and are not `required`."""
        reservation = Reservation(self)
        return reservation if self._change(reservation, num_bytes, required=required) else None

    def require(self, num_bytes: int) -> Reservation:
        """Reserve `num_bytes`, even beyond the limit."""
        reservation = Reservation(self)
        reservation.resize(num_bytes)
        return reservation

    def _change(self, reservation: Reservation, num_bytes: int, *, required: bool) -> bool:
        """Set the size of a reservation. Return False if it would not fit and is not `required`.

        A reservation that was made before the process was forked belongs to the other process: nothing
        changes.
        """
        if reservation.process != self.process:
            return True
        with self._lock:
            used = self._used + num_bytes - reservation.num_bytes
            if not required and used > self.limit_bytes:
                return False
            if (
                self._whole is not None
                and self._of_whole is not None
                and not self._whole._change(self._of_whole, used, required=required)
            ):
                return False
            self._used = used
            self._peak = max(self._peak, used)
            reservation.num_bytes = num_bytes
            return True


class Reservation:
    """Bytes of a budget that belong to one job or answer.

    The release rule of this package is here: the owner releases a reservation when it asks for the next
    result, fails, or is closed, and drops the rows before that. As a context manager, a reservation releases
    itself at the end of the block.

    Attributes:
        num_bytes: Reserved bytes.
        process: Id of the process that made the reservation.
    """

    __slots__ = ("_budget", "num_bytes", "process")

    def __init__(self, budget: MemoryBudget) -> None:
        self.num_bytes = 0
        self.process = budget.process
        self._budget = budget

    def resize(self, num_bytes: int) -> None:
        """Set the reserved bytes, for example when the real size of the rows is known. This never fails."""
        self._budget._change(self, num_bytes, required=True)

    def release(self) -> None:
        """Return all bytes to the budget. A second call has no effect."""
        self.resize(0)

    def __enter__(self) -> Reservation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
