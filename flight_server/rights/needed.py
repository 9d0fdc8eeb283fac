"""Rights that writes need."""

from flight_server.rights.grants import Right

_ROWS_ALONE = ("create", "append", "overwrite", "rewrite")
"""Modes and operations that read no stored values."""


def rights_to(operation: str) -> tuple[Right, ...]:
    """Return the rights that an upload with this mode, or a commit with this operation, needs.

    A merge or an added column tells the caller which rows are stored, so it needs the right to read, too.
    """
    return ("write",) if operation in _ROWS_ALONE else ("read", "write")
