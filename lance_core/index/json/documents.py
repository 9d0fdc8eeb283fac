"""Columns of binary JSON that are indexed."""

from __future__ import annotations

import pyarrow as pa

from lance_core.schema.arrow_types import EXTENSION_NAME
from lance_core.schema.logical_types import LANCE_JSON


def is_json(field: pa.Field) -> bool:
    """Return whether the stored values of a column are binary JSON."""
    return (field.metadata or {}).get(EXTENSION_NAME.encode()) == LANCE_JSON.encode()


def check_json(field: pa.Field) -> None:
    """Raise `TypeError` if a column has no JSON."""
    if not is_json(field):
        raise TypeError("must be JSON")
