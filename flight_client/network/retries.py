"""Retries of calls after temporary errors: how often, how long to wait, and when to give up."""

from __future__ import annotations

import random
import time

from flight_client.errors import LanceError

_FIRST_WAIT_SECONDS = 0.05
_LONGEST_WAIT_SECONDS = 5.0
_JITTER = 0.25
"""Largest share by which a wait is longer than the server said. It is random, so that the clients of a busy
server do not all come back at once.
"""


class Retries:
    """Attempts of one call. The client tries one server after the other, and waits when all have failed.

    A busy server says when to come back. The client then waits that long, and the attempt does not count
    among `attempts`. The call fails when the client has waited for `patience` seconds in all.
    """

    def __init__(self, attempts: int, patience: float, num_servers: int) -> None:
        """Fail after `attempts` attempts, or after `patience` seconds of waiting for busy servers."""
        self._failures = 0
        self._attempts = attempts
        self._patience = patience
        self._num_servers = num_servers
        self._counted = 0
        self._waited = 0.0
        self._told: float | None = None

    def after(self, error: LanceError) -> None:
        """Wait until the next attempt is due. Raise `error` if there is none."""
        self._failures += 1
        if not error.retryable:
            raise error
        if error.retry_after is None:
            self._counted += 1
            if self._counted >= self._attempts:
                raise error
        else:
            self._told = min(error.retry_after, self._told or error.retry_after)
        if self._failures % self._num_servers:
            return
        seconds = self._pause()
        if error.retry_after is not None and self._waited + seconds > self._patience:
            raise error
        self._waited += seconds
        time.sleep(seconds)

    def succeed(self) -> None:
        """Begin to count anew, because the call made progress."""
        self._failures = self._counted = 0
        self._waited = 0.0

    def _pause(self) -> float:
        """Return how long to wait after all servers failed once more, in seconds."""
        longest = min(
            _FIRST_WAIT_SECONDS * 2 ** (self._failures // self._num_servers - 1), _LONGEST_WAIT_SECONDS
        )
        seconds = random.uniform(longest / 2, longest)
        if self._told is not None:
            seconds = max(seconds, self._told * random.uniform(1, 1 + _JITTER))
        self._told = None
        return seconds
