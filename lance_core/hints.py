"""Hints for error messages about unknown names: similar names, or the names that exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

_MOST_COMPARED = 10_000
"""Largest number of names that are compared. One comparison takes some microseconds."""
_MOST_CHARACTERS = 200
"""Largest length of a name that is compared. A client may send megabytes."""
_MOST_LISTED = 10


def near_names(name: str, known: Iterable[str]) -> list[str]:
    """Return at most three `known` names that are similar to `name`, most similar first. Case is ignored."""
    if len(name) > _MOST_CHARACTERS:
        return []
    by_lower = {each.lower(): each for each in list(known)[:_MOST_COMPARED]}
    return [by_lower[found] for found in difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.6)]


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Return the end of a message about an unknown `name`, such as `; did you mean 'fare'?`.

    If no known name is similar, it lists the first known names. If there are none, it is empty.
    """
    near = near_names(name, known)
    if near:
        return f"; did you mean {' or '.join(map(repr, near))}?"
    if not known:
        return ""
    more = ", ..." if len(known) > _MOST_LISTED else ""
    return f"; there are {', '.join(map(repr, known[:_MOST_LISTED]))}{more}"
