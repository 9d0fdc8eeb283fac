"""Number of the partitions that a search reads in any case.

The reference does not document its rule. The numbers here are close to those that its plans show.
"""

from __future__ import annotations

import math

_DEFAULT_EFFORT = 0.5


def first_probes(num_nearest: int, num_partitions: int, minimum: int | None, effort: float | None) -> int:
    """Return how many of the nearest partitions are searched in any case.

    With effort 0 it is one, with 0.5 about half a dozen, with 1 all; between these the number grows by equal
    factors. It is `minimum` at least, if that is given.
    """
    usual = min(5 if num_nearest == 1 else 7 if num_nearest <= 10 else 12, num_partitions)
    effort = _DEFAULT_EFFORT if effort is None else effort
    if effort <= 0.5:
        probes = float(usual) ** (2 * effort)
    else:
        probes = float(usual) * float(num_partitions / max(usual, 1)) ** (2 * effort - 1)
    return max(math.ceil(float(probes) - 1e-9), minimum or 1)
