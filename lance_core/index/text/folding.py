"""Letters without their accents, as full text indices store them."""

from __future__ import annotations

import unicodedata

_LETTERS = {
    "ß": "ss",
    "ẞ": "SS",
    "Æ": "AE",
    "æ": "ae",
    "Œ": "OE",
    "œ": "oe",
    "Ø": "O",
    "ø": "o",
    "Ł": "L",
    "ł": "l",
    "Đ": "D",
    "Ð": "D",
    "đ": "d",
    "ð": "d",
    "Þ": "TH",
    "þ": "th",
    "Ħ": "H",
    "ħ": "h",
    "Ŧ": "T",
    "ŧ": "t",
    "Ŋ": "N",
    "ŋ": "n",
    "ı": "i",  # noqa: RUF001
    "ĸ": "k",
    "ſ": "s",  # noqa: RUF001
}
"""Letters that Unicode does not decompose."""


def folded(word: str) -> str:
    """Return a word with the letters of ASCII that its characters are made of. A character that has none
    stays as it is.
    """
    return word if word.isascii() else "".join(map(_folded_character, word))


def _folded_character(character: str) -> str:
    if character.isascii():
        return character
    if character in _LETTERS:
        return _LETTERS[character]
    parts = unicodedata.normalize("NFKD", character)
    letters = "".join(part if part.isascii() else _LETTERS.get(part, "") for part in parts)
    return letters or character
