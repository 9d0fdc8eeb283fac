"""Shapes of texts: texts that differ only in their constants have one shape, which the parser reads once.

In a shape, the number of a constant stands for the constant: `id = 0 AND key = '1'` is the shape of
`id = 7 AND key = 'a'`. The reader of the parsed shape puts the constants back.
"""

from __future__ import annotations

import re

UNUSUAL = r'["`\\]|--|/\*'
"""Pattern of text that a search for constants could misread: quoted names, escapes, comments."""
_MOST_CHARACTERS = 1 << 9
"""Most characters of a text that has a shape, which bounds the memory of the parsed shapes."""
_UNUSUAL = re.compile(UNUSUAL)
_CONSTANT = re.compile(r"(?<![\w.])[0-9]{1,18}(?:\.[0-9]{1,18})?(?![\w.])|'[^']*'")


def without_constants(text: str) -> tuple[str, list[str]] | None:
    """Return the shape of a text, and its constants: the digits of numbers, and texts without quotes.

    Returns None for texts without a shape: those without constants, and those with quotes inside texts, with
    quoted names, or with comments.
    """
    if len(text) > _MOST_CHARACTERS or "''" in text or text.count("'") % 2 or _UNUSUAL.search(text):
        return None
    constants: list[str] = []

    def number(found: re.Match[str]) -> str:
        constant = found.group()
        is_text = constant[0] == "'"
        constants.append(constant[1:-1] if is_text else constant)
        return f"'{len(constants) - 1}'" if is_text else str(len(constants) - 1)

    shape = _CONSTANT.sub(number, text)
    return (shape, constants) if constants else None
