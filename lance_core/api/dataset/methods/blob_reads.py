"""The part of a dataset's interface that reads blobs of single rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from lance_core.api.dataset.methods.opened import OpenedDataset
from lance_core.errors import ArgumentTypeError, InvalidInputError
from lance_core.scan.read.blobs import DEFAULT_BLOB_BUFFER_SIZE, BlobFile
from lance_core.scan.session import session_of
from lance_core.scan.take.blobs import FoundBlobs, find_blobs, read_blob_ranges


class BlobReads(OpenedDataset):
    """Methods that return blobs of chosen rows, as files or as bytes."""

    def take_blobs(
        self,
        blob_column: str,
        ids: Any = None,
        addresses: Any = None,
        indices: Any = None,
        *,
        buffer_size: int = DEFAULT_BLOB_BUFFER_SIZE,
    ) -> list[BlobFile | None]:
        """Return the blobs of single rows as files that read on demand, None for a null.

        Args:
            blob_column: Name or dotted path of a blob column.
            ids, addresses, indices: Row ids, row addresses or row offsets, in any order; one of the three.
            buffer_size: Bytes that short reads of a file read at a time.

        Raises:
            InvalidInputError: Not exactly one of the three is given, the column holds no blobs, or a row does
                not exist.
            UnsupportedFeatureError: An address belongs to a deleted row.
            ArgumentTypeError: A number has another type.
            LanceError: The errors of `take` and `_take_rows`.
        """
        _check_integer("buffer_size", buffer_size, least=0)
        found = self._found(blob_column, ids, addresses, indices)
        return [None if place is None else BlobFile(place, buffer_size) for place in found.places]

    def read_blobs(
        self,
        blob_column: str,
        ids: Any = None,
        addresses: Any = None,
        indices: Any = None,
        *,
        io_buffer_size: int | None = None,
        preserve_order: bool | None = None,
    ) -> list[tuple[int, bytes | None]]:
        """Return the blobs of single rows as bytes, each after the address of its row; None for a null.

        All values are in memory at once. Use `take_blobs` for values that do not fit.

        Args:
            blob_column: Name or dotted path of a blob column.
            ids, addresses, indices: As for `take_blobs`.
            io_buffer_size: No effect.
            preserve_order: No effect: the result always has the order of the rows that are asked for.

        Raises:
            LanceError: The errors of `take_blobs`.
        """
        _check_integer("io_buffer_size", io_buffer_size, least=1)
        return self._found(blob_column, ids, addresses, indices).read()

    def read_blob_ranges(
        self,
        blob_column: str,
        requests: Sequence[tuple[int, int, int]],
        *,
        selector: Literal["ids", "addresses", "indices"],
        io_buffer_size: int | None = None,
        preserve_order: bool | None = None,
    ) -> list[tuple[int, int, bytes | None]]:
        """Return the bytes of ranges of blobs.

        Args:
            blob_column: Name or dotted path of a blob column.
            requests: Row, position in the blob, and number of bytes of each range. A row may be repeated.
            selector: What the rows are.
            io_buffer_size, preserve_order: No effect, as for `read_blobs`.

        Returns:
            Number of the request, row address and bytes, in the order of the requests. The bytes of a null
            are None, whatever the range.

        Raises:
            InvalidInputError: A range leaves its blob, or `selector` is none of the three.
            LanceError: The errors of `take_blobs`.
        """
        _check_integer("io_buffer_size", io_buffer_size, least=1)
        files = session_of(self._snapshot).files
        return read_blob_ranges(self._snapshot, files, blob_column, requests, selector)

    def _found(self, column: str, ids: Any, addresses: Any, indices: Any) -> FoundBlobs:
        files = session_of(self._snapshot).files
        return find_blobs(self._snapshot, files, column, ids=ids, addresses=addresses, indices=indices)


def _check_integer(name: str, value: Any, *, least: int) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentTypeError(f"{name} must be an int, got {type(value).__name__}")
    if value < least:
        raise InvalidInputError(
            f"{name} must be {'greater than 0' if least else 'non-negative'}", found=value
        )
