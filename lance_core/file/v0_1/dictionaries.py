"""Values of the dictionary columns of a 0.1 table: one list per field for all its files.

A key has the same meaning in every file. So a list of values may only grow, and only while the table is
created, when nobody else writes to it. A null is the key of an empty string or binary, which reads as null;
other types cannot have nulls. Source: docs/format.md, "0.1".
"""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from lance_core.encodings.values import offset_bits
from lance_core.errors import InvalidInputError
from lance_core.schema import Field


class Dictionaries:
    """Dictionaries that turn values into keys, for all files of one write. For one thread."""

    def __init__(self, known: Mapping[int, pa.Array], *, grow: bool) -> None:
        """Start with `known` values by field id. New values are added if `grow` is set, else refused."""
        self.values = dict(known)
        """Values by field id. An empty string or binary is null."""
        self._grow = grow

    def keys(self, field: Field, array: pa.DictionaryArray) -> pa.Array:
        """Return the key of each value of a column.

        Raises:
            InvalidInputError: a new value that cannot be added, or a null or an empty string that would be
                read as another value.
        """
        key_type, value_type = field.arrow_type.index_type, field.arrow_type.value_type
        known = self.values.setdefault(field.id, pa.array([], value_type))
        plain = array.dictionary_decode()
        if offset_bits(value_type):
            _refuse(pc.equal(pc.binary_length(plain), 0), field, "empty string, which would be read as null,")
        elif plain.null_count:
            _refuse(plain.is_null(), field, "null")
        keys = pc.index_in(plain, value_set=known)
        if keys.null_count:
            known = self._extended(field, known, plain.filter(keys.is_null()))
            keys = pc.index_in(plain, value_set=known)
        try:
            return keys.cast(key_type)
        except pa.ArrowInvalid:
            raise InvalidInputError(
                "more dictionary values than keys", column=field.name, expected=key_type
            ) from None

    def _extended(self, field: Field, known: pa.Array, missing: pa.Array) -> pa.Array:
        new = missing.unique()
        if not self._grow:
            raise InvalidInputError(
                "value that is not in the dictionary of a 0.1 table, which cannot grow",
                column=field.name,
                found=new[0].as_py(),
            )
        extended = self.values[field.id] = pa.concat_arrays([known, new])
        return extended


def _refuse(places: pa.BooleanArray, field: Field, what: str) -> None:
    if pc.any(places).as_py():
        raise InvalidInputError(f"{what} in a 0.1 file, which cannot store it", column=field.name)
