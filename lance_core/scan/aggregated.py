"""Aggregates of the rows of a plan, in memory that grows with the groups and not with the rows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pyarrow as pa

from lance_core.errors import InvalidInputError
from lance_core.expressions.aggregates import COUNT_ALL
from lance_core.scan.files.data_files import DataFiles
from lance_core.scan.plan.aggregation import Aggregation
from lance_core.scan.plan.scan_plan import ScanPlan
from lance_core.scan.rows import count_plan_rows, plan_batches
from lance_core.scan.run.budget import MemoryBudget
from lance_core.scan.run.groups import Groups
from lance_core.table.snapshot import Snapshot


def aggregate_rows(
    snapshot: Snapshot,
    plan: ScanPlan,
    aggregation: Aggregation,
    budget: MemoryBudget,
    files: DataFiles,
    *,
    max_bytes: int | None = None,
    check: Callable[[], None] = lambda: None,
) -> pa.Table:
    """Return one row per group of the rows of a plan, in the order of the first rows of the groups.

    The number of all rows comes from metadata. Other values are always computed from the rows, never from
    statistics, which only leave out rows that a filter excludes.

    Args:
        plan: Made by `plan_aggregation`.
        max_bytes: Most bytes of the groups; None for no limit.
        check: Called between batches; it raises to end the aggregation.

    Raises:
        InvalidInputError: a sum does not fit its type, or the groups are larger than `max_bytes`.
        LanceError: something cannot be read.
    """
    if all(each.function == COUNT_ALL for _, each in aggregation.aggregates) and not aggregation.keys:
        count = pa.array([count_plan_rows(snapshot, plan, budget, files)], pa.int64())
        return pa.Table.from_arrays([count] * len(aggregation.aggregates), schema=aggregation.schema)
    groups = Groups(aggregation)
    with budget.require(0) as reservation, closing(plan_batches(snapshot, plan, budget, files)) as batches:
        for batch in batches:
            check()
            groups.add(batch.columns, batch.num_rows)
            num_bytes = groups.num_bytes
            if max_bytes is not None and num_bytes > max_bytes:
                raise InvalidInputError(
                    "the result has too many groups, or count(DISTINCT ...) too many values",
                    expected=f"at most {max_bytes} bytes",
                )
            reservation.resize(num_bytes)
        return groups.result()
