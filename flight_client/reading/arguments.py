"""Arguments that several reads of a remote dataset take, as callers give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow.compute as pc

from flight_client.errors import InvalidInputError

Columns: TypeAlias = Sequence[str] | Mapping[str, str] | None
Condition: TypeAlias = str | pc.Expression | None

_OF_ARROW = {
    "batch_readahead",
    "fragment_readahead",
    "fragment_scan_options",
    "use_threads",
    "cache_metadata",
    "memory_pool",
}


def check_arguments(ignored: Mapping[str, Any]) -> None:
    """Raise TypeError for an argument that `pyarrow.dataset.Dataset` has not."""
    if unknown := ignored.keys() - _OF_ARROW:
        raise TypeError(f"unexpected argument {min(unknown)!r}")


def sql_columns(columns: Any) -> Columns:
    """Return columns in the form that the server expects. Arrow would allow expressions, too."""
    if isinstance(columns, Mapping):
        for name, value in columns.items():
            if not isinstance(value, str):
                raise InvalidInputError(f"column {name!r}: expected SQL text, found {type(value).__name__}")
        return dict(columns)
    if isinstance(columns, str):
        raise InvalidInputError(f"columns: expected a list of names, or SQL by name, found {columns!r}")
    return None if columns is None else list(columns)
