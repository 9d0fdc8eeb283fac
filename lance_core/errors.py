"""The errors of this package, each with the built-in errors that it also is.

    LanceError
    ├── InvalidInputError           an invalid argument, column or filter
    │   │                           (ValueError, OSError)
    │   ├── NegativeRowError        a row's offset, id or address is negative
    │   │                           (OverflowError)
    │   ├── TooLargeError           a number of bytes is too large
    │   │                           (OverflowError)
    │   ├── ArgumentTypeError       an argument has a wrong type
    │   │                           (TypeError)
    │   ├── UnknownColumnError      a column to index does not exist
    │   │                           (KeyError)
    │   └── ColumnTypeError         a column to index has a type that the index cannot hold
    │                               (TypeError)
    ├── DatasetNotFoundError        there is no dataset at this location
    │   │                           (ValueError, OSError)
    │   ├── VersionNotFoundError    the dataset has no such version
    │   ├── RefNotFoundError        the dataset has no such tag or branch
    │   └── IndexNotFoundError      the dataset has no such index
    │                               (RuntimeError, KeyError)
    ├── DatasetExistsError          the dataset exists already
    │                               (OSError)
    ├── RefConflictError            a tag or branch exists already, or is in use
    │                               (ValueError, OSError)
    ├── UnsupportedFeatureError     a flag, version, type or encoding that is not supported
    │                               (NotImplementedError, OSError)
    ├── MissingNameError            a name that only the reference has
    │                               (NotImplementedError, AttributeError)
    ├── CorruptFileError            bytes that contradict the format
    │                               (OSError, ValueError)
    ├── CommitConflictError         another commit came first
    │                               (OSError)
    ├── CommitUnknownError          it is unknown whether the commit succeeded
    │                               (OSError)
    └── StorageError                the storage failed
        │                           (OSError)
        ├── FileMissingError        a file does not exist
        │                           (FileNotFoundError, ValueError)
        ├── AlreadyExistsError      the file to be created exists already
        │                           (FileExistsError)
        └── PutUnknownError         it is unknown whether the file was created

The reference raises built-in errors only, and different ones for one cause: ValueError for an unknown column
of a scan, OSError for an unknown column of a delete. An error of this package is each of them, so that the
`except` clauses of a script that was written for the reference catch it.

`except OSError` therefore catches most errors of this package. Code of the package that expects an error of
the operating system lets a LanceError pass, or calls nothing that raises one.

Messages name files relative to the dataset, never a path of the host. `errno` and `filename` are not set.
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


class InvalidInputError(LanceError, ValueError, OSError):
    """An argument of the caller is invalid. The message names the token, column or argument."""

    code = 13


class NegativeRowError(InvalidInputError, OverflowError):
    """The offset, id or address of a row is negative."""


class TooLargeError(InvalidInputError, OverflowError):
    """A number of bytes is larger than any file or blob."""


class ArgumentTypeError(InvalidInputError, TypeError):
    """An argument has another type than the call takes. The message names it."""


class UnknownColumnError(InvalidInputError, KeyError):
    """The column to be indexed does not exist."""


class ColumnTypeError(InvalidInputError, TypeError):
    """The column to be indexed has a type that this kind of index cannot hold."""


class DatasetNotFoundError(LanceError, ValueError, OSError):
    """There is no dataset at the given location."""

    code = 4


class VersionNotFoundError(DatasetNotFoundError):
    """The dataset exists, but the version does not: it was never made, or was cleaned up."""

    code = 11


class RefNotFoundError(DatasetNotFoundError):
    """The dataset exists, but the tag or branch does not."""

    code = 8


class IndexNotFoundError(DatasetNotFoundError, RuntimeError, KeyError):
    """The dataset exists, but the index does not."""

    code = 6


class DatasetExistsError(LanceError, OSError):
    """The dataset to be created exists already."""

    code = 5


class RefConflictError(LanceError, ValueError, OSError):
    """The tag or branch to be created exists already, or the one to be removed is still in use."""

    code = 9


class UnsupportedFeatureError(LanceError, NotImplementedError, OSError):
    """The dataset uses a feature that this package does not support. The message names it."""

    code = 0


class MissingNameError(LanceError, NotImplementedError, AttributeError):
    """The reference has a name that this package lacks. The message says what to use instead."""

    code = 0


class CorruptFileError(LanceError, OSError, ValueError):
    """Bytes of a file contradict the format or each other."""


class CommitConflictError(LanceError, OSError):
    """Another commit came first.

    `retryable`: computing the change again on the new version may succeed. `outpaced`: the commit conflicts
    with no other commit, but other commits were faster in every attempt.
    """

    code = 14

    def __init__(self, message: str = "", retryable: bool = True, *, outpaced: bool = False) -> None:
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


class FileMissingError(StorageError, FileNotFoundError, ValueError):
    """A file does not exist in the storage."""

    retryable = False


class AlreadyExistsError(StorageError, FileExistsError):
    """The file to be created exists already. It was not changed."""

    retryable = False


class PutUnknownError(StorageError):
    """The storage did not say whether the file was created. It may exist now, or appear later."""

    retryable = False
