"""Open files of the operating system, and its errors."""

import os

from lance_core.errors import AlreadyExistsError, FileMissingError, StorageError


class Descriptor:
    """Owns a file descriptor and closes it with the last reference.

    A read that is under way holds a reference, so the number cannot be closed and given to another file
    while bytes are read from it.
    """

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.close(self.number)


def storage_error(error: OSError, name: str) -> StorageError:
    """Return the error as a `StorageError`, without the path of the host."""
    if isinstance(error, StorageError):
        return error
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return FileMissingError("no such file or directory", file=name)
    if isinstance(error, FileExistsError):
        return AlreadyExistsError("file exists", file=name)
    return StorageError(error.strerror or "operating system error", file=name)
