"""Hints for names that do not exist: near ones, or those that there are."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

_MOST_COMPARED = 10_000
"""Limit for the names that are compared: one comparison takes some microseconds."""
_MOST_CHARACTERS = 200
"""Limit for the length of a name that is compared: a client may send megabytes."""
_MOST_LISTED = 10


def near_names(name: str, known: Iterable[str]) -> list[str]:
    """Return at most three of the `known` names that are spelled like `name`, the nearest first.

    Letters match without regard to case.
    """
    if len(name) > _MOST_CHARACTERS:
        return []
    by_lower = {each.lower(): each for each in list(known)[:_MOST_COMPARED]}
    return [by_lower[found] for found in difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.6)]


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Return the end of a message about a `name` that does not exist: `; did you mean 'fare'?`.

    Where no name is near, it lists the first ones that there are; it is empty where there are none.
    """
    near = near_names(name, known)
    if near:
        return f"; did you mean {' or '.join(map(repr, near))}?"
    if not known:
        return ""
    more = ", ..." if len(known) > _MOST_LISTED else ""
    return f"; there are {', '.join(map(repr, known[:_MOST_LISTED]))}{more}"
