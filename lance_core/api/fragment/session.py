"""Takes of the same columns of one fragment, with the names of the reference library."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lance_core.scan.take.keys import as_keys
from lance_core.scan.take.row_taker import RowTaker
from lance_core.table.fragment import Fragment


class FragmentSession:
    """Takes of the same columns of one fragment; see `LanceFragment.open_session`."""

    def __init__(self, taker: RowTaker, fragment: Fragment) -> None:
        self._taker = taker
        self._fragment = fragment

    def take(self, indices: Any) -> pa.Table:
        """Return the rows at row offsets in the fragment; arguments and errors are those of
        `LanceFragment.take`.
        """
        keys = as_keys(indices, "indices")
        return pa.Table.from_batches([self._taker.by_offset(keys, [self._fragment])])
