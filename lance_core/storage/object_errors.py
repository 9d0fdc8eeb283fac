"""Errors of object stores."""

import re

from obstore.exceptions import AlreadyExistsError as ObjectExistsError
from obstore.exceptions import BaseError, GenericError, PermissionDeniedError, UnauthenticatedError

from lance_core.errors import AlreadyExistsError, FileMissingError, StorageError

FAILURES = (BaseError, OSError)
"""Exceptions that clients raise when a request fails."""

_STATUS = re.compile(r"status code: (\d{3}[A-Za-z ]*)")
_CODE = re.compile(r"<Code>([A-Za-z]{1,64})</Code>")
"""The name of an error in the answer of a store: NoSuchBucket, ExpiredToken, ..."""
_MACHINE = re.compile(r"Error performing [A-Z]+ http://(169\.254\.|metadata\.google\.internal)")
"""A request for the credentials of the machine: the client makes it where it was given none."""
_CAUSES = {
    "Timeout": "timed out",
    "TimedOut": "timed out",
    "timed out": "timed out",
    "ConnectionRefused": "connection refused",
    "ConnectionReset": "connection reset",
    "connection closed": "connection closed",
    "dns error": "dns error",
    "BadScheme": "plain http needs the storage option allow_http",
    "kind: Connect": "no connection",
}
"""Parts of the client's error texts, and their meaning. The texts also contain settings such as
`retry_timeout`.
"""


def store_error(error: BaseException, name: str) -> StorageError:
    """Return the error as a `StorageError`, without the address and answer of the store and the path in
    the bucket.
    """
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
    if _MACHINE.search(text):
        return StorageError("object store: no credentials are given, and this machine has none", file=name)
    if status := _STATUS.search(text):
        code = f" ({found[1]})" if (found := _CODE.search(text)) else ""
        return StorageError(f"object store answered {status[1].strip()}{code}", file=name)
    cause = next((said for sign, said in _CAUSES.items() if sign in text), "request failed")
    return StorageError(f"object store: {cause}", file=name)


def is_impossible_range(error: BaseException) -> bool:
    """Return whether a store refused a range because the object has no such bytes."""
    text = str(error)
    return "status code: 416" in text or "Invalid range" in text


def is_broken_off(error: BaseException) -> bool:
    """Return whether the answer to a request came and was of no use, so that the client did not ask again."""
    return type(error) is GenericError and "Error performing" not in str(error)
