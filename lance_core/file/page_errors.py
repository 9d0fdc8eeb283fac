"""Errors of decoding, with the names that users need: file, column and page."""

from types import TracebackType

import pyarrow as pa

from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.kernels import CorruptData


class located:  # noqa: N801  used like a function
    """Turn what decoders raise into errors that name file, column and page.

    Every read of every column enters this twice, so it is a class: a generator costs several times as much.

    Raises:
        CorruptFileError: the bytes contradict the format, or ask for more memory than there is.
        UnsupportedFeatureError: as it was, with the names added.
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
