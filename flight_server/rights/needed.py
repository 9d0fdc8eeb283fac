"""Rights that writes need."""

from flight_server.rights.grants import Right

_ROWS_ALONE = ("create", "append", "overwrite", "rewrite")
"""Modes and operations that do not look at the values that are there."""


def rights_to(operation: str) -> tuple[Right, ...]:
    """Return the rights that an upload with this mode, or a commit with this operation, needs.

    Whoever joins rows with those that are there finds out which those are, so that needs the right to read.
    """
    return ("write",) if operation in _ROWS_ALONE else ("read", "write")
