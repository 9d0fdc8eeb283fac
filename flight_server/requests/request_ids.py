"""Ids of requests: the id that a client sends, or a new one."""

import itertools
import re
import secrets
from collections.abc import Sequence

HEADER = "x-request-id"
"""Header of a call and of its answer. Its value is also in the log."""

_VALID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")

# Drawing random bytes for every call would take longer than the rest of this module.
_PREFIX = secrets.token_hex(6)
_numbers = itertools.count()


def request_id(given: Sequence[str | bytes] = ()) -> str:
    """Return the id of a call: the only valid value of its header, or else a new id.

    A valid id has at most 64 letters, digits, and characters of `._:-`, and begins with a letter or a digit.
    """
    if len(given) == 1:
        text = given[0] if isinstance(given[0], str) else given[0].decode("latin-1")
        if _VALID.fullmatch(text):
            return text
    return f"{_PREFIX}-{next(_numbers):x}"
