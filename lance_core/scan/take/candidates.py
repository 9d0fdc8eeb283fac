"""Candidates of an index that is not exact: rows of which the values decide whether a filter passes them.

A take reads the values of all candidates at once. A scan would read each fragment in windows of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from lance_core.expressions.tree import Expression
from lance_core.scan.read.columns import batch_of
from lance_core.scan.read.live_rows import places
from lance_core.scan.read.row_selection import select_rows
from lance_core.scan.take.keys import Keys
from lance_core.scan.take.row_taker import RowTaker


def passing_candidates(conditions: Sequence[Expression], taker: RowTaker, addresses: Keys) -> Keys:
    """Return the addresses of live candidates that meet all conditions, in their order.

    Args:
        conditions: Conditions in the order in which they are evaluated: each for rows that met those before.
        taker: Takes the columns that the conditions name.
        addresses: Addresses of live candidates.

    Raises:
        LanceError: something cannot be read, or a condition cannot be evaluated.
    """
    from lance_core.expressions import evaluate  # late: most processes do not filter

    batch = taker.of_live(addresses)
    values = {name: [array] for name, array in zip(batch.schema.names, batch.columns, strict=True)}
    for condition in conditions:
        if not len(addresses):
            break
        chosen = places(evaluate.passing(condition, batch_of(values, len(addresses))))
        if len(chosen) < len(addresses):
            addresses = addresses[chosen]
            values = {name: select_rows(arrays, chosen) for name, arrays in values.items()}
    return addresses
