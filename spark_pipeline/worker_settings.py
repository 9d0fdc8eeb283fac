"""Settings of Spark's Python workers that save work in every task."""

from __future__ import annotations

import gc
from functools import cache

from flight_client import share_received_memory


@cache
def settle() -> None:
    """Prepare this process to run one task after another.

    Spark collects garbage after every task. Objects that exist now, most of them modules, stay for ever. Each
    examination of them took 20 ms of CPU time, three times in a query, of the 100 ms of a short one. Each
    task also has its own connection, whose threads should reuse the memory of earlier connections.
    """
    gc.freeze()
    share_received_memory()
