"""What Python workers of Spark are spared: work that comes back with every task."""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress
from functools import cache

_M_TOP_PAD = -2
"""Of `mallopt`: how much an arena is grown by, and how much of it is kept when its end is free."""
_KEPT_BYTES = 16 << 20


@cache
def settle() -> None:
    """Make this process one that runs one task after the other.

    Spark collects garbage after every task. What is there by now, most of it modules, stays for good: looking
    through it took 20 ms of CPU, three times in a query, of the 100 ms that a short one takes.

    And gRPC receives batches into memory that is given back to the system with each, and cleared by it before
    the next one: a third of what a worker needed to read a large table.
    """
    gc.freeze()
    with suppress(AttributeError):  # C libraries other than glibc
        ctypes.CDLL(None).mallopt(_M_TOP_PAD, _KEPT_BYTES)
