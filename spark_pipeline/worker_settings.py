"""Settings of Spark's Python workers that save work which every task repeats."""

from __future__ import annotations

import gc
from functools import cache

from flight_client import share_received_memory


@cache
def settle() -> None:
    """Make this process one that runs one task after the other.

    Spark collects garbage after every task. What is there by now, most of it modules, stays for good: looking
    through it took 20 ms of CPU, three times in a query, of the 100 ms that a short one takes. And each task
    has a connection of its own, whose threads are to find the memory that an earlier one received into.
    """
    gc.freeze()
    share_received_memory()
