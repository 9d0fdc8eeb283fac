"""Translation of errors of object stores."""

import re

from obstore.exceptions import AlreadyExistsError as ObjectExistsError
from obstore.exceptions import BaseError, GenericError, PermissionDeniedError, UnauthenticatedError

from lance_core.errors import AlreadyExistsError, FileMissingError, LanceError, StorageError

FAILURES = (BaseError, OSError)
"""Exceptions of the client for failed requests."""

_STATUS = re.compile(r"status code: (\d{3}[A-Za-z ]*)")
_CODE = re.compile(r"<Code>([A-Za-z]{1,64})</Code>")
"""Name of an error in the answer of a store: NoSuchBucket, ExpiredToken, ..."""
_MACHINE = re.compile(r"Error performing [A-Z]+ http://(169\.254\.|metadata\.google\.internal)")
"""Request for the credentials of the machine, which the client sends if it has no other credentials."""
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
"""Signs in the error texts of the client, and their meaning. (The texts also contain settings such as
`retry_timeout`.)
"""


def store_error(error: BaseException, name: str) -> LanceError:
    """Convert an error of the client to a `StorageError`, without addresses, answers of the store, and paths
    in the bucket.

    An error of this package, such as `InvalidInputError`, is an OSError too. It is returned unchanged.
    """
    if isinstance(error, LanceError):
        return error
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
        return StorageError("object store: no credentials are given, and the machine has none", file=name)
    if status := _STATUS.search(text):
        code = f" ({found[1]})" if (found := _CODE.search(text)) else ""
        return StorageError(f"object store answered {status[1].strip()}{code}", file=name)
    cause = next((said for sign, said in _CAUSES.items() if sign in text), "request failed")
    return StorageError(f"object store: {cause}", file=name)


def is_impossible_range(error: BaseException) -> bool:
    """Return whether a store refused a range because the object is too short."""
    text = str(error)
    return "status code: 416" in text or "Invalid range" in text


def is_broken_off(error: BaseException) -> bool:
    """Return whether the answer to a request broke off. (The client does not repeat such requests.)"""
    return type(error) is GenericError and "Error performing" not in str(error)
