"""Lower-case letters without accents, as n-gram and full text indices of the reference compare them.

A character is replaced by the ASCII characters of its compatibility decomposition (NFKD), and some letters by
similar ones. A character that would vanish stays, so accents that are characters of their own stay.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from lance_core.schema.arrow_values import from_zero

_SIMILAR = {
    "Æ": "AE",
    "æ": "ae",
    "ð": "d",
    "đ": "d",
    "Ħ": "H",
    "ħ": "h",
    "\N{LATIN SMALL LETTER DOTLESS I}": "i",
    "ĸ": "k",
    "ł": "l",
    "ŋ": "n",
    "ø": "o",
    "œ": "oe",
    "ß": "ss",
    "þ": "th",
    "ŧ": "t",
}
_OUTLINED_A, _OUTLINED_0 = 0x1CCD6, 0x1CCF0
"""First of the outlined letters and digits, which the tables of older Pythons lack."""
_LAST = 0x1FFFF
"""No character behind this one has ASCII characters in its decomposition."""
_BOUNDARY = "\ud800"
"""Stands between texts. No text contains it, as it is half of a character."""


@cache
def ascii_forms() -> Mapping[int, str]:
    """Return the replacement of each lower-case character that is replaced, for `str.translate`."""
    forms = {}
    for number in range(0x80, _LAST + 1):
        letter = chr(number)
        parts = unicodedata.normalize("NFKD", letter)
        found = "".join(_SIMILAR.get(part, part if part.isascii() else "") for part in parts)
        if found:
            forms[number] = found
    forms |= {_OUTLINED_A + number: chr(ord("A") + number) for number in range(26)}
    forms |= {_OUTLINED_0 + number: chr(ord("0") + number) for number in range(10)}
    return forms


def folded(texts: pa.Array) -> pa.Array:
    """Return texts, none of which is null, in lower case with ASCII forms."""
    is_ascii = pc.string_is_ascii(texts)
    lower = pc.ascii_lower(from_zero(texts))
    if pc.all(is_ascii).as_py() is not False:
        return lower
    others = pc.invert(is_ascii)
    joined = _BOUNDARY.join(texts.filter(others).to_pylist())
    replaced = joined.lower().translate(ascii_forms()).split(_BOUNDARY)
    return pc.replace_with_mask(lower, others, pa.array(replaced, texts.type))
