"""Errors of object stores."""

import re

from obstore.exceptions import AlreadyExistsError as ObjectExistsError
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

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
    if isinstance(error, PermissionDeniedError):
        return StorageError("object store denies the permission", file=name)
    if isinstance(error, UnauthenticatedError):
        return StorageError("object store does not accept the credentials", file=name)
    text = str(error)
    status = _STATUS.search(text)
    if status:
        return StorageError(f"object store answered {status[1].strip()}", file=name)
    cause = next((cause for cause in _CAUSES if cause in text.lower()), "request failed")
    return StorageError(f"object store: {cause}", file=name)
