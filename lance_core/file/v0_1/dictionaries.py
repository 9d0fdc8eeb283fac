"""The values of the dictionary columns of a 0.1 table: one list per field for all of its files.

A key means the same in every file, so a list may only grow, and only while nobody else writes the table: in a
new one. A null is a key of a value of no bytes, which reads as null; other types have no place for it.
Source: docs/format.md, "0.1".
"""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from lance_core.encodings.values import offset_bits
from lance_core.errors import InvalidInputError
from lance_core.schema import Field


class Dictionaries:
    """Turns values into keys. For one thread, and for all files that it writes."""

    def __init__(self, known: Mapping[int, pa.Array], *, grow: bool) -> None:
        """Begin with `known` values by field id; new ones are added where `grow` is set."""
        self.values = dict(known)
        """By field id; those of no bytes are null."""
        self._grow = grow

    def keys(self, field: Field, array: pa.DictionaryArray) -> pa.Array:
        """Return the key of each value of a column.

        Raises:
            InvalidInputError: a value that the table does not know and that cannot be added, or a null or a
                text of no bytes, which would come back as something else.
        """
        key_type, value_type = field.arrow_type.index_type, field.arrow_type.value_type
        known = self.values.setdefault(field.id, pa.array([], value_type))
        plain = array.dictionary_decode()
        if offset_bits(value_type):
            _refuse(pc.equal(pc.binary_length(plain), 0), field, "text of no bytes, which would become null,")
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
                "too many values for the keys of a dictionary", column=field.name, expected=key_type
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
        raise InvalidInputError(f"{what} in a 0.1 file, which cannot keep it", column=field.name)
