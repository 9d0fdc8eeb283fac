"""Errors of decoding with the names of file, column and page."""

from types import TracebackType

import pyarrow as pa

from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.kernels import CorruptData


class located:  # noqa: N801  used like a function
    """Context that adds the names of file, column and page to errors of decoders.

    It is a class, because every read of a column enters it twice and a generator costs several times as much.

    Raises:
        CorruptFileError: the bytes contradict the format, or need more memory than there is.
        UnsupportedFeatureError: the same error with the names added.
    """

    __slots__ = ("_column", "_file", "_page")

    def __init__(self, file: str, column: str, page: int | None = None) -> None:
        self._file = file
        self._column = column
        self._page = page

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            return
        file, column, page = self._file, self._column, self._page
        if isinstance(error, (CorruptData, pa.ArrowInvalid)):
            raise CorruptFileError(str(error), file=file, column=column, page=page) from None
        if isinstance(error, UnsupportedFeatureError) and error.file is None:
            raise UnsupportedFeatureError(str(error), file=file, column=column, page=page) from None
        if isinstance(error, MemoryError):
            raise CorruptFileError(
                "page asks for more memory than there is", file=file, column=column, page=page
            ) from None
