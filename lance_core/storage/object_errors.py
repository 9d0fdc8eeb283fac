"""Errors of object stores."""

import re

from obstore.exceptions import AlreadyExistsError as ObjectExistsError
from obstore.exceptions import BaseError, GenericError, PermissionDeniedError, UnauthenticatedError

from lance_core.errors import AlreadyExistsError, FileMissingError, StorageError

FAILURES = (BaseError, OSError)
"""What a client raises when a request fails."""

_STATUS = re.compile(r"status code: (\d{3}[A-Za-z ]*)")
_CAUSES = ("timed out", "timeout", "connection refused", "connection reset", "connection closed", "dns error")


def store_error(error: BaseException, name: str) -> StorageError:
    """The same error without the address of the store, its answer and the path in the bucket."""
    if isinstance(error, FileNotFoundError):
        return FileMissingError("no such file or directory", file=name)
    if isinstance(error, ObjectExistsError):
        return AlreadyExistsError("file exists", file=name)
    if isinstance(error, (PermissionDeniedError, UnauthenticatedError)):
        denied = isinstance(error, PermissionDeniedError)
        refused = StorageError(
            f"object store {'denies the permission' if denied else 'does not accept the credentials'}",
            file=name,
        )
        refused.retryable = False
        return refused
    text = str(error)
    status = _STATUS.search(text)
    if status:
        return StorageError(f"object store answered {status[1].strip()}", file=name)
    cause = next((cause for cause in _CAUSES if cause in text.lower()), "request failed")
    return StorageError(f"object store: {cause}", file=name)


def is_impossible_range(error: BaseException) -> bool:
    """Whether a store refused a range because the object has no such bytes."""
    text = str(error)
    return "status code: 416" in text or "Invalid range" in text


def is_broken_off(error: BaseException) -> bool:
    """Whether the answer to a request came and was of no use, so that the client did not ask again."""
    return type(error) is GenericError and "Error performing" not in str(error)
