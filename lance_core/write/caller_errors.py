"""Exceptions of the caller's own code: a function that computes columns, an iterable of batches.

The reference raises OSError for each of them. Here such an exception keeps its own type, and is an OSError as
well, so that both kinds of `except` clauses catch it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def as_os_errors() -> Iterator[None]:
    """Raise each exception of the block as `with_os_error` returns it, with the exception as the cause."""
    try:
        yield
    except Exception as error:
        made = with_os_error(error)
        if made is error:
            raise
        raise made from error


def with_os_error(error: Exception) -> Exception:
    """Return an exception of the type of `error` that is an OSError, too, with the same text and attributes.

    An OSError is returned as it is. If Python cannot join the two types, as for UnicodeDecodeError, the
    result is an OSError only.
    """
    if isinstance(error, OSError):
        return error
    made = _joined(type(error))(str(error))
    vars(made).update(vars(error))
    return made


class _CallerError(OSError):
    """Base of the joined types."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Pickle the exception that the caller's code raised: the type of this one has no name to import."""
        return with_os_error, (self.__cause__,)


def _joined(kind: type[Exception]) -> type[OSError]:
    try:
        return type(kind.__name__, (_CallerError, kind), {"__module__": kind.__module__})
    except TypeError:
        return _CallerError
