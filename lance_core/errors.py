"""The errors of this package.

    LanceError
    ├── InvalidInputError        (ValueError)           an invalid argument, column or filter
    ├── DatasetNotFoundError     (ValueError)           there is no dataset at this location
    │   ├── VersionNotFoundError                        the dataset has no such version
    │   ├── RefNotFoundError                            the dataset has no such tag or branch
    │   └── IndexNotFoundError   (RuntimeError)         the dataset has no such index
    ├── DatasetExistsError       (OSError)              the dataset exists already
    ├── RefConflictError         (ValueError)           a tag or branch exists already, or is in use
    ├── UnsupportedFeatureError  (NotImplementedError)  a flag, version, type or encoding that is not
        supported
    ├── CorruptFileError         (OSError)              bytes that contradict the format
    ├── CommitConflictError      (OSError)              another commit came first
    ├── CommitUnknownError       (OSError)              it is unknown whether the commit succeeded
    └── StorageError             (OSError)              the storage failed
        ├── FileMissingError     (FileNotFoundError)    a file does not exist
        ├── AlreadyExistsError   (FileExistsError)      the file to be created exists already
        └── PutUnknownError                             it is unknown whether the file was created

Each error is also a built-in error, mostly the one that the reference raises. For invalid arguments of
changes the reference raises OSError; this package raises ValueError, as it does for reads
(docs/from-pylance.md).
Messages name files relative to the dataset, never a path of the host.
"""

from functools import partial
from typing import Any, ClassVar


class LanceError(Exception):
    """Base of all errors that this package raises on purpose.

    `code` is the number of the error in the error list of the Lance namespace specification, or 18 (internal)
    if the list does not have the error. `retryable` says whether the same call may succeed later.
    """

    code: ClassVar[int] = 18
    retryable: bool = False

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        column: str | int | None = None,
        page: int | None = None,
        expected: object = None,
        found: object = None,
    ) -> None:
        """Build the one-line message `message (file F, column C, page P, expected E, found X)`.

        `file` is relative to the dataset. `column` is a name, or the number of the column in the file. `page`
        is the number of the page in its column. `expected` and `found` are short values or phrases.
        """
        context = {"file": file, "column": column, "page": page, "expected": expected, "found": found}
        details = ", ".join(
            f"{name} {_one_line(value)}" for name, value in context.items() if value is not None
        )
        super().__init__(f"{message} ({details})" if details else message)
        self.file = file
        self.column = column
        self.page = page
        self.expected = expected
        self.found = found


def _one_line(value: object) -> str:
    """Return `value` as one printable line of at most 200 characters."""
    text = str(value)
    printable = text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
    return printable if len(printable) <= 200 else printable[:197] + "..."


class InvalidInputError(LanceError, ValueError):
    """An argument of the caller is invalid. The message names the token, column or argument."""

    code = 13


class DatasetNotFoundError(LanceError, ValueError):
    """There is no dataset at the given location."""

    code = 4


class VersionNotFoundError(DatasetNotFoundError):
    """The dataset exists, but the version does not: it was never made, or was cleaned up."""

    code = 11


class RefNotFoundError(DatasetNotFoundError):
    """The dataset exists, but the tag or branch does not."""

    code = 8


class IndexNotFoundError(DatasetNotFoundError, RuntimeError):
    """The dataset exists, but the index does not."""

    code = 6


class DatasetExistsError(LanceError, OSError):
    """The dataset to be created exists already."""

    code = 5


class RefConflictError(LanceError, ValueError):
    """The tag or branch to be created exists already, or the one to be removed is still in use."""

    code = 9


class UnsupportedFeatureError(LanceError, NotImplementedError):
    """The dataset uses a feature that this package does not support. The message names it."""

    code = 0


class CorruptFileError(LanceError, OSError):
    """Bytes of a file contradict the format or each other."""


class CommitConflictError(LanceError, OSError):
    """Another commit came first.

    `retryable`: computing the change again on the new version may succeed. `outpaced`: the commit conflicts
    with no other commit, but other commits were faster in every attempt.
    """

    code = 14

    def __init__(self, message: str, *, retryable: bool, outpaced: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.outpaced = outpaced

    def __reduce__(self) -> tuple[Any, ...]:
        made = partial(CommitConflictError, retryable=self.retryable, outpaced=self.outpaced)
        return made, self.args


class CommitUnknownError(LanceError, OSError):
    """The storage did not say whether the commit succeeded. Look it up before repeating it."""


class StorageError(LanceError, OSError):
    """The storage failed: permissions, an I/O error, or limits of the process."""

    code = 17
    retryable = True


class FileMissingError(StorageError, FileNotFoundError):
    """A file does not exist in the storage."""

    retryable = False


class AlreadyExistsError(StorageError, FileExistsError):
    """The file to be created exists already. It was not changed."""

    retryable = False


class PutUnknownError(StorageError):
    """The storage did not say whether the file was created. It may exist now, or appear later."""

    retryable = False
