"""Structs that the reference cannot read from its own files: it miscounts their nulls beside null or empty
lists in small pages.

It fails with "Incorrect number of nulls for StructArray, expected 2 got 1". The smallest table is a
`struct<l: list<int32>>` with the rows null and {l: null} in pages of one row. Our writer declares the levels
of such pages in a form that the reference reads (docs/format.md, "Writing pages").
"""

from __future__ import annotations

import re

_MESSAGE = re.compile(r"Incorrect number of nulls for StructArray, expected \d+ got \d+")


def miscount(error: BaseException) -> str:
    """Return the part of the message with both numbers where the reference failed so; else empty."""
    found = _MESSAGE.search(str(error))
    return found[0] if found else ""
