"""The stable row ids of the rows of one fragment, with the name and methods of the reference library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Self

import numpy as np
import pyarrow as pa

from lance_core.api.fragment.metadata import RowIdMeta
from lance_core.commit.lineage_encoding import encode_row_ids
from lance_core.errors import ArgumentTypeError, InvalidInputError
from lance_core.number_sets import distinct
from lance_core.scan.take.keys import as_keys
from lance_core.table.fragment import MAX_ROWS
from lance_core.table.row_ids import RowIds, decode_first_row_ids

_SHOWN = 10


class RowIdSequence:
    """Stable row ids of the physical rows of a fragment, in their order.

    A transaction that is made by hand carries the ids of rewritten rows over to their new fragment:
    `FragmentMetadata.row_id_meta` takes the result of `to_inline_metadata`.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, row_ids: Any) -> None:
        """Make a sequence.

        Args:
            row_ids: Integers in a list, an Arrow or NumPy array, or another iterable.

        Raises:
            InvalidInputError: An id is negative, null, has more than 64 bits, or appears twice.
            ArgumentTypeError: An id is no integer.
        """
        if isinstance(row_ids, pa.Array | pa.ChunkedArray) and row_ids.null_count:
            raise InvalidInputError("row ids must not be null", found=f"{row_ids.null_count} nulls")
        if isinstance(row_ids, Iterable) and not isinstance(
            row_ids, list | pa.Array | pa.ChunkedArray | np.ndarray
        ):
            row_ids = list(row_ids)
        self._ids: RowIds = as_keys(row_ids, "row_ids")
        if len(distinct(self._ids)) != len(self._ids):
            raise InvalidInputError("row ids must be unique")

    @classmethod
    def from_inline_metadata(cls, metadata: RowIdMeta) -> Self:
        """Return the sequence that `to_inline_metadata` stored.

        Raises:
            ArgumentTypeError: `metadata` is something else.
            CorruptFileError: The bytes are no sequence.
        """
        if not isinstance(metadata, RowIdMeta):
            raise ArgumentTypeError(f"metadata must be a RowIdMeta, got {type(metadata).__name__}")
        return cls(decode_first_row_ids(metadata.data, MAX_ROWS, "row ids of the metadata"))

    def to_inline_metadata(self) -> RowIdMeta:
        """Return the sequence as fragments store it in the manifest."""
        return RowIdMeta(encode_row_ids(self._ids) if len(self._ids) else b"")

    def to_pyarrow(self) -> pa.UInt64Array:
        """Return the ids as an Arrow array."""
        return pa.array(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[int]:
        return iter(self._ids.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowIdSequence) and bool(np.array_equal(self._ids, other._ids))

    def __repr__(self) -> str:
        shown = ", ".join(map(str, self._ids[:_SHOWN].tolist()))
        return f"RowIdSequence([{shown}{f', ...], len={len(self)}' if len(self) > _SHOWN else ']'})"
