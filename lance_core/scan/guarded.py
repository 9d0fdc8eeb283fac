"""Addresses of rows for a caller who may see only the rows that meet a guard.

For the caller, rows that do not meet the guard do not exist. Offsets count the rows that meet the guard. A
key of a hidden row is treated like a key of no row: no result and no error tells whether a row is hidden, was
deleted or never existed.
"""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pyarrow as pa

from lance_core.errors import InvalidInputError
from lance_core.expressions.tree import Expression
from lance_core.scan.plan.bind import guarded
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.projection import ROW_ADDRESS, ROW_ID, ROW_OFFSET, project
from lance_core.scan.plan.scan_plan import plan_scan
from lance_core.scan.rows import plan_runs
from lance_core.scan.session import session_of
from lance_core.scan.take.keys import Keys
from lance_core.scan.take.row_taker import RowTaker
from lance_core.table.snapshot import Snapshot

_READ_BYTES = 8 << 20


def guarded_addresses(snapshot: Snapshot, guard: Expression, kind: str, keys: Keys) -> Keys:
    """Return the addresses of the rows with these keys that meet a guard, in the order of the keys.

    Args:
        snapshot: the version of the table.
        guard: a condition that is bound to the schema of the table.
        kind: one of `KEY_COLUMNS`. To find offsets, the columns of the guard are scanned up to the largest
            offset.
        keys: keys. A key that is given twice has its address twice in the result.

    Raises:
        InvalidInputError: an offset is not below the number of rows that meet the guard.
        LanceError: something cannot be read.
    """
    if kind == ROW_OFFSET:
        return _at_offsets(snapshot, guard, keys)
    computed = (("passes", guard),)
    projection = project(snapshot.manifest.schema, ScanOptions(computed=computed))
    taker = RowTaker(snapshot, projection, session_of(snapshot).files)
    finder = taker.addresses
    if kind == ROW_ID and snapshot.manifest.has_stable_row_ids:
        addresses = finder.of_row_ids(keys)
    else:
        addresses = finder.only_live(finder.existing(keys))
    masks = [batch.column(0) for batch in taker.batches(addresses, _READ_BYTES)]
    passes = pa.chunked_array(masks, pa.bool_()).fill_null(False)
    passing: Keys = addresses[passes.to_numpy().astype(bool)]
    return passing


def addresses_meeting(snapshot: Snapshot, guard: Expression, addresses: Keys) -> Keys:
    """Return the addresses of the rows that meet a guard; see `guarded_addresses`."""
    return guarded_addresses(snapshot, guard, ROW_ADDRESS, addresses)


def _at_offsets(snapshot: Snapshot, guard: Expression, offsets: Keys) -> Keys:
    condition, guards = guarded(guard, None)
    options = ScanOptions(columns=(), filter=condition, guards=guards, with_row_address=True)
    wanted, inverse = np.unique(offsets, return_inverse=True)
    addresses = np.empty(len(wanted), np.uint64)
    num_seen = num_found = 0
    session = session_of(snapshot)
    plan = plan_scan(snapshot, options)
    with closing(plan_runs(snapshot, plan, session.budget, session.files)) as runs:
        while num_found < len(wanted) and (run := next(runs, None)) is not None:
            seen = run.rows.column(0).to_numpy()
            num_seen += len(seen)
            end = int(np.searchsorted(wanted, num_seen))
            addresses[num_found:end] = seen[wanted[num_found:end].astype(np.int64) - (num_seen - len(seen))]
            num_found = end
    if num_found < len(wanted):
        raise InvalidInputError(
            "row offset is out of range", expected=f"less than {num_seen}", found=wanted[-1]
        )
    return addresses[inverse]
