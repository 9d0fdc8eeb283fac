"""The part of a remote dataset's interface that reads blobs of single rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from flight_client.errors import InvalidInputError, UnsupportedFeatureError
from flight_client.reading.blobs import DEFAULT_BUFFER_SIZE, BlobColumn, BlobFile, Selector, keys_of_one_kind
from flight_client.reading.scanner import Snapshot


class BlobReads:
    """Methods that return blobs of chosen rows, as files or as bytes."""

    _snapshot: Snapshot

    @property
    @abstractmethod
    def _conditions(self) -> list[str]:
        """Filters of the dataset, as text."""

    def take_blobs(
        self,
        blob_column: str,
        ids: Any = None,
        addresses: Any = None,
        indices: Any = None,
        *,
        buffer_size: int = DEFAULT_BUFFER_SIZE,
    ) -> list[BlobFile | None]:
        """Return the blobs of single rows as files that read on demand, None for a null.

        Args:
            blob_column: name or dotted path of a blob column.
            ids, addresses, indices: row ids, row addresses or row offsets, in any order; one of the three.
            buffer_size: bytes that the first short read of a file requests.

        Raises:
            InvalidInputError: not exactly one of the three is given, the column has no blobs, or a row does
                not exist.
            UnsupportedFeatureError: the dataset is filtered, or an address belongs to a deleted row.
        """
        if not isinstance(buffer_size, int) or buffer_size < 0:
            raise InvalidInputError(f"buffer_size: expected bytes, 0 or more, found {buffer_size!r}")
        keys = keys_of_one_kind(ids=ids, addresses=addresses, indices=indices)
        return self._blobs(blob_column).find(keys, buffer_size)

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
            blob_column: name or dotted path of a blob column.
            ids, addresses, indices: see `take_blobs`.
            io_buffer_size: no effect.
            preserve_order: no effect; the result always has the order of the requested rows.

        Raises:
            LanceError: see `take_blobs`.
        """
        keys = keys_of_one_kind(ids=ids, addresses=addresses, indices=indices)
        return self._blobs(blob_column).read(keys)

    def read_blob_ranges(
        self,
        blob_column: str,
        requests: Sequence[tuple[int, int, int]],
        *,
        selector: Selector,
        io_buffer_size: int | None = None,
        preserve_order: bool | None = None,
    ) -> list[tuple[int, int, bytes | None]]:
        """Return the bytes of ranges of blobs.

        Args:
            blob_column: name or dotted path of a blob column.
            requests: row, position in the blob, and number of bytes of each range. A row may be repeated.
            selector: kind of the rows: "ids", "addresses" or "indices".
            io_buffer_size, preserve_order: no effect, see `read_blobs`.

        Returns:
            Number of the request, row address and bytes, in the order of the requests. The bytes of a null
            are None, whatever the range.

        Raises:
            InvalidInputError: a range leaves its blob, or `selector` is none of the three.
            LanceError: see `take_blobs`.
        """
        if selector not in ("ids", "addresses", "indices"):
            raise InvalidInputError(f"selector: expected ids, addresses or indices, found {selector!r}")
        keys = keys_of_one_kind(**{selector: [row for row, _, _ in requests]})
        ranges = [(start, length) for _, start, length in requests]
        read = self._blobs(blob_column).read(keys, ranges)
        return [(number, address, data) for number, (address, data) in enumerate(read)]

    def _blobs(self, column: str) -> BlobColumn:
        if self._conditions:
            raise UnsupportedFeatureError(
                "a filtered dataset has no blobs by key: use the row addresses that scanner(filter=..., "
                "with_row_address=True) finds, on the dataset without the filter"
            )
        return BlobColumn(self._snapshot.connections, self._snapshot.target, column)
