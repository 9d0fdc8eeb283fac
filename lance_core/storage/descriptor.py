"""File descriptors of the operating system, and its errors."""

import os

from lance_core.errors import AlreadyExistsError, FileMissingError, LanceError, StorageError


class Descriptor:
    """Owner of a file descriptor, which is closed with the last reference.

    A running read holds a reference. So the number cannot be closed and reused for another file during the
    read.
    """

    def __init__(self, number: int) -> None:
        self.number = number

    def detach(self) -> int:
        """Return the number, which the caller owns from now on."""
        number, self.number = self.number, -1
        return number

    def __del__(self) -> None:
        if self.number >= 0:
            os.close(self.number)


def sync_descriptor(descriptor: Descriptor, name: str) -> None:
    """Make a file or a directory durable. Raises StorageError, which names it, if the disk fails."""
    try:
        os.fsync(descriptor.number)
    except OSError as error:
        raise storage_error(error, name) from None


def storage_error(error: OSError, name: str) -> LanceError:
    """Convert an error of the operating system to a `StorageError`, without paths of the host.

    An error of this package, such as `InvalidInputError`, is an OSError too. It is returned unchanged.
    """
    if isinstance(error, LanceError):
        return error
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return FileMissingError("no such file or directory", file=name)
    if isinstance(error, FileExistsError):
        return AlreadyExistsError("file exists", file=name)
    return StorageError(error.strerror or "operating system error", file=name)
