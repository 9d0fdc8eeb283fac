"""Rows by keys that come in batches: what a DoExchange does, free of Flight types."""

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from flight_server.requests.names import shown
from lance_core.errors import InvalidInputError
from lance_core.scan.run.budget import MemoryBudget
from lance_core.scan.take.keys import KEY_COLUMNS, as_keys
from lance_core.scan.take.row_taker import RowTaker, join_batches

MAXIMUM_KEYS_PER_BATCH = 1 << 20

# What is read at once while it is not known how large rows are.
_READ_BYTES = 8 << 20


class Lookup:
    """Answers batches of one kind of key from one version of a dataset. For one thread."""

    def __init__(self, taker: RowTaker, keys: pa.Schema, budget: MemoryBudget, max_answer_bytes: int) -> None:
        """Raises InvalidInputError unless `keys` is one column of integers with the name of a kind."""
        if len(keys) != 1 or keys.names[0] not in KEY_COLUMNS:
            raise InvalidInputError(
                "keys come in one column", expected=" or ".join(KEY_COLUMNS), found=shown(str(keys.names))
            )
        if not pa.types.is_integer(keys.types[0]):
            raise InvalidInputError("keys are integers", column=keys.names[0], found=keys.types[0])
        self._name = keys.names[0]
        self._find = taker.addresses.by(self._name)
        self._taker = taker
        self._budget = budget
        self._max_answer_bytes = max_answer_bytes

    @property
    def schema(self) -> pa.Schema:
        """Schema of the answers."""
        return self._taker.schema

    @contextmanager
    def rows(self, keys: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows of one batch of keys, in the order of the keys; rows that were deleted are left out.

        While the block runs they count as memory of the server.

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
        addresses = self._find(as_keys(keys.column(0), self._name))
        parts: list[pa.RecordBatch] = []
        with self._budget.require(0) as reservation:
            for part in self._taker.batches(addresses, _READ_BYTES):
                parts.append(part)
                held = reservation.num_bytes + part.get_total_buffer_size()
                reservation.resize(held)
                if held > self._max_answer_bytes:
                    raise InvalidInputError(
                        "the rows of one batch of keys are too large, send fewer keys",
                        expected=f"at most {self._max_answer_bytes} bytes",
                        found=f"{held} for {sum(each.num_rows for each in parts)} of {len(addresses)} rows",
                    )
            yield parts[0] if len(parts) == 1 else self._joined(parts, len(addresses))

    def _joined(self, parts: list[pa.RecordBatch], num_rows: int) -> pa.RecordBatch:
        if len(self.schema):
            return join_batches(parts, self.schema)
        rows = pa.StructArray.from_buffers(pa.struct([]), num_rows, [None])
        return pa.RecordBatch.from_struct_array(rows).replace_schema_metadata(self.schema.metadata)
