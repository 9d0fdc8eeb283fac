"""Characters that words are made of: letters and numbers of all scripts."""

from __future__ import annotations

from functools import cache

import numpy as np
import regex

_CODE_POINTS = 0x110000
_SURROGATES = range(0xD800, 0xE000)


_WORD = r"[\p{Alphabetic}\p{N}]+"


def words_of(text: str) -> list[str]:
    """Return the runs of letters and numbers in a text."""
    found: list[str] = regex.findall(_WORD, text)
    return found


@cache
def word_characters() -> bytes:
    """Return a bitmap of all code points, least significant bit first: alphabetic characters and numbers, as
    Unicode defines these properties.
    """
    codes = np.arange(_CODE_POINTS, dtype=np.uint32)
    codes[_SURROGATES.start : _SURROGATES.stop] = ord(" ")
    text = codes.tobytes().decode("utf-32-le")
    is_letter = np.zeros(_CODE_POINTS, np.bool_)
    for match in regex.finditer(_WORD, text):
        is_letter[match.start() : match.end()] = True
    return np.packbits(is_letter, bitorder="little").tobytes()
