"""Columns to sort rows by."""

from __future__ import annotations

import re
from dataclasses import dataclass

from flight_client.errors import InvalidInputError

_TEXT = re.compile(r"(.+?)(?:\s+(ASC|DESC))?(?:\s+NULLS\s+(FIRST|LAST))?", re.IGNORECASE)


@dataclass(frozen=True)
class ColumnOrdering:
    """Column to sort rows by, with the fields of `lance_core.ColumnOrdering`."""

    column_name: str
    """Name, nested ones with dots."""
    ascending: bool = True
    nulls_first: bool = False
    """Whether nulls come first, in either direction."""

    def as_field(self) -> dict[str, object]:
        """Return the column as an object of the field `order_by` of a command."""
        return {"column": self.column_name, "ascending": self.ascending, "nulls_first": self.nulls_first}


def parse_orderings(text: str) -> tuple[ColumnOrdering, ...]:
    """Parse columns with commas between them: `population DESC NULLS FIRST, name`.

    Raises:
        InvalidInputError: a name is missing.
    """
    found = []
    for part in text.split(","):
        match = _TEXT.fullmatch(part.strip())
        if match is None:
            raise InvalidInputError(f"expected names of columns with commas between them, found {text!r}")
        name, way, nulls = match.groups()
        descends, nulls_first = (way or "").upper() == "DESC", (nulls or "").upper() == "FIRST"
        found.append(ColumnOrdering(name, not descends, nulls_first))
    return tuple(found)
