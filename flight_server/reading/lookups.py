"""Rows by keys that come in batches, for a DoExchange. Free of Flight types."""

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from flight_server.reading.fresh_rows import check_fresh, fresh_rows
from flight_server.requests.names import shown
from lance_core.api.serving import KEY_COLUMNS, TakeReads
from lance_core.errors import InvalidInputError

MAXIMUM_KEYS_PER_BATCH = 1 << 20


class Lookup:
    """Lookup that answers batches of one kind of key from one version of a dataset. For one thread."""

    def __init__(
        self, reads: TakeReads, keys: pa.Schema, max_answer_bytes: int, *, is_fresh: bool = False
    ) -> None:
        """Raise InvalidInputError unless `keys` is one column of integers with the name of a kind.

        With `is_fresh`, rows are copied by `fresh_rows`, and `check_fresh` refuses some columns.
        """
        if len(keys) != 1 or keys.names[0] not in KEY_COLUMNS:
            raise InvalidInputError(
                "keys come in one column", expected=" or ".join(KEY_COLUMNS), found=shown(str(keys.names))
            )
        if not pa.types.is_integer(keys.types[0]):
            raise InvalidInputError("keys are integers", column=keys.names[0], found=keys.types[0])
        self._name = keys.names[0]
        self._reads = reads
        self._is_fresh = is_fresh
        if is_fresh:
            check_fresh(reads.schema)
        self._max_answer_bytes = max_answer_bytes

    @property
    def schema(self) -> pa.Schema:
        """Schema of the answers."""
        return self._reads.schema

    @contextmanager
    def rows(self, keys: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one batch of keys, in the order of the keys; deleted rows are left out.

        While the block runs, the rows count as memory of the server.

        Raises:
            InvalidInputError: too many keys, null, negative or out of range, or an answer that is too large.
            LanceError: something cannot be read.
        """
        if keys.num_rows > MAXIMUM_KEYS_PER_BATCH:
            raise InvalidInputError(
                "too many keys in one batch",
                expected=f"at most {MAXIMUM_KEYS_PER_BATCH}",
                found=keys.num_rows,
            )
        if keys.column(0).null_count:
            raise InvalidInputError("keys must not be null", column=self._name)
        with self._reads.held_batch(self._name, keys.column(0), self._max_answer_bytes) as rows:
            yield fresh_rows(rows) if self._is_fresh else rows
