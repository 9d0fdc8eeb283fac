"""Lookup of rows by key. The keys that are looked up are held in memory.

Keys are compared as in the reference: nulls are equal, NaN equals NaN, -0.0 does not equal 0.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.hints import did_you_mean
from lance_core.number_sets import distinct
from lance_core.schema import storage_type

Numbers: TypeAlias = npt.NDArray[np.int64]


class KeyLookup:
    """Lookup of rows by the values of one or more columns. Of rows with equal keys it finds the last one.

    The distinct values of each column are numbered. The pairs of numbers of the first two columns are
    numbered again, then the pairs of these and the numbers of the third column, and so on. Two numbers below
    2^31 fit into 64 bits.
    """

    def __init__(self, keys: pa.Table) -> None:
        """Prepare the lookup of the rows of `keys` by all its columns.

        Raises:
            UnsupportedFeatureError: Values of this type cannot be compared.
        """
        self._names = keys.column_names
        self._values: list[pa.Array] = []
        self._pairs: list[Numbers] = []
        numbers = np.zeros(keys.num_rows, np.int64)
        for place, column in enumerate(map(_plain, keys.columns)):
            with self._comparing(place, column.type):
                self._values.append(column.unique())
            own = self._numbers(place, column)
            if place:
                pairs = numbers * len(self._values[place]) + own
                self._pairs.append(distinct(pairs))
                numbers = np.searchsorted(self._pairs[-1], pairs)
            else:
                numbers = own
        self._last = np.zeros(int(numbers.max(initial=-1)) + 1, np.int64)
        self._last[numbers] = np.arange(keys.num_rows)  # if a number occurs twice, the last row is kept

    def find(self, keys: pa.Table) -> pa.Array:
        """Return the row number for each of the `keys`, null if no row has this key.

        Args:
            keys: Key columns in the order of the prepared columns. Their names do not matter.

        Raises:
            InvalidInputError: A key column has another type.
        """
        numbers = np.zeros(keys.num_rows, np.int64)
        missing = np.zeros(keys.num_rows, np.bool_)
        for place, column in enumerate(map(_plain, keys.columns)):
            if column.type != self._values[place].type:
                raise InvalidInputError(
                    "key columns have different types",
                    column=self._names[place],
                    expected=column.type,
                    found=self._values[place].type,
                )
            own = self._numbers(place, column)
            missing |= own < 0
            if place:
                known = self._pairs[place - 1]
                pairs = numbers * len(self._values[place]) + own
                numbers = np.searchsorted(known, pairs)
                numbers[numbers == len(known)] = 0
                missing |= known[numbers] != pairs if len(known) else True
            else:
                numbers = own
        if not len(self._last):
            return pa.nulls(keys.num_rows, pa.int64())
        return pa.array(self._last[np.where(missing, 0, numbers)], mask=missing)

    def _numbers(self, place: int, column: pa.ChunkedArray) -> Numbers:
        """Return the numbers of values among the distinct values of a column, -1 for other values."""
        with self._comparing(place, column.type):
            found = pc.index_in(column, value_set=self._values[place])
        return np.asarray(found.fill_null(-1), np.int64)

    @contextmanager
    def _comparing(self, place: int, data_type: pa.DataType) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            raise UnsupportedFeatureError(
                "joining by a column of this type", column=self._names[place], found=data_type
            ) from None


def key_columns(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return the columns of `rows` that are keys.

    Raises:
        InvalidInputError: There is no such column, or there are several.
    """
    for name in names:
        if rows.schema.names.count(name) != 1:
            hint = did_you_mean(name, rows.schema.names)
            raise InvalidInputError(f"the data has no key column {name!r}, or several{hint}")
    return rows.select(list(names))


def _plain(keys: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the keys without extension types and dictionaries."""
    chunks = []
    for chunk in keys.chunks or [pa.nulls(0, keys.type)]:
        while isinstance(chunk.type, pa.BaseExtensionType):
            chunk = chunk.storage
        if pa.types.is_dictionary(chunk.type):
            chunk = chunk.dictionary_decode()
        chunks.append(chunk.cast(storage_type(chunk.type)))
    return pa.chunked_array(chunks)
