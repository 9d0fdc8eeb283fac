"""Waiting for what a server does by and by."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], what: str = "the condition", seconds: float = 90) -> None:
    """Wait until a condition is true. Raise an AssertionError with `what` if it is not true in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.02)
