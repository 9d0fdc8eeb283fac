"""Rows of one table found by key in another one, which is held in memory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.schema import storage_type


class KeyedRows:
    """Rows that are looked up by one of their columns. Of rows with the same key the last one is found."""

    def __init__(self, rows: pa.Table, key: str) -> None:
        """Look up `rows` by the column `key`.

        Raises:
            InvalidInputError: there is no such column, or more than one.
        """
        if rows.schema.names.count(key) != 1:
            raise InvalidInputError(
                "no such key column in the data", column=key, expected=", ".join(rows.schema.names)
            )
        self.columns = rows.drop_columns([key])
        """The rows without their key."""
        self._name = key
        self.key_type = storage_type(rows.schema.field(key).type)
        # Newest first, since the first of equal keys is found.
        newest_first = _plain(rows.column(key).combine_chunks()).take(pa.array(np.arange(len(rows))[::-1]))
        self._keys = newest_first

    def find(self, keys: pa.Array) -> pa.Array:
        """The number of the row that has each key, null where none has it; null keys are equal.

        Raises:
            InvalidInputError: keys of another type.
        """
        keys = _plain(keys)
        if keys.type != self._keys.type:
            raise InvalidInputError(
                "key columns have different types",
                column=self._name,
                expected=keys.type,
                found=self._keys.type,
            )
        try:
            found = pc.index_in(keys, value_set=self._keys)
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            raise UnsupportedFeatureError(
                "joining by a column of this type", column=self._name, found=keys.type
            ) from None
        return pc.subtract(pa.scalar(len(self._keys) - 1, pa.int32()), found)


def _plain(keys: pa.Array) -> pa.Array:
    """Keys without extension types and dictionaries."""
    if isinstance(keys, pa.ChunkedArray):
        keys = pa.concat_arrays(keys.chunks) if keys.num_chunks else pa.array([], keys.type)
    while isinstance(keys.type, pa.BaseExtensionType):
        keys = keys.storage
    if pa.types.is_dictionary(keys.type):
        keys = keys.dictionary_decode()
    return keys.cast(storage_type(keys.type))
