"""Where in a file something went wrong: errors of decoding, with the names that users need."""

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.kernels import CorruptData


@contextmanager
def located(file: str, column: str, page: int | None = None) -> Iterator[None]:
    """Turn what decoders raise into errors that name file, column and page.

    Raises:
        CorruptFileError: the bytes contradict the format, or ask for more memory than there is.
        UnsupportedFeatureError: as it was, with the names added.
    """
    try:
        yield
    except (CorruptData, pa.ArrowInvalid) as error:
        raise CorruptFileError(str(error), file=file, column=column, page=page) from None
    except UnsupportedFeatureError as error:
        if error.file is not None:
            raise
        raise UnsupportedFeatureError(str(error), file=file, column=column, page=page) from None
    except MemoryError:
        raise CorruptFileError(
            "page asks for more memory than there is", file=file, column=column, page=page
        ) from None
