"""Waiting for what a server does by and by."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(is_so: Callable[[], bool], seconds: float = 60) -> None:
    """Return when the condition holds; fail if it does not hold in time."""
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until, f"not within {seconds} s"
        time.sleep(0.02)
