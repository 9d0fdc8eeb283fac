"""The errors of this package.

    LanceError
    ├── InvalidInputError        (ValueError)           an argument, column or filter that makes no sense
    ├── DatasetNotFoundError     (ValueError)           no dataset at this place
    │   ├── VersionNotFoundError                        the dataset has no such version
    │   ├── RefNotFoundError                            the dataset has no such tag or branch
    │   └── IndexNotFoundError   (RuntimeError)         the dataset has no such index
    ├── DatasetExistsError       (OSError)              there is a dataset already
    ├── RefConflictError         (ValueError)           a tag or branch exists, or others stand on it
    ├── UnsupportedFeatureError  (NotImplementedError)  a flag, version, type or encoding not known here
    ├── CorruptFileError         (OSError)              bytes that contradict the format
    ├── CommitConflictError      (OSError)              another commit came first
    ├── CommitUnknownError       (OSError)              nobody can say whether the commit landed
    └── StorageError             (OSError)              the storage failed
        ├── FileMissingError     (FileNotFoundError)    a file is not there
        ├── AlreadyExistsError   (FileExistsError)      a file was to be created where one is
        └── PutUnknownError                             nobody can say whether the file was created

Each child is also a built-in error: in most cases the one that the reference library raises. For wrong
arguments of changes the reference raises OSError, and this package ValueError, as for those of reads
(docs/pylance.md). Messages name files relative to the dataset, never a path of the host.
"""

from functools import partial
from typing import Any, ClassVar


class LanceError(Exception):
    """Base of every error that this package raises on purpose.

    `code` is the number of the error in the error list of the Lance namespace specification (18, internal,
    where the list has none); `retryable` says whether the same call may succeed later without any change.
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

        `file` is relative to the dataset, `column` a name or the column number in the file, `page` the number
        of the page in its column. `expected` and `found` are short values or phrases.
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
    """`value` as text that cannot break a log line or flood a message."""
    text = str(value)
    printable = text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
    return printable if len(printable) <= 200 else printable[:197] + "..."


class InvalidInputError(LanceError, ValueError):
    """The caller asked for something that makes no sense; the message names the token, column or argument."""

    code = 13


class DatasetNotFoundError(LanceError, ValueError):
    """There is no dataset at the given place."""

    code = 4


class VersionNotFoundError(DatasetNotFoundError):
    """The dataset exists, the version does not: it was never made or has been cleaned up."""

    code = 11


class RefNotFoundError(DatasetNotFoundError):
    """The dataset exists, the tag or branch does not."""

    code = 8


class IndexNotFoundError(DatasetNotFoundError, RuntimeError):
    """The dataset exists, the index does not."""

    code = 6


class DatasetExistsError(LanceError, OSError):
    """A dataset was to be created where one exists."""

    code = 5


class RefConflictError(LanceError, ValueError):
    """A tag or branch was to be created where one exists, or removed while others need it."""

    code = 9


class UnsupportedFeatureError(LanceError, NotImplementedError):
    """The dataset uses something that this package does not implement; the message names it."""

    code = 0


class CorruptFileError(LanceError, OSError):
    """Bytes of a file contradict the format or each other."""


class CommitConflictError(LanceError, OSError):
    """Raised if another commit came first.

    `retryable`: computing the change again on the new version can help. `outpaced`: the commit conflicts
    with none of the others, which were faster in every attempt.
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
    """The storage did not say whether the commit landed; it must be looked up before anything is repeated."""


class StorageError(LanceError, OSError):
    """The storage failed: permission, I/O error, limits of the process."""

    code = 17
    retryable = True


class FileMissingError(StorageError, FileNotFoundError):
    """A file is not in the storage."""

    retryable = False


class AlreadyExistsError(StorageError, FileExistsError):
    """A file was to be created where there is one; that one is as it was."""

    retryable = False


class PutUnknownError(StorageError):
    """The storage did not say whether the file was created; it may be there now, or appear later."""

    retryable = False
